"""Daemons that end with the process that wants them, however that ends, and are started again."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

from batchflow import kept
from support import Folder, lives, wait_until

# Writes its process's number, and goes on.
DAEMON = """
import os, signal, sys, time
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(300)
"""
OWNER = """
import sys, time
from pathlib import Path
from batchflow.kept import KeptDaemon
KeptDaemon(lambda: sys.argv[2:], Path(sys.argv[1])).start()
time.sleep(300)
"""


class Kept(Folder):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "process"

    def command(self, kind="plain"):
        return [sys.executable, "-c", DAEMON, str(self.file), kind]

    def started(self, kind="plain"):
        daemon = kept.KeptDaemon(lambda: self.command(kind), self.folder / "log")
        self.addCleanup(daemon.stop)
        daemon.start()
        return daemon

    def next_process(self):
        wait_until(self.file.exists, 30, "the daemon")
        process = int(self.file.read_text())
        self.file.unlink()
        return process

    def test_it_ends_when_it_is_stopped(self):
        daemon = self.started()
        process = self.next_process()
        self.assertNotEqual(os.getsid(process), os.getsid(0))
        daemon.stop()
        self.assertFalse(lives(process))
        daemon.stop()

    def test_it_is_killed_where_it_does_not_end(self):
        with mock.patch.object(kept, "GRACE_S", 0.3):
            daemon = self.started("stubborn")
            process = self.next_process()
            daemon.stop()
        self.assertFalse(lives(process))

    def test_it_has_as_long_as_its_end_may_take(self):
        daemon = self.started("stubborn")
        process = self.next_process()
        begun = time.monotonic()
        daemon.stop(0.3)
        self.assertLess(time.monotonic() - begun, kept.GRACE_S / 2)
        self.assertFalse(lives(process))

    def test_it_is_started_again(self):
        daemon = self.started()
        os.kill(self.next_process(), signal.SIGKILL)
        os.kill(self.next_process(), signal.SIGTERM)
        before = self.next_process()
        daemon.restart()
        process = self.next_process()
        self.assertFalse(lives(before))
        self.assertTrue(lives(process))
        self.assertEqual(daemon.starts, 4)

    def test_a_daemon_that_is_not_there_is_looked_for_again(self):
        daemon = kept.KeptDaemon(lambda: [str(self.folder / "program")], self.folder / "log")
        self.addCleanup(daemon.stop)
        daemon.start()
        wait_until(lambda: daemon.starts > 1, 30, "another start")
        self.assertIn("No such file", (self.folder / "log").read_text())

    def owner(self):
        owner = subprocess.Popen([sys.executable, "-c", OWNER, str(self.folder / "log"),
                                  *self.command()])
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        return owner

    def test_it_ends_with_a_process_that_is_killed(self):
        owner = self.owner()
        process = self.next_process()
        owner.kill()
        wait_until(lambda: not lives(process), 30, "the daemon's end")

    def test_it_ends_with_its_keeper(self):
        self.started()
        process = self.next_process()
        keeper = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not lives(process), 30, "the daemon's end")
        self.assertTrue(lives(self.next_process()))


if __name__ == "__main__":
    unittest.main()
