"""Live jobs at agents of a cluster. Their feed has its log on the coordinator's machine."""

import json
import os
import struct
import subprocess
import sys
import threading
import time
import unittest

import batchflow
from support import CTL, free_port, rest_of, status, wait_until
from test_cluster import Cluster

WIDTH = 16

# One rank. Each line has the numbers of a batch that are new, their classes, and how many others
# filled it up.
RANK = f"""
import json, sys
import batchflow
rank, world, batch, job = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
asked = json.loads(sys.argv[5])
rehearsed, rehearsal = asked.pop("rehearsed", None), asked.pop("rehearsal", None)
live = batchflow.Live("clicks", **asked)
loader = batchflow.DataLoader(live, batch, rank=rank, world_size=world, job_name=job, rehearsed=rehearsed,
                              rehearsal=rehearsal)
for got in loader:
    rows, classes = got[0].tolist(), got[1].tolist()
    for row, key in zip(rows, got.sample_keys.tolist()):
        assert row == [key] + [7 * key] * {WIDTH - 1}, (row, key)
    new = len(rows) - got.rehearsed
    print(json.dumps([[row[0] for row in rows[:new]], classes[:new], got.rehearsed]), flush=True)
"""


def record(n):
    return struct.pack(f"<{WIDTH}q", n, *([7 * n] * (WIDTH - 1)))


class LiveCluster(Cluster):
    def make_data(self):
        super().make_data()
        self.feed = self.folder / "clicks"
        subprocess.run([CTL, "feed", "create", str(self.feed), "--schema", f"i64[{WIDTH}]",
                        "--keep", "4mib", "--labelled"], check=True, stdout=subprocess.DEVNULL)
        self.COORDINATOR = ("--dataset", f"clicks={self.feed}")

    def send(self, numbers, end=False):
        with batchflow.Feed(self.feed, "one", f"i64[{WIDTH}]") as feed:
            for n in numbers:
                feed.put(record(n), label=n % 10)
            feed.flush()
            if end:
                feed.end()

    def rank(self, node, rank=0, world=1, batch=8, job="live", **live):
        live.setdefault("fill", None)
        job = subprocess.Popen([sys.executable, "-c", RANK, *map(str, (rank, world, batch, job)),
                                json.dumps(live)], env={**os.environ, "BATCHFLOW_SERVICE": node.socket},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.kill)
        return job

    def batches(self, job):
        out, problem = rest_of(job)
        self.assertEqual(job.returncode, 0, problem[-2000:])
        return [json.loads(line) for line in out.splitlines()]

    def check(self, batches, records):
        numbers = sum((numbers for numbers, _, _ in batches), [])
        self.assertEqual(numbers, list(range(records)))
        self.assertEqual(sum((classes for _, classes, _ in batches), []),
                         [n % 10 for n in range(records)])

    def fetched(self, names):
        """Records that these nodes have had from elsewhere, as they report each second."""
        return wait_until(lambda: all(self.nodes()[name]["fetched_samples"] > 0 for name in names), 20,
                          "what agents have fetched")


class Elsewhere(LiveCluster):
    def test_jobs_on_three_nodes_have_each_record_once_in_its_order(self):
        nodes = [self.coordinator, self.agent("a"), self.agent("b")]
        self.send(range(100))
        jobs = [self.rank(node, job=f"job {i}") for i, node in enumerate(nodes)]
        self.send(range(100, 203), end=True)
        for job in jobs:
            self.check(self.batches(job), 203)
        self.fetched(("a", "b"))

    def test_a_job_has_ranks_on_two_agents(self):
        nodes = [self.agent("a"), self.agent("b")]
        self.send(range(160), end=True)
        ranks = [self.batches(job) for job in
                 [self.rank(node, rank, 2) for rank, node in enumerate(nodes)]]
        self.check([one for both in zip(*ranks) for one in both], 160)

    def test_a_feed_that_pauses_is_filled_up_at_an_agent(self):
        node = self.agent("a")
        self.send(range(16))
        job = self.rank(node, wait=0.05, fill="rehearse")
        lines = [json.loads(job.stdout.readline()) for _ in range(4)]
        self.assertEqual([rehearsed for _, _, rehearsed in lines], [0, 0, 8, 8])
        self.send(range(16, 24), end=True)
        self.check(lines + self.batches(job), 24)


    def test_ranks_on_two_agents_rehearse_a_part_of_each_batch(self):
        nodes = [self.agent("a"), self.agent("b")]
        self.send(range(16 + 20 * 10), end=True)
        ranks = [self.batches(job) for job in
                 [self.rank(node, rank, 2, fill="rehearse", rehearsed=3) for rank, node in enumerate(nodes)]]
        for batches in ranks:
            self.assertEqual([rehearsed for _, _, rehearsed in batches], [0] + [3] * 20)
        self.check([one for both in zip(*ranks) for one in both], 216)

    def test_a_job_at_an_agent_rehearses_what_the_log_has_dropped(self):
        node = self.agent("a")
        records = 60_000  # which take 11 MB in a log of 4 MiB
        job = self.rank(node, batch=600, fill="rehearse", wait=60,
                        rehearsal={"policy": "reservoir", "samples": 500, "rehearsed": 100})
        batches = []  # each rank has checked all numbers of its batches
        # A job that cannot say what it had trains no more.
        reading = threading.Thread(target=lambda: batches.extend(self.batches(job)))
        reading.start()
        with batchflow.Feed(self.feed, "one", f"i64[{WIDTH}]") as feed:
            for n in range(records):
                feed.put(record(n), label=n % 10)
            feed.end()
        reading.join()
        self.check(batches, records)
        self.assertEqual([rehearsed for _, _, rehearsed in batches], [0] + [100] * 118 + [0])
        self.assertGreater(status(self.coordinator.socket)["datasets"][0]["feed"]["first"], 30_000)


class ByAgents(LiveCluster):
    """Producers send to the agent of their machine, which passes their records on."""

    def setUp(self):
        super().setUp()
        tokens = self.folder / "producers"
        tokens.write_text("p" * 64 + "\n")
        tokens.chmod(0o600)
        os.environ["BATCHFLOW_TOKEN_FILE"] = str(tokens)
        self.agent_port = free_port()
        self.node = self.agent("a", "--tcp", f"127.0.0.1:{self.agent_port}", "--tcp-token",
                               str(tokens), "--tcp-feeds")
        self.address = f"tcp://127.0.0.1:{self.agent_port}/clicks"

    def producer(self, name="one", address=None, **options):
        return batchflow.Feed(address or self.address, name, f"i64[{WIDTH}]", **options)

    def test_records_that_are_acknowledged_outlive_the_coordinator_and_the_agent(self):
        job = self.rank(self.coordinator)
        with self.producer() as feed:
            for n in range(240):
                if n == 80:
                    first = json.loads(job.stdout.readline())  # it has opened its loader
                    self.coordinator.end()
                    self.coordinator.start()
                if n == 160:
                    self.node.end()
                    self.node.start()
                feed.put(record(n), label=n % 10)
                if n % 40 == 39:
                    feed.flush()
            feed.end()
        self.check([first] + self.batches(job), 240)

    def test_what_may_not_be_sent_is_refused_with_a_reason(self):
        with self.assertRaisesRegex(batchflow.ServiceError, "no feed 'others'"):
            self.producer(address=self.address.replace("clicks", "others"), timeout=0.5)
        with self.assertRaisesRegex(batchflow.ServiceError, r"'u8\[4\]'"):
            batchflow.Feed(self.address, "two", "u8[4]")
        (self.folder / "producers").write_text("q" * 64 + "\n")
        own = self.folder / "mine"
        own.write_text("p" * 64 + "\n")
        own.chmod(0o600)
        os.environ["BATCHFLOW_TOKEN_FILE"] = str(own)
        with self.assertRaisesRegex(batchflow.ServiceError, "does not know the token"):
            self.producer(timeout=5)

    def test_an_agent_takes_no_jobs_of_other_machines(self):
        with self.assertRaisesRegex(batchflow.ServiceError, "join at its coordinator"):
            next(iter(batchflow.DataLoader("rows", 16,
                                           service=f"tcp://127.0.0.1:{self.agent_port}")))


class Ending(LiveCluster):
    def test_the_node_with_the_log_is_killed_and_comes_back(self):
        node = self.agent("a")
        self.send(range(400))
        job = self.rank(node)
        first = [json.loads(job.stdout.readline()) for _ in range(3)]
        self.coordinator.end()
        time.sleep(0.3)
        self.coordinator.start()
        self.send(range(400, 500), end=True)
        self.check(first + self.batches(job), 500)

    def test_an_agent_is_killed_and_its_job_goes_on(self):
        node = self.agent("a")
        self.send(range(300))
        job = self.rank(node)
        first = [json.loads(job.stdout.readline()) for _ in range(3)]
        node.end()
        node.start()
        self.send(range(300, 350), end=True)
        self.check(first + self.batches(job), 350)


if __name__ == "__main__":
    unittest.main()
