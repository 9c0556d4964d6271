"""Batches: their memory, when it may be written to, and what they can be converted to."""

import copy
import gc
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import unittest

import batchflow
from batchflow.crossing import crossing, extension
from support import Served, needs, run_python, wait_until

try:
    import torch
except ImportError:
    torch = None


class Memory(Served):
    def test_batches_stay_as_they_are_while_the_script_has_them(self):
        loader = batchflow.DataLoader("rows", 50, True)
        with loader:
            kept = list(loader)
        self.assertGreater(sum(batch.copied for batch in kept), 0)  # beyond the reserve
        self.assertLess(sum(batch.copied for batch in kept), len(kept))
        del loader
        gc.collect()
        self.assert_whole([key for batch in kept for key in self.check_content(batch)])

    def test_what_the_program_dropped_is_free_so_that_nothing_is_copied(self):
        loader = batchflow.DataLoader("rows", 64, True)
        for _ in range(3):
            for batch in loader:
                self.check_content(batch)
        self.assertEqual(loader.times()["copied"], 0)

    def test_a_batch_in_a_circle_is_free_when_it_is_collected(self):
        for output, module in (("memoryview", "sys"), ("numpy", "numpy"), ("torch", "torch")):
            if importlib.util.find_spec(module):
                circle = [next(iter(batchflow.DataLoader("rows", 64, output=output)))]
                circle.append(circle)
                self.assertEqual(crossing().held_count(), 1)
                del circle
                gc.collect()
                self.assertEqual(crossing().held_count(), 0)

    def test_a_loader_that_is_dropped_ends_its_job(self):
        loader = batchflow.DataLoader("rows", 64, True)
        next(iter(loader))
        self.assertEqual(len(self.daemon.status()["jobs"]), 1)
        del loader
        gc.collect()
        wait_until(lambda: not self.daemon.status()["jobs"], 10, "the job's end")

    def test_closed_means_closed(self):
        with batchflow.DataLoader("rows", 64) as loader:
            iteration = iter(loader)
            batch = next(iteration)
        self.check_content(batch)
        for use in (lambda: next(iteration), lambda: iter(loader), lambda: len(loader)):
            with self.assertRaisesRegex(RuntimeError, "is closed"):
                use()

    @needs("numpy")
    def test_numpy_arrays_are_read_only_unless_they_are_copies(self):
        batch = next(iter(batchflow.DataLoader("rows", 64, output="numpy")))
        with self.assertRaisesRegex(ValueError, "read-only"):
            batch[0][0] = 1
        self.assertFalse(batch[0].flags.owndata)
        batch = next(iter(batchflow.DataLoader("rows", 64, output="numpy", copy=True)))
        batch[0][:] = 1
        self.assertEqual(int(batch[0].sum()), 64 * 16)

    def test_without_numpy_there_are_memoryviews(self):
        code = """
import sys
sys.modules['numpy'] = sys.modules['torch'] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in ('numpy', 'torch') else find(name, *a)
import batchflow
keys = []
for batch in batchflow.DataLoader('rows', 64):
    assert isinstance(batch[0], memoryview) and batch[0].readonly, batch[0]
    assert batch[0][1, 2] == (batch.sample_keys[1] + 2) * 7
    keys += batch.sample_keys.tolist()
assert sorted(keys) == list(range(2000))
for k, (sample,) in enumerate(batchflow.DataLoader('rows', None)):
    assert sample.shape == (16,) and sample[3] == (k + 3) * 7
    if k == 5: break
"""
        done = run_python(code)
        self.assertEqual(done.returncode, 0, done.stderr.decode())


class Crossing(Served):
    def test_the_extension_and_ctypes_give_the_same(self):
        code = """
import batchflow, json, sys
from batchflow.crossing import extension
if sys.argv[1] == 'torch': import torch
shown = []
for batch in batchflow.DataLoader('rows', 600, output=sys.argv[1]):
    known = {name: value for name, value in vars(batch).items() if name != '_about'}
    shown.append([batch[0].tolist(), str(batch[0].dtype) if sys.argv[1] != 'memoryview' else '',
                  [batch.sample_keys.tolist(), batch.wanted_keys.tolist(), batch.marks.tolist()],
                  {name: [type(value).__name__, value] for name, value in known.items()}])
print(json.dumps(shown), extension() is None)
"""
        for output, module in (("memoryview", "sys"), ("numpy", "numpy"), ("torch", "torch")):
            if not importlib.util.find_spec(module):
                continue
            said = []
            for switch in ("0", "1"):
                done = subprocess.run([sys.executable, "-c", code, output], timeout=120,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**os.environ, "BATCHFLOW_EXTENSION": switch})
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                said.append(done.stdout.decode().split("] "))
            self.assertEqual(said[0][1], "True\n")
            self.assertEqual(said[0][0], said[1][0])

    @unittest.skipUnless(extension(), "the C extension is not built, or it is left out")
    def test_the_extension_refuses_what_it_cannot_take(self):
        fast = extension()
        held = crossing().hold(0)
        form = (2, 32, (1,))
        for wrong in ((1, 0, form), (fast.Held(), 0, form), (held, "0", form), (held, 0, (2, 32)),
                      (held, 0, (2, 32, ("1",))), (held, 0, (2, "32", (1,))), (held, 0)):
            with self.assertRaises(TypeError):
                fast.capsule(*wrong)
        for function, wrong in ((fast.look, (1, 2)), (fast.look, ("1", 1, 1, 0.0)), (fast.hold, (1,)),
                                (fast.add_facts, ({},)), (fast.arrays, (repr, (), 2, 3))):
            with self.assertRaises(TypeError):
                function(*wrong)
        capsules = [fast.capsule(held, 0, form) for _ in range(3)]
        del held
        self.assertEqual(fast.held_count(), 1)
        del capsules
        self.assertEqual(fast.held_count(), 0)


@unittest.skipUnless(torch, f"torch is not installed for {sys.executable}")
class Torch(Served):
    def test_tensors_lie_in_the_services_memory_and_must_not_be_written_to(self):
        code = """
import torch, batchflow, sys
batch = next(iter(batchflow.DataLoader('rows', 64, copy=bool(int(sys.argv[1])))))
assert isinstance(batch[0], torch.Tensor) and not batch.copied or int(sys.argv[1])
batch[0].add_(1)
"""
        for copy, ended in (("0", -signal.SIGSEGV), ("1", 0)):
            done = subprocess.run([sys.executable, "-c", code, copy], timeout=120,
                                  stderr=subprocess.DEVNULL)
            self.assertEqual(done.returncode, ended)

    def test_who_writes_to_a_batch_is_told_the_line(self):
        done = run_python("""
import torch, batchflow
(rows,) = next(iter(batchflow.DataLoader('rows', 64)))
same = rows.to("cpu").long()  # no copy, since it is that already
same.mul_(2)
""")
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        self.assertIn(b'File "<string>", line 5 in', done.stderr)

    def test_handlers_of_the_users_stay(self):
        done = run_python("""
import faulthandler, os, signal, torch, batchflow
signal.signal(signal.SIGSEGV, print)
len(batchflow.DataLoader('rows'))
assert not faulthandler.is_enabled()
signal.signal(signal.SIGSEGV, signal.SIG_DFL)
os.environ["BATCHFLOW_FAULTHANDLER"] = "0"
len(batchflow.DataLoader('rows'))
assert not faulthandler.is_enabled()
""")
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_dlpack(self):
        batch = next(iter(batchflow.DataLoader("rows", 64, True, output="dlpack")))
        tensor = torch.from_dlpack(batch[0])
        keys = torch.from_dlpack(batch.sample_keys)
        self.assertEqual(batch.sample_keys.tolist(), keys.tolist())
        self.assertEqual(batch.marks.tolist(), [0] * 64)
        expected = tensor.clone()
        address = tensor.data_ptr()
        self.assertEqual(torch.from_dlpack(batch[0]).data_ptr(), address)
        del batch
        gc.collect()
        self.assertTrue(torch.equal(tensor, expected))
        self.assertEqual(tensor[:, 0].tolist(), (keys * 7).tolist())

    def test_dlpack_capsules_are_dropped_when_nothing_has_them_or_what_came_of_them(self):
        from batchflow import dlpack
        loader = batchflow.DataLoader("rows", 64, output="dlpack")
        batch = next(iter(loader))
        begin = len(dlpack._alive)
        unused, later = batch[0].__dlpack__(), batch[0].__dlpack__()
        self.assertEqual(len(dlpack._alive), begin + 2)
        del unused
        tensor = torch.from_dlpack(batch[0])  # an export drops capsules that were never consumed
        self.assertEqual(len(dlpack._alive), begin + 2)
        self.assertTrue(torch.equal(torch.utils.dlpack.from_dlpack(later), tensor))
        del later, tensor
        self.assertEqual(len(dlpack._alive), begin)
        with self.assertRaisesRegex(TypeError, "neither pickled nor deep-copied"):
            copy.deepcopy(batch)
        scores = batchflow.DataLoader("rows", 64, order="weighted", output="dlpack")
        scores.report_scores(next(iter(scores)).sample_keys, [1.0] * 64)

    def test_a_batch_moves_and_is_rebuilt_as_frameworks_do_it(self):
        batch = next(iter(batchflow.DataLoader("rows", 64)))
        moved = batch.to("cpu", torch.float32)
        self.assertEqual(moved[0].dtype, torch.float32)
        self.assertEqual(moved.sample_keys.tolist(), batch.sample_keys.tolist())
        self.assertIsInstance(type(batch)(one + 1 for one in batch), batchflow.Batch)
        for again in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch),
                      pickle.loads(pickle.dumps(copy.copy(batch)))):
            self.assertIsInstance(again, batchflow.Batch)
            self.assertTrue(torch.equal(again["data"], batch[0]))
            for name in ("names", "samples", "fillers", "epoch", "step", "last_of_epoch"):
                self.assertEqual(getattr(again, name), getattr(batch, name))
            for name in ("sample_keys", "wanted_keys", "marks"):
                self.assertEqual(getattr(again, name).tolist(), getattr(batch, name).tolist())

    def test_batches_are_put_on_a_device(self):
        # Which keeps no numbers, so that nothing can be there without having been moved.
        for batch in batchflow.DataLoader("rows", 64, device="meta"):
            self.assertIsInstance(batch, batchflow.Batch)
            self.assertEqual(batch[0].device, torch.device("meta"))
            self.assertEqual(batch[0].shape, (batch.samples, 16))
            self.assertEqual(batch.sample_keys.device, torch.device("cpu"))
        row = next(iter(batchflow.DataLoader("rows", None, device=torch.device("meta"))))
        self.assertEqual(row[0].device, torch.device("meta"))
        with self.assertRaisesRegex(ValueError, "batches are numpy; import torch"):
            next(iter(batchflow.DataLoader("rows", 64, device="meta", output="numpy")))
        with self.assertRaisesRegex(ValueError, "only collate_fn knows what it makes"):
            batchflow.DataLoader("rows", 64, device="meta", collate_fn=list)


if __name__ == "__main__":
    unittest.main()
