"""The benchmark that trains on PyTorch's and on BatchFlow's batches: that it runs, that each epoch
had each sample once, and that it notices what it is there to notice. The whole of it, which
compares accuracies, is `./dev bench convergence` and a long test."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from support import HERE, Folder

BENCH = HERE.parent.parent / "tools" / "bench"


def interpreter():
    """A Python that has all that this needs, perhaps since the benchmark was run before."""
    build = Path(os.environ["BATCHFLOW_DAEMON"]).parent.parent
    for python in (sys.executable, str(build / "python" / "convergence" / "bin" / "python")):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", "import sklearn, torchvision"], stderr=subprocess.DEVNULL,
                timeout=120).returncode == 0:
            return python
    return None


PYTHON = interpreter()


@unittest.skipUnless(PYTHON, "scikit-learn and torchvision are not installed for "
                     f"{sys.executable}; `./dev bench convergence` installs them below build/")
class Convergence(Folder):
    def python(self, *arguments):
        environment = {**os.environ, "BATCHFLOW_NO_INSTALL": "1", "PYTHONPATH": os.pathsep.join(
            [str(HERE.parent.parent / "python"), str(BENCH), str(BENCH / "convergence")])}
        return subprocess.run([PYTHON, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300, env=environment, text=True)

    def test_quick_form(self):
        done = self.python(str(BENCH / "convergence" / "main.py"), "--quick")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("each epoch of each source had each sample once", done.stdout)
        names = [line.split("  ")[0] for line in done.stdout.splitlines()]
        for name in ("pytorch", "strict", "relaxed", "frozen", "by class"):
            self.assertIn(name, names)

    def test_an_epoch_with_a_sample_twice_is_noticed(self):
        done = self.python("-c", """
import torch, training
def epochs(keys):
    yield iter([training.Batch(torch.zeros(len(keys), 3, 8, 8, dtype=torch.uint8),
                               torch.zeros(len(keys), dtype=torch.long), keys)])
test = next(next(epochs([0])))
whole = list(range(training.TRAINING))
training.train(epochs(whole), 1, 1, test)
for keys in (whole[1:], [1] + whole[1:], whole + [7]):
    try:
        training.train(epochs(keys), 1, 1, test)
    except training.NotOnce as problem:
        print(problem)
""")
        self.assertEqual(done.stdout.splitlines(), [
            f"epoch 0: {n} samples, {different} of them different, where each of 1200 has to come "
            "once" for n, different in ((1199, 1199), (1200, 1199), (1201, 1200))])

    def test_equivalence_has_to_be_shown(self):
        # By hand: the squares sum to 0.54, so the error of both is sqrt(2 x 0.54 / 9 / 10) =
        # 0.1095; with 18 degrees of freedom t at 5 % is 1.734.
        done = self.python("-c", """
from equivalence import compare
spread = [-0.3, -0.3, -0.3, 0, 0, 0, 0, 0.3, 0.3, 0.3]
near, far = [90 + s for s in spread], [91 + s for s in spread]
one = compare(near, [89.8 + s for s in spread], 0.5)
print(round(one.difference, 6), round(one.standard_error, 4), one.equivalent,
      round((one.high - one.difference) / one.standard_error, 3))
print(compare(far, near, 0.5).equivalent, compare(near, far, 0.5).equivalent)
print(compare([89, 91], [89, 91], 0.5).equivalent)  # too few to say so
print(compare([90.0] * 3, [90.4] * 3, 0.5).equivalent,
      compare([90.0] * 3, [91.0] * 3, 0.5).equivalent)
""")
        self.assertEqual(done.stdout.splitlines(), [
            "0.2 0.1095 True 1.734", "False False", "False", "True False"])


if __name__ == "__main__":
    unittest.main()
