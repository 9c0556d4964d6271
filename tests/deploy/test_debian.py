"""Debian packages, installed, upgraded and removed in a root folder that debootstrap made."""

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from manifests import ROOT
from root_folders import RootFolders
from support import wait_until

TRAINS = """
import batchflow
loader = batchflow.DataLoader("/data/rows.npy", batch_size=8, shuffle=True)
print(sorted(int(row[0]) for (rows,) in loader for row in rows) == list(range(64)))
"""


class Debian(RootFolders):
    def packages(self):
        made = subprocess.run([sys.executable, ROOT / "tools/packaging/debian.py",
                               os.environ["BATCHFLOW_BUILD"], self.folder / "packages"],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout
        return [Path(line) for line in made.split()]

    def test_they_are_installed_serve_and_go(self):
        packages = self.packages()
        root = self.root_of("debian:bookworm-slim", "root")
        (root / "packages").mkdir()
        for package in packages:
            self.run_it("cp", package, root / "packages")
        # No service is started: the root folder has no init.
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        self.run_it(*self.inside(root, "apt-get", "update"))
        names = [f"/packages/{package.name}" for package in packages]
        install = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y",
                   "--no-install-recommends", "-o", "Dpkg::Options::=--force-confdef"]
        self.run_it(*self.inside(root, *install, "python3-numpy", *names), seconds=1200)
        self.assertIn(":/var/lib/batchflow:",
                      self.run_it(*self.inside(root, "getent", "passwd", "batchflow")))
        for program in ("batchflowd", "batchflowctl", "batchflow-sim", "batchflow-live"):
            self.assertRegex(self.run_it(*self.inside(root, program, "--version")), r"\d+\.\d+")
        self.run_it(*self.inside(root, "batchflow-verify-receipts", "--help"))
        self.run_it(*self.inside(root, "batchflow-sim", "run", "toy-jobs"))
        self.run_it(*self.inside(root, "batchflowd", "--check", "/etc/batchflow/node.yaml"))
        self.check_job(root)
        shutil.rmtree(root / "run/batchflow")  # of systemd, where it runs
        # What was edited stays.
        node = root / "etc/batchflow/node.yaml"
        node.write_text(node.read_text() + "# ours\n")
        self.run_it(*self.inside(root, *install, "--reinstall", *names), seconds=600)
        self.assertTrue(node.read_text().endswith("# ours\n"))
        self.run_it(*self.inside(root, "apt-get", "purge", "-y", "batchflow*", "libbatchflow*",
                                 "python3-batchflow"))
        left = [path for path in root.rglob("*batchflow*")
                if "packages" not in path.relative_to(root).parts[:1]
                and not str(path.relative_to(root)).startswith(("proc", "var/cache", "var/lib/systemd"))]
        self.assertEqual(left, [])

    def check_job(self, root):
        (root / "data").mkdir()
        self.run_it(*self.inside(root, "python3", "-c", "import numpy as np; np.save('/data/rows.npy', "
                                 "np.arange(64 * 4, dtype=np.int32).reshape(64, 4) // 4)"))
        (root / "run/batchflow").mkdir(exist_ok=True)
        self.run_it(*self.inside(root, "chown", "batchflow:", "/run/batchflow"))
        # As the unit has it: the service is of its user, the job of another.
        command = ("export XDG_RUNTIME_DIR=/run XDG_STATE_HOME=/var/lib; mkdir -p /var/lib/batchflow; "
                   "chown batchflow: /var/lib/batchflow; setpriv --reuid batchflow --regid batchflow "
                   "--clear-groups batchflowd --memory 384mib --http -1 --dataset rows=/data/rows.npy & "
                   "until batchflowctl --service /run/batchflow/batchflow.sock status >/dev/null 2>&1; "
                   "do sleep 0.1; done; "
                   "BATCHFLOW_SERVICE=/run/batchflow/batchflow.sock setpriv --reuid nobody "
                   f"--regid nogroup --clear-groups python3 -c '{TRAINS}'; "
                   "batchflowctl --service /run/batchflow/batchflow.sock drain >/dev/null; wait")
        self.assertIn("True\n", self.run_it(*self.inside(root, "sh", "-c", command), seconds=120))


if __name__ == "__main__":
    unittest.main()
