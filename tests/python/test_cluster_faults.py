"""Many faults, one after the other, while jobs run: each sample of each epoch once, by what the
jobs say and by their receipts; and strict orders with the bytes that they have without faults.

BATCHFLOW_FAULTS and BATCHFLOW_SEED choose how many faults, and which: one of each kind first, and
then at random. The schedule comes from the seed alone: it is drawn before anything starts, and its
digest is printed.
"""

import hashlib
import json
import os
import random
import re
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from hosts import Hosts  # noqa: E402
from support import listens, wait_until  # noqa: E402
from test_cluster import ClusterFolder, Job, say_recovery  # noqa: E402
from test_receipts import verify  # noqa: E402

PROBLEM = Hosts.problem()
FAULTS = int(os.environ.get("BATCHFLOW_FAULTS", "15"))
SEED = int(os.environ.get("BATCHFLOW_SEED", "1"))
CANDIDATES, AGENTS = ["a", "b", "c"], ["d", "e"]
PORT = 9838
EPOCHS = 2  # of each job
# What happens to a node, and to how many of 100 faults that are drawn at random. `both`: to the
# coordinator, too.
KINDS = {"kill": 30, "both": 8, "all": 2, "stop": 15, "end": 15, "cut": 20, "mute": 10}


def schedule(seed, faults):
    """Of each fault: what, to which node, how long it lasts, and how long nothing happens then."""
    draws = random.Random(seed)
    first = draws.sample(list(KINDS), k=min(faults, len(KINDS)))
    kinds = first + draws.choices(list(KINDS), weights=list(KINDS.values()), k=faults - len(first))
    return [(kind, draws.choice(CANDIDATES + AGENTS), round(draws.uniform(0.05, 3.0), 3),
             round(draws.uniform(0.05, 0.8), 3)) for kind in kinds]


@unittest.skipIf(PROBLEM, PROBLEM)
class ManyFaults(ClusterFolder):
    ROWS, WIDTH = 3000, 32

    def setUp(self):
        super().setUp()
        [self.expected] = self.strict_results(EPOCHS)
        self.hosts = Hosts(CANDIDATES + AGENTS)
        self.addCleanup(self.hosts.close)
        addresses = {name: f"{self.hosts.address(name)}:{PORT}" for name in CANDIDATES}
        self.nodes = {}
        for name in CANDIDATES + AGENTS:
            own = (["--dataset", f"rows={self.data}", "--tcp", addresses[name], "--cluster-log",
                    str(self.folder / "log")] if name in CANDIDATES else
                   ["--join", ",".join(f"tcp://{one}" for one in addresses.values())])
            self.nodes[name] = self.member(name, *own, memory="320mib",
                                           before=self.hosts.command(name, []))
        self.jobs = {}
        self.ended = []
        self.epochs = 0

    def start_job(self, name, number):
        # A loader waits for a service that goes away, and not for one that was never there.
        wait_until(lambda: listens(self.nodes[name].socket), 60, f"the socket of {name}")
        more = {"pause": 0.004, "job_name": f"job-{name}-{number}",
                "receipts": str(self.folder / f"receipts-{number}")}
        node = self.nodes[name]
        job = (self.strict_job(node, EPOCHS, **more) if number % 2 else
               Job(node, epochs=EPOCHS, order="relaxed", shuffle_seed=number, **more))
        job.receipts, job.is_strict = more["receipts"], number % 2 == 1
        self.jobs[name] = job
        job.begun()
        self.number = number + 1

    def take_ended_jobs(self, waits=False):
        for name, job in list(self.jobs.items()):
            if not waits and job.process.poll() is None:
                continue
            result = job.result(600)
            self.ended.append(job)
            for keys in result["keys"]:
                self.assertEqual(sorted(keys), list(range(self.ROWS)), f"seed {SEED}")
                self.epochs += 1
            if job.is_strict:
                self.assertEqual(result, self.expected, f"seed {SEED}")
            verified = verify(job.receipts)
            self.assertEqual(verified.returncode, 0, f"seed {SEED}: {verified.stderr}")
            self.assertIn(f"{EPOCHS} epochs verified", verified.stdout)
            del self.jobs[name]
            if not waits:
                self.start_job(name, self.number)

    def coordinates(self, name):
        """The last term that the node has coordinated."""
        terms = re.findall(r"this node coordinates the cluster of \S+: term (\d+)",
                           self.nodes[name].text())
        return int(terms[-1]) if terms else 0

    def strike(self, kind, name, lasts):
        nodes = [self.nodes[name]]
        if kind == "both":
            nodes += [self.nodes[one] for one in CANDIDATES
                      if self.coordinates(one) == max(map(self.coordinates, CANDIDATES))
                      and one != name]
        if kind == "all":
            nodes = list(self.nodes.values())
        if kind in ("kill", "both", "all"):
            for node in nodes:
                node.end()
            time.sleep(lasts / 4)
            for node in nodes:
                node.start(waits=False)
        elif kind == "end":
            self.assertEqual(nodes[0].end(signal.SIGTERM), 0)
            nodes[0].start(waits=False)
        elif kind == "stop":
            nodes[0].process.send_signal(signal.SIGSTOP)
            time.sleep(lasts)
            nodes[0].process.send_signal(signal.SIGCONT)
        elif kind == "cut":
            self.hosts.cut(name)
            time.sleep(lasts)
            self.hosts.heal(name)
        elif kind == "mute":
            self.hosts.mute(name)
            time.sleep(lasts)
            self.hosts.shape(name, "10gbit")

    def test_every_sample_comes_once_an_epoch_whatever_fails(self):
        planned = schedule(SEED, FAULTS)
        if FAULTS >= len(KINDS):
            self.assertEqual({kind for kind, *_ in planned[:len(KINDS)]}, set(KINDS))
        digest = hashlib.sha256(json.dumps(planned).encode()).hexdigest()[:16]
        self.assertEqual(planned, schedule(SEED, FAULTS))
        for number, name in enumerate(["a", "b", "d", "e"]):
            self.start_job(name, number)
        began = time.monotonic()
        for count, (kind, name, lasts, pause) in enumerate(planned, 1):
            for node in self.nodes.values():
                if node.process.poll() is not None:
                    self.fail(f"a node has ended by itself: {node.text()[-2000:]}")
            self.strike(kind, name, lasts)
            time.sleep(pause)
            self.take_ended_jobs()
            if count % 50 == 0:
                print(f"{count} faults, {self.epochs} epochs", flush=True)
        healed = time.monotonic()
        self.take_ended_jobs(waits=True)
        self.check_all_end()
        say_recovery(self.ended, "the worst of these faults")
        print(f"seed {SEED}, schedule {digest}: {FAULTS} faults in {healed - began:.0f} s, "
              f"{self.epochs} epochs of {self.ROWS} samples, each sample once, also by their "
              "receipts; all jobs had ended "
              f"{time.monotonic() - healed:.1f} s after the last fault")


if __name__ == "__main__":
    unittest.main()
