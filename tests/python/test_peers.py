"""The benchmark beside other loaders: that it runs, and that its checks notice what they are there
to notice. The whole of it is `./dev bench peers`."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from support import HERE, Folder, needs

PEERS = HERE.parent.parent / "tools" / "bench" / "peers"
sys.path[:0] = [str(PEERS), str(PEERS.parent)]


@needs("numpy")
@needs("PIL")
class Peers(Folder):
    def run_it(self, *arguments):
        return subprocess.run(
            [sys.executable, str(PEERS / "main.py"), "--pictures", "48", "--jobs", "2", "--batch",
             "8", "--types", "float32", "--no-paced", "--seconds", "0", "--rows", "100",
             "--row-jobs", "1,3", *arguments],
            env={**os.environ, "BATCHFLOW_BUILD": str(self.folder)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300, text=True)

    def test_a_run(self):
        out = self.folder / "out.json"
        page, picture = self.folder / "page.md", self.folder / "plot.svg"
        page.write_text("before\n<!-- measured -->\nof an earlier run\n<!-- end of what was measured -->\nafter\n")
        done = self.run_it("--peers", "batchflow_,pytorch", "--rounds", "1", "--json", str(out),
                           "--write", str(page), "--plot", str(picture), "--no-rows")
        self.assertEqual(done.returncode, 0, done.stdout)
        ours, *others = json.loads(out.read_text())["results"]
        (run,) = ours["runs"]
        self.assertEqual([run[name] for name in ("samples", "epochs", "missing", "repeated",
                                                 "unknown")], [96, 2, 0, 0, 0])
        # This counts the epochs before the measured ones, and blocks that were ready in the end.
        self.assertGreaterEqual(run["delivered_samples"], 384)
        self.assertGreater(run["first_s"], 0)
        self.assertEqual(len(run["start_per_s"]), 3)
        for other in others:  # where PyTorch is installed
            self.assertEqual(other["runs"][0]["samples"], 96, done.stdout)
        self.assertIn("| BatchFlow, tuned |", page.read_text())
        self.assertIn("| first batch, s | first epoch, samples/s |", page.read_text())
        self.assertNotIn("of an earlier run", page.read_text())
        self.assertIn("<polyline", picture.read_text())

    def test_it_goes_on_where_it_was_cut_short_and_with_nothing_else(self):
        out = self.folder / "out.json"
        kept = ["--peers", "batchflow_", "--json", str(out), "--go-on", "--no-rows"]
        self.assertEqual(self.run_it(*kept, "--rounds", "1").returncode, 0)
        first = json.loads(out.read_text())
        self.assertEqual(self.run_it(*kept, "--rounds", "2").returncode, 0)
        second = json.loads(out.read_text())
        self.assertEqual([first["rounds"], second["rounds"]], [1, 2])
        (before,), (after,) = first["results"], second["results"]
        self.assertEqual(after["runs"][:1], before["runs"])
        self.assertEqual(len(after["runs"]), 2)
        done = self.run_it(*kept, "--rounds", "2", "--batch", "4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is of other peers, cases, options or another machine", done.stdout)
        self.assertEqual(json.loads(out.read_text()), second)

    def test_rows_and_a_service_with_defaults(self):
        out, page = self.folder / "out.json", self.folder / "page.md"
        page.write_text("<!-- measured -->\n<!-- end of what was measured -->\n")
        done = self.run_it("--peers", "batchflow_default,batchflow_small,numpy_mmap", "--rounds",
                           "1", "--json", str(out), "--write", str(page), "--no-pictures")
        self.assertEqual(done.returncode, 0, done.stdout)
        results = json.loads(out.read_text())["results"]
        self.assertEqual([(result["peer"], result["row_bytes"], result["jobs"])
                          for result in results],
                         [(peer, row_bytes, jobs) for row_bytes in (64, 4096) for jobs in (1, 3)
                          for peer in ("BatchFlow, defaults", "NumPy memory map")])
        for result in results:
            (run,) = result["runs"]
            self.assertEqual([run[name] for name in ("samples", "missing", "repeated", "unknown")],
                             [100 * result["jobs"], 0, 0, 0])
        self.assertIn("**Rows of 4096 bytes, 3 jobs at full speed**", page.read_text())

    def test_who_takes_part(self):
        import importlib

        import main
        for name in main.PEERS:
            module = importlib.import_module("peers." + name)
            takes = [main.takes_part(module, {"what": what, "jobs": 64})
                     for what in ("speed", "rows")]
            self.assertEqual(takes, [name != "numpy_mmap", name in (
                "batchflow_default", "batchflow_", "pytorch", "numpy_mmap")], name)

    def test_rates_of_the_start_are_of_all_jobs(self):
        import runs
        first = {"first_s": 0.5, "began": 10.0, "ends": [12.0, 13.0], "samples": [100, 200]}
        second = {"first_s": 1.5, "began": 11.0, "ends": [15.0, 16.0], "samples": [100, 200]}
        self.assertEqual(runs.started([first, second]),
                         {"first_s": 1.5, "start_per_s": [200 / 5, 400 / 6]})

    def test_a_format_is_written_once_and_anew_after_a_cut(self):
        sys.path.insert(0, str(PEERS / "peers"))
        import stored
        folder, written = self.folder / "format", []

        def write(to):
            to.mkdir()
            written.append(to)
            if len(written) == 1:
                raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            stored.write_once(folder, write)
        seconds = stored.write_once(folder, write)
        self.assertEqual(stored.write_once(folder, write), seconds)
        self.assertEqual(written, [folder, folder])

    def test_what_pip_says_is_wrong(self):
        import environment
        advice = "note: from a subprocess\nhint: See above for details.\n"
        self.assertEqual(environment._reason("x\n  OSError: no compiler\n  [end]\n" + advice),
                         "OSError: no compiler")
        self.assertEqual(environment._reason("ERROR: no version\n" + advice), "ERROR: no version")
        self.assertEqual(environment._reason("Killed\n"), "Killed")
        self.assertEqual(environment._reason(""), "it printed nothing")

    def test_packages_without_dependencies_come_last_and_are_remembered(self):
        import environment
        commands = []

        def run(command, **unused):
            commands.append(command)
            (self.folder / "python" / "peer").mkdir(parents=True, exist_ok=True)
            return subprocess.CompletedProcess(command, 0)
        with mock.patch.object(environment, "BUILD", self.folder), \
                mock.patch.object(subprocess, "run", run):
            def install(**options):
                commands.clear()
                self.assertIsNone(environment.install("peer", ["needed"], False, **options)[1])
                return [command[command.index("install") + 1:] for command in commands
                        if "install" in command]
            others, last = install(without_dependencies=["peer"])
            self.assertEqual([others[-1], last[-2:]], ["needed", ["--no-deps", "peer"]])
            self.assertNotIn("--no-deps", others)
            self.assertEqual(install(without_dependencies=["peer"]), [])
            self.assertEqual(len(install()), 1)
            self.assertEqual(install(), [])

    def test_a_peer_names_the_system_packages_that_it_needs(self):
        import runs
        (self.folder / "pkg-config").write_text('#!/bin/sh\n[ "$2" = there ]\n')
        (self.folder / "pkg-config").chmod(0o755)
        peer = mock.Mock(PACKAGES=["needed"], WITHOUT_DEPENDENCIES=["peer"], WITH_SYSTEM=True,
                         BUILT_WITH={"there": "libthere-dev", "absent": "libabsent-dev"})
        install = mock.Mock(return_value=(Path("python"), "no network"))
        with mock.patch.dict(os.environ, PATH=f"{self.folder}:/usr/bin:/bin"):
            self.assertEqual(runs.interpreter_of(peer, install)[1], "it is built from source, which "
                             "needs the system's packages libabsent-dev")
            install.assert_not_called()
            peer.BUILT_WITH.pop("absent")
            self.assertEqual(runs.interpreter_of(peer, install), ("python", "no network"))
        install.assert_called_once_with("peer", ["needed"], True, without_dependencies=["peer"])
        with mock.patch.dict(os.environ, PATH=str(self.folder / "none")):
            self.assertEqual(runs.absent_system_packages(peer.BUILT_WITH),
                             ["pkg-config", "libthere-dev"])
            self.assertEqual(runs.absent_system_packages({}), [])

    def test_what_is_left_behind_counts_and_is_ended(self):
        import took
        took.adopt_orphans()
        before, _ = took.used()
        # A process with a child that works for half a second, and sleeps when its parent is gone.
        busy = ("import time\nwhile time.process_time() < 0.5: pass\n"
                "print('done', flush=True)\ntime.sleep(600)")
        parent = ("import subprocess, sys\n"
                  f"child = subprocess.Popen([sys.executable, '-c', {busy!r}], "
                  "stdout=subprocess.PIPE)\nchild.stdout.readline()\nprint(child.pid)")
        child = int(subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE,
                                   check=True, timeout=60).stdout)
        os.kill(child, 0)
        took.end_orphans()
        with self.assertRaises(ProcessLookupError):
            os.kill(child, 0)
        self.assertGreater(took.used()[0] - before, 0.45)

    def test_ratios_are_of_rounds(self):
        import report
        theirs = {"peer": "PyTorch DataLoader", "what": "speed", "runs": [
            {"samples_per_s": one} for one in (100, 200, 400)]}
        ours = {"peer": "BatchFlow", "what": "speed", "runs": [
            {"samples_per_s": one} for one in (200, 1000, 1200)]}
        self.assertEqual(report._beside(ours, [ours, theirs], "PyTorch DataLoader"),
                         "3.00 (2.00 to 5.00)")

    def test_a_plots_axis_is_from_below_all_to_above_them(self):
        import lines
        self.assertEqual(lines.ticks([88, 36846]), [50, 100, 200, 500, 1000, 2000, 5000, 10**4,
                                                    2 * 10**4, 5 * 10**4])
        self.assertEqual(lines.ticks([100, 100]), [100, 200])

    def test_what_is_missing_twice_or_of_another_shape_is_counted(self):
        import consumer
        import numpy
        options = {"float": False, "pictures": 4, "batch": 3}
        job = consumer.Job(options)
        pictures = numpy.zeros((3, 3, 224, 224), numpy.uint8)
        job.take([0, 1, 1], pictures)
        self.assertEqual(job.visited(), {"missing": 2, "repeated": 1, "unknown": 0})
        job.take([2, 9, 3], pictures)
        self.assertEqual(job.visited(), {"missing": 0, "repeated": 1, "unknown": 1})
        self.assertEqual(job._problem, "")
        job.take([0, 1, 2], pictures.astype(numpy.float32))
        self.assertIn("float32 (3, 3, 224, 224), not uint8", job._problem)

    def test_rows_that_are_missing_twice_or_of_another_shape_are_counted(self):
        import consumer
        import numpy
        job = consumer.RowsJob({"rows": 4, "row_bytes": 8, "batch": 3})
        rows = numpy.array([[0, 0.5], [1, 0.5], [1, 0.5]], numpy.float32)
        job.accept(rows)
        self.assertEqual(job.visited(), {"missing": 2, "repeated": 1, "unknown": 0})
        job.accept(numpy.array([[9, 0.5], [3, 0.5]], numpy.float32))
        self.assertEqual(job.visited(), {"missing": 1, "repeated": 1, "unknown": 1})
        for _ in range(2):  # more than two epochs at once
            job.accept(rows)
        self.assertEqual(job.visited()["unknown"], 4)
        job.forget()
        job.accept(rows[:1])
        self.assertEqual(job.visited(), {"missing": 3, "repeated": 0, "unknown": 0})
        self.assertEqual(job._problem, "")
        job.accept(rows[:, :1])
        self.assertIn("float32 (3, 1), not float32 (3, 2)", job._problem)

    def test_pictures_that_come_again_as_they_were_are_counted(self):
        import consumer
        import numpy
        drawn = numpy.random.default_rng(5)
        pixels = consumer.Pixels(4)
        first = drawn.integers(0, 256, (4, 3, 224, 224), numpy.uint8)
        pixels.look([0, 1, 2, 3], first)
        self.assertEqual(pixels.unchanged, 0)
        pixels.look([3, 1], first[[3, 0]])  # 3 as before, 1 as another
        self.assertEqual(pixels.unchanged, 1)
        values = pixels.values()
        self.assertAlmostEqual(values["mean"], 127.5, delta=5)
        self.assertAlmostEqual(values["deviation"], 73.9, delta=3)


if __name__ == "__main__":
    unittest.main()
