"""Without a service: the first script starts one, the next ones find it, and it ends by itself."""

import os
import re
import signal
import subprocess
import time
import unittest
import unittest.mock
import urllib.request
import warnings
from pathlib import Path

import batchflow
from batchflow import arguments, embedded
from support import (CTL, DAEMON, Folder, listens, rest_of, result, run_python, start_job, status,
                     wait_until, write_rows)


class Embedded(Folder):
    # As large as a photograph: of a small row a direct read takes whole pages before and behind.
    ROWS = 400
    WIDTH = 16384  # 128 KiB a row

    def setUp(self):
        super().setUp()
        self.data = self.folder / "rows"
        self.data.mkdir()
        os.environ.update(BATCHFLOW_IDLE_S="60", BATCHFLOW_DAEMON=DAEMON)
        self.socket = self.folder / "xdg_runtime_dir" / "batchflow" / "batchflow.sock"
        self.addCleanup(self.end)

    def rows(self, rows=ROWS, width=WIDTH):
        write_rows(self.data / "rows.npy", rows, width)
        return rows * width * 8

    def end(self):
        """Ends services also when a test fails."""
        for process in self.daemons():
            os.kill(process, signal.SIGKILL)

    def daemons(self):
        """Processes of batchflowd that listen in this test's folder."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.socket).encode() in (
                        entry / "cmdline").read_bytes() and (
                        entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def options(self, **more):
        return {"cache_limit": "512mib", "target_workers": 2, **more}

    def test_two_scripts_a_while_apart_read_the_data_once(self):
        size = self.rows()
        os.environ["BATCHFLOW_IDLE_S"] = "4"
        first = start_job("keys_of", str(self.data), {}, 0.3, 2)
        wait_until(lambda: listens(self.socket), 30, "the service")
        (daemon,) = self.daemons()
        time.sleep(2)
        self.assertIsNone(first.poll())
        second = start_job("keys_of", str(self.data), {}, 0.1, 2)
        wait_until(lambda: len(status(self.socket)["jobs"]) == 2, 30, "the second job")
        self.assertEqual(self.daemons(), [daemon])
        for job in (second, first):
            for keys in result(job)["epochs"]:
                self.assertEqual(sorted(keys), list(range(self.ROWS)))
        counted = status(self.socket)
        read = counted["read_bytes"]
        of_storage = int(next(line for line in Path(f"/proc/{daemon}/io").read_text().splitlines()
                              if line.startswith("read_bytes")).split()[1])
        self.assertGreaterEqual(read, size)
        self.assertLessEqual(read, 1.05 * size)
        self.assertLessEqual(of_storage, 1.05 * size)
        wait_until(lambda: not self.daemons(), 20, "the service's end")
        self.assertFalse(self.socket.exists())

    def test_it_has_a_page_at_a_port_that_is_free(self):
        self.rows(400, 8)
        result(start_job("keys_of", str(self.data), {}, 0, 1))
        page = status(self.socket)["page"]
        self.assertRegex(page, r"^http://127\.0\.0\.1:\d+/$")
        with urllib.request.urlopen(page, timeout=30) as answer:
            self.assertIn(b"BatchFlow", answer.read())
        said = subprocess.run([CTL, "--service", self.socket, "status"], stdout=subprocess.PIPE,
                              text=True, check=True, timeout=30).stdout
        self.assertIn(f"page        {page}\n", said)
        # The address with a key shows the path, and that without none.
        with_names = re.search(r" (http://\S+\?key=\w+) has all names", said).group(1)
        for address, shows in ((page, False), (with_names, True)):
            with urllib.request.urlopen(address, timeout=30) as answer:
                self.assertEqual(str(self.data) in answer.read().decode(), shows)

    def test_scripts_that_start_at_one_instant_start_one_service(self):
        self.rows(400, 8)
        jobs = [start_job("keys_of", str(self.data), {}, 0.05) for _ in range(6)]
        most = 0
        while any(job.poll() is None for job in jobs):
            most = max(most, len(self.daemons()))
            time.sleep(0.02)
        for job in jobs:
            self.assertEqual(sorted(result(job)["epochs"][0]), list(range(400)))
        self.assertEqual(most, 1)

    def test_the_socket_of_a_service_that_was_killed_is_taken_over(self):
        self.rows(400, 8)
        self.assertEqual(len(result(start_job("keys_of", str(self.data)))["epochs"][0]), 400)
        (daemon,) = self.daemons()
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: not self.daemons(), 10, "its end")
        self.assertTrue(self.socket.exists())
        self.assertEqual(len(result(start_job("keys_of", str(self.data)))["epochs"][0]), 400)

    def test_a_service_killed_while_scripts_run_is_started_again_by_one_of_them(self):
        self.rows(2000, 8)
        jobs = [start_job("keys_of", str(self.data), self.options(), 0.05) for _ in range(2)]
        wait_until(lambda: listens(self.socket) and len(status(self.socket)["jobs"]) == 2, 30,
                   "both jobs")
        time.sleep(0.5)
        (daemon,) = self.daemons()
        os.kill(daemon, signal.SIGKILL)
        for job in jobs:
            made = result(job)
            self.assertEqual(sorted(made["epochs"][0]), list(range(2000)))
            self.assertEqual(made["times"]["reconnects"], 1)
        self.assertEqual(len(self.daemons()), 1)
        self.assertNotEqual(self.daemons(), [daemon])

    def test_a_part_of_a_path_and_tokens(self):
        self.rows(400, 8)

        def keys(**part):
            loader = batchflow.DataLoader(self.data, 50, output="memoryview", **part)
            names = [loader.sample_name(key) for batch in loader for key in batch.sample_keys]
            return set(names)
        train, val = keys(split={"fraction": 0.9}), keys(split={"fraction": 0.9, "part": "rest"})
        self.assertEqual((len(train | val), len(train & val)), (400, 0))
        self.assertEqual(keys(split={"keys": "0-9"}), {f"rows.npy:{row}" for row in range(10)})
        text = self.folder / "text.u16"
        text.write_bytes(bytes(2 * 1000))
        with self.assertRaisesRegex(batchflow.RefusedError, "in Python tokens=1024"):
            next(iter(batchflow.DataLoader(text, 4)))
        self.assertEqual(len(batchflow.DataLoader(text, 4, tokens=100)), 3)
        for wrong, why in (({"part of": 1}, "it may say fraction"), ({}, "write a rule"),
                           ({"classes": ["a:b"]}, "has a comma, colon or plus")):
            with self.assertRaisesRegex(ValueError, why):
                batchflow.DataLoader(self.data, split=wrong)
        with self.assertRaisesRegex(ValueError, "'rows:train' is a split of it"):
            batchflow.DataLoader("rows", split={"fraction": 0.9})

    def test_ctrl_c_at_the_script_does_not_end_the_service(self):
        self.rows(400, 8)
        job = start_job("until_killed", str(self.data))
        self.assertEqual(job.stdout.readline(), b"begun\n")
        (daemon,) = self.daemons()
        self.assertEqual(os.getpgid(daemon), daemon)
        job.send_signal(signal.SIGINT)
        rest_of(job)
        self.assertEqual(self.daemons(), [daemon])

    def test_what_stands_in_the_way_is_said(self):
        self.rows(400, 8)
        with self.assertRaisesRegex(batchflow.NoServiceError, "no service answers"):
            next(iter(batchflow.DataLoader("rows")))  # a name, and there is no service to know it
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.data.parent)
        with self.assertRaisesRegex(batchflow.NoServiceError, f"write './{self.data.name}'"):
            next(iter(batchflow.DataLoader(self.data.name)))
        os.environ["BATCHFLOW_EMBEDDED"] = "0"
        with self.assertRaisesRegex(batchflow.NoServiceError, "no service answers"):
            next(iter(batchflow.DataLoader(self.data)))
        del os.environ["BATCHFLOW_EMBEDDED"]
        with self.assertRaisesRegex(batchflow.NoServiceError, "did not start: .*memory: 1 MiB are "
                                    "too little"):
            next(iter(batchflow.DataLoader(self.data, cache_limit="1mib")))
        with self.assertRaisesRegex(ValueError, "nothing-here cannot be read: No such file"):
            next(iter(batchflow.DataLoader("/nothing-here")))
        os.environ["LOCAL_WORLD_SIZE"] = "1"
        with self.assertRaisesRegex(batchflow.NoServiceError, "1 of 2 ranks are on this machine"):
            next(iter(batchflow.DataLoader(self.data, rank=0, world_size=2, job_name="x")))
        os.environ["BATCHFLOW_DAEMON"] = "/nothing-here"
        with self.assertRaisesRegex(batchflow.NoServiceError, "to start at /nothing-here"):
            embedded.daemon()
        os.environ["PATH"] = "/nothing-here"
        os.environ["BATCHFLOW_LIBRARY"] = "/nothing-here/lib/x.so"
        with self.assertRaisesRegex(batchflow.NoServiceError, "there is no batchflowd to start"):
            embedded.daemon()
        self.assertEqual(self.daemons(), [])

    def test_places_may_be_said_from_where_the_script_is(self):
        self.addCleanup(os.chdir, os.getcwd())
        build = Path(DAEMON).parent.parent
        os.chdir(build)
        os.environ["BATCHFLOW_DAEMON"] = os.path.join("bin", os.path.basename(DAEMON))
        embedded.ensure()
        self.assertEqual(len(self.daemons()), 1)
        for name in ("BATCHFLOW_DAEMON", "PATH"):
            del os.environ[name]
        os.environ["BATCHFLOW_LIBRARY"] = "lib/libbatchflow_client.so"
        self.assertEqual(embedded.daemon(), str(build / "bin" / "batchflowd"))
        # Other than a folder at run time: those are the same for every script.
        os.environ["XDG_RUNTIME_DIR"] = "lib"
        self.assertIsNone(embedded._from_environment("XDG_RUNTIME_DIR"))

    def test_the_service_is_not_bound_to_the_processors_of_the_first_script(self):
        own = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, own)
        os.sched_setaffinity(0, {min(own)})
        embedded.ensure()
        self.assertEqual(os.sched_getaffinity(0), {min(own)})
        (daemon,) = self.daemons()
        self.assertGreaterEqual(os.sched_getaffinity(daemon), own)

    def test_a_script_that_outlives_its_service_keeps_nothing_of_it(self):
        os.environ["BATCHFLOW_IDLE_S"] = "1"
        done = run_python("""
import warnings; warnings.simplefilter("error", ResourceWarning)
import os, time
from pathlib import Path
from batchflow import embedded
embedded.ensure()
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text
assert children()
deadline = time.monotonic() + 30
while children():
    assert time.monotonic() < deadline
    time.sleep(0.05)
os.environ["BATCHFLOW_IDLE_S"] = "60"
embedded.ensure()  # is there when the script ends
""")
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))

    def test_who_did_not_start_the_service_is_told_that_his_limits_have_no_effect(self):
        self.rows(40, 8)
        arguments._said.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with batchflow.DataLoader(self.data, **self.options()) as loader:
                len(loader)
            self.assertEqual(said, [])
            for options in (self.options(), {"target_workers": 3}, {}):
                with batchflow.DataLoader(self.data, **options) as loader:
                    len(loader)
        (only,) = said
        self.assertIn("target_workers have no effect: they were decided", str(only.message))
        self.assertTrue(only.filename.endswith("test_embedded.py"), only.filename)

    def test_a_rank_waits_for_the_others_once(self):
        self.rows(40, 8)
        embedded.ensure()
        loader = batchflow.DataLoader(self.data, rank=0, world_size=2, job_name="x", timeout=0.5)
        wait = unittest.mock.patch.object(arguments, "DEFAULT_TIMEOUT_S", 0.5)
        with wait, unittest.mock.patch.object(embedded, "Session", wraps=embedded.Session) as asked:
            with self.assertRaisesRegex(batchflow.NoServiceError, "all of its 2 ranks"):
                len(loader)
        self.assertEqual(asked.call_count, 1)

    def test_a_folder_that_cannot_be_used_is_said(self):
        os.environ["XDG_RUNTIME_DIR"] = "/dev/null"
        with self.assertRaisesRegex(batchflow.NoServiceError, "/dev/null.*; set XDG_RUNTIME_DIR"):
            embedded.ensure()
        os.environ["XDG_RUNTIME_DIR"] = str(self.folder / "read-only")
        (self.folder / "read-only" / "batchflow" / "embedded.lock").mkdir(parents=True)
        with self.assertRaisesRegex(batchflow.NoServiceError, "embedded.lock.*; set XDG_RUNTIME"):
            embedded.ensure()

    def test_a_folder_of_somebody_else_is_not_used(self):
        folder = self.socket.parent
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        with self.assertRaisesRegex(batchflow.NoServiceError, "is not this user's own folder"):
            embedded.runtime_folder()
        folder.chmod(0o700)
        self.assertEqual(embedded.runtime_folder(), folder)

    def test_without_a_run_time_folder_the_library_looks_where_it_was_started(self):
        self.rows(400, 8)
        del os.environ["XDG_RUNTIME_DIR"]
        folder = Path(f"/tmp/batchflow-{os.geteuid()}")
        if folder.exists():
            self.skipTest(f"{folder} is there: this user runs a service")
        self.socket = folder / "batchflow.sock"
        try:
            self.assertEqual(len(result(start_job("keys_of", str(self.data)))["epochs"][0]), 400)
            # By the library alone, which does not start any.
            os.environ["BATCHFLOW_EMBEDDED"] = "0"
            self.assertEqual(len(result(start_job("keys_of", str(self.data)))["epochs"][0]), 400)
        finally:
            self.end()
            wait_until(lambda: not self.daemons(), 10, "its end")
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()


if __name__ == "__main__":
    unittest.main()
