"""Which tests ./dev test leaves out, in a small project."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES NONE)
enable_testing()
add_custom_target(sanitized_tests)
add_custom_target(all_sanitized_tests)
add_custom_target(tests_had_once)
set(bin ${CMAKE_BINARY_DIR}/bin)
add_test(NAME small.alone COMMAND ${bin}/test_alone --source-file=*/alone_test.cpp)
add_test(NAME small.pages COMMAND ${bin}/test_alone --source-file=*/pages_test.cpp)
add_test(NAME small.starts COMMAND ${bin}/test_starts)
add_test(NAME small.reads COMMAND sh ${CMAKE_SOURCE_DIR}/outcome_of.sh reads)
add_test(NAME small.long COMMAND true)
set_tests_properties(small.long PROPERTIES LABELS long)
add_test(NAME small.once COMMAND true)
set_tests_properties(small.once PROPERTIES LABELS once)
add_test(NAME boundaries.includes COMMAND true)
set_tests_properties(small.reads PROPERTIES SKIP_RETURN_CODE 77)
"""
PRESETS = """{"version": 5, "configurePresets": [
  {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"},
  {"name": "dev", "generator": "Ninja", "binaryDir": "${sourceDir}/build/dev"}]}
"""
ENVIRONMENT = {**os.environ, "BATCHFLOW_NO_INSTALL": "1"}
ALWAYS = {"boundaries.includes"}
ALL = ALWAYS | {"small.alone", "small.pages", "small.starts", "small.reads"}


@unittest.skipUnless(shutil.which("git") and shutil.which("dpkg-query"),
                     "git and dpkg are needed to remember what passed")
class Remembered(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        subprocess.run(["git", "init", "--quiet", self.tree], check=True)
        for name in ("dev", "tests/outcome/count.py", "tests/outcome/remembered.py"):
            self.write(name, (ROOT / name).read_text())
        (self.tree / "dev").chmod(0o755)
        self.write("CMakeLists.txt", PROJECT)
        self.write("CMakePresets.json", PRESETS)
        self.write("tests/skips.txt", "small.reads: reads: *\n")
        self.write(".gitignore", "/build/\n/outcome\n/waits\n")
        self.write("outcome_of.sh", "echo 'skipped: reads: no folder'; exit $(cat ${0%/*}/outcome)\n")
        self.write("outcome", "0")
        self.write("data.txt", "1")
        self.write("docs/page.md", "1")
        self.write("tests/alone_test.cpp", "// Reads no page of docs/.\n")
        self.write("tests/pages_test.cpp", 'const char* page = "docs/page.md";\n')
        self.write("build/release/bin/test_starts", "#!/bin/sh\n", 0o755)
        self.write("build/release/bin/program", "#!/bin/sh\n", 0o755)
        subprocess.run(["c++", "-x", "c++", "-", "-o", self.tree / "build/release/bin/test_alone"],
                       input="int main() {}", text=True, check=True)

    def write(self, name, text, mode=0o644):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text)
        (self.tree / name).chmod(mode)

    def append(self, name, text):
        with (self.tree / name).open("a") as file:
            file.write(text)

    def assert_runs(self, expected, *arguments, rc=0):
        """What it printed."""
        done = subprocess.run(["./dev", "test", *arguments], cwd=self.tree, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        started = {line.split()[-1] for line in done.stdout.splitlines()
                   if line.lstrip().startswith("Start ")}
        self.assertEqual((started, done.returncode), (expected, rc), done.stdout)
        return done.stdout

    def test_what_has_changed_runs_again(self):
        self.assertNotIn("passed before", self.assert_runs(ALL))
        self.append("tests/alone_test.cpp", "// Only a compiler reads this.\n")
        printed = self.assert_runs(ALWAYS)
        self.assertIn("4 tests passed before with the same programs and files, and were not run "
                      "again (--again runs them).\n\n1 passed, 0 failed, 0 skipped\n", printed)
        self.append("data.txt", "2")
        self.assert_runs(ALL)
        self.write("more.txt", "git does not know this file yet")
        self.assert_runs(ALL)
        self.append("docs/page.md", "2")
        self.assert_runs(ALL - {"small.alone"})
        self.append("build/release/bin/test_alone", "changed")
        self.assert_runs(ALWAYS | {"small.alone", "small.pages"})
        self.append("build/release/bin/program", "# changed")
        self.assert_runs(ALWAYS | {"small.starts", "small.reads"})
        self.assert_runs({"small.alone"}, "-R", "alone")
        self.assert_runs({"small.long"}, "--label", "long")
        self.assert_runs(ALL, "--again")

    def test_only_what_passed_is_remembered(self):
        self.write("outcome", "1")
        self.assert_runs(ALL, rc=1)
        self.write("outcome", "77")
        self.assert_runs(ALWAYS | {"small.reads"})  # it had failed
        self.write("outcome", "0")
        self.assert_runs(ALWAYS | {"small.reads"})  # it was skipped
        self.assert_runs(ALWAYS)
        self.write("outcome", "1")
        self.assert_runs({"small.reads"}, "-R", "reads", rc=1)
        self.assert_runs(ALWAYS | {"small.reads"}, rc=1)  # it passed once, and then failed

    def test_an_interrupted_run_keeps_what_had_passed(self):
        # Without a test that always runs.
        self.write("CMakeLists.txt", PROJECT.replace("boundaries.includes", "small.empty") + """
add_test(NAME small.waits COMMAND sh -c "test ! -e waits || sleep 60")
set_tests_properties(small.waits PROPERTIES WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  DEPENDS "small.alone;small.pages;small.starts;small.reads;small.empty")
""")
        self.write("waits", "")
        with subprocess.Popen(["./dev", "test"], cwd=self.tree, text=True, start_new_session=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=ENVIRONMENT) as run:
            while line := run.stdout.readline():
                if line.endswith(": small.waits\n"):
                    break
            os.killpg(run.pid, signal.SIGKILL)
        (self.tree / "waits").unlink()
        self.assert_runs({"small.waits"})
        self.assertIn("\n0 passed, 0 failed, 0 skipped\n", self.assert_runs(set()))


if __name__ == "__main__":
    unittest.main()
