"""Draws, rehearsal and blocks of nodes: the arguments, and what a loader with them gives. Draws are
compared with the order rules (docs/order.md), which are written down here once more."""

import bisect
import itertools
import pickle
import threading
import unittest

import batchflow
from batchflow import orders
from support import Folder, Served, needs

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FILLER, REHEARSED = 1, 4


def mix(z):
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def hash_of(*words):
    made = 0
    for word in words:
        made = mix((made + GOLDEN & MASK) ^ mix(word + GOLDEN & MASK))
    return made


def permuted(key, count):
    """perm(key, n) of the order rules, for n up to 65,536."""
    values, state = list(range(count)), key
    for i in range(count, 1, -1):
        state = state + GOLDEN & MASK
        at = mix(state) * i >> 64
        values[i - 1], values[at] = values[at], values[i - 1]
    return values


def draws(state, weights, epoch, count):
    """The multinomial draws of an epoch: draw k is the sample that covers hi64(d * T)."""
    sums = list(itertools.accumulate(weights))
    key = hash_of(6, int(state["dataset"], 16), state["seed"], epoch, 2)
    made = []
    for k in range(count):
        d = mix(key + (k + 1) * GOLDEN & MASK)
        made.append(bisect.bisect_right(sums, d * sums[-1] >> 64))
    return made


def weight_of(score):
    return max(1, min(2**32 - 1, round(score * 65536))) if score > 0 else 0


def read(*positional, **named):
    return batchflow.DataLoader(*positional, **named)._arguments


class Arguments(Folder):
    def test_what_no_order_can_be_is_refused(self):
        self.assertEqual(hash_of(1, 2, 3), 0x003F53A1FE784BBF)  # golden, as in docs/order.md
        for kind, text, named in (
                (ValueError, "draws and drawing are for order='weighted', and this order is strict",
                 {"order": "strict", "draws": 5}),
                (ValueError, "draws and drawing are for order='weighted'", {"drawing": "systematic"}),
                (ValueError, "drawing='any': write systematic or multinomial",
                 {"order": "weighted", "drawing": "any"}),
                (ValueError, "draws should be from 1 to 2147483648", {"order": "weighted", "draws": 0}),
                (TypeError, "draws should be an integer", {"order": "weighted", "draws": 1.5}),
                (ValueError, "node_local=True is for order='relaxed'.*this order is sequential",
                 {"node_local": True}),
                (ValueError, "shuffle should be a boolean or 'runs', but got shuffle='run'",
                 {"shuffle": "run"}),
                (ValueError, "shuffle='runs' is a relaxed order, and order='strict'",
                 {"shuffle": "runs", "order": "strict"}),
                (ValueError, "rehearsed=8 of batch_size=8 leaves no room",
                 {"batch_size": 8, "rehearsed": 8}),
                (ValueError, "rehearsed=1 of batch_size=1", {"batch_size": None, "rehearsed": 1}),
                (ValueError, "order='weighted' is drawn",
                 {"batch_size": 8, "order": "weighted", "rehearsed": 2}),
                (TypeError, "rehearsed should be an integer", {"batch_size": 8, "rehearsed": 1.5}),
                (ValueError, "write rehearsed=", {"exemplars": [1]}),
                (ValueError, "exemplars should be keys of samples",
                 {"batch_size": 8, "rehearsed": 1, "exemplars": [-1]}),
                (ValueError, "exemplars has 65537 keys; a buffer holds 65536",
                 {"batch_size": 8, "rehearsed": 1, "exemplars": range(65537)})):
            with self.assertRaisesRegex(kind, text):
                read("rows", **named)
        with self.assertRaisesRegex(RuntimeError, "this DataLoader rehearses nothing"):
            batchflow.DataLoader("rows").report_exemplars([1])

    def test_they_go_to_another_process(self):
        loader = batchflow.DataLoader("rows", 8, True, node_local=True, rehearsed=2, exemplars=[3, 1])
        loader.report_exemplars([4, 5])
        again = pickle.loads(pickle.dumps(loader))._arguments
        self.assertEqual(again, loader._arguments)
        self.assertEqual(list(again.order_options.exemplars), [4, 5])

    @needs("torch")
    def test_samplers_that_draw_with_replacement(self):
        import torch
        from torch.utils.data import RandomSampler, WeightedRandomSampler
        made = read("rows", sampler=RandomSampler(range(10), replacement=True, num_samples=30))
        self.assertEqual((made.order, made.order_options.drawing, made.order_options.draws),
                         ("weighted", "multinomial", 30))
        self.assertEqual((made.weights, made.expected.samples), (None, 10))
        made = read("rows", sampler=RandomSampler(range(10), True), shuffle=False)
        self.assertEqual(made.order_options.draws, 10)
        # All of the samples, in another order: no draws.
        made = read("rows", sampler=RandomSampler(range(10), num_samples=10))
        self.assertEqual((made.order, made.order_options.draws), ("relaxed", 0))
        weights = [0.25, 0.0, 3.0, 1.0]
        generator = torch.Generator().manual_seed(9)
        made = read("rows", sampler=WeightedRandomSampler(weights, 7, generator=generator))
        self.assertEqual((made.order_options.draws, made.shuffle_seed), (7, 9))
        keys, scores = made.weights
        self.assertEqual(list(keys), [0, 1, 2, 3])
        units = [weight_of(score) for score in scores]
        self.assertEqual([unit / units[2] for unit in units], [weight / 3 for weight in weights])
        uneven = [1 / 3, 1 / 7, 1000 / 7, 0.01, 655.0]
        units = [weight_of(s) for s in orders.scores_of(WeightedRandomSampler(uneven, 1))[1]]
        for unit, weight in zip(units, uneven):
            self.assertAlmostEqual(unit / sum(units) * sum(uneven) / weight, 1, delta=2**-15)
        self.assertIsNone(read("rows", sampler=WeightedRandomSampler([2.0] * 4, 4)).weights)

    @needs("torch")
    def test_samplers_with_no_counterpart_are_refused(self):
        from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler
        for text, sampler in (
                ("cannot use a RandomSampler", RandomSampler(range(10), num_samples=3)),
                ("cannot use a RandomSampler", RandomSampler(range(10), num_samples=25)),
                ("cannot use a SubsetRandomSampler", SubsetRandomSampler([1, 2])),
                ("cannot use a WeightedRandomSampler", WeightedRandomSampler([1.0, 2.0], 2, False)),
                ("either `inf`, `nan` or element < 0", WeightedRandomSampler([1.0, -1.0], 2)),
                ("either `inf`, `nan` or element < 0", WeightedRandomSampler([float("nan")], 2)),
                ("sum of probabilities <= 0", WeightedRandomSampler([0.0, 0.0], 2)),
                ("at most 65536 times the least", WeightedRandomSampler([1.0, 65537.0], 2))):
            with self.assertRaisesRegex(ValueError, text):
                read("rows", sampler=sampler)


class Draws(Served):
    ROWS = 300

    def test_multinomial_draws_are_those_of_the_rules_and_go_on_from_a_state(self):
        def loader(batch_size):
            made = batchflow.DataLoader("rows", batch_size, order="weighted", drawing="multinomial",
                                        draws=1000, shuffle_seed=5)
            made.report_scores([7, 8], [50.0, 0.0])
            return made
        weights = [65536] * self.ROWS
        weights[7], weights[8] = 50 * 65536, 0
        whole = loader(64)
        self.assertEqual((len(whole), len(whole.sampler)), (16, 1000))
        for epoch in range(2):
            keys = [key for batch in whole for key in self.check_content(batch)]
            self.assertEqual(keys, draws(whole.state_dict(), weights, epoch, 1000))
        begun, keys = loader(64), []
        for batch in itertools.islice(begun, 3):
            keys += self.check_content(batch)
        state = begun.state_dict()
        self.assertEqual((state["consumed"], state["draws"]), (192, 1000))
        begun.close()
        again = loader(100)
        again.load_state_dict(state)
        rest = [key for batch in again for key in self.check_content(batch)]
        self.assertEqual(keys + rest, draws(state, weights, 0, 1000))

    @needs("torch")
    def test_torchs_samplers_give_as_many_draws_by_their_weights(self):
        import torch
        from torch.utils.data import RandomSampler, WeightedRandomSampler
        weights = [float(1 + key % 5) for key in range(self.ROWS)]
        weights[3] = 0.0
        for sampler, exact in (
                (WeightedRandomSampler(weights, 777), weights),
                (RandomSampler(range(self.ROWS), True, 777), [1.0] * self.ROWS)):
            loader = batchflow.DataLoader("rows", 50, sampler=sampler, shuffle_seed=2)
            self.assertEqual((len(loader), len(loader.sampler)), (16, 777))
            for epoch in range(2):
                keys = [key for batch in loader for key in self.check_content(batch)]
                # Weights times any power of two are the same weights.
                units = [int(weight * 65536) for weight in exact]
                self.assertEqual(keys, draws(loader.state_dict(), units, epoch, 777))
        seeded = [list(batchflow.DataLoader("rows", 777, sampler=WeightedRandomSampler(
            weights, 777, generator=torch.Generator().manual_seed(seed))))[0].sample_keys.tolist()
                  for seed in (1, 1, 2)]
        self.assertEqual(seeded[0], seeded[1])
        self.assertNotEqual(seeded[0], seeded[2])
        fewer = batchflow.DataLoader("rows", 50, sampler=WeightedRandomSampler([1.0] * 9, 9))
        with self.assertRaisesRegex(ValueError, "goes over 9 samples, and the service finds 300"):
            len(fewer)


class Rehearsal(Served):
    ROWS = 300
    BUFFER = [5, 17, 99, 250, 3, 4, 8]

    def parts(self, batches):
        """Keys of the epoch, and of the buffer."""
        own, rehearsed = [], []
        for batch in batches:
            self.check_content(batch)
            marks = batch.marks.tolist()
            self.assertEqual(batch.rehearsed, sum(mark == REHEARSED for mark in marks))
            for key, mark in zip(batch.sample_keys.tolist(), marks):
                (rehearsed if mark == REHEARSED else own if mark == 0 else []).append(key)
        return own, rehearsed

    def assert_in_rounds(self, keys, buffer):
        """Each exemplar once in each round of as many draws as there are exemplars."""
        for at in range(0, len(keys) - len(buffer) + 1, len(buffer)):
            self.assertEqual(sorted(keys[at:at + len(buffer)]), sorted(buffer))

    def test_a_part_of_each_batch_comes_from_the_buffer(self):
        for order in ("relaxed", "strict", "sequential"):
            loader = batchflow.DataLoader("rows", 16, order=order, rehearsed=6,
                                          exemplars=self.BUFFER)
            self.assertEqual(len(loader), 30)  # of 10 new samples each
            for _ in range(2):
                own, rehearsed = self.parts(loader)
                self.assert_whole(own)
                self.assertEqual(len(rehearsed), 30 * 6)
                self.assert_in_rounds(rehearsed, self.BUFFER)
            loader.close()

    def test_a_buffer_may_come_later_and_go(self):
        loader = batchflow.DataLoader("rows", 16, order="strict", rehearsed=6)
        self.assertEqual(len(loader), 19)
        own, rehearsed = self.parts(loader)
        self.assert_whole(own)
        self.assertEqual(rehearsed, [])
        loader.report_exemplars(self.BUFFER)
        self.assertEqual(len(loader), 30)
        # The next epoch may have begun already.
        later = [self.parts(loader) for _ in range(3)][-1]
        self.assert_whole(later[0])
        self.assert_in_rounds(later[1], self.BUFFER)
        self.assertEqual(len(later[1]), 30 * 6)
        loader.report_exemplars([])
        last = [self.parts(loader) for _ in range(3)][-1]
        self.assert_whole(last[0])
        self.assertEqual(last[1], [])
        with self.assertRaisesRegex(ValueError, "write keys below 300"):
            loader.report_exemplars([300])
        self.parts(loader)

    def test_it_goes_on_from_a_state_with_the_buffer_it_has_then(self):
        loader = batchflow.DataLoader("rows", 16, order="strict", rehearsed=6, exemplars=self.BUFFER)
        own, rehearsed = self.parts(itertools.islice(loader, 7))
        state = loader.state_dict()
        self.assertEqual((state["consumed"], state["rehearsed"]), (70, 42))
        loader.close()
        again = batchflow.DataLoader("rows", 24, order="strict", rehearsed=4, exemplars=self.BUFFER)
        again.load_state_dict(state)
        more = self.parts(again)
        self.assert_whole(own + more[0])
        self.assert_in_rounds(rehearsed + more[1], self.BUFFER)

    def test_two_ranks_rehearse_from_one_buffer(self):
        given = {}

        def rank(number):
            loader = batchflow.DataLoader("rows", 16, order="strict", rehearsed=6, job_name="two",
                                          rank=number, world_size=2, exemplars=self.BUFFER)
            given[number] = [self.parts([batch]) for batch in loader]
        ranks = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(60)
        self.assertEqual([len(given[number]) for number in range(2)], [15, 15])
        steps = [given[number][step] for step in range(15) for number in range(2)]
        self.assert_whole([key for own, _ in steps for key in own])
        self.assert_in_rounds([key for _, drawn in steps for key in drawn], self.BUFFER)

    def test_exemplars_that_are_no_samples_are_refused(self):
        loader = batchflow.DataLoader("rows", 16, True, rehearsed=6, exemplars=[300])
        with self.assertRaisesRegex(batchflow.RefusedError, "write keys below 300"):
            len(loader)


class NodeLocal(Served):
    def test_each_sample_once_and_on_from_a_state(self):
        loader = batchflow.DataLoader("rows", 32, True, node_local=True)
        self.assert_whole([key for batch in loader for key in self.check_content(batch)])
        keys = [key for batch in itertools.islice(loader, 9) for key in self.check_content(batch)]
        state = loader.state_dict()
        loader.close()
        again = batchflow.DataLoader("rows", 50, True, node_local=True)
        again.load_state_dict(state)
        self.assert_whole(keys + [key for batch in again for key in self.check_content(batch)])


class Runs(Served):
    def test_each_sample_once_and_on_from_a_state(self):
        loader = batchflow.DataLoader("rows", 32, "runs")
        self.assertEqual(loader._arguments.order, "relaxed")
        for _ in range(2):
            self.assert_whole([key for batch in loader for key in self.check_content(batch)])
        keys = [key for batch in itertools.islice(loader, 5) for key in self.check_content(batch)]
        state = loader.state_dict()
        loader.close()
        again = batchflow.DataLoader("rows", 50, shuffle="runs")
        again.load_state_dict(state)
        self.assert_whole(keys + [key for batch in again for key in self.check_content(batch)])
        other = batchflow.DataLoader("rows", 50, shuffle=True)
        other.load_state_dict(state)
        with self.assertRaisesRegex(batchflow.RefusedError, "whether runs are shuffled"):
            len(other)


if __name__ == "__main__":
    unittest.main()
