"""Nodes on hosts of their own: network namespaces with links that are slow or cut."""

import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from hosts import Hosts  # noqa: E402
from support import CTL, status, wait_until  # noqa: E402
from test_cluster import Cluster, ClusterFolder, Job, say_recovery  # noqa: E402
from test_takeover import coordinator_of  # noqa: E402

PROBLEM = Hosts.problem()
PORT = 9838
JOB_OF_WIDE_ROWS = """
import json, sys
import batchflow
epochs, pause, options = int(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])
loader = batchflow.DataLoader("rows", batch_size=64, epochs=epochs, **options)
keys = [[int(key) for batch in loader for key in batch.sample_keys] for _ in range(epochs)]
print("began", flush=True)
print(json.dumps({"keys": keys}), flush=True)
"""


@unittest.skipIf(PROBLEM, PROBLEM)
class OnHosts(ClusterFolder):
    NAMES = ["a", "b", "c"]

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self.NAMES)
        self.addCleanup(self.hosts.close)
        self.nodes = {}

    def member(self, name, *arguments):
        node = super().member(name, *arguments, before=self.hosts.command(name, []))
        self.nodes[name] = node
        return node

    def coordinator(self, name):
        return self.member(name, "--dataset", f"rows={self.data}", "--tcp",
                           f"{self.hosts.address(name)}:{PORT}")

    def agent(self, name, of):
        return self.member(name, "--join", f"tcp://{self.hosts.address(of)}:{PORT}")

    def wait_for_agents(self, node, names):
        wait_until(lambda: {one["name"] for one in status(node.socket)["nodes"]
                            if one["ready"]} == set(names), 30, f"agents {names}")


class Cut(OnHosts):
    def setUp(self):
        super().setUp()
        [self.expected] = self.strict_results(3)
        self.first = self.coordinator("a")
        for name in "bc":
            self.agent(name, "a")
        self.wait_for_agents(self.first, "bc")
        self.jobs = {name: Job(node, epochs=3, pause=0.003) for name, node in self.nodes.items()}
        self.strict = [self.strict_job(self.nodes[name], 3, pause=0.003) for name in "ab"]
        for job in [*self.jobs.values(), *self.strict]:
            job.begun()

    def check_jobs(self):
        for job in self.jobs.values():
            self.check_epochs(job.result(), 3)
        for job in self.strict:
            self.assertEqual(job.result(), self.expected)
        say_recovery([*self.jobs.values(), *self.strict], self.id().rsplit(".", 1)[1])
        self.check_all_end()

    def test_a_link_is_cut_and_heals(self):
        self.hosts.cut("b")
        self.wait_for_agents(self.first, "c")
        time.sleep(1)
        self.hosts.heal("b")
        self.wait_for_agents(self.first, "bc")
        self.check_jobs()

    def test_a_link_is_cut_in_one_direction(self):
        self.hosts.mute("b")
        self.wait_for_agents(self.first, "c")
        self.hosts.shape("b", "1gbit")
        self.wait_for_agents(self.first, "bc")
        self.check_jobs()

    def test_links_are_cut_at_random(self):
        for name in "bcbcbc":
            self.hosts.cut(name)
            time.sleep(0.3 if name == "b" else 2.5)
            self.hosts.heal(name)
            time.sleep(0.5)
        self.wait_for_agents(self.first, "bc")
        self.check_jobs()


class Candidates(OnHosts):
    def test_the_smaller_part_stops_and_the_larger_goes_on(self):
        for name in self.NAMES:
            self.member(name, "--dataset", f"rows={self.data}", "--tcp",
                        f"{self.hosts.address(name)}:{PORT}", "--cluster-log",
                        str(self.folder / "shared"))
        first = coordinator_of(self.nodes.values())
        others = {name: one for name, one in self.nodes.items() if one is not first}
        self.wait_for_agents(first, others)
        jobs = [Job(node, epochs=4, pause=0.004) for node in self.nodes.values()]
        for job in jobs:
            job.begun()
        alone = next(name for name, one in self.nodes.items() if one is first)
        self.hosts.cut(alone)
        cut = time.monotonic()
        second = coordinator_of(others.values(), after=1)
        print(f"another coordinated {time.monotonic() - cut:.2f} s after the cut")
        self.assertIn("nodes are gone at once; this node coordinates no more", first.text())
        self.hosts.heal(alone)
        self.wait_for_agents(second, [name for name, one in self.nodes.items()
                                      if one is not second])
        for job in jobs:
            self.check_epochs(job.result(), 4)
        say_recovery(jobs, "the coordinator is cut off with the smaller part")
        self.check_all_end()


class Slow(OnHosts):
    ROWS, WIDTH = 40_000, 256  # 80 MB

    def test_doctor_names_the_node_with_the_slow_link(self):
        first = self.coordinator("a")
        for name in "bc":
            self.agent(name, "a")
        self.wait_for_agents(first, "bc")
        self.hosts.shape("b", "100mbit")
        jobs = [Job(node, epochs=3, code=JOB_OF_WIDE_ROWS, order="relaxed", shuffle_seed=seed)
                for seed, node in enumerate(self.nodes.values())]
        said = ""
        deadline = time.monotonic() + 60
        while "to and from node 'b'" not in said and time.monotonic() < deadline:
            answer = subprocess.run([CTL, "--service", first.socket, "doctor", "--seconds", "2"],
                                    stdout=subprocess.PIPE, text=True, timeout=60)
            said += answer.stdout
        self.assertIn("to and from node 'b'", said)
        self.assertNotIn("to and from node 'c'", said)
        for job in jobs:
            self.check_epochs(job.result(300), 3)


def failing(what):
    return ("env", f"BATCHFLOW_FAILPOINTS={what}")


class SlowDrive(Cluster):
    ROWS, WIDTH = 40_000, 256  # 80 MB, of which each node is the home of a third

    def test_doctor_names_the_node_with_the_slow_drive(self):
        nodes = [self.coordinator, self.agent("a", before=failing("storage.read.error=delay-5")),
                 self.agent("b")]
        # Each sample is read once, so the doctor begins before the jobs do.
        doctor = subprocess.Popen([CTL, "--service", self.coordinator.socket, "doctor", "--seconds",
                                   "15"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(doctor.stdout.close)
        self.addCleanup(doctor.kill)
        time.sleep(0.5)
        jobs = [Job(node, code=JOB_OF_WIDE_ROWS, order="relaxed", shuffle_seed=seed)
                for seed, node in enumerate(nodes)]
        said = doctor.communicate(timeout=120)[0]
        self.assertRegex(said, r"node: node 'a' reads \S+ \S+/s from the store while it reads, and "
                               r"the others \S+ \S+/s: look at its drive")
        self.assertNotIn("node 'b' reads", said)
        self.assertNotIn("the coordinator reads", said)
        for job in jobs:
            self.check_epochs(job.result(300))


class SlowCores(Cluster):
    def test_doctor_names_the_node_with_the_slow_cores(self):
        nodes = [self.coordinator,
                 self.agent("a", before=failing("service.prepare.memory=delay-200")),
                 self.agent("b")]
        jobs = [Job(node, epochs=6, pause=0.005, order="relaxed", shuffle_seed=seed)
                for seed, node in enumerate(nodes)]
        said = ""
        deadline = time.monotonic() + 60
        while "node 'a' takes" not in said and time.monotonic() < deadline:
            said += subprocess.run([CTL, "--service", self.coordinator.socket, "doctor",
                                    "--seconds", "2"], stdout=subprocess.PIPE, text=True,
                                   timeout=60).stdout
        self.assertRegex(said, r"node 'a' takes \S+ ms to prepare a sample, and the others \S+: "
                               r"look for other load on its cores")
        self.assertNotIn("node 'b' takes", said)
        for job in jobs:
            self.check_epochs(job.result(300), 6)


if __name__ == "__main__":
    unittest.main()
