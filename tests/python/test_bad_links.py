"""An agent with a link that is late, loses, is cut in one direction, half open, or broken again and
again: each job has each sample of an epoch once, and strict orders the bytes of one node."""

import os
import time
import unittest

from support import wait_until
from test_cluster import JOB, Cluster, Job, say_recovery

SEED = int(os.environ.get("BATCHFLOW_SEED", "1"))
EPOCHS = 2
FEWER_BATCHES = JOB.replace("batch_size=16", "batch_size=64")


class OverBadLinks(Cluster):
    ROWS = 3000
    COORDINATOR = ("--lost-after", "1")

    def setUp(self):
        super().setUp()
        [self.expected] = self.strict_results(EPOCHS, code=FEWER_BATCHES)

    def start(self, pause=0.01, **link):
        """`a` has the bad link, and `b` a good one. Jobs run on all nodes, and strict ones at the
        coordinator and at `a`."""
        a = self.agent_over({"seed": SEED, **link}, "a", *self.COORDINATOR)
        b = self.agent("b", *self.COORDINATOR)
        self.wait_for_nodes({"a", "b"})
        self.link = a.link
        nodes = [self.coordinator, a, b]
        self.jobs = [Job(node, EPOCHS, pause, FEWER_BATCHES, order="relaxed", shuffle_seed=seed)
                     for seed, node in enumerate(nodes)]
        self.strict = [self.strict_job(node, EPOCHS, pause=pause, code=FEWER_BATCHES)
                       for node in nodes[:2]]
        for job in self.jobs + self.strict:
            job.begun()

    def check_jobs(self, fault):
        for job in self.jobs:
            self.check_epochs(job.result(), EPOCHS)
        for job in self.strict:
            self.assertEqual(job.result(), self.expected)
        self.wait_for_nodes({"a", "b"})
        say_recovery(self.jobs + self.strict, f"{fault}, seed {SEED}")
        self.check_all_end()

    def cut(self, way, how):
        """Until the agent is lost, and a second more."""
        how(way)
        wait_until(lambda: "a" not in self.nodes(), 20, "the loss of the agent")
        time.sleep(1)
        self.link.heal()
        self.wait_for_nodes({"a"})


class LateLinks(OverBadLinks):
    COORDINATOR = ("--lost-after", "10")  # no beat is so late, whatever else runs

    def test_a_link_is_late_and_loses(self):
        self.start(pause=0, delay=0.05, jitter=0.02, loss=0.02)
        self.check_jobs("50 to 70 ms each way, and one piece in 50 is sent again")
        self.assertNotIn("'a' is lost", self.coordinator.text())
        # Samples went over it, too, both ways.
        for way, carried in self.link.carried.items():
            self.assertGreater(carried, self.ROWS * self.WIDTH * 8 / 10, way)


class BadLinks(OverBadLinks):
    def test_a_link_is_cut_in_one_direction_and_heals(self):
        self.start(pause=0.04)
        for way in ("out", "in"):
            self.cut(way, self.link.hold)
        self.check_jobs("a cut in one direction, and then in the other")
        self.assertEqual(self.link.swallowed, {"out": 0, "in": 0})

    def test_connections_are_half_open(self):
        self.start(pause=0.04)
        for way in ("out", "in"):
            before = self.link.swallowed[way]
            self.cut(way, self.link.swallow)
            self.assertGreater(self.link.swallowed[way], before)
        self.check_jobs("half open in one direction, and then in the other")

    def test_connections_are_reset_at_random(self):
        self.start(resets=12)
        self.check_jobs("12 connections are reset")
        # One that ended before its time, for another reason, was not reset.
        self.assertGreater(self.link.has_reset, 0)
        self.assertLessEqual(self.link.has_reset, 12)


if __name__ == "__main__":
    unittest.main()
