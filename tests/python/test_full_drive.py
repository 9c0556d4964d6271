"""Drives that are full: where candidates share their log, where nodes keep their state, and where a
feed has its log."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

import batchflow
from support import CTL, Daemon, Folder, free_port, rest_of, status, wait_until
from test_cluster import Cluster, ClusterFolder, Job, say_recovery
from test_live import WIDTH, record
from test_takeover import coordinator_of, term


def mounts_are_private():
    return all(map(shutil.which, ("unshare", "nsenter"))) and subprocess.run(
        ["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, timeout=60).returncode == 0


class SmallDrive:
    """A drive of some KiB in memory, which the processes see that are started by `before`."""

    def __init__(self, folder, kib):
        folder.mkdir()
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c",
             'mount -t tmpfs -o size="$1"k none "$0" && echo mounted && exec sleep 600',
             str(folder), str(kib)], stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout.readline() == "mounted\n"
        self.before = ("nsenter", "--target", str(self.keeper.pid), "--mount")
        self.seen = Path(f"/proc/{self.keeper.pid}/root{folder}")  # from outside

    def fill(self):
        with contextlib.suppress(OSError), (self.seen / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def leave(self, pages):
        filler = self.seen / "filler"
        os.truncate(filler, filler.stat().st_size - pages * 4096)

    def empty(self):
        (self.seen / "filler").unlink()

    def close(self):
        self.keeper.kill()
        rest_of(self.keeper)


@unittest.skipUnless(mounts_are_private(), "no mount namespace may be made here")
class SharedLog(ClusterFolder):
    def setUp(self):
        super().setUp()
        self.drive = SmallDrive(self.folder / "shared", 1024)
        self.addCleanup(self.drive.close)
        ports = [free_port() for _ in "ab"]
        self.candidates = [
            self.candidate(name, "--dataset", f"rows={self.data}", "--tcp", f"127.0.0.1:{port}",
                      "--cluster-log", str(self.folder / "shared"), before=self.drive.before)
            for name, port in zip("ab", ports)]
        self.agent = self.candidate("c", "--join",
                                    ",".join(f"tcp://127.0.0.1:{port}" for port in ports))

    def candidate(self, name, *arguments, **more):
        return self.member(name, "--lost-after", "1", *arguments, **more)

    def coordinator(self, after=0):
        return coordinator_of(self.candidates, after, seconds=60)

    def terms(self):
        return sorted(int(one.name[5:]) for one in self.drive.seen.glob("term.*"))

    def test_what_was_promised_outlives_terms_that_could_write_nothing(self):
        first = self.coordinator()
        wait_until(lambda: len(status(first.socket)["nodes"]) == 2, 30, "agents")
        options = {"order": "strict", "shuffle_seed": 3}
        expected = Job(self.agent, epochs=4, **options).result()
        jobs = [Job(node, epochs=4, pause=0.004, job_name=f"job-{name}", **options)
                for name, node in zip("abc", [*self.candidates, self.agent])]
        for job in jobs:
            job.begun()
        self.drive.fill()
        wait_until(lambda: "this node coordinates no more: make room" in first.text(), 30,
                   "its end")
        wait_until(lambda: self.terms()[-1] >= 3, 60, "a term that nothing could be written in")
        # The file of a term fits now, and its promises do not: they must not cost those before.
        self.drive.leave(1)
        last = term(self.coordinator(after=1))
        wait_until(lambda: sum("coordinates no more" in one.text() for one in self.candidates) > 1
                   or first.text().count("coordinates no more") > 1, 30, "the end of that term")
        self.drive.empty()
        now = self.coordinator(after=last)
        for job in jobs:
            self.assertEqual(job.result(), expected)
        back = re.findall(r"may come back: (.*)", now.text())[-1]
        self.assertEqual(set(back.split(", ")), {"job-a", "job-b", "job-c"})
        self.assertEqual([str(one) for one in self.drive.seen.glob("*.new")], [])
        say_recovery(jobs, "the drive with the shared log was full for some terms")
        self.check_all_end()


@unittest.skipUnless(mounts_are_private(), "no mount namespace may be made here")
class State(Cluster):
    """The folder of a node's state, `--state`."""

    def drive(self, name):
        (self.folder / name).mkdir()
        drive = SmallDrive(self.folder / name / "state", 256)
        self.addCleanup(drive.close)
        return drive

    def test_of_the_coordinator(self):
        self.coordinator.end()
        drive = self.drive("full")
        self.coordinator = self.node("full", "--dataset", f"rows={self.data}", "--tcp",
                                     f"127.0.0.1:{self.port}", "--cluster-token", str(self.token),
                                     before=drive.before)
        agent = self.agent("a")
        options = {"order": "strict", "shuffle_seed": 3}
        expected = Job(agent, epochs=5, **options).result()
        jobs = [Job(node, epochs=5, pause=0.003, **options) for node in [self.coordinator, agent]]
        for job in jobs:
            job.begun()
        drive.fill()
        # A job that comes is a promise that cannot be written.
        self.assertEqual(Job(agent, epochs=5, **options).result(), expected)
        wait_until(lambda: "the service goes on, and writes it anew" in self.coordinator.text(), 30,
                   "the complaint")
        self.coordinator.end()
        self.coordinator.start()
        self.wait_for_nodes({"a"})
        for job in jobs:
            self.assertEqual(job.result(), expected)
        self.check_all_end()

    def test_of_an_agent(self):
        drive = self.drive("a")
        agent = self.agent("a", before=drive.before)
        jobs = [Job(node, epochs=5, pause=0.003) for node in [self.coordinator, agent]]
        for job in jobs:
            job.begun()
        drive.fill()
        agent.end()
        agent.start()  # its name and its indices were written before
        self.wait_for_nodes({"a"})
        self.assertEqual(agent.end(signal.SIGTERM), 0)
        agent.start()
        self.wait_for_nodes({"a"})
        for job in jobs:
            self.check_epochs(job.result(), 5)
        self.check_all_end()

    def test_of_an_agent_that_comes_for_the_first_time(self):
        drive = self.drive("a")
        drive.fill()
        agent = self.agent("a", before=drive.before, joins=False, waits=False)
        self.assertNotEqual(agent.process.wait(30), 0)
        self.assertIn("No space left on device; write elsewhere (--state), or make room",
                      agent.text())
        # The index of the dataset does not fit, and is made anew each time.
        drive.leave(2)
        agent.start()
        self.wait_for_nodes({"a"})
        self.check_epochs(Job(agent).result())


@unittest.skipUnless(mounts_are_private(), "no mount namespace may be made here")
class FeedLog(Folder):
    def test_what_is_acknowledged_is_there_and_the_rest_comes_when_there_is_room(self):
        drive = SmallDrive(self.folder / "drive", 1024)
        self.addCleanup(drive.close)
        folder, schema = self.folder / "drive" / "clicks", f"i64[{WIDTH}]"
        subprocess.run([*drive.before, CTL, "feed", "create", str(folder), "--schema", schema],
                       check=True, stdout=subprocess.DEVNULL)
        daemon = Daemon(self.folder, "--dataset", f"clicks={folder}", before=drive.before)
        self.addCleanup(daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = daemon.socket

        def log():
            return daemon.status()["datasets"][0]["feed"]

        with batchflow.Feed(drive.seen / "clicks", "one", schema) as producer:
            for n in range(100):
                producer.put(record(n))
            producer.flush()
            drive.fill()
            for n in range(100, 400):
                producer.put(record(n))
            with self.assertRaisesRegex(batchflow.ServiceError, r"has not taken \d+ records in time"):
                producer.flush(timeout=2)
            acknowledged = producer.acknowledged
            self.assertGreaterEqual(acknowledged, 100)
            self.assertLess(acknowledged, 400)
            self.assertEqual(log()["problem"], "No space left on device")
            self.assertEqual(log()["end"], acknowledged)
            daemon.kill()
            daemon.start()
            wait_until(lambda: daemon.status()["datasets"], 30, "the feed")
            self.assertEqual(log()["end"], acknowledged)
            drive.empty()
            for n in range(400, 500):
                producer.put(record(n))
            producer.flush()
            self.assertEqual((log()["end"], log()["problem"]), (500, ""))
            producer.end()
        had = []
        for batch in batchflow.DataLoader(batchflow.Live("clicks", fill=None), 10):
            had += [row[0] for row in batch[0].tolist()][:batch.samples - batch.fillers]
        self.assertEqual(had, list(range(500)))


if __name__ == "__main__":
    unittest.main()
