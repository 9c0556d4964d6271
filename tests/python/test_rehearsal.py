"""Buffers that the service fills, through real jobs: what a reservoir has is worked out here once more
(docs/order.md, section 8), and what is rehearsed is compared with it."""

import os
import unittest
from collections import Counter

import batchflow
from support import ServedFolders
from test_orders import hash_of

SIZES = {"code": 40, "math": 30, "web": 300}
FIRST = {"code": 0, "math": 40, "web": 70}
ALL = sum(SIZES.values())


def number_of(text, user):
    """What the engine knows the buffer `text` of a user by."""
    number = hash_of(user, 0)
    for one in text.encode():
        number = hash_of(number, one)
    return number | 1


class Rehearsed(ServedFolders):
    SERVED_AS, SIZES = "rows", SIZES

    def loader(self, policy="reservoir", samples=20, rehearsed=4, name="one", **more):
        more = {"batch_size": 16, "shuffle": True, "order": "strict", "shuffle_seed": 3,
                "output": "dlpack", **more}
        return batchflow.DataLoader("rows", rehearsal={
            "policy": policy, "samples": samples, "rehearsed": rehearsed, "name": name}, **more)

    def reservoir(self, loader, keys, samples=20, name="one"):
        """Those with the smallest numbers."""
        len(loader)  # opens its job
        dataset = int(loader.state_dict()["dataset"], 16)
        number = number_of(name, os.getuid())
        return sorted(sorted(set(keys), key=lambda key: hash_of(13, dataset, number, key))[:samples])


def parts_of(batch):
    new = batch.samples - batch.fillers - batch.rehearsed
    keys = [int(key) for key in batch.sample_keys]
    return keys[:new], keys[new + batch.fillers:]


class AReservoir(Rehearsed):
    def test_each_epoch_rehearses_what_was_kept_of_those_before(self):
        with self.loader() as loader:
            had, per_epoch = [], []
            for epoch in range(3):
                expected = self.reservoir(loader, had) if had else []
                rehearsed = []
                for batch in loader:
                    new, old = parts_of(batch)
                    self.assertEqual(len(old), 4 if epoch else 0)
                    had, rehearsed = had + new, rehearsed + old
                self.assertEqual(loader.exemplars().keys, expected)
                self.assertLessEqual(set(rehearsed), set(expected))
                counts = Counter(rehearsed)
                if epoch:
                    self.assertLessEqual(max(counts.values()) - min(counts.values()), 1)
                    self.assertEqual(len(counts), 20)
                per_epoch.append(sorted(had[-ALL:]))
            self.assertEqual(per_epoch, [list(range(ALL))] * 3)

    def test_the_length_is_that_of_the_epoch_under_way(self):
        with self.loader() as loader:
            for epoch in range(3):
                iteration = iter(loader)
                lengths = [(len(loader), len(iteration)) for _ in iteration]
                steps = -(-ALL // (12 if epoch else 16))
                self.assertEqual(lengths, [(steps, steps)] * steps)

    def test_the_mixture_holds_in_every_window_of_a_thousand_samples(self):
        with self.loader(batch_size=20, rehearsed=6) as loader:
            marks = []
            for epoch in range(6):
                for batch in loader:
                    if epoch and batch.samples == 20:
                        marks += [0] * (20 - batch.rehearsed) + [1] * batch.rehearsed
        self.assertGreater(len(marks), 2000)
        for at in range(len(marks) - 1000):
            self.assertLess(abs(sum(marks[at:at + 1000]) - 300), 6)

    def test_loaders_of_one_name_share_a_buffer_and_others_do_not(self):
        had = []
        for task, other in ((["code"], "two"), (["math"], "two"), (["web"], "three")):
            mixture = {name: 1.0 for name in task}
            with self.loader(order=None, mixture=mixture) as loader:
                expected = self.reservoir(loader, had) if had else []
                rehearsed = []
                for batch in loader:
                    new, old = parts_of(batch)
                    low, high = FIRST[task[0]], FIRST[task[0]] + SIZES[task[0]]
                    self.assertTrue(all(low <= key < high for key in new))
                    had, rehearsed = had + new, rehearsed + old
                self.assertEqual(loader.exemplars().keys, expected)
                self.assertLessEqual(set(rehearsed), set(expected))
                self.assertEqual(bool(rehearsed), bool(expected))
        with self.loader(name="other") as loader:
            next(iter(loader))
            self.assertEqual(len(loader.exemplars()), 0)

    def test_a_buffer_survives_its_service(self):
        with self.loader(job_name="job") as loader:
            batches = iter(loader)
            had = sum((parts_of(batch)[0] for batch in batches), [])
            batches = iter(loader)
            next(batches)
            before = loader.exemplars().keys
            self.assertEqual(before, self.reservoir(loader, had))
            self.daemon.kill()
            self.daemon.start()
            rest = [parts_of(batch) for batch in batches]
            self.assertEqual(loader.exemplars().keys, before)
            for new, old in rest:
                self.assertEqual(len(old), 4)
                self.assertLessEqual(set(old), set(before))
        with self.loader() as later:
            self.assertEqual(len(parts_of(next(iter(later)))[1]), 4)

    def test_two_ranks_have_the_same_buffer(self):
        from concurrent.futures import ThreadPoolExecutor
        def rank(number):
            with self.loader(rank=number, world_size=2, job_name="ranks") as loader:
                for _ in range(2):
                    old = [parts_of(batch)[1] for batch in loader]
                return loader.exemplars().keys, old
        with ThreadPoolExecutor(2) as ranks:
            (keys, old), (others, theirs) = ranks.map(rank, range(2))
        self.assertEqual(keys, others)
        self.assertEqual(len(old), len(theirs))
        counts = Counter(sum(old + theirs, []))
        self.assertEqual(set(counts), set(keys))
        self.assertLessEqual(max(counts.values()) - min(counts.values()), 1)


class OtherPolicies(Rehearsed):
    def test_by_score_keeps_the_highest(self):
        with self.loader("by-score", order="sequential", shuffle=False, shuffle_seed=None) as loader:
            for _ in range(2):
                for batch in loader:
                    keys = list(batch.sample_keys)
                    loader.report_scores(keys, [float(key * 7 % ALL) for key in keys])
            best = sorted(range(ALL), key=lambda key: -(key * 7 % ALL))[:20]
            self.assertEqual(loader.exemplars().keys, sorted(best))

    def test_prioritised_draws_by_scores_and_says_what_makes_up_for_it(self):
        with self.loader("prioritised:alpha=1", 10, order="sequential", shuffle=False,
                         shuffle_seed=None) as loader:
            for epoch in range(2):
                old = []
                for batch in loader:
                    keys = list(batch.sample_keys)
                    loader.report_scores(keys, [float(1 + key % 5) for key in keys])
                    old += parts_of(batch)[1]
            exemplars = loader.exemplars()
            self.assertEqual(exemplars.keys, list(range(ALL - 10, ALL)))
            weights = [1.01 + key % 5 for key in exemplars.keys]
            for part, weight in zip(exemplars.parts, weights):
                self.assertAlmostEqual(part, weight / sum(weights), places=4)
            counts = Counter(old)
            for key, part in zip(exemplars.keys, exemplars.parts):
                self.assertLess(abs(counts[key] - part * len(old)), len(old) / 10 + 1)
            importance = loader.importance(batch, beta=1.0)
            new = batch.samples - batch.rehearsed
            self.assertEqual(importance[:new], [1.0] * new)
            for key, weight in zip(parts_of(batch)[1], importance[new:]):
                self.assertAlmostEqual(weight, min(weights) / (1.01 + key % 5), places=3)

    def test_classes_and_features_that_a_job_reports(self):
        with self.loader("per-class", 24, order="sequential", shuffle=False,
                         shuffle_seed=None) as loader:
            for _ in range(2):
                for batch in loader:
                    keys = list(batch.sample_keys)
                    loader.record_features(keys, [[float(key % 11), 1.0] for key in keys],
                                           labels=[key % 3 for key in keys])
            kept = Counter(key % 3 for key in loader.exemplars().keys)
            self.assertEqual(kept, {0: 8, 1: 8, 2: 8})
            for label in range(3):  # the mean of key % 11 is 5
                own = [key % 11 for key in loader.exemplars().keys if key % 3 == label]
                self.assertLess(abs(sum(own) / 8 - 5), 0.7)


class WhatCannotBe(Rehearsed):
    def test_arguments(self):
        for rehearsal, words in (
                (5, "should be a dict"), ({"samples": 4}, "how many of each batch"),
                ({"samples": 0, "rehearsed": 1}, "samples"), ({"samples": 70000, "rehearsed": 1}, ""),
                ({"samples": 4, "rehearsed": 16}, "no room for new"),
                ({"samples": 4, "rehearsed": 1, "policies": "x"}, "it may say")):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                batchflow.DataLoader("rows", 16, rehearsal=rehearsal)
        with self.assertRaisesRegex(ValueError, "leave one of them out"):
            self.loader(exemplars=[1])
        with self.assertRaisesRegex(ValueError, "order='weighted'"):
            self.loader(order="weighted", shuffle=None)
        with batchflow.DataLoader("rows", 16) as loader:
            for call in (loader.exemplars, lambda: loader.record_features([1], [[1.0]])):
                with self.assertRaisesRegex(RuntimeError, "no buffer"):
                    call()
        with self.loader() as loader:
            with self.assertRaisesRegex(RuntimeError, "the service fills"):
                loader.report_exemplars([1])
            with self.assertRaisesRegex(ValueError, "features of 1 samples"):
                loader.record_features([1, 2], [[1.0]])

    def test_another_policy_or_size_is_refused(self):
        with self.loader() as loader:
            next(iter(loader))
            for more, words in (({"samples": 21}, "20 exemplars, and this one asks for 21"),
                                ({"policy": "by-score"}, "another policy"),
                                ({"policy": "reservoire", "name": "two"},
                                 "unknown rehearsal policy 'reservoire'; write 'reservoir'")):
                with self.assertRaisesRegex(batchflow.RefusedError, words):
                    next(iter(self.loader(**more)))


if __name__ == "__main__":
    unittest.main()
