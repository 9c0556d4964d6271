"""The manifests beside the schemas of Kubernetes, from the oldest version that the package
kubernetes-validate has to the newest. It is installed from PyPI into an environment of the test."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from manifests import FILES, documents

PACKAGE = "kubernetes-validate"


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="batchflow-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.programs = cls.folder / "environment" / "bin"
        cls.missing = ""
        for command in ([sys.executable, "-m", "venv", cls.folder / "environment"],
                        [cls.programs / "pip", "install", "--quiet", PACKAGE]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=600)
            if done.returncode != 0:
                cls.missing = f"{PACKAGE} cannot be installed: {done.stdout.strip().splitlines()[-1]}"
                return

    def setUp(self):
        if self.missing:  # each test is listed
            self.skipTest(self.missing)

    def validate(self, version, *files):
        return subprocess.run([self.programs / PACKAGE, "--strict", "-k", version, *files],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)

    def versions(self):
        (schemas,) = self.folder.rglob("kubernetes-json-schema")
        found = {re.match(r"v(\d+)\.(\d+)", path.name).groups() for path in schemas.iterdir()}
        return [f"{major}.{minor}.0" for major, minor in sorted((int(a), int(b)) for a, b in found)]

    def test_each_document_is_valid_in_each_version(self):
        versions = self.versions()
        for version in (versions[0], versions[len(versions) // 2], versions[-1]):
            done = self.validate(version, *FILES)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(done.stdout.count(" passed for "), len(documents()), done.stdout)

    def test_what_is_wrong_is_noticed(self):
        for right, wrong in (("containerPort: 9838", "containerPort: cluster"),
                             ("terminationGracePeriodSeconds", "terminationGraceSeconds")):
            (file,) = [path for path in FILES if path.name == "coordinator.yaml"]
            broken = self.folder / "broken.yaml"
            broken.write_text(file.read_text().replace(right, wrong))
            self.assertNotEqual(self.validate(self.versions()[-1], broken).returncode, 0)


if __name__ == "__main__":
    unittest.main()
