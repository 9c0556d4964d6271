"""The service of a Ray cluster, on several raylets of this machine: pip install 'ray[data,train]'"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from contextlib import suppress
from pathlib import Path

from ray_cluster import STORE, RayCluster
from support import free_port, lives, needs, wait_until, write_rows

ROWS = 4000


class OnRay(RayCluster):
    """The coordinator is on the head, which has no agent."""

    OPTIONS = {}

    @property
    def service(self):
        import batchflow.ray
        return batchflow.ray

    def setUp(self):
        super().setUp()
        self.data = self.folder / "rows"
        self.data.mkdir()
        write_rows(self.data / "rows.npy", ROWS)
        self.start()
        self.addCleanup(self.service.stop)

    def start(self):
        self.service.start({"rows": self.data}, self.folder / "state", memory="256mib",
                           coordinator_memory="256mib", **self.OPTIONS)
        self.wait_for_agents(self.nodes)

    def add_node(self, **options):
        node = super().add_node(**options)
        # A node that is lost leaves it.
        self.addCleanup(shutil.rmtree, self.service.folder_of(node.node_id), True)
        return node

    def daemons(self):
        """What is known of each daemon that listens, by the node's id, or 'coordinator'."""
        return {one["node"] if one["role"] == "agent" else "coordinator": one
                for one in self.service.status() if one["daemon"]}

    def wait_for_agents(self, nodes):
        wanted = {node.node_id for node in nodes} | {"coordinator"}
        wait_until(lambda: self.daemons().keys() == wanted, 60, "agents")
        socket = self.daemons()["coordinator"]["socket"]
        shown = lambda: json.loads(subprocess.run(
            [os.environ["BATCHFLOWCTL"], "--service", socket, "status", "--json"], check=True,
            stdout=subprocess.PIPE, timeout=60).stdout)["nodes"]
        wait_until(lambda: sum(one["ready"] for one in shown()) == len(nodes), 60, "ready agents")

    def job(self, node, epochs=1, pause=0.0, **options):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        import ray_jobs
        mark = self.folder / f"mark{time.monotonic_ns()}"
        on_node = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        task = self.ray.remote(ray_jobs.keys_of).options(num_cpus=1, scheduling_strategy=on_node,
                                                         max_retries=0)
        return mark, task.remote(str(mark), epochs, pause, **options)

    def begun(self, jobs):
        for mark, _ in jobs:
            wait_until(mark.exists, 60, "the first batch")

    def check_ranks(self, ranks, before, after):
        """What the ranks of a training function wrote: an epoch that `before` ranks began and `after`
        ranks ended, each sample once."""
        ended = [file.stem.split("-") for file in ranks.glob("*-end.json")]
        (world, begun), = {(one[0], one[1]) for one in ended}
        self.assertEqual(world, str(after))
        self.assertNotEqual(begun, "0")
        files = [*ranks.glob(f"{before}-0-*-{begun}.json"),
                 *ranks.glob(f"{after}-{begun}-*-end.json")]
        self.assertEqual(len(files), before + after)
        keys = [key for file in files for key in json.loads(file.read_text())]
        self.assertEqual(sorted(keys), list(range(ROWS)))

    def check(self, jobs, epochs):
        for _, job in jobs:
            found = self.ray.get(job, timeout=120)
            self.assertEqual(len(found), epochs)
            for keys in found:
                self.assertEqual(sorted(keys), list(range(ROWS)))


@needs("ray")
class Jobs(OnRay):
    def test_each_epoch_has_every_sample_once(self):
        self.check([self.job(node, epochs=2) for node in self.nodes], 2)
        # Ranks of one job on two nodes.
        jobs = [self.job(node, epochs=2, job_name="wide", rank=rank, world_size=2)
                for rank, node in enumerate(self.nodes)]
        ranks = [self.ray.get(job, timeout=120) for _, job in jobs]
        for epoch in zip(*ranks):
            self.assertEqual(sorted(sum(epoch, [])), list(range(ROWS)))

    def killed(self, node_id, what):
        """Kills a process while jobs run, and returns what was there before."""
        jobs = [self.job(node, epochs=2, pause=0.01) for node in self.nodes]
        self.begun(jobs)
        before = self.daemons()
        os.kill(before[node_id][what], signal.SIGKILL)
        wait_until(lambda: not lives(before[node_id]["daemon"]), 30, "the daemon's end")
        self.check(jobs, 2)
        self.wait_for_agents(self.nodes)
        self.assertNotEqual(self.daemons()[node_id]["daemon"], before[node_id]["daemon"])
        return before

    def test_a_daemon_of_an_agent_is_killed(self):
        self.killed(self.nodes[0].node_id, "daemon")

    def test_the_daemon_of_the_coordinator_is_killed(self):
        self.killed("coordinator", "daemon")

    def test_the_actor_of_an_agent_is_killed(self):
        self.killed(self.nodes[0].node_id, "actor")

    def test_the_actor_of_the_coordinator_is_killed(self):
        before = self.killed("coordinator", "actor")
        for node in self.nodes:
            self.assertEqual(self.daemons()[node.node_id]["actor"], before[node.node_id]["actor"])


@needs("ray")
class Nodes(OnRay):
    def test_a_node_comes_and_goes(self):
        job = self.job(self.nodes[0], epochs=2, pause=0.01)
        self.begun([job])
        late = self.add_node()
        self.wait_for_agents([*self.nodes, late])
        self.check([self.job(late)], 1)
        daemon = self.daemons()[late.node_id]["daemon"]
        self.cluster.remove_node(late, allow_graceful=False)
        wait_until(lambda: not lives(daemon), 60, "the daemon's end")
        self.check([job], 2)
        self.wait_for_agents(self.nodes)
        names = lambda: {name for name, _ in self.service._agents()}
        wait_until(lambda: names() == {node.node_id for node in self.nodes}, 60, "its actor's end")

    def test_an_agent_leaves_before_its_node_does(self):
        from ray._raylet import GcsClient
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason
        staying, going = self.nodes
        job = self.job(staying, epochs=2, pause=0.01)
        self.begun([job])
        daemon = self.daemons()[going.node_id]["daemon"]
        begun = time.time()
        ends = begun + self.service._LEAVE_S + 5
        GcsClient(address=self.cluster.address).drain_node(
            going.node_id, DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"), "preempted",
            int(ends * 1000))
        wait_until(lambda: not lives(daemon), 30, "the daemon's end")
        # Jobs there had it as long as there was time, and its node outlives it.
        self.assertGreater(time.time(), begun + 4)
        self.wait_for_agents([staying])
        names = lambda: {name for name, _ in self.service._agents()}
        wait_until(lambda: names() == {staying.node_id}, 30, "its actor's end")
        self.assertLess(time.time(), ends)
        self.check([job], 2)

    def command(self, *arguments):
        return subprocess.run([sys.executable, "-m", "batchflow.ray_command", "--address",
                               self.cluster.address, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)

    def test_down_leaves_nothing_and_up_begins_again(self):
        there = self.daemons()
        shown = json.loads(self.command("status", "--json").stdout)
        self.assertEqual({one["daemon"] for one in shown}, {one["daemon"] for one in there.values()})
        refused = self.command("up", "--dataset", "other=/tmp", "--state", str(self.folder))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("a service runs on this Ray cluster already", refused.stderr)
        down = self.command("down")
        self.assertEqual(down.returncode, 0, down.stderr)
        for one in there.values():
            self.assertFalse(lives(one["daemon"]))
            self.assertFalse(Path(one["socket"]).parent.parent.exists())
            wait_until(lambda: not lives(one["actor"]), 30, "the actor's end")
        self.assertEqual(self.service.status(), [])
        self.assertIsNone(self.service.find_service(1))
        up = self.command("up", "--dataset", f"rows={self.data}", "--state",
                          str(self.folder / "state"), "--memory", "256mib", "--coordinator-memory",
                          "256mib")
        self.assertEqual(up.returncode, 0, up.stderr)
        self.check([self.job(node) for node in self.nodes], 1)


@needs("ray")
@needs("pyarrow")
@needs("pandas")
class Libraries(OnRay):
    def test_a_dataset_of_ray_data(self):
        import ray.data
        from batchflow.ray_data import BatchFlowDatasource
        rows = ray.data.read_datasource(BatchFlowDatasource("rows", batch_size=100),
                                        override_num_blocks=7)
        self.assertEqual(rows.count(), ROWS)
        found = rows.take_all()
        self.assertEqual(sorted(row["sample_key"] for row in found), list(range(ROWS)))
        (field,) = set(found[0]) - {"sample_key"}
        for row in found:
            self.assertEqual(list(row[field]), [(row["sample_key"] + i) * 7 for i in range(16)])

    def test_an_elastic_run_goes_on_with_fewer_ranks(self):
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
        self.elastic(DataParallelTrainer)

    @needs("torch")
    def test_an_elastic_run_of_pytorch_goes_on_with_fewer_ranks(self):
        from ray.train.torch import TorchConfig, TorchTrainer
        self.elastic(TorchTrainer, torch_config=TorchConfig(backend="gloo"))

    def elastic(self, trainer, **options):
        """Each rank finds the agent of its node by itself, and a node is lost."""
        ranks = self.folder / "ranks"
        ranks.mkdir()

        def lose_a_node():
            wait_until(lambda: list(ranks.glob("2-0-*-75.json")), 120, "some steps")
            self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)
        losing = threading.Thread(target=lose_a_node)
        losing.start()
        self.addCleanup(losing.join)
        train_on_some(trainer, ranks, **options)
        self.check_ranks(ranks, 2, 1)


def train_on_some(trainer, ranks, pause=0.1, **options):
    """One or two ranks, as nodes allow."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    import ray_jobs
    trainer(ray_jobs.train, train_loop_config={"folder": str(ranks), "pause": pause},
            scaling_config=ScalingConfig(num_workers=(1, 2), resources_per_worker={"CPU": 2},
                                         elastic_resize_monitor_interval_s=2),
            run_config=RunConfig(name="elastic", storage_path=str(ranks.parent / "train"),
                                 failure_config=FailureConfig(max_failures=3)), **options).fit()


@needs("ray")
@needs("pyarrow")
class Growing(OnRay):
    NODES = 1

    def test_an_elastic_run_goes_on_with_more_ranks(self):
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
        ranks = self.folder / "ranks"
        ranks.mkdir()
        training = threading.Thread(target=train_on_some, args=(DataParallelTrainer, ranks, 0.3))
        training.start()
        self.addCleanup(training.join)
        wait_until(lambda: list(ranks.glob("1-0-0-25.json")), 120, "some steps")
        self.nodes.append(self.add_node())  # Ray adds them from the main thread alone
        training.join(300)
        self.check_ranks(ranks, 1, 2)


@needs("ray")
class CpuNodes(OnRay):
    OPTIONS = {"cpu_agents": (1, 1)}

    def test_nodes_that_are_there_for_agents_have_as_many_as_are_wanted(self):
        cpu_nodes = [self.add_node(num_cpus=2, resources={"batchflow_agent": 1}) for _ in range(2)]
        wait_until(lambda: len(self.daemons()) == 4, 60, "agents")
        time.sleep(3)
        there = self.daemons()
        self.assertEqual(len(there), 4)
        (node,) = [one for one in cpu_nodes if one.node_id in there]
        (other,) = [one for one in cpu_nodes if one is not node]
        # All of the node's processors prepare.
        command = Path(f"/proc/{there[node.node_id]['daemon']}/cmdline").read_text().split("\0")
        self.assertEqual(command[command.index("--workers") + 1], "2")
        # Where it goes, the other node has an agent.
        self.cluster.remove_node(node, allow_graceful=False)
        wait_until(lambda: other.node_id in self.daemons(), 60, "the other agent")


@needs("ray")
class Autoscaled(OnRay):
    """Ray's autoscaler starts nodes, which are raylets of this machine."""

    NODES = 0
    OPTIONS = {"cpu_agents": (1, 1)}

    def head(self):
        from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID
        os.environ.update({"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1",
                           "BATCHFLOW_TEST_CLUSTER": str(self.folder)})
        self.addCleanup(self.end_all)
        port = free_port()
        kinds = {"ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}}
        for name, resources in (("training", {}), ("preparing", {"batchflow_agent": 1})):
            resources = {"CPU": 2, "object_store_memory": STORE, **resources}
            kinds[name] = {"resources": resources, "node_config": {}, "min_workers": 0,
                           "max_workers": 2}
        config = {"cluster_name": "test", "max_workers": 4, "idle_timeout_minutes": 0.05,
                  "upscaling_speed": 1.0, "docker": {}, "auth": {},
                  "provider": {"type": "fake_multinode", "gcs_address": f"127.0.0.1:{port}",
                               "disable_node_updaters": True, "use_node_id_as_ip": True},
                  "head_node_type": "ray.head.default", "available_node_types": kinds,
                  "file_mounts": {}, "cluster_synced_files": [], "initialization_commands": [],
                  "setup_commands": [], "head_setup_commands": [], "worker_setup_commands": [],
                  "head_start_ray_commands": [], "worker_start_ray_commands": [],
                  "file_mounts_sync_continuously": False, "rsync_exclude": [], "rsync_filter": []}
        file = self.folder / "autoscaling.yaml"
        file.write_text(json.dumps(config))
        return {"gcs_server_port": port, "autoscaling_config": str(file),
                "env_vars": {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID}}

    def end_all(self):
        """What the autoscaler has started does not end with it."""
        mark = f"BATCHFLOW_TEST_CLUSTER={self.folder}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)

    def start(self):
        self.service.start({"rows": self.data}, self.folder / "state", memory="256mib",
                           coordinator_memory="256mib", **self.OPTIONS)

    def test_a_node_is_asked_for_and_let_go(self):
        kinds = lambda: ["batchflow_agent" in node["Resources"] for node in self.ray.nodes()
                         if node["Alive"] and node["Resources"].get("CPU")]
        wait_until(lambda: len(self.daemons()) == 2, 120, "an agent")
        self.assertEqual(kinds(), [True])
        self.service.stop()
        wait_until(lambda: kinds() == [], 120, "the node's end")


if __name__ == "__main__":
    unittest.main()
