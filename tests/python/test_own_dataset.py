"""Datasets in Python that the script loads itself: as PyTorch's DataLoader would, to the last bit."""

import copy
import json
import os
import pickle
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import batchflow
from support import Folder, needs

try:
    import numpy as np
    import torch
    from torch.utils import data as torch_data
    from torch.utils.data import DataLoader, Dataset, IterableDataset
except ImportError:
    np = torch = None
    Dataset = IterableDataset = object

ROWS = 103


def load_here(*positional, **named):
    return batchflow.DataLoader(*positional, local=True, **named)


class Drawn(Dataset):
    """It draws from PyTorch's generator, as a random transform does."""

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return {"x": torch.rand(3) + index, "name": str(index), "pair": (index, float(index))}


class Stream(IterableDataset):
    def __init__(self, rows=ROWS):
        self.rows = rows

    def __iter__(self):
        info = torch_data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(first, self.rows, step):
            yield np.full(2, i), i


class Sequence:
    """No PyTorch in it."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index, index / 2


def seed_of(worker):
    torch.manual_seed(worker)


def total_of(samples):
    return torch.stack([one["x"] for one in samples]).sum(), len(samples)


def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return (type(one) is type(other) and len(one) == len(other) and
                all(map(same, one, other)))
    return type(one) is type(other) and one == other


@needs("torch")
class Local(Folder):
    def setUp(self):
        super().setUp()
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore", batchflow.LocalLoadingWarning)

    def check_like_torch(self, dataset, epochs=2, make=dict, **arguments):
        """`make`: of arguments that are one epoch's or one loader's alone."""
        every = []
        for kind in (load_here, DataLoader):
            torch.manual_seed(7)
            loader = kind(dataset, **arguments, **make())
            every.append([list(loader) for _ in range(epochs)])
            every[-1].append(torch.rand(1))  # nothing else was drawn
        ours, theirs = every
        self.assertGreater(len(theirs[0]), 0)
        self.assertTrue(same(ours, theirs), (ours, theirs))

    def test_every_batch_is_pytorchs(self):
        for arguments in ({}, {"batch_size": 8}, {"batch_size": 8, "drop_last": True},
                          {"batch_size": 8, "shuffle": True}, {"batch_size": None, "shuffle": True},
                          {"batch_size": 8, "shuffle": True, "num_workers": 2},
                          {"batch_size": 8, "shuffle": True, "num_workers": 2, "timeout": 60,
                           "persistent_workers": True, "prefetch_factor": 3,
                           "multiprocessing_context": "fork"},
                          {"batch_size": 8, "num_workers": 1, "worker_init_fn": seed_of},
                          {"batch_size": 8, "shuffle": True, "pin_memory": True},
                          {"batch_size": 8, "shuffle": True, "collate_fn": total_of},
                          {"sampler": [5, 3, 3, 8], "batch_size": 3},
                          {"batch_sampler": [[1, 2], [3], [9, 8, 7]]}):
            with self.subTest(**{name: str(value) for name, value in arguments.items()}):
                self.check_like_torch(Drawn(), **arguments)

    def test_samplers_and_generators_draw_what_they_draw_there(self):
        dataset = Drawn()
        for make in (lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(4)},
                     lambda: {"sampler": torch_data.SubsetRandomSampler(range(0, ROWS, 3))},
                     lambda: {"sampler": torch_data.WeightedRandomSampler(
                         [1.0] * 50 + [3.0] * 53, 70, generator=torch.Generator().manual_seed(2))},
                     lambda: {"sampler": torch_data.RandomSampler(dataset, True, 30)},
                     lambda: {"sampler": torch_data.DistributedSampler(dataset, 3, 1, seed=5)},
                     lambda: {"batch_sampler": torch_data.BatchSampler(
                         torch_data.RandomSampler(dataset), 9, False), "num_workers": 1}):
            self.check_like_torch(dataset, make=make)

    def test_every_kind_of_dataset(self):
        rows = torch.arange(40.0).reshape(20, 2)
        tensors = torch_data.TensorDataset(rows, torch.arange(20))
        parts = torch_data.random_split(tensors, [15, 5], torch.Generator().manual_seed(1))
        for dataset in (tensors, parts[0], torch_data.Subset(tensors, [4, 2, 9]),
                        torch_data.ConcatDataset([tensors, parts[1]]), list(range(9)), Sequence(),
                        np.arange(12.0).reshape(6, 2)):
            self.check_like_torch(dataset, batch_size=4, shuffle=True)
        self.check_like_torch(Stream(), batch_size=4)
        self.check_like_torch(Stream(), batch_size=None)
        self.check_like_torch(Stream(), batch_size=4, num_workers=2, drop_last=True)

    def test_it_says_so_in_one_line_with_the_reason(self):
        for dataset, why in ((Drawn(), "Drawn is loaded by this script's own workers, as PyTorch "
                                       "would: worker_init_fn is not for a Dataset"),
                             (Stream(), "this one gives them in its own")):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                named = {"worker_init_fn": seed_of} if isinstance(dataset, Drawn) else {}
                loader = batchflow.DataLoader(dataset, num_workers=1, collate_fn=len,
                                              cache_limit="1gb", job_name="a", **named)
                self.assertEqual(sum(loader), ROWS)
            self.assertEqual([one.category for one in said], [batchflow.LocalLoadingWarning])
            self.assertIn(why, str(said[0].message))
            self.assertIn("so job_name, cache_limit have no effect", str(said[0].message))
            self.assertEqual(said[0].filename, __file__)
            self.assertIsInstance(loader, batchflow.DataLoader)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(sum(batchflow.DataLoader(Drawn(), local=True, collate_fn=len)), ROWS)
        with self.assertRaisesRegex(ValueError, "local=True is for a Dataset"):
            batchflow.DataLoader("./rows", local=True)

    def test_what_would_give_other_samples_is_refused(self):
        for named, text in (({"pipeline": "bytes"}, "pipeline is for what the service loads"),
                            ({"split": {"fraction": 0.5}}, "write torch.utils.data.Subset"),
                            ({"order": "weighted"}, "order='weighted' is for what the service"),
                            ({"rehearsed": 1, "batch_size": 4}, "write a batch_sampler"),
                            ({"receipts": "./r"}, "only the service writes them"),
                            ({"output": "dlpack"}, "write 'torch' or 'numpy'"),
                            ({"shuffle": True, "shuffle_seed": 1, "generator": torch.Generator()},
                             "each give a seed")):
            with self.assertRaisesRegex(ValueError, text):
                batchflow.DataLoader(Stream() if "split" in named else [1, 2], **named)
        loader = batchflow.DataLoader([1, 2])
        for call in (lambda: loader.report_scores([0], [1.0]), lambda: loader.fields,
                     lambda: loader.sample_name(0), lambda: loader.receipt):
            with self.assertRaisesRegex(RuntimeError, "list is loaded by this script's own"):
                call()

    def test_pytorchs_errors_and_attributes(self):
        with self.assertRaisesRegex(ValueError, "sampler option is mutually exclusive"):
            batchflow.DataLoader([1], sampler=[0], shuffle=True)
        with self.assertRaisesRegex(ValueError, "expected unspecified shuffle option"):
            batchflow.DataLoader(Stream(), shuffle=True)
        dataset = Drawn()
        ours, theirs = (kind(dataset, 8, True, num_workers=1, timeout=3)
                        for kind in (load_here, DataLoader))
        for name in ("dataset", "batch_size", "num_workers", "timeout", "drop_last", "collate_fn",
                     "pin_memory", "persistent_workers", "generator", "worker_init_fn"):
            self.assertEqual(getattr(ours, name), getattr(theirs, name), name)
        self.assertEqual(len(ours), len(theirs))
        self.assertEqual(ours.dataset_samples, ROWS)
        self.assertEqual(len(ours.batch_sampler.sampler), ROWS)
        with self.assertRaisesRegex(ValueError, "batch_size attribute should not be set after"):
            ours.batch_size = 3
        ours.collate_fn = len
        self.assertEqual(sum(ours), ROWS)
        self.assertEqual(ours.times()["batches"], len(ours))

    def test_seeds_ranks_and_epochs_of_ours(self):
        runs = [[[batch.tolist() for batch in loader] for _ in range(2)]
                for loader in (load_here(list(range(50)), 7, True, shuffle_seed=3)
                               for _ in range(2))]
        self.assertEqual(*runs)
        self.assertNotEqual(*runs[0])
        strict = load_here(list(range(50)), 50, order="strict")
        whole = load_here(list(range(50)), 50, order="strict", epochs=3)
        first = [batch.tolist() for batch in whole.epochs()]
        self.assertEqual([sorted(one) for one in first], [list(range(50))] * 3)
        self.assertEqual(len(set(map(tuple, first))), 3)
        strict.set_epoch(2)
        self.assertEqual(next(iter(strict)).tolist(), first[2])
        parts = [load_here(list(range(50)), 5, True, rank=rank, world_size=2)
                 for rank in range(2)]
        for _ in range(2):
            had = [[one for batch in part for one in batch.tolist()] for part in parts]
            self.assertEqual(sorted(had[0] + had[1]), list(range(50)))
        with self.assertRaisesRegex(ValueError, "an IterableDataset decides itself"):
            batchflow.DataLoader(Stream(), rank=0, world_size=2)

    def test_output_of_numpy(self):
        batch = next(iter(load_here(Drawn(), 4, output="numpy")))
        self.assertIsInstance(batch["x"], np.ndarray)
        self.assertEqual(batch["name"], ["0", "1", "2", "3"])

    # ------------------------------------------------------------------------------ checkpoints --

    def loaders(self):
        """Makes loaders of which each draws its order in another way."""
        rows = list(range(ROWS))
        yield lambda: load_here(rows, 8)
        yield lambda: load_here(rows, 8, True)
        yield lambda: load_here(rows, 8, True, num_workers=2)
        yield lambda: load_here(rows, None, True)
        yield lambda: load_here(rows, 8, True, shuffle_seed=5)
        yield lambda: load_here(rows, 8, True, drop_last=True,
                                           generator=torch.Generator().manual_seed(8))
        yield lambda: load_here(rows, 8, sampler=torch_data.SubsetRandomSampler(
            range(40), torch.Generator().manual_seed(8)), generator=torch.Generator())
        yield lambda: load_here(rows, batch_sampler=torch_data.BatchSampler(
            torch_data.RandomSampler(rows), 8, False))
        yield lambda: batchflow.DataLoader(Stream(), 8)
        yield lambda: batchflow.DataLoader(Stream(), 8, num_workers=2)

    def test_a_state_goes_on_behind_each_batch(self):
        for make in self.loaders():
            torch.manual_seed(3)
            loader = make()
            states, given = [json.dumps(loader.state_dict())], []
            for batch in loader:
                given.append(copy.deepcopy(batch))
                states.append(json.dumps(loader.state_dict()))
            at_end = json.loads(json.dumps(loader.state_dict()))
            self.assertEqual((at_end["epoch"], at_end["consumed"]), (1, 0))
            for had, state in list(enumerate(states))[::4]:
                torch.manual_seed(had)  # another run, which has drawn other numbers
                before = torch.get_rng_state()
                again = make()
                again.load_state_dict(json.loads(state))
                self.assertEqual(again.state_dict(), json.loads(state))
                rest = list(again)
                if again.generator is None and had:
                    after = torch.get_rng_state()
                    self.assertTrue(again._generators() == [] or torch.equal(before, after))
                self.assertTrue(same(rest, given[had:]), (had, rest, given[had:]))
                self.assertEqual(again.state_dict()["epoch"], 1)

    def test_a_generator_goes_on_in_the_epochs_behind(self):
        def make():
            return load_here(list(range(30)), 4, True,
                                        generator=torch.Generator().manual_seed(6))
        loader = make()
        iteration = iter(loader)
        next(iteration)
        state = loader.state_dict()
        rest, following = list(iteration), list(loader)
        again = make()
        again.load_state_dict(state)
        self.assertTrue(same(list(again), rest))
        self.assertTrue(same(list(again), following))

    def test_states_that_do_not_fit(self):
        loader = load_here(list(range(30)), 4, True)
        next(iter(loader))
        state = loader.state_dict()
        for other, text in ((load_here(list(range(31)), 4, True), "of 30 samples"),
                            (load_here(list(range(30)), 5, True), "batch_size is 5"),
                            (batchflow.DataLoader("./rows", 4, True), "in the middle of an epoch")):
            with self.assertRaisesRegex(ValueError, text):
                other.load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "another sampler or generator"):
            other = load_here(list(range(30)), 4)
            other.load_state_dict(state)
            next(iter(other))
        theirs = {"v": 1, "order": "strict", "epoch": 4, "consumed": 8, "samples": 30}
        with self.assertRaisesRegex(ValueError, "middle of an epoch that another loader"):
            loader.load_state_dict(theirs)
        loader.load_state_dict({**theirs, "consumed": 0})
        self.assertEqual(loader.state_dict()["epoch"], 4)
        loader.load_state_dict({})
        self.assertEqual(loader.state_dict()["epoch"], 0)

    def test_an_epoch_that_is_left_is_followed_by_the_next(self):
        loader = load_here(list(range(30)), 4, True)
        for _ in loader:
            break
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["consumed"]), (0, 1))
        self.assertEqual(sorted(one for batch in loader for one in batch.tolist()),
                         list(range(30)))
        pairs = list(zip(loader, loader))
        self.assertEqual(len(pairs), len(loader))

    def test_derived_loaders_and_pickles(self):
        class Doubled(batchflow.DataLoader):
            def __iter__(self):
                return (2 * batch for batch in super().__iter__())

        self.assertEqual(next(iter(Doubled([1, 2], 2))).tolist(), [2, 4])
        again = pickle.loads(pickle.dumps(load_here(Sequence(), 4)))
        self.assertEqual([len(batch[0]) for batch in again], [4, 4, 2])


WITHOUT_TORCH = """
import sys, json, random
sys.modules["torch"] = None  # as if it were not installed
import batchflow, warnings
warnings.simplefilter("ignore")
from test_own_dataset import Sequence
def kept(loader):
    return [[part.tolist() for part in batch] for batch in loader]
import functools
DataLoader = functools.partial(batchflow.DataLoader, local=True)
loader = DataLoader(Sequence(), 4, True)
iteration = iter(loader)
first = [part.tolist() for part in next(iteration)]
state = json.loads(json.dumps(loader.state_dict()))
rest = kept(iteration)
again = DataLoader(Sequence(), 4, True)
again.load_state_dict(state)
seeded = [kept(DataLoader(Sequence(), 4, True, shuffle_seed=2)) for _ in range(2)]
class Stream:
    def __iter__(self):
        return iter(range(5))
class IterableDataset(Stream):
    pass
print(json.dumps({
    "plain": kept(DataLoader(Sequence(), 4)), "first": first, "rest": rest,
    "again": kept(again), "following": kept(again), "seeded": seeded,
    "sampled": kept(DataLoader(Sequence(), 2, sampler=[3, 1, 2])),
    "cut": kept(DataLoader(Sequence(), 4, drop_last=True)),
    "by_batches": kept(DataLoader(Sequence(), batch_sampler=[[1], [3, 2]])),
    "stream": [b.tolist() for b in DataLoader(IterableDataset(), 2)],
    "one_by_one": list(DataLoader(Sequence(), None))[:2],
    "collated": list(DataLoader(Sequence(), 4, collate_fn=len))}))
"""


class WithoutTorch(Folder):
    @needs("numpy")
    def test_batches_are_made_in_this_process(self):
        here = Path(__file__).parent
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        pairs = [[i, i / 2] for i in range(10)]
        columns = [[list(part) for part in zip(*pairs[i:i + 4])] for i in (0, 4, 8)]
        self.assertEqual(made["plain"], columns)
        self.assertEqual(made["cut"], columns[:2])
        self.assertEqual(made["again"], made["rest"])
        for epoch in ([made["first"], *made["rest"]], made["following"]):
            self.assertEqual(sorted(i for batch in epoch for i in batch[0]), list(range(10)))
        self.assertEqual(made["seeded"][0], made["seeded"][1])
        self.assertEqual(made["sampled"], [[[3, 1], [1.5, 0.5]], [[2], [1.0]]])
        self.assertEqual(made["by_batches"], [[[1], [0.5]], [[3, 2], [1.5, 1.0]]])
        self.assertEqual(made["stream"], [[0, 1], [2, 3], [4]])
        self.assertEqual(made["one_by_one"], pairs[:2])
        self.assertEqual(made["collated"], [4, 4, 2])


if __name__ == "__main__":
    unittest.main()
