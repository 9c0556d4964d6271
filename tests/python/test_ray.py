"""The service of a Ray cluster, on several raylets of this machine: pip install 'ray[data,train]'"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from support import HERE, Folder, lives, needs, wait_until, write_rows

ROWS = 4000
STORE = 80 << 20
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(HERE.parent.parent / "python"), str(HERE)]),
               "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
               "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1",
               "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",
               # On Linux, too, "0" makes Ray use loopback for all of its nodes.
               "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class OnRay(Folder):
    """A head without agents, where this script and the coordinator are, and two nodes."""

    def setUp(self):
        super().setUp()
        os.environ.update(ENVIRONMENT)
        import ray
        from ray.cluster_utils import Cluster
        import batchflow.ray
        self.ray, self.service = ray, batchflow.ray
        self.data = self.folder / "rows"
        self.data.mkdir()
        write_rows(self.data / "rows.npy", ROWS)
        self.cluster = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False})
        self.addCleanup(self.cluster.shutdown)
        self.nodes = [self.add_node() for _ in range(2)]
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level=logging.WARNING)
        self.addCleanup(ray.shutdown)
        self.start()
        self.addCleanup(batchflow.ray.stop)

    def start(self):
        self.service.start({"rows": self.data}, self.folder / "state", memory="256mib",
                           coordinator_memory="256mib")
        self.wait_for_agents(self.nodes)

    def add_node(self):
        node = self.cluster.add_node(num_cpus=3, object_store_memory=STORE)
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

    def killed(self, whose, what):
        """Kills a process while jobs run, and returns what was there before."""
        jobs = [self.job(node, epochs=2, pause=0.01) for node in self.nodes]
        self.begun(jobs)
        before = self.daemons()
        os.kill(before[whose][what], signal.SIGKILL)
        wait_until(lambda: not lives(before[whose]["daemon"]), 30, "the daemon's end")
        self.check(jobs, 2)
        self.wait_for_agents(self.nodes)
        self.assertNotEqual(self.daemons()[whose]["daemon"], before[whose]["daemon"])
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
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
        import ray_jobs
        ranks = self.folder / "ranks"
        ranks.mkdir()

        def lose_a_node():
            wait_until(lambda: list(ranks.glob("2-0-*-75.json")), 120, "some steps")
            self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)
        losing = threading.Thread(target=lose_a_node)
        losing.start()
        self.addCleanup(losing.join)
        DataParallelTrainer(
            ray_jobs.train, train_loop_config={"folder": str(ranks), "pause": 0.1},
            scaling_config=ScalingConfig(num_workers=(1, 2), resources_per_worker={"CPU": 2}),
            run_config=RunConfig(name="elastic", storage_path=str(self.folder / "train"),
                                 failure_config=FailureConfig(max_failures=3))).fit()
        ended = [file.stem.split("-") for file in ranks.glob("*-end.json")]
        (world, begun), = {(one[0], one[1]) for one in ended}
        self.assertEqual(world, "1")
        self.assertNotEqual(begun, "0")
        files = [*ranks.glob(f"2-0-*-{begun}.json"), *ranks.glob(f"1-{begun}-0-end.json")]
        keys = [key for file in files for key in json.loads(file.read_text())]
        self.assertEqual(sorted(keys), list(range(ROWS)))


if __name__ == "__main__":
    unittest.main()
