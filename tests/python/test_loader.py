"""DataLoader over a real service: what a training script sees."""

import os
import sys
import time
import unittest
import warnings

import batchflow
from batchflow import arguments
from support import Served, wait_until

try:
    import torch
except ImportError:
    torch = None


class Loader(Served):
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
        # The hint is not a bound: one more iteration is a fourth epoch.
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

    def test_a_new_iteration_leaves_the_one_before_as_it_is(self):
        loader = batchflow.DataLoader("rows", 100, True)
        first = iter(loader)
        keys = self.own_keys(next(first))
        second = iter(loader)
        others = self.own_keys(next(second))
        for batch in first:
            keys += self.own_keys(batch)
        for batch in second:
            others += self.own_keys(batch)
        self.assert_whole(keys)
        self.assert_whole(others)
        self.assertNotEqual(keys, others)
        self.assertEqual({batch.epoch for batch in loader}, {2})

    def test_iterations_end_with_their_loader_and_with_its_state(self):
        loader = batchflow.DataLoader("rows", 100, True)
        first = iter(loader)
        next(first)
        second = iter(loader)
        next(second)
        loader.load_state_dict({})
        with self.assertRaisesRegex(RuntimeError, "was set to another state"):
            next(second)
        loader.close()
        with self.assertRaisesRegex(RuntimeError, "is closed"):
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
            self.assertEqual(loader._opened().session.info.credits, ahead + 1)
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
        with self.assertRaisesRegex(ValueError, "one of the keys -1 to 2 has no sample; keys are 0"):
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
        self.assertLessEqual(drawn(first), set(range(5)))  # reported before the first epoch
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


@unittest.skipUnless(torch, f"torch is not installed for {sys.executable}")
class BesideTorch(Served):
    def test_profilers_show_the_wait_as_pytorchs(self):
        loader = batchflow.DataLoader("rows", 64)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for batch in loader:
                pass
        shown = "enumerate(DataLoader)#DataLoaderIter.__next__"
        counts = {event.key: event.count for event in profile.key_averages()}
        self.assertEqual(counts.get(shown), len(loader))

    def test_a_profiler_may_begin_and_end_within_an_epoch(self):
        loader = batchflow.DataLoader("rows", 64)
        iteration = iter(loader)
        next(iteration)
        with torch.autograd.profiler.profile() as profile:
            next(iteration)
            next(iteration)
        next(iteration)
        shown = "enumerate(DataLoader)#DataLoaderIter.__next__"
        self.assertEqual([event.name for event in profile.function_events].count(shown), 2)

    def test_nothing_is_recorded_where_no_profiler_runs(self):
        record = torch.autograd.profiler.record_function
        torch.autograd.profiler.record_function = None  # it would be called
        self.addCleanup(setattr, torch.autograd.profiler, "record_function", record)
        for batch in batchflow.DataLoader("rows", 64):
            self.check_content(batch)

    def test_an_iterable_dataset_for_what_takes_nothing_else(self):
        loader = batchflow.DataLoader("rows", 64, True)
        wrapped = torch.utils.data.DataLoader(batchflow.iterable_dataset(loader), batch_size=None)
        self.assertIsInstance(wrapped.dataset, torch.utils.data.IterableDataset)
        self.assertEqual(len(wrapped), len(loader))
        # PyTorch makes lists of tuples, so keys and marks are lost...
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
                with self.assertRaisesRegex(ValueError, f"the {type(sampler).__name__} goes "
                                            "over 10 samples, and the service finds 2000"):
                    len(loader)
        wait_until(lambda: not self.daemon.status()["jobs"], 10, "their jobs' end")
        sampler = DistributedSampler(range(self.ROWS), 1, 0, drop_last=True)
        counts = [batch.samples for batch in batchflow.DataLoader("rows", 64, sampler=sampler)]
        self.assertEqual(counts, [64] * (self.ROWS // 64) + [self.ROWS % 64])

    def test_pinning_without_a_device_is_said_once(self):
        arguments._said.discard("pin_memory")
        if torch.cuda.is_available():
            self.skipTest("there is a device")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for batch in batchflow.DataLoader("rows", 64, pin_memory=True):
                pass
        self.assertEqual(len([one for one in said if "pin_memory" in str(one.message)]), 1)


if __name__ == "__main__":
    unittest.main()
