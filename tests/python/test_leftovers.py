"""Agents come and go by the dozen, with jobs: nothing of them stays behind."""

import os
import signal
import time
import unittest
from contextlib import suppress
from pathlib import Path

from support import rest_of, status, wait_until
from test_cluster import Cluster, Job

ROUNDS, AT_ONCE = 4, 5
RSS_MIB_MORE, USED_MIB_MORE = 16, 4


def resident_mib(process):
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1024


class Counted:
    """What a daemon has open and in use."""

    def __init__(self, node):
        process = node.process.pid
        self.links = {}
        for one in os.listdir(f"/proc/{process}/fd"):
            with suppress(FileNotFoundError):  # it was closed since
                kind = os.readlink(f"/proc/{process}/fd/{one}").split(":")[0]
                self.links[kind] = self.links.get(kind, 0) + 1
        self.descriptors = len(os.listdir(f"/proc/{process}/fd"))
        self.threads = len(os.listdir(f"/proc/{process}/task"))
        self.rss = resident_mib(process)
        now = status(node.socket)
        self.used = now["used_bytes"] / 2**20
        self.jobs = len(now["jobs"])

    def __repr__(self):
        return str(self.__dict__)

    def is_as(self, before):
        return (self.descriptors <= before.descriptors and self.threads <= before.threads and
                self.rss <= before.rss + RSS_MIB_MORE and self.jobs == before.jobs and
                self.used <= before.used + USED_MIB_MORE)


class Leftovers(Cluster):
    def files(self):
        """Of the survivors' folders, the data's, and memory that processes share."""
        own = [path for part in ("coordinator", "stays", "rows")
               for path in (self.folder / part).rglob("*") if path.name != "log"]
        return sorted(map(str, own)), sorted(os.listdir("/dev/shm"))

    def come_and_go(self, rounds):
        """A third is killed, a third killed with its job, and a third told to end."""
        for one in range(rounds):
            agents = [self.agent(f"guest-{one}-{i}", joins=False) for i in range(AT_ONCE)]
            self.wait_for_nodes({f"guest-{one}-{i}" for i in range(AT_ONCE)})
            jobs = [Job(agent, epochs=1, pause=0.01 if i % 3 == 0 else 0.0, shuffle_seed=i,
                        order=["relaxed", "strict"][i % 2]) for i, agent in enumerate(agents)]
            for i, (agent, job) in enumerate(zip(agents, jobs)):
                if i % 3 == 0:
                    job.begun()
                    agent.end()
                    job.process.kill()
                    rest_of(job.process)
                else:
                    self.check_epochs(job.result())
                    self.assertEqual(agent.end([signal.SIGKILL, signal.SIGTERM][i % 3 - 1]),
                                     [-signal.SIGKILL, 0][i % 3 - 1])
            wait_until(lambda: set(self.nodes()) == {"stays"}, 20, "the end of the guests")

    def test_nothing_stays_of_agents_that_have_gone(self):
        survivors = [self.coordinator, self.agent("stays")]
        steady = [Job(node, epochs=1) for node in survivors]
        for job in steady:
            self.check_epochs(job.result())
        self.come_and_go(1)  # what is made once is there now
        before, files = [Counted(node) for node in survivors], self.files()
        self.come_and_go(ROUNDS)
        deadline = time.monotonic() + 20
        while not all(Counted(node).is_as(one) for node, one in zip(survivors, before)):
            if time.monotonic() > deadline:
                self.fail(f"{before} have become {[Counted(node) for node in survivors]}")
            time.sleep(0.2)
        self.assertEqual(self.files(), files)
        for job in [Job(node, epochs=1) for node in survivors]:
            self.check_epochs(job.result())


if __name__ == "__main__":
    unittest.main()
