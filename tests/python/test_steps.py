"""Functions as steps of a pipeline: right values, the same bytes again, shared and counted, and
what a function that fails costs."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import batchflow
from batchflow import steps
from support import HERE, Served, needs, value_at, wait_until, write_rows

try:
    import numpy as np
except ImportError:
    np = None

SHIFT = 5
NAMES = {"scale": 2}


def scaled(rows, by):
    return rows * by


@batchflow.step
def shifted(rows):
    return scaled(rows, NAMES["scale"]).astype(np.float64) + SHIFT


@batchflow.step(random=True)
def noisy(rows, rng):
    return rows + rng.integers(0, 1000, rows.shape)


def steps_told(daemon):
    return {one["step"]: one for one in daemon.status()["plugins"]}


CALLS = []


@batchflow.step
def slow_to_begin(rows):
    if not CALLS:
        time.sleep(1)
        CALLS.append(1)
    return rows


@needs("numpy")
class Replaced(Served):
    """Two ranks of a job, and a dataset that is written anew while the first one's pipeline is set up."""

    MEMORY = "640mib"

    @property
    def ARGUMENTS(self):
        node = self.folder / "node.yaml"
        node.write_text("{kind: node, workers: 2, steps: {timeout: 5s, memory: 40mib}}")
        return ("--config", str(node), "--open-datasets")

    def test_ranks_meet_at_what_is_there_now(self):
        rows = self.folder / "own"
        rows.mkdir()
        write_rows(rows / "rows.npy", 400)
        found = [[], []]

        def train(rank):
            with batchflow.DataLoader(str(rows), 20, True, pipeline=[slow_to_begin], job_name="twins",
                                      rank=rank, world_size=2, shuffle_seed=1, epochs=1,
                                      timeout=30) as loader:
                for batch in loader:
                    found[rank] += self.own_keys(batch)
        first = threading.Thread(target=train, args=(0,))
        first.start()
        time.sleep(0.5)
        os.utime(rows / "rows.npy", (1, 1))
        train(1)
        first.join(60)
        self.assertEqual(sorted(found[0] + found[1]), list(range(400)))


@needs("numpy")
class Steps(Served):
    ROWS = 500
    MEMORY = "640mib"

    @property
    def ARGUMENTS(self):
        node = self.folder / "node.yaml"
        node.write_text("{kind: node, workers: 2, steps: {timeout: 1500ms, memory: 40mib}}")
        return ("--config", str(node))

    def loader(self, pipeline, **options):
        return batchflow.DataLoader("rows", 32, True, pipeline=pipeline, output="numpy",
                                    **{"order": "strict", "shuffle_seed": 1, "epochs": 1,
                                       **options})

    def rows(self, *arguments, **options):
        """Of an epoch, by key."""
        made = {}
        with self.loader(*arguments, **options) as loader:
            for batch in loader:
                for place, key in enumerate(self.own_keys(batch)):
                    self.assertNotIn(key, made)
                    made[key] = batch[0][place].copy()
        return made

    def test_values_are_those_of_the_function(self):
        made = self.rows([shifted])
        self.assert_whole(made)
        for key, row in made.items():
            self.assertEqual(row.dtype, np.float64)
            self.assertEqual(row.tolist(), [2 * value_at(key, i) + 5.0 for i in range(16)])

    def test_a_random_one_draws_anew_each_epoch_and_the_same_again(self):
        epochs = []
        for _ in range(2):
            with self.loader([noisy], epochs=2) as loader:
                for _ in range(2):
                    epochs.append({key: batch[0][place].tolist() for batch in loader
                                   for place, key in enumerate(self.own_keys(batch))})
        first, second, first_again, second_again = epochs
        self.assertEqual(first, first_again)
        self.assertEqual(second, second_again)
        self.assertTrue(all(first[key] != second[key] for key in first))
        for key, row in first.items():
            self.assertTrue(all(0 <= row[i] - value_at(key, i) < 1000 for i in range(16)))

    def test_two_jobs_share_what_it_makes(self):
        with self.loader([shifted], epochs=1) as one, self.loader([shifted], epochs=1) as two:
            for first, second in zip(one, two):
                self.assertEqual(first.sample_keys.tolist(), second.sample_keys.tolist())
                self.assertTrue((first[0] == second[0]).all())
        told = steps_told(self.daemon)["shifted"]
        self.assertEqual((told["samples"], told["crashes"], told["late"]), (self.ROWS, 0, 0))

    def test_what_it_makes_is_kept_for_the_epochs_and_jobs_behind(self):
        for _ in range(2):
            with self.loader([shifted], epochs=2, order="relaxed") as loader:
                for _ in range(2):
                    self.assert_whole([key for batch in loader for key in self.own_keys(batch)])
        self.assertEqual(steps_told(self.daemon)["shifted"]["samples"], self.ROWS)

    def test_a_function_that_is_another_is_another_pipeline(self):
        kinds = [steps.entry(function)["python"] for function in (shifted, noisy)]
        global SHIFT
        SHIFT = 6
        try:
            kinds.append(steps.entry(shifted)["python"])
        finally:
            SHIFT = 5
        kinds.append(steps.entry(batchflow.step(version="2")(shifted))["python"])
        batchflow.step(shifted)
        self.assertEqual(steps.entry(shifted)["python"], kinds[0])
        self.assertEqual(len(set(kinds)), len(kinds))

    def script(self, code, pipeline="[work]"):
        """Runs a script in a process of its own. Answers its output."""
        file = self.folder / "script.py"
        file.write_text("import batchflow, numpy as np, os, time\n\n" + textwrap.dedent(code) +
                        textwrap.dedent(f"""
            if __name__ == "__main__":
                loader = batchflow.DataLoader("rows", 32, True, pipeline={pipeline},
                                              order="strict", shuffle_seed=1, output="numpy")
                keys, wanted, total = [], [], 0
                for batch in loader:
                    own = batch.samples - batch.fillers
                    for place in range(own):
                        replaced = batch.marks[place] & batchflow.REPLACED
                        (wanted if replaced else keys).append(int(batch.wanted_keys[place]))
                    total += int(batch[0][:own].sum())
                print(sorted(keys) == sorted(set(keys)), len(keys), sorted(wanted), total)
            """))
        return subprocess.run([sys.executable, str(file)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, text=True)

    def test_a_script_brings_what_its_function_uses(self):
        done = self.script("""
            OFFSET = np.array([1] * 16)

            def helper(row, times=3):
                return row * times

            @batchflow.step(random=False)
            def work(row: "nothing that is looked at") -> np.ndarray:
                return helper(row) + OFFSET
            """)
        total = sum(3 * value_at(key, i) + 1 for key in range(self.ROWS) for i in range(16))
        self.assertEqual(done.stdout, f"True {self.ROWS} [] {total}\n", done.stderr)

    def test_what_fails_costs_its_samples_and_says_where(self):
        # Line 7 of the script is the one that fails.
        for kind, words in (("raise ValueError('bad row')", "script.py:7: ValueError: bad row"),
                            ("os._exit(3)", "ended with exit code 3"),
                            ("time.sleep(60)", "took more than 1.5 s, and last wrote 'at ")):
            with self.subTest(kind):
                done = self.script(f"""
                    @batchflow.step
                    def work(row):
                        if row[0] in (7 * 7, 77 * 7):
                            {kind}
                        return row
                    """)
                self.assertEqual(done.stdout.split(" ", 3)[:2], ["True", str(self.ROWS - 2)],
                                 done.stderr)
                self.assertIn("[7, 77]", done.stdout)
                self.assertIn("corrupt samples of rows were replaced by others: 2 up to the end of "
                              "epoch 0", done.stderr)
                said = self.daemon.log.read_text()
                self.assertIn(words, said)
                self.assertIn("sample 77 (rows.npy:77): step 'work' of ", said)
                self.assertIn("script.py:5: ", said)
        self.assertIn("script.py:7'", said)  # where it hung

    def test_one_that_always_fails_ends_its_job_alone(self):
        done = self.script("""
            @batchflow.step
            def work(row):
                if row[15] != 0:  # not for the zeros with which its output type is found out
                    os._exit(9)
                return row
            """)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("step 'work' of ", done.stderr)
        self.assertIn("script.py:5: ended with exit code 9", done.stderr)
        self.assert_whole(self.rows([shifted]))

    def test_what_cannot_be_a_step_is_said_before_any_sample(self):
        done = self.script("""
            @batchflow.step
            def work(row):
                return row[100]
            """)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("script.py:6: IndexError: index 100 is out of bounds", done.stderr)
        self.assertIn("output=", done.stderr)

    def test_one_that_needs_more_memory_is_told_how_to_ask_and_gets_it(self):
        code = """
            @batchflow.step{}
            def work(row):
                return row + np.ones(80 << 20, np.int8)[:16]
            """
        done = self.script(code.format(""))
        self.assertRegex(done.stderr, r"script.py:6: MemoryError: .* \(its process may take 40 MiB; "
                                      r"give it more: memory= of batchflow.step\)")
        self.assertNotIn("output=", done.stderr)
        done = self.script(code.format("(memory='100mib')"))
        total = sum(value_at(key, i) + 1 for key in range(self.ROWS) for i in range(16))
        self.assertEqual(done.stdout, f"True {self.ROWS} [] {total}\n", done.stderr)
        status = self.daemon.status()
        self.assertEqual(status["steps_bytes"] % (100 << 20), 0)
        self.assertGreater(status["steps_bytes"], 0)
        for memory, why in (("'1 apple'", "'1 apple' is not a size"), ("1 << 20", "too little"),
                            ("1 << 50", "write 1024 GiB at most"),
                            ("'900gib'", "processes may take .* together")):
            self.assertRegex(self.script(code.format(f"(memory={memory})")).stderr, why)

    def test_memory_that_does_not_suffice_for_a_module_names_it(self):
        (self.folder / "large.py").write_text("held = bytearray(80 << 20)")
        code = """
            import large

            @batchflow.step{}
            def work(row):
                return row[:len(large.held)]
            """
        self.assertRegex(self.script(code.format("(memory='40mib')")).stderr,
                         r"large.py:1: MemoryError: importing large \(its process may take 40 MiB; "
                         r"give it more")
        # Where the script says nothing, what its modules take is measured.
        done = self.script(code.format(""))
        total = sum(value_at(key, i) for key in range(self.ROWS) for i in range(16))
        self.assertEqual(done.stdout, f"True {self.ROWS} [] {total}\n", done.stderr)
        self.assertGreater(self.daemon.status()["steps_bytes"], 80 << 20)

    def test_modules_of_its_own_are_found_where_it_imports_them_itself(self):
        (self.folder / "shared.py").write_text("SHIFT = 3")
        done = self.script("""
            @batchflow.step
            def work(row):
                import shared
                return row + shared.SHIFT
            """)
        total = sum(value_at(key, i) + 3 for key in range(self.ROWS) for i in range(16))
        self.assertEqual(done.stdout, f"True {self.ROWS} [] {total}\n", done.stderr)

    def test_libraries_that_look_for_others_or_for_a_place_of_files_can_be_imported(self):
        """Both start programs or write a file to find out, outside; PyTorch of PyPI does both."""
        (self.folder / "looking.py").write_text(textwrap.dedent("""
            import ctypes.util, tempfile
            FOUND = ctypes.util.find_library("c") is not None
            NONE = ctypes.util.find_library("there-is-none") is None
            PLACE = len(tempfile.gettempdir())
            """))
        done = self.script("""
            import looking

            @batchflow.step
            def work(row):
                return row + (looking.FOUND + looking.NONE + (looking.PLACE > 0))
            """)
        total = sum(value_at(key, i) + 3 for key in range(self.ROWS) for i in range(16))
        self.assertEqual(done.stdout, f"True {self.ROWS} [] {total}\n", done.stderr)

    def test_it_can_neither_write_nor_start_anything(self):
        done = self.script(f"""
            import socket, subprocess

            def refused(attempt):
                try:
                    attempt()
                except (OSError, RuntimeError):
                    return 1
                return 0

            @batchflow.step(output=("int64", (1,)))
            def work(row):
                return np.array([refused(lambda: open("{self.folder}/written", "w")) +
                                 refused(lambda: subprocess.run(["true"])) +
                                 refused(lambda: os.kill(os.getppid(), 0)) +
                                 refused(lambda: socket.socket())])
            """)
        self.assertEqual(done.stdout, f"True {self.ROWS} [] {4 * self.ROWS}\n", done.stderr)
        self.assertFalse((self.folder / "written").exists())


# Of an environment of its own: that of the distribution is another build.
PYPI = Path(os.environ.get("BATCHFLOW_PYPI_PYTHON",
                           HERE.parent.parent / "build" / "torch-venv" / "bin" / "python"))


@unittest.skipUnless(PYPI.exists(), "PyTorch of PyPI is not installed: python3 -m venv "
                     "build/torch-venv && build/torch-venv/bin/pip install torch torchvision")
class PyTorchOfPyPI(Served):
    ROWS, MEMORY = 32, "3gib"

    # Its first start reads gigabytes, and a service without jobs ends meanwhile.
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([str(PYPI), "-c", "import torch"], check=True)

    @property
    def ARGUMENTS(self):
        node = self.folder / "node.yaml"
        node.write_text("{kind: node, workers: 1, steps: {timeout: 60s}}")
        return ("--config", str(node), "--open-datasets")

    def test_a_function_may_use_it_and_says_nothing_of_memory(self):
        script = self.folder / "script.py"
        script.write_text(textwrap.dedent("""
            import batchflow, torch

            @batchflow.step
            def work(row):
                return torch.nn.functional.relu(torch.from_numpy(row).float() - 200).numpy()

            total = 0.0
            for batch in batchflow.DataLoader("rows", 32, pipeline=[work], output="numpy"):
                total += float(batch[0].sum(dtype="float64"))
            print(torch.__version__, total)
            """))
        done = subprocess.run([str(PYPI), str(script)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=500, text=True)
        total = sum(max(0, value_at(key, i) - 200) for key in range(self.ROWS) for i in range(16))
        self.assertEqual(done.stdout.split()[1:], [str(float(total))], done.stderr)

    @needs("PIL")
    def test_the_example_of_the_page(self):
        page = (HERE.parent.parent / "docs" / "python.md").read_text()
        blocks = [block for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
                  if "@batchflow.step" in block and "functional.resize" in block]
        self.assertEqual(len(blocks), 1)
        from PIL import Image
        for i in range(12):
            folder = self.folder / "pictures" / ("cat" if i % 3 else "dog")
            folder.mkdir(parents=True, exist_ok=True)
            Image.linear_gradient("L").convert("RGB").rotate(7 * i).save(folder / f"{i:02}.jpg")
        script = self.folder / "script.py"
        script.write_text(blocks[0])
        done = subprocess.run([str(PYPI), str(script)], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=500, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


@needs("numpy")
class GivenBack(Served):
    ROWS = 500

    @property
    def ARGUMENTS(self):
        node = self.folder / "node.yaml"
        node.write_text("{kind: node, steps: {memory: 40mib}, brought_kept: 0s}")
        return ("--config", str(node))

    def test_memory_and_processes_are_given_back_after_the_last_job(self):
        def workers():
            found = subprocess.run(["pgrep", "-P", str(self.daemon.process.pid)],
                                   capture_output=True, text=True)
            return len(found.stdout.split())

        # The second needs processes anew, though what the first made is kept.
        for function in (shifted, noisy):
            with batchflow.DataLoader("rows", 32, pipeline=[function], output="numpy",
                                      epochs=1) as loader:
                batches = iter(loader)
                next(batches)
                self.assertGreater(workers(), 0)
                self.assertGreater(self.daemon.status()["steps_bytes"], 0)
                self.assertEqual([function.__name__], list(steps_told(self.daemon)))
                collections.deque(batches, maxlen=0)  # a batch that is held keeps its job
            wait_until(lambda: self.daemon.status()["steps_bytes"] == 0 and workers() == 0,
                       what="that nothing is set apart")
            self.assertEqual({}, steps_told(self.daemon))


@needs("numpy")
class Packing(unittest.TestCase):
    """Which functions can be packed for another process, and which cannot."""

    def script(self, code):
        """Ends with `work` being packed."""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("import batchflow, json, numpy as np, threading\n"
                       f"from batchflow import steps\n{code}\nprint(json.dumps(steps.entry(work)))")
            file.flush()
            return subprocess.run([sys.executable, file.name], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=60)

    def refusal(self, code):
        done = self.script(code)
        self.assertEqual(done.returncode, 1)
        return done.stderr.strip().splitlines()[-1]

    def test_refusals(self):
        for code, words in (
                ("work = lambda row: row", "<lambda> is no function that is written with def"),
                ("def work(row): return row", "work: is what it makes decided by its input alone?"),
                ("lock = threading.Lock()\n@batchflow.step\ndef work(row):\n    return lock",
                 "work: it uses lock, a lock, which cannot be taken along"),
                ("class Odd: pass\n@batchflow.step\ndef work(row):\n    return Odd() and row",
                 "work: it uses Odd, a type, which cannot be taken along"),
                ("many = np.zeros(10000)\n@batchflow.step\ndef work(row):\n    return many + row",
                 "work: it uses many, an array of 80000 bytes"),
                ("n = 0\n@batchflow.step\ndef work(row):\n    global n\n    n += 1\n    return row",
                 "work: it changes the global n"),
                ("def other(f): return f\n@other\n@batchflow.step\ndef work(row):\n    return row",
                 "work: its decorator other cannot be taken along"),
                ("work = batchflow.step(print)", "is no plain function")):
            with self.subTest(words):
                self.assertIn(words, self.refusal(code))

    def test_a_decorator_is_what_it_is_and_not_what_it_is_called(self):
        for head in ("S = batchflow.step\n@S", "S = batchflow.step(random=True)\n@S",
                     "import batchflow as b\n@b.step(version='2')",
                     "from batchflow import step\n@step"):
            done = self.script(f"{head}\ndef work(row):\n    return row\nstep = 3")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("its decorator step cannot be taken along", self.refusal(
            "def step(f): return f\n@step\n@batchflow.step\ndef work(row):\n    return row"))

    def test_a_change_in_any_module_that_it_reaches_is_another_step(self):
        with tempfile.TemporaryDirectory() as folder:
            modules = {"first.py": "import second\ndef f(x): return x * second.K\n",
                       "second.py": "from package.inner import deep as deeper\nK = deeper.K\n",
                       "package/__init__.py": "", "package/inner/__init__.py": "from . import deep",
                       "package/inner/deep.py": "def lazy():\n    import late\nK = 1\n",
                       "late.py": "try:\n    from . import none\nexcept ImportError:\n    pass\n",
                       "unused.py": ""}
            for name, text in modules.items():
                Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, name).write_text(text)

            def bundle():
                return json.loads(self.script(
                    f"import sys; sys.path.insert(0, {folder!r})\nimport first\n@batchflow.step\n"
                    "def work(row):\n    return first.f(row)").stdout)["python"]
            before = bundle()
            self.assertEqual(before, bundle())
            for name, text in modules.items():
                Path(folder, name).write_text(text + "\n# changed")
                self.assertEqual(bundle() == before, name == "unused.py", name)
                Path(folder, name).write_text(text)

    def test_values_come_back_as_they_were(self):
        from batchflow import step_worker
        for value in (None, True, 3, 2.5, "é\n", b"\x00\xff", [1, (2, {3})], {"a": (1, [])},
                      float("inf"), np.float32(1.5), frozenset([1, 2])):
            back = step_worker.value_of(json.loads(json.dumps(steps._value(value))))
            self.assertEqual((type(back), back), (type(value), value))
        array = np.arange(6, dtype=np.int16).reshape(2, 3)
        back = step_worker.value_of(json.loads(json.dumps(steps._value(array))))
        self.assertEqual((back.dtype, back.tolist()), (array.dtype, array.tolist()))

    def test_where_a_function_stands_does_not_count(self):
        code = "@batchflow.step\ndef work(row):\n    return row * {}\n"
        here, below, other = (json.loads(self.script("\n" * lines + code.format(by)).stdout)
                              for lines, by in ((0, 2), (7, 2), (0, 3)))
        self.assertEqual(here["python"], below["python"])
        self.assertNotEqual(here["python"], other["python"])
        self.assertTrue(here["at"].endswith(".py:4"))
        self.assertTrue(below["at"].endswith(".py:11"))


if __name__ == "__main__":
    unittest.main()
