"""The package under a type checker, where that is installed: pip install mypy"""

import subprocess
import sys
import unittest
from pathlib import Path

import batchflow
from support import Folder, needs

USER = """
import batchflow


@batchflow.step
def plain(row: list[float]) -> list[float]:
    return row


@batchflow.step(random=True, output=("float32", (3,)), memory="256mib")
def drawing(row: list[float], rng: object) -> list[float]:
    return row


reveal_type(plain)
reveal_type(drawing)
"""


@needs("mypy")
class Types(Folder):
    def test_functions_stay_what_they_are_when_they_are_steps(self):
        script = self.folder / "user.py"
        script.write_text(USER)
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir",
                               str(self.folder / "cache"), str(script)], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = [line for line in done.stdout.splitlines() if "user.py:" in line]
        self.assertEqual(len(said), 2, done.stdout)
        self.assertIn('Revealed type is "def (row: ', said[0])
        self.assertIn('Revealed type is "def (row: ', said[1])

    def test_the_package_has_no_error_itself(self):
        package = Path(batchflow.__file__).parent
        self.assertTrue((package / "py.typed").exists())
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir",
                               str(self.folder / "cache"), str(package)], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
