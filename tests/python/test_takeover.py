"""Several nodes may coordinate one cluster: one does, and another takes over when it is gone."""

import re
import signal
import time
import unittest

from support import free_port, needs, status, wait_until
from test_cluster import JOB, ROWS, WIDTH, ClusterFolder, Job, say_recovery

try:
    from pictures import write_pictures
except ImportError:
    write_pictures = None

STORED = ROWS * WIDTH * 8
COORDINATES = re.compile(r"this node coordinates the cluster of \S+: term (\d+)")


def term(node):
    """The last one that the node has coordinated."""
    return max(map(int, COORDINATES.findall(node.text())), default=0)


def coordinator_of(candidates, after=0, seconds=30):
    """The node that coordinates in a term after this one."""
    return wait_until(lambda: next((node for node in candidates if term(node) > after), None),
                      seconds, "a coordinator")


class Candidates(ClusterFolder):
    """Three nodes with one command line, but for what is a node's own."""

    def setUp(self):
        super().setUp()
        self.shared = self.folder / "shared"
        self.candidates = [self.candidate(name) for name in "abc"]
        self.first = self.coordinator()
        self.wait_for_agents(self.first, 2)

    def candidate(self, name, *arguments, **more):
        port = free_port()
        node = self.member(name, "--dataset", f"rows={self.data}", "--tcp", f"127.0.0.1:{port}",
                           "--cluster-log", str(self.shared), *arguments, **more)
        node.port = port
        return node

    def coordinator(self, after=0):
        return coordinator_of(self.candidates, after)

    def wait_for_agents(self, node, count):
        wait_until(lambda: sum(one["ready"] for one in status(node.socket)["nodes"]) >= count, 30,
                   f"{count} agents")

    def others(self, node):
        return [one for one in self.candidates if one is not node]

    def counts(self, node):
        """Of the coordinator, and of each agent."""
        time.sleep(1.5)  # agents report every second
        now = status(node.socket)
        return [now, *now["nodes"]]

    def read(self, node):
        return sum(one["read_bytes"] for one in self.counts(node))


class TakenOver(Candidates):
    def test_one_coordinates_and_every_node_serves_jobs(self):
        self.assertEqual(list(map(term, self.candidates)).count(1), 1)
        for job in [Job(node, epochs=2) for node in self.candidates]:
            self.check_epochs(job.result(), 2)

    def test_another_takes_over_when_the_coordinator_is_killed(self):
        jobs = [Job(node, epochs=3, pause=0.003) for node in self.candidates]
        for job in jobs:
            job.begun()
        self.first.end()
        killed = time.monotonic()
        second = self.coordinator(after=1)
        print(f"term 2 began {time.monotonic() - killed:.2f} s after the end of the coordinator")
        self.assertIsNot(second, self.first)
        self.first.start()  # and is an agent now
        self.wait_for_agents(second, 2)
        for job in jobs:
            self.check_epochs(job.result(), 3)
        self.assertEqual(term(second), 2)
        self.assertEqual(term(self.first), 1)
        say_recovery(jobs, "the coordinator is killed, and another takes over")
        self.check_all_end()

    def test_a_strict_order_goes_on_byte_for_byte(self):
        options = {"order": "strict", "shuffle_seed": 11}
        expected = Job(self.first, epochs=3, **options).result()
        jobs = [Job(node, epochs=3, pause=0.003, **options) for node in self.others(self.first)]
        for job in jobs:
            job.begun()
        self.first.end()
        second = self.coordinator(after=1)
        self.first.start()
        self.wait_for_agents(second, 2)
        second.end()
        self.coordinator(after=2)
        second.start()
        for job in jobs:
            self.assertEqual(job.result(), expected)
        say_recovery(jobs, "two coordinators are killed, one after the other")
        self.check_all_end()

    def test_one_that_stood_still_finds_that_it_coordinates_no_more(self):
        jobs = [Job(node, epochs=3, pause=0.003) for node in self.candidates]
        for job in jobs:
            job.begun()
        self.first.process.send_signal(signal.SIGSTOP)
        second = self.coordinator(after=1)
        time.sleep(0.5)
        self.first.process.send_signal(signal.SIGCONT)
        wait_until(lambda: "this node coordinates no more" in self.first.text(), 20, "its end")
        self.wait_for_agents(second, 2)
        for job in jobs:
            self.check_epochs(job.result(), 3)
        say_recovery(jobs, "the coordinator stands still, and another takes over")
        self.check_all_end()

    def test_one_that_is_told_to_end_lets_another_coordinate_at_once(self):
        self.assertEqual(self.first.end(signal.SIGTERM), 0)
        ended = time.monotonic()
        second = self.coordinator(after=1)
        self.assertLess(time.monotonic() - ended, 30)
        self.check_epochs(Job(second).result(), 1)

    def test_what_the_other_nodes_keep_is_not_read_again(self):
        for seed, node in enumerate(self.candidates):
            self.check_epochs(Job(node, shuffle_seed=seed).result())
        self.assertLess(self.read(self.first), 1.02 * STORED)
        lost = status(self.first.socket)["item_bytes"]
        self.assertLess(lost, 0.6 * STORED)
        self.first.end()
        second = self.coordinator(after=1)
        self.wait_for_agents(second, 1)
        for seed, node in enumerate(self.others(self.first)):
            self.check_epochs(Job(node, epochs=2, shuffle_seed=10 + seed).result(), 2)
        self.assertLess(self.read(second), lost + 0.02 * STORED)

    def test_jobs_that_go_on_read_only_what_was_lost(self):
        jobs = [Job(node, epochs=4, pause=0.002, shuffle_seed=seed)
                for seed, node in enumerate(self.others(self.first))]
        self.check_epochs(Job(self.first, shuffle_seed=7).result())
        self.assertLess(self.read(self.first), 1.02 * STORED)
        lost = status(self.first.socket)["item_bytes"]
        self.first.end()
        second = self.coordinator(after=1)
        for job in jobs:
            self.check_epochs(job.result(), 4)
        self.assertLess(self.read(second), lost + 0.02 * STORED)

    def test_all_are_killed_and_come_back(self):
        jobs = [Job(node, epochs=3, pause=0.003) for node in self.candidates]
        for job in jobs:
            job.begun()
        for node in self.candidates:
            node.end()
        for node in self.candidates:
            node.start(waits=False)
        for job in jobs:
            self.check_epochs(job.result(), 3)
        say_recovery(jobs, "all candidates are killed, and come back")
        self.check_all_end()

    def test_an_agent_beside_the_candidates_finds_the_next_coordinator(self):
        addresses = ",".join(f"tcp://127.0.0.1:{node.port}" for node in self.candidates)
        agent = self.member("agent", "--join", addresses)
        self.wait_for_agents(self.first, 3)
        job = Job(agent, epochs=3, pause=0.003)
        job.begun()
        self.first.end()
        self.wait_for_agents(self.coordinator(after=1), 2)
        self.check_epochs(job.result(), 3)

    def test_a_coordinator_of_before_is_refused(self):
        """An agent that has served term 2 does not take orders of term 1."""
        addresses = ",".join(f"tcp://127.0.0.1:{node.port}" for node in self.candidates)
        agent = self.member("agent", "--join", addresses)
        self.wait_for_agents(self.first, 3)
        self.first.process.send_signal(signal.SIGSTOP)
        second = self.coordinator(after=1)
        self.wait_for_agents(second, 2)
        known = (self.folder / "agent" / "state" / "term").read_text().split()
        self.assertEqual(known[1], "2")
        # Before it has looked at the folder, it is told by the agent.
        agent.process.send_signal(signal.SIGSTOP)
        self.first.process.send_signal(signal.SIGCONT)
        agent.process.send_signal(signal.SIGCONT)
        self.wait_for_agents(second, 3)
        self.check_epochs(Job(agent).result(), 1)


WIDE_JOB = JOB.replace(f"+ {WIDTH} - 1", "+ 8192 - 1")


class OnDrives(Candidates):
    """Memory holds a part of the data, and the drives hold the rest."""

    ROWS, WIDTH = 4000, 8192  # of 64 KiB
    STORED = ROWS * WIDTH * 8

    def candidate(self, name):
        return super().candidate(name, "--spill", f"{self.folder / name}.drive,256mib",
                                 "--policy", "allocation=equal", memory="192mib")

    def train(self, nodes, seed):
        """All at once: what leaves memory because a job has come is not copied to the drive."""
        for job in [Job(node, 2, code=WIDE_JOB, shuffle_seed=seed + i)
                    for i, node in enumerate(nodes)]:
            self.check_epochs(job.result(), 2)

    def test_what_the_drives_of_the_other_nodes_have_is_not_read_again(self):
        self.train(self.candidates, 0)
        now = self.counts(self.first)
        self.assertLess(sum(one["read_bytes"] for one in now), 1.02 * self.STORED)
        for one in now:
            self.assertGreater(one["spill_written_bytes"], 0, one.get("name"))
        lost = now[0]["item_bytes"] + now[0]["spill_bytes"]
        self.first.end()
        second = self.coordinator(after=1)
        self.wait_for_agents(second, 1)
        self.train(self.others(self.first), 10)
        now = self.counts(second)
        self.assertLess(sum(one["read_bytes"] for one in now), lost + 0.02 * self.STORED)
        for one in now:
            self.assertGreater(one["spill_read_bytes"], 0, one.get("name"))
            self.assertEqual(one["spill_missed"], 0, one.get("name"))


# Trains on pictures, each with its number in its first pixel, in the order of their files' names.
PICTURES = """
import json, sys
import batchflow
epochs, options = int(sys.argv[1]), json.loads(sys.argv[3])
numbers = options.pop("numbers")
loader = batchflow.DataLoader("pictures", batch_size=16, epochs=epochs, pipeline="flipped", **options)
all_keys = []
for epoch in range(epochs):
    keys = []
    for batch in loader:
        for key, picture in zip(batch.sample_keys, batch[0]):
            keys.append(int(key))
            red, green, blue = picture.tobytes()[:3]
            assert (red + 256 * green, blue) == (numbers[int(key)], 77)
    all_keys.append(keys)
print(json.dumps({"keys": all_keys}), flush=True)
"""


@needs("PIL")
class Decoded(Candidates):
    ROWS = COUNT = 600
    STEPS = "{step: decode}, {step: resize, size: [12, 12]}, {step: horizontal_flip}"

    def make_data(self):
        super().make_data()
        self.pictures = self.folder / "pictures"
        write_pictures(self.pictures, self.COUNT)
        self.numbers = [int(one.stem) for one in sorted(self.pictures.glob("*/*.png"))]
        pipeline = self.folder / "flipped.yaml"
        pipeline.write_text(f"{{kind: pipeline, name: flipped, steps: [{self.STEPS}]}}")
        self.config = self.folder / "node.yaml"
        self.config.write_text(f"{{kind: node, pipelines: [{pipeline}]}}")

    def candidate(self, name):
        return super().candidate(name, "--config", str(self.config), "--dataset",
                                 f"pictures={self.pictures}")

    def train(self, node, epochs, seed):
        job = Job(node, epochs, code=PICTURES, shuffle_seed=seed, numbers=self.numbers)
        self.check_epochs(job.result(), epochs)

    def decodings(self, node):
        return sum(one["prepared_samples"] - one["decoded_hits"] for one in self.counts(node))

    def test_what_the_other_nodes_have_decoded_is_not_decoded_again(self):
        for seed, node in enumerate(self.candidates):
            self.train(node, 6, seed)
        before = self.decodings(self.first)
        self.train(self.first, 1, 5)
        self.assertLess(self.decodings(self.first) - before, 0.05 * self.COUNT)
        self.first.end()
        second = self.coordinator(after=1)
        self.wait_for_agents(second, 1)
        self.train(self.others(self.first)[0], 1, 10)
        # The node that is gone had about a third.
        self.assertLess(self.decodings(second), 0.45 * self.COUNT)


class Refused(ClusterFolder):
    def refused(self, *arguments):
        node = self.node("node", *arguments, waits=False)
        self.assertEqual(node.process.wait(30), 2)
        return node.text()

    def test_what_no_candidate_can_be(self):
        token = ["--cluster-token", str(self.token)]
        shared = ["--cluster-log", str(self.folder / "shared"), "--dataset", f"rows={self.data}"]
        self.assertIn("no token", self.refused(*shared))
        self.assertIn("at one address", self.refused(*shared, *token, "--tcp", "0.0.0.0:0"))
        (self.folder / "file").write_text("")
        self.assertIn("cannot be written", self.refused(
            "--cluster-log", str(self.folder / "file"), "--dataset", f"rows={self.data}", *token,
            "--tcp", "127.0.0.1:0"))


if __name__ == "__main__":
    unittest.main()
