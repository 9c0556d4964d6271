"""The Debian packages of a build, without installing them."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent
BUILD = Path(os.environ["BATCHFLOW_BUILD"])
MISSING = [one for one in ("dpkg-deb", "dpkg-shlibdeps", "patchelf") if not shutil.which(one)]


def made(folder):
    done = subprocess.run([sys.executable, SOURCE / "tools/packaging/debian.py", BUILD, folder],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return sorted(Path(folder).glob("*.deb"))


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} is not installed")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="batchflow-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.packages = made(cls.folder / "first")

    def fields(self, package, name):
        return subprocess.run(["dpkg-deb", "-f", package, name], stdout=subprocess.PIPE, text=True,
                              check=True).stdout.strip()

    def test_each_has_its_files_and_what_they_need(self):
        names = {path.name.partition("_")[0]: path for path in self.packages}
        self.assertEqual(set(names), {"batchflowd", "batchflow-sim", "batchflow-common",
                                      "batchflow-doc", "libbatchflow-client1", "libbatchflow-dev",
                                      "python3-batchflow"})
        self.assertRegex(self.fields(names["batchflowd"], "Depends"), r"liburing2 .*libyaml-cpp")
        self.assertNotIn("simgrid", self.fields(names["batchflowd"], "Depends"))
        self.assertIn("libsimgrid", self.fields(names["batchflow-sim"], "Depends"))
        self.assertEqual(self.fields(names["batchflow-common"], "Architecture"), "all")
        root = self.folder / "root"
        for package in self.packages:
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        for path in ("etc/batchflow/node.yaml", "usr/bin/batchflowd", "usr/lib/systemd/system/batchflowd.service",
                     "usr/share/man/man1/batchflowctl.1.gz", "usr/include/batchflow.h",
                     "usr/share/zsh/vendor-completions/_batchflowd",
                     "usr/share/bash-completion/completions/batchflow-sim",
                     "usr/lib/python3/dist-packages/batchflow/lib/libbatchflow_client.so.1"):
            self.assertTrue((root / path).exists(), path)
        for program in ("batchflowd", "batchflowctl", "batchflow-sim"):
            said = subprocess.run([root / "usr/bin" / program, "--version"], stdout=subprocess.PIPE,
                                  text=True, check=True, timeout=60,
                                  env={**os.environ, "LD_LIBRARY_PATH": str(root / "usr/lib")}).stdout
            self.assertRegex(said, r"\d+\.\d+")

    def test_two_of_one_tree_are_equal_to_the_byte(self):
        again = made(self.folder / "again")
        self.assertEqual([path.name for path in again], [path.name for path in self.packages])
        for one, other in zip(self.packages, again):
            self.assertEqual(one.read_bytes(), other.read_bytes(), one.name)

    def test_lintian_has_nothing_to_say(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *self.packages],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, ""))


if __name__ == "__main__":
    unittest.main()
