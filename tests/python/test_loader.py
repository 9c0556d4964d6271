"""DataLoader over a real service: what a training script sees."""

import copy
import ctypes
import functools
import gc
import importlib.util
import operator
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from collections import deque

import batchflow
from batchflow import arguments
from batchflow import batch as batches
from support import Served, needs, result, run_python, start_job, wait_until

try:
    import torch
except ImportError:
    torch = None


class Batches(Served):
    def test_every_sample_once_an_epoch_in_each_order(self):
        for order, shuffle in (("relaxed", True), ("strict", True), (None, False)):
            loader = batchflow.DataLoader("rows", 64, shuffle, order=order)
            self.assertEqual(len(loader), -(-self.ROWS // 64))
            seen = []
            for epoch in range(3):
                keys = []
                for i, batch in enumerate(loader):
                    (data,) = batch
                    self.assertEqual(tuple(data.shape)[1:], (16,))
                    self.assertEqual(batch.epoch, epoch)
                    self.check_content(batch)
                    keys += self.own_keys(batch)
                self.assertEqual(i + 1, len(loader))
                self.assertTrue(batch.last_of_epoch)
                self.assert_whole(keys)
                seen.append(keys)
            if shuffle:
                self.assertNotEqual(seen[0], seen[1])
                self.assertNotEqual(seen[0], sorted(seen[0]))
            else:
                self.assertEqual(seen, [list(range(self.ROWS))] * 3)

    def test_canary_an_order_that_loses_a_sample_is_seen(self):
        loader = batchflow.DataLoader("rows", 64)
        keys = [key for batch in loader for key in self.own_keys(batch)]
        with self.assertRaises(AssertionError):
            self.assert_whole(keys[1:])
        with self.assertRaises(AssertionError):
            self.assert_whole(keys[1:] + keys[1:2])

    def test_drop_last_leaves_the_tail_out(self):
        loader = batchflow.DataLoader("rows", 64, True, drop_last=True)
        counts = [batch.samples for batch in loader]
        self.assertEqual(counts, [64] * (self.ROWS // 64))
        self.assertEqual(len(loader), self.ROWS // 64)

    def test_all_epochs_end_to_end(self):
        loader = batchflow.DataLoader("rows", 100, True, epochs=3)
        epochs = [batch.epoch for batch in loader.epochs()]
        self.assertEqual(epochs, [0] * 20 + [1] * 20 + [2] * 20)
        # The hint is no bound: who iterates once more has a fourth epoch.
        self.assertEqual({batch.epoch for batch in loader}, {3})

    def test_an_epoch_that_was_left_early_is_followed_by_the_next_and_set_epoch_says_which(self):
        loader = batchflow.DataLoader("rows", 100, True, order="strict")
        whole = [self.own_keys(batch) for batch in loader]
        for i, batch in enumerate(loader):
            if i == 3:
                break
        self.assertEqual({batch.epoch for batch in loader}, {2})
        loader.set_epoch(0)
        self.assertEqual([self.own_keys(batch) for batch in loader], whole)
        loader.set_epoch(1)  # which it would be anyway
        self.assertEqual({batch.epoch for batch in loader}, {1})

    def test_a_new_iteration_ends_the_one_before(self):
        loader = batchflow.DataLoader("rows", 100, True)
        first = iter(loader)
        next(first)
        second = iter(loader)
        next(second)
        with self.assertRaisesRegex(RuntimeError, "another iteration"):
            next(first)

    def test_what_it_can_tell(self):
        loader = batchflow.DataLoader("rows", 64)
        self.assertEqual(loader.fields, {"data": ("int64", (16,))})
        self.assertEqual(loader.dataset_samples, self.ROWS)
        self.assertEqual(loader.classes, [])
        self.assertEqual(loader.dataset.classes, [])
        self.assertEqual(len(loader.dataset), self.ROWS)
        self.assertEqual((str(loader.dataset), os.fspath(loader.dataset)), ("rows", "rows"))
        self.assertIn("'rows'", repr(loader.dataset))
        self.assertEqual(loader.dataset, "rows")
        self.assertEqual(loader.sample_name(7), "rows.npy:7")
        for key in (-1, self.ROWS):
            with self.assertRaisesRegex(IndexError, f"no sample {key}; keys are 0 to 1999"):
                loader.sample_name(key)
        batch = next(iter(loader))
        self.assertEqual(batch["data"].tolist(), batch[0].tolist())
        with self.assertRaisesRegex(KeyError, "no field 'image'; there are data"):
            batch["image"]
        self.assertEqual(batch.marks.tolist(), [0] * 64)
        self.assertEqual(batch.wanted_keys.tolist(), batch.sample_keys.tolist())
        for batch in loader:
            time.sleep(0.001)
        times = loader.times()
        self.assertGreater(times["between_s"], 0.001 * len(loader) * 0.5)
        self.assertEqual(times["batches"], len(loader))

    def test_collate_fn_gets_samples_and_batch_size_none_gives_them(self):
        loader = batchflow.DataLoader("rows", 10, collate_fn=lambda samples: [
            int(sample[0][0]) for sample in samples])
        self.assertEqual(next(iter(loader)), [7 * k for k in range(10)])
        loader = batchflow.DataLoader("rows", None, collate_fn=lambda sample: int(sample[0][3]))
        self.assertEqual(next(iter(loader)), 21)
        loader = batchflow.DataLoader("rows", None)
        for k, (sample,) in enumerate(loader):
            self.assertEqual(tuple(sample.shape), (16,))
            self.assertEqual(int(sample[0]), 7 * k)
            if k == 20:
                break

    def test_credits_follow_prefetch_factor(self):
        for ahead in (6, arguments.PREFETCH_MOST):
            loader = batchflow.DataLoader("rows", 1, prefetch_factor=ahead)
            self.assertEqual(loader._opened().info.credits, ahead + 1)
        with self.assertRaisesRegex(ValueError, "prefetch_factor should be from 0 to"):
            batchflow.DataLoader("rows", 1, prefetch_factor=arguments.PREFETCH_MOST + 1)

    def test_weighted_draws_follow_scores(self):
        loader = batchflow.DataLoader("rows", 100, order="weighted")
        for batch in loader:
            with loader.record_importance(batch.sample_keys) as record:
                record([1.0 if key < 100 else 0.0 for key in batch.sample_keys.tolist()])
        # Scores of an epoch's last batches may come after the next has begun.
        for batch in loader:
            pass
        keys = [key for batch in loader for key in batch.sample_keys.tolist()]
        self.assertEqual(len(keys), self.ROWS)
        self.assertLess(max(keys), 100)
        with self.assertRaisesRegex(ValueError, "no scores were recorded"):
            with loader.record_importance([1]):
                pass
        with self.assertRaisesRegex(ValueError, "2 keys and 1 scores"):
            loader.report_scores([1, 2], [1.0])
        with self.assertRaisesRegex(ValueError, "among -1 to 2; keys are 0 to 1999"):
            loader.report_scores([-1, 2], [1.0, 1.0])
        with self.assertRaisesRegex(RuntimeError, "order='weighted'"):
            batchflow.DataLoader("rows").report_scores([1], [1.0])


    def test_scores_go_with_the_loader(self):
        def loader(**more):
            return batchflow.DataLoader("rows", 100, order="weighted", shuffle_seed=1, **more)

        def drawn(batches):
            return {key for batch in batches for key in batch.sample_keys.tolist()}
        first = loader()
        first.report_scores(range(5, self.ROWS), [0.0] * (self.ROWS - 5))
        self.assertLessEqual(drawn(first), set(range(5)))  # told before the first epoch
        for _ in first:
            break  # the rest of this epoch is not wanted
        self.assertLessEqual(drawn(first), set(range(5)))
        first.set_epoch(9)
        batches = iter(first)
        self.assertEqual(next(batches).epoch, 9)
        saved, (keys, scores) = first.state_dict(), first.scores()
        self.assertEqual((keys, scores), (list(range(5, self.ROWS)), [0.0] * (self.ROWS - 5)))
        first.close()
        # With its scores it goes on in the middle of the epoch; without them that begins again.
        for told, samples in ((True, self.ROWS - 100), (False, self.ROWS)):
            again = loader()
            again.load_state_dict(saved)
            if told:
                again.report_scores(keys, scores)
            rest = list(again)
            self.assertEqual(sum(batch.samples for batch in rest), samples)
            self.assertEqual(rest[0].epoch, 9)
            self.assertEqual(max(drawn(rest)) < 5, told)
        nothing = loader()
        nothing.report_scores(range(self.ROWS), [0.0] * self.ROWS)
        with self.assertRaisesRegex(batchflow.RefusedError, "all scores are 0.*report some above"):
            next(iter(nothing))


class Memory(Served):
    def test_batches_stay_as_they_are_while_somebody_has_them(self):
        loader = batchflow.DataLoader("rows", 50, True)
        with loader:
            kept = list(loader)
        self.assertGreater(sum(batch.copied for batch in kept), 0)  # beyond the reserve
        self.assertLess(sum(batch.copied for batch in kept), len(kept))
        del loader
        gc.collect()
        self.assert_whole([key for batch in kept for key in self.check_content(batch)])

    def test_what_nobody_has_is_free_so_that_nothing_is_copied(self):
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
                self.assertEqual(len(batches._ends), 1)
                del circle
                gc.collect()
                self.assertEqual(len(batches._ends), 0)

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

    def test_dlpack_capsules_are_dropped_when_nobody_has_them_or_what_came_of_them(self):
        from batchflow import dlpack
        loader = batchflow.DataLoader("rows", 64, output="dlpack")
        batch = next(iter(loader))
        begin = len(dlpack._alive)
        unused, later = batch[0].__dlpack__(), batch[0].__dlpack__()
        self.assertEqual(len(dlpack._alive), begin + 2)
        del unused
        tensor = torch.from_dlpack(batch[0])  # an export, which looks for what is left of others
        self.assertEqual(len(dlpack._alive), begin + 2)
        self.assertTrue(torch.equal(torch.utils.dlpack.from_dlpack(later), tensor))
        del later, tensor
        self.assertEqual(len(dlpack._alive), begin)
        with self.assertRaisesRegex(TypeError, "neither pickled nor deep-copied"):
            copy.deepcopy(batch)
        scores = batchflow.DataLoader("rows", 64, order="weighted", output="dlpack")
        scores.report_scores(next(iter(scores)).sample_keys, [1.0] * 64)

    def test_profilers_show_the_wait_as_pytorchs(self):
        loader = batchflow.DataLoader("rows", 64)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for batch in loader:
                pass
        names = {event.name for event in profile.events()}
        self.assertIn("enumerate(DataLoader)#DataLoaderIter.__next__", names)

    def test_an_iterable_dataset_for_what_takes_nothing_else(self):
        loader = batchflow.DataLoader("rows", 64, True)
        wrapped = torch.utils.data.DataLoader(batchflow.iterable_dataset(loader), batch_size=None)
        self.assertIsInstance(wrapped.dataset, torch.utils.data.IterableDataset)
        self.assertEqual(len(wrapped), len(loader))
        # PyTorch makes lists of tuples, so what is known beside the fields is lost...
        first = [row[0] // 7 for (data,) in wrapped for row in data.tolist()]
        self.assert_whole(set(first))
        # ... unless its collate_fn leaves them alone.
        kept = torch.utils.data.DataLoader(batchflow.iterable_dataset(loader), batch_size=None,
                                           collate_fn=lambda batch: batch)
        self.assert_whole([key for batch in kept for key in self.own_keys(batch)])
        workers = torch.utils.data.DataLoader(batchflow.iterable_dataset(loader), batch_size=None,
                                              num_workers=1)
        with self.assertRaisesRegex(RuntimeError, "num_workers=0"):
            next(iter(workers))

    def test_samplers_over_something_else_are_refused_and_ranks_tails_are_not_batches(self):
        from torch.utils.data import DistributedSampler, SequentialSampler
        for sampler in (SequentialSampler(range(10)), DistributedSampler(range(10), 1, 0)):
            loader = batchflow.DataLoader("rows", 64, sampler=sampler)
            for _ in range(2):
                with self.assertRaisesRegex(ValueError, f"what the {type(sampler).__name__} goes "
                                            "over has 10 samples, and the service finds 2000"):
                    len(loader)
        wait_until(lambda: not self.daemon.status()["jobs"], 10, "their jobs' end")
        sampler = DistributedSampler(range(self.ROWS), 1, 0, drop_last=True)
        counts = [batch.samples for batch in batchflow.DataLoader("rows", 64, sampler=sampler)]
        self.assertEqual(counts, [64] * (self.ROWS // 64) + [self.ROWS % 64])

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

    def test_pinning_without_a_device_is_said_once(self):
        arguments._said.discard("pin_memory")
        if torch.cuda.is_available():
            self.skipTest("there is a device")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for batch in batchflow.DataLoader("rows", 64, pin_memory=True):
                pass
        self.assertEqual(len([one for one in said if "pin_memory" in str(one.message)]), 1)


class Waiting(Served):
    """Ranks whose other rank does not come, or does not go on."""

    def options(self, rank):
        return {"batch_size": 10, "shuffle": True, "rank": rank, "world_size": 2, "job_name": "w"}

    def interrupted(self, job):
        self.assertEqual(job.stdout.readline(), b"begun\n")
        time.sleep(1)
        self.assertIsNone(job.poll())
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        self.assertEqual(result(job, 30), "interrupted")
        self.assertLess(time.monotonic() - begin, 5)

    def test_ctrl_c_ends_the_wait_for_other_ranks(self):
        self.interrupted(start_job("wait_for_other_rank", "rows", self.options(0)))

    def test_ctrl_c_ends_the_wait_for_a_batch(self):
        job = start_job("wait_for_other_rank", "rows", self.options(0))
        other = batchflow.DataLoader("rows", **self.options(1))
        next(iter(other))  # and no more: it holds the other one up
        self.interrupted(job)

    def test_a_wait_ends_with_pytorchs_words(self):
        job = start_job("wait_for_other_rank", "rows", self.options(0))
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        loader = batchflow.DataLoader("rows", timeout=2, **self.options(1))
        with self.assertRaisesRegex(RuntimeError, "DataLoader timed out after 2 seconds"):
            iteration = iter(loader)
            job.send_signal(signal.SIGSTOP)
            for _ in iteration:
                pass


class CtrlC(Served):
    """Python drops what is raised where an object ends, so no line of it may run there."""

    def setUp(self):
        super().setUp()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def test_one_that_comes_while_a_batch_goes_is_raised(self):
        interrupt = functools.partial(ctypes.PyDLL(None)["raise"], signal.SIGINT)
        for output, module in (("memoryview", "sys"), ("numpy", "numpy"), ("torch", "torch"),
                               ("dlpack", "torch")):
            if not importlib.util.find_spec(module):
                continue
            batch = next(iter(batchflow.DataLoader("rows", 64, output=output)))
            held = [torch.from_dlpack(batch[0]) if output == "dlpack" else batch]
            del batch
            gc.collect()
            self.assertEqual(len(batches._ends), 1)
            with self.assertRaises(KeyboardInterrupt):
                # Both in C, so that Python asks for signals when the batch is gone, and not before.
                deque(map(operator.methodcaller("__call__"), [interrupt, held.clear]), 0)
            self.assertEqual(len(batches._ends), 0)

    def test_none_of_many_is_lost(self):
        loader = batchflow.DataLoader("rows", 10, output="memoryview")
        ready, raised, seed = threading.Event(), 0, random.randrange(2**32)
        chance = random.Random(seed)
        ended = threading.Event()

        def interrupt():
            while ready.wait(20) and not ended.is_set():
                ready.clear()
                time.sleep(chance.uniform(0, 0.002))
                os.kill(os.getpid(), signal.SIGINT)
            ended.set()

        sender = threading.Thread(target=interrupt)
        sender.start()
        iteration = iter(loader)
        while raised < 300:
            try:
                ready.set()
                while not ended.is_set():
                    for _ in iteration:
                        pass
                    iteration = iter(loader)
                self.fail(f"number {raised} was lost (seed {seed})")
            except KeyboardInterrupt:
                raised += 1
        ended.set()
        ready.set()
        sender.join()


class Processes(Served):
    def test_a_forked_process_is_told_and_makes_its_own(self):
        loader = batchflow.DataLoader("rows", 64, True)
        iteration = iter(loader)
        keys = self.own_keys(next(iteration))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = "nothing"
            try:
                next(iteration)
            except RuntimeError as error:
                said = str(error)
            own = [key for batch in batchflow.DataLoader("rows", 64, True)
                   for key in batch.sample_keys.tolist()[:batch.samples - batch.fillers]]
            os.write(write, f"{len(set(own))} {len(own)} {said}".encode())
            del loader, iteration
            gc.collect()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            said = answer.read()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertRegex(said, "^2000 2000 .*which fork\\(\\) made of it; make a DataLoader")
        for batch in iteration:
            keys += self.own_keys(batch)
        self.assert_whole(keys)

    def test_a_loader_not_yet_used_can_be_used_by_each_fork(self):
        loader = batchflow.DataLoader("rows", 64, True)
        child = os.fork()
        if child == 0:
            keys = [key for batch in loader for key in self.own_keys(batch)]
            os._exit(0 if sorted(keys) == list(range(self.ROWS)) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assert_whole([key for batch in loader for key in self.own_keys(batch)])

    def test_a_spawned_process_gets_the_arguments(self):
        import multiprocessing
        from jobs import spawned_keys
        context = multiprocessing.get_context("spawn")
        out = context.Queue()
        loader = batchflow.DataLoader("rows", 64, True, shuffle_seed=3)
        next(iter(loader))  # what was begun here stays here
        child = context.Process(target=spawned_keys, args=(loader, out))
        child.start()
        keys = out.get(timeout=60)
        child.join(60)
        self.assert_whole(keys)


if __name__ == "__main__":
    unittest.main()
