"""Agents come and go by the dozen, with jobs, and nodes and links fail: nothing of that stays behind
in the nodes that live on."""

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
    """What a daemon has open and in use. An agent without a coordinator does not say what it has in
    use."""

    def __init__(self, node, says=True):
        process = node.process.pid
        self.links = {}
        for one in os.listdir(f"/proc/{process}/fd"):
            with suppress(FileNotFoundError):  # it was closed since
                kind = os.readlink(f"/proc/{process}/fd/{one}").split(":")[0]
                self.links[kind] = self.links.get(kind, 0) + 1
        self.descriptors = len(os.listdir(f"/proc/{process}/fd"))
        self.threads = len(os.listdir(f"/proc/{process}/task"))
        self.rss = resident_mib(process)
        now = status(node.socket) if says else {"used_bytes": 0, "jobs": []}
        self.used = now["used_bytes"] / 2**20
        self.jobs = len(now["jobs"])

    def __repr__(self):
        return str(self.__dict__)

    def is_as(self, before, links=0):
        """`links`: as many between agents may have come since, a thread and two descriptors each."""
        return (self.descriptors <= before.descriptors + 2 * links and
                self.threads <= before.threads + links and
                self.rss <= before.rss + RSS_MIB_MORE and self.jobs == before.jobs and
                self.used <= before.used + USED_MIB_MORE)


class Survivors(Cluster):
    SURVIVORS = ["coordinator", "stays"]
    SAY = True
    LINKS = 0  # between agents, which may come and go

    def train(self):
        """An epoch on each survivor."""
        for job in [Job(node, epochs=1) for node in self.survivors()]:
            self.check_epochs(job.result())

    def survivors(self):
        return [node for node in self.started if node.folder.name in self.SURVIVORS]

    def files(self):
        """Of the survivors' folders, the data's, and memory that processes share."""
        own = [path for part in (*self.SURVIVORS, "rows")
               for path in (self.folder / part).rglob("*") if path.name != "log"]
        return sorted(map(str, own)), sorted(os.listdir("/dev/shm"))

    def counted(self):
        return [Counted(node, self.SAY) for node in self.survivors()]

    def steady(self):
        """What they have when nothing ends any more."""
        def seen():
            now = self.counted()
            time.sleep(0.5)
            return now if all(a.is_as(b) and b.is_as(a) for a, b in zip(now, self.counted())) else None
        return wait_until(seen, 20, "a steady state")

    def check_is_as(self, before, what=""):
        deadline = time.monotonic() + 20
        while not all(one.is_as(other, self.LINKS)
                      for one, other in zip(self.counted(), before)):
            if time.monotonic() > deadline:
                self.fail(f"{what}: {before} have become {self.counted()}")
            time.sleep(0.2)


class Leftovers(Survivors):
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
        self.agent("stays")
        self.train()
        self.come_and_go(1)  # what is made once is there now
        before, files = self.steady(), self.files()
        self.come_and_go(ROUNDS)
        self.check_is_as(before)
        self.assertEqual(self.files(), files)
        self.train()


class Faults(Survivors):
    """Of an agent, or of its link."""

    COORDINATOR = ("--lost-after", "1")

    def kill(self):
        self.struck.end()
        self.struck.start()

    def stand_still(self):
        self.struck.process.send_signal(signal.SIGSTOP)
        self.wait_for_loss()
        self.struck.process.send_signal(signal.SIGCONT)

    def cut(self):
        self.struck.link.hold("out")
        self.wait_for_loss()
        self.struck.link.heal()

    def leave_half_open(self):
        self.struck.link.swallow("in")
        self.wait_for_loss()
        self.struck.link.heal()

    def reset(self):
        self.struck.link.reset()

    def wait_for_loss(self):
        wait_until(lambda: "struck" not in self.nodes(), 20, "the loss of the agent")

    def strike(self, fault):
        self.struck = self.agent_over({}, "struck", *self.COORDINATOR)
        self.wait_for_nodes({"stays", "struck"})
        jobs = [Job(node, epochs=1, pause=0.003) for node in [*self.survivors(), self.struck]]
        for job in jobs:
            job.begun()
        fault()
        self.wait_for_nodes({"stays", "struck"})
        for job in jobs:
            self.check_epochs(job.result())
        self.assertEqual(self.struck.end(signal.SIGTERM), 0)
        wait_until(lambda: set(self.nodes()) == {"stays"}, 20, "the end of the agent")

    def test_nothing_stays_of_them(self):
        self.agent("stays", *self.COORDINATOR)
        self.train()
        faults = [self.kill, self.stand_still, self.cut, self.leave_half_open, self.reset]
        for fault in faults:
            self.strike(fault)  # what is made once is there now
        before, files = self.steady(), self.files()
        for fault in faults:
            self.strike(fault)
            self.check_is_as(before, fault.__name__)
            self.assertEqual(self.files(), files, fault.__name__)
        self.check_all_end()


class Coordinators(Survivors):
    """What agents have when their coordinator is gone, and their links with it."""

    SURVIVORS = ["a", "b"]
    SAY = False
    # Either agent has the link with the other, or both do. What leaked with each of the six deaths
    # would be more.
    LINKS = 1

    def kill(self, times):
        for _ in range(times):
            jobs = [Job(node, epochs=1, pause=0.003) for node in self.survivors()]
            for job in jobs:
                job.begun()
            for _ in range(2):
                self.coordinator.end()
                self.coordinator.start()
                self.wait_for_nodes(set(self.SURVIVORS))
            for job in jobs:
                self.check_epochs(job.result())
        self.coordinator.end()

    def test_nothing_stays_of_those_that_are_killed(self):
        for name in self.SURVIVORS:
            self.agent(name)
        self.kill(1)
        before, files = self.steady(), self.files()
        self.coordinator.start()
        self.wait_for_nodes(set(self.SURVIVORS))
        self.kill(3)
        self.check_is_as(before)
        self.assertEqual(self.files(), files)
        self.check_all_end()


if __name__ == "__main__":
    unittest.main()
