"""What `./dev build portable` makes needs nothing of another machine but its C library. A long test,
as everything is compiled anew."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent
PROGRAMS = ("batchflowd", "batchflowctl", "batchflow-live", "batchflow-policy-child",
            "batchflow-step-worker")
OF_GLIBC = r"(lib(c|m|dl|rt|pthread|resolv)|ld-linux.*)\.so\..*"
TRAINS = """
import numpy, sys, batchflow
numpy.save(sys.argv[1], numpy.arange(64, dtype=numpy.int32).reshape(64, 1))
loader = batchflow.DataLoader(sys.argv[1], batch_size=8, shuffle=True)
assert sorted(int(row[0]) for (rows,) in loader for row in rows) == list(range(64))
"""


class Portable(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([SOURCE / "dev", "build", "portable"], check=True, timeout=6000,
                       stdout=subprocess.DEVNULL)
        cls.build = SOURCE / "build" / "portable"

    def files(self):
        return [*(self.build / "bin" / name for name in PROGRAMS),
                *self.build.glob("lib/libbatchflow_client.so.1"),
                *self.build.glob("lib/libbatchflow_device.so.1"),
                *self.build.rglob("batchflow_batches*.so")]

    def test_programs_need_the_c_library_alone(self):
        self.assertGreaterEqual(len(self.files()), 7)
        for path in self.files():
            said = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            needed = [name for name in re.findall(r"NEEDED.*\[(.*)\]", said)
                      if not name.startswith("libbatchflow_")]
            self.assertTrue(needed, path)
            for name in needed:
                self.assertRegex(name, OF_GLIBC, f"{path} needs {name}")

    def test_nothing_of_what_is_linked_in_is_seen(self):
        (library,) = self.build.glob("lib/libbatchflow_client.so.1")
        said = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE,
                              text=True, check=True).stdout
        names = [line.split()[-1] for line in said.splitlines()]
        self.assertTrue(names)
        self.assertEqual([name for name in names if not re.match(r"bf_|BATCHFLOW", name)], [])

    def test_a_job_is_served(self):
        folder = Path(tempfile.mkdtemp(prefix="batchflow-portable-"))
        self.addCleanup(shutil.rmtree, folder)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("BATCHFLOW", "XDG"))}
        environment.update(PYTHONPATH=str(SOURCE / "python"), XDG_RUNTIME_DIR=str(folder),
                           XDG_STATE_HOME=str(folder),
                           BATCHFLOW_DAEMON=str(self.build / "bin" / "batchflowd"),
                           BATCHFLOW_LIBRARY=str(self.build / "lib" / "libbatchflow_client.so.1"))
        done = subprocess.run([sys.executable, "-c", TRAINS, folder / "rows.npy"], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
