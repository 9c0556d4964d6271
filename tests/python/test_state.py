"""Checkpoints: at any batch, at another batch size and world size, and those of other loaders."""

import json
import pickle
import unittest

import batchflow
from batchflow import imports
from support import Served, result, start_job


class Resume(Served):
    ROWS = 500

    def test_at_every_batch_and_any_batch_size(self):
        for order in ("strict", "relaxed", None):
            loader = batchflow.DataLoader("rows", 32, None if order is None else True, order=order,
                                          shuffle_seed=1)
            states, given = [loader.state_dict()], []
            for batch in loader:
                given.append(self.own_keys(batch))
                states.append(json.loads(json.dumps(loader.state_dict())))
            for taken, state in enumerate(states[:-1]):
                again = batchflow.DataLoader("rows", 1 + 13 * taken, order is not None or None,
                                             order=order, shuffle_seed=1)
                again.load_state_dict(state)
                rest = [key for batch in again for key in self.own_keys(batch)]
                had = [key for keys in given[:taken] for key in keys]
                self.assert_whole(had + rest)
                if order != "relaxed":
                    self.assertEqual(had + rest, [key for keys in given for key in keys])
                self.assertEqual({batch.epoch for batch in again}, {1})
            # After the last batch stands the next epoch.
            again.load_state_dict(states[-1])
            self.assertEqual({batch.epoch for batch in again}, {1})

    def test_a_loader_that_runs_goes_back_and_an_empty_state_begins_anew(self):
        loader = batchflow.DataLoader("rows", 50, order="strict")
        first = [self.own_keys(batch) for batch in loader]
        iteration = iter(loader)
        second = [self.own_keys(next(iteration)) for _ in range(3)]
        state = loader.state_dict()
        rest = [self.own_keys(batch) for batch in iteration]
        loader.load_state_dict(state)
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual([self.own_keys(batch) for batch in loader], rest)
        loader.load_state_dict({})
        self.assertEqual([self.own_keys(batch) for batch in loader], first)
        self.assertNotEqual(second, first[:3])

    def test_an_epoch_set_before_the_first_batch_is_in_the_state_and_in_a_copy(self):
        for order in ("strict", "relaxed"):
            loader = batchflow.DataLoader("rows", 50, order=order, shuffle_seed=1)
            loader.set_epoch(5)
            again = batchflow.DataLoader("rows", 50, order=order, shuffle_seed=1)
            again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
            for one in (loader, again, pickle.loads(pickle.dumps(loader))):
                batch = next(iter(one))
                self.assertEqual((batch.epoch, batch.samples), (5, 50))

    def test_the_state_is_small_and_says_where(self):
        loader = batchflow.DataLoader("rows", 50, order="strict", shuffle_seed=77)
        next(iter(loader))
        state = loader.state_dict()
        self.assertLess(len(json.dumps(state)), 200)
        self.assertEqual((state["v"], state["order"], state["epoch"], state["consumed"],
                          state["samples"]), (1, "strict", 0, 50, self.ROWS))
        self.assertEqual(sorted(state), ["consumed", "dataset", "epoch", "order", "samples", "seed",
                                         "v"])

    def test_orders_change_between_epochs_alone(self):
        loader = batchflow.DataLoader("rows", 50, True)
        for batch in loader:
            pass
        at_end = loader.state_dict()
        next(iter(loader))
        other = batchflow.DataLoader("rows", 50, order="strict")
        other.load_state_dict(at_end)
        self.assertEqual({batch.epoch for batch in other}, {1})
        with self.assertRaisesRegex(ValueError, "orders change between epochs"):
            other.load_state_dict(loader.state_dict())

    def test_what_is_no_state_is_refused(self):
        loader = batchflow.DataLoader("rows", 50, True)
        with self.assertRaisesRegex(TypeError, "a dict, not list"):
            loader.load_state_dict([])
        with self.assertRaisesRegex(ValueError, "not a state of batchflow.DataLoader .it has model"):
            loader.load_state_dict({"model": 1})
        state = {"v": 1, "order": "relaxed", "dataset": "0" * 16, "samples": 5, "seed": 1,
                 "epoch": 0, "consumed": 0}
        loader.load_state_dict(state)
        with self.assertRaisesRegex(batchflow.RefusedError, "state does not fit this job"):
            next(iter(loader))


class ResumeWhereSamplesAreChosen(Resume):
    ARGUMENTS = ("--policy", "preset=quiver")

    def test_a_relaxed_state_says_what_was_passed_over(self):
        loader = batchflow.DataLoader("rows", 50, True)
        next(iter(loader))
        state = loader.state_dict()
        self.assertEqual(sorted(state), ["consumed", "dataset", "epoch", "left_out", "order",
                                         "samples", "seed", "v"])
        state["left_out"] = "////"
        loader.load_state_dict(state)
        with self.assertRaisesRegex(batchflow.RefusedError, "'left_out' is not a list of at most"):
            next(iter(loader))


class OtherWorldSizes(Served):
    ROWS = 700

    def ranks(self, world, state, batches, size):
        jobs = []
        for rank in range(world):
            options = {"batch_size": size, "order": self.order, "shuffle_seed": 4, "rank": rank,
                       "world_size": world, "job_name": f"job-{world}"}
            jobs.append(start_job("rank_of", "rows", options, state, batches, None))
        return [result(job) for job in jobs]

    def test_three_ranks_then_two_then_one(self):
        for self.order in ("strict", "relaxed"):
            keys, state = [], {}
            for world, batches, size in ((3, 7, 10), (2, 5, 16), (1, None, 9)):
                ranks = self.ranks(world, state, batches, size)
                keys += [key for rank in ranks for key in rank["keys"]]
                state = ranks[0]["state"]
                self.assertTrue(all(rank["state"] == state for rank in ranks))
                self.assertTrue(all(rank["counts"] == ranks[0]["counts"] for rank in ranks))
            self.assert_whole(keys)
            self.assertEqual(state["epoch"], 1)


class OtherWorldSizesWhereSamplesAreChosen(OtherWorldSizes):
    ARGUMENTS = ("--policy", "preset=seneca")


class Imports(Served):
    ROWS = 500

    MOSAIC = {"epoch": 3, "sample_in_epoch": 0, "num_canonical_nodes": 2, "shuffle_seed": 9,
              "initial_physical_nodes": 1}
    TORCHDATA = {"_sampler_iter_state": {"samples_yielded": 120}, "_num_yielded": 12,
                 "_iterator_finished": False}
    LITDATA = {"num_samples_yielded": 100, "num_workers": 1, "batch_size": 10, "current_epoch": 2,
               "world_size": 2, "shuffle": True, "seed": 42, "drop_last": False}

    def first_batch(self, state, **options):
        loader = batchflow.DataLoader("rows", 10, **options)
        loader.load_state_dict(json.loads(json.dumps(state)))
        return next(iter(loader))

    def test_an_epochs_end_carries_over_to_every_order(self):
        for options in ({"shuffle": True}, {"order": "strict"}, {}):
            state = imports.from_mosaicml(self.MOSAIC)
            self.assertEqual(self.first_batch(state, **options).epoch, 3)
        finished = dict(self.TORCHDATA, _iterator_finished=True)
        self.assertEqual(self.first_batch(imports.from_torchdata(finished, epoch=6)).epoch, 7)

    def test_the_middle_of_a_sequential_epoch_carries_over(self):
        batch = self.first_batch(imports.from_torchdata(self.TORCHDATA, epoch=6))
        self.assertEqual((batch.epoch, batch.sample_keys.tolist()[0]), (6, 120))
        batch = self.first_batch(imports.from_torchdata([self.TORCHDATA] * 4, epoch=0))
        self.assertEqual((batch.epoch, batch.sample_keys.tolist()[0]), (0, 480))
        batch = self.first_batch(imports.from_litdata(self.LITDATA))
        self.assertEqual((batch.epoch, batch.sample_keys.tolist()[0]), (1, 200))

    def test_the_middle_of_a_shuffled_epoch_is_refused_or_rounded_up(self):
        mid = dict(self.MOSAIC, sample_in_epoch=30)
        with self.assertRaisesRegex(ValueError, "MosaicML state is in the middle of epoch 3.*"
                                    "whole_epochs=True"):
            self.first_batch(imports.from_mosaicml(mid), shuffle=True)
        state = imports.from_mosaicml(mid, whole_epochs=True)
        self.assertEqual(self.first_batch(state, shuffle=True).epoch, 4)

    def test_whole_epochs_skip_none_that_has_not_begun(self):
        begun = {"_sampler_iter_state": {"samples_yielded": 5}}
        at_start = {"_sampler_iter_state": None, "_num_yielded": 0, "_iterator_finished": False}
        finished = dict(self.TORCHDATA, _iterator_finished=True)
        with_workers = {"_snapshot": {"_main_snapshot": {"_sampler_iter_yielded": 0}},
                        "_steps_since_snapshot": 0}
        for states, epoch in ((at_start, 3), (with_workers, 3), ([at_start] * 2, 3), (begun, 4),
                              ([at_start, begun], 4), (finished, 4), ({"unlike": "any"}, 4)):
            state = imports.from_torchdata(states, epoch=3, whole_epochs=True)
            self.assertEqual((state["epoch"], state["consumed"]), (epoch, 0), states)

    def test_states_that_do_not_fit_are_refused(self):
        with self.assertRaisesRegex(ValueError, "of a dataset of 7 samples, this one has 500"):
            self.first_batch(imports.from_mosaicml(self.MOSAIC, samples=7))
        for read, state in ((imports.from_mosaicml, {"epoch": 1}), (imports.from_litdata, {}),
                            (lambda state: imports.from_torchdata(state, epoch=0), {})):
            with self.assertRaises(ValueError):
                read(state)
        with self.assertRaisesRegex(ValueError, "not of one step"):
            imports.from_torchdata([self.TORCHDATA, {"_sampler_iter_state":
                                                     {"samples_yielded": 130}}], epoch=0)
        with self.assertRaisesRegex(ValueError, "3 batches after its last snapshot"):
            imports.from_torchdata({"_snapshot": {"_main_snapshot": self.TORCHDATA},
                                    "_steps_since_snapshot": 3}, epoch=0)


if __name__ == "__main__":
    unittest.main()
