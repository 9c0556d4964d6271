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
        for name in ("pytorch", "strict", "relaxed", "frozen", "by class", "by chance", "shade",
                     "fastmatch", "icache"):
            self.assertIn(name, names)
        if "without SimGrid" not in done.stdout:
            for name in ("quiver", "seneca", "deepio"):
                self.assertIn(name, names)

    def test_rehearsal_prevents_forgetting(self):
        done = self.python(str(BENCH / "forgetting" / "main.py"), "--quick")
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in ("nothing", "reservoir", "everything", "loss in the end"):
            self.assertIn(name, done.stdout)

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

    def test_pairs_are_compared_by_their_differences(self):
        # By hand: differences of -0.1, 0 and 0.1 have the mean 0 and the deviation 0.1, so the error
        # is 0.1 / sqrt(3) = 0.0577; with 2 degrees of freedom t at 5 % is 2.920.
        done = self.python("-c", """
from equivalence import compare, compare_pairs
apart = [70, 80, 90]
pairs = [69.9, 80, 90.1]
one = compare_pairs(pairs, apart, 0.5)
print(round(one.difference, 6), round(one.standard_error, 4), one.equivalent,
      round((one.high - one.difference) / one.standard_error, 3))
print(compare(pairs, apart, 0.5).equivalent)
print(compare_pairs([a + 1 for a in pairs], apart, 0.5).equivalent)
""")
        self.assertEqual(done.stdout.splitlines(), ["0.0 0.0577 True 2.92", "False", "False"])

    def test_a_picture_looks_the_same_wherever_an_order_has_it(self):
        done = self.python("-c", """
import pathlib, sys, tempfile
import torch, training, views
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    training.write_digits(folder)
    def seen(seed, *epochs):
        return [list(batches) for batches in views.Views(folder / "train", seed).epochs(epochs)]
    (one, two), (other,) = seen(1, [[3, 7], [3]], [[7]])
    (last, first), = seen(1, [[7], [3]])
    print(one.keys, two.keys, torch.equal(one.pictures[0], first.pictures[0]),
          torch.equal(one.pictures[1], last.pictures[0]))
    print(torch.equal(one.pictures[0], two.pictures[0]),
          torch.equal(one.pictures[1], other.pictures[0]),
          torch.equal(seen(2, [[3]])[0][0].pictures[0], first.pictures[0]))
""")
        self.assertEqual(done.stdout.splitlines(),
                         ["[3, 7] [3] True True", "False False False"])


if __name__ == "__main__":
    unittest.main()
