"""The package's version, and the other project of PyPI that is imported as batchflow."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import batchflow

PACKAGE = Path(batchflow.__file__).parent


def imported_from(folder):
    return subprocess.run([sys.executable, "-c", "import batchflow; print(batchflow.__version__)"],
                          env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)


class Installed(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        (self.folder / "batchflow").symlink_to(PACKAGE)

    def install_namesake(self, folder):
        info = folder / "batchflow-0.8.3.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: batchflow\nVersion: 0.8.3\n")

    def test_the_version_is_that_of_the_tree(self):
        tree = PACKAGE.parents[1] / "VERSION"
        self.assertEqual(imported_from(self.folder).stdout, tree.read_text())

    def test_another_project_in_the_same_folder_is_named(self):
        self.install_namesake(self.folder)
        refused = imported_from(self.folder)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("batchflow-data, which this is, and batchflow 0.8.3, another project",
                      refused.stderr)
        self.assertIn("pip uninstall batchflow batchflow-data; pip install batchflow-data",
                      refused.stderr)

    def test_another_project_elsewhere_does_not_matter(self):
        elsewhere = self.folder / "elsewhere"
        self.install_namesake(elsewhere)
        self.assertEqual(imported_from(f"{self.folder}:{elsewhere}").returncode, 0)


if __name__ == "__main__":
    unittest.main()
