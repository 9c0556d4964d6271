"""Samplers and batch_samplers of any class over a Dataset that the service loads: the indices that
PyTorch would take, at each step, and after a resume."""

import itertools
import json
import pickle
import random
import unittest

import batchflow
from support import needs
from test_served_dataset import Served

try:
    import datasets_of_ours as ours
    import numpy as np
except ImportError:
    ours = np = None
try:
    import torch
    from torch.utils import data as torch_data
except ImportError:
    torch = None


class Odd:
    def __iter__(self):
        return iter(range(1, ours.ROWS, 2))

    def __len__(self):
        return ours.ROWS // 2


class Drawn:
    """Another order each epoch; how many it gives, it does not say."""

    def __init__(self, seed, count=120):
        self.chance, self.count = random.Random(seed), count

    def __iter__(self):
        return iter([self.chance.randrange(ours.ROWS) for _ in range(self.count)])


class Counting(Drawn):
    """It knows the epoch, and says so."""

    def __init__(self):
        self.epoch = 0

    def __iter__(self):
        self.epoch += 1
        return iter(random.Random(self.epoch).sample(range(ours.ROWS), 90))

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


class Endless:
    def __iter__(self):
        for turn in itertools.count():
            yield from random.Random(turn).sample(range(ours.ROWS), ours.ROWS)


class Buckets:
    """Batches of samples that are alike, of many sizes."""

    def __init__(self, last_first=False):
        self.last_first = last_first

    def __iter__(self):
        chance, left = random.Random(5), list(range(ours.ROWS))
        made = []
        while left:
            size = chance.randint(1, 40)
            made.append(left[:size])
            left = left[size:]
        return iter(made[::-1] if self.last_first else made)

    def __len__(self):
        return len(list(iter(self)))


class InOrder(Served):
    def indices(self, batches, dataset):
        """Of each batch, and that each row is the one of its index."""
        made = []
        for rows, labels in batches:
            made.append([int(row[0]) // 1024 for row in rows.tolist()])
            self.assertEqual(labels.tolist(), [index % 7 for index in made[-1]])
            self.assertEqual(rows[-1].tolist(), dataset.rows[made[-1][-1]].tolist())
        return made

    def loader(self, dataset=None, **named):
        named.setdefault("output", "numpy")
        loader = batchflow.DataLoader(dataset or ours.Rows(), **named)
        self.assertEqual(type(loader).__name__, "OwnOrderDataLoader")
        return loader


class Orders(InOrder):
    def test_samplers_of_any_class(self):
        dataset = ours.Rows()
        loader = self.loader(dataset, batch_size=32, sampler=Odd())
        for _ in range(2):
            made = self.indices(loader, dataset)
            self.assertEqual([len(batch) for batch in made], [32] * 4 + [22])
            self.assertEqual(sum(made, []), list(range(1, ours.ROWS, 2)))
        self.assertEqual(len(loader), 5)
        self.assertIsInstance(loader.sampler, Odd)
        self.assertIs(loader.dataset, dataset)
        dropped = self.loader(dataset, batch_size=32, sampler=Odd(), drop_last=True)
        self.assertEqual([len(batch) for batch in self.indices(dropped, dataset)], [32] * 4)
        self.assertEqual(len(dropped), 4)

    def test_a_sampler_without_a_length(self):
        dataset, expected = ours.Rows(), Drawn(3)
        loader = self.loader(dataset, batch_size=50, sampler=Drawn(3))
        for _ in range(3):
            self.assertEqual(sum(self.indices(loader, dataset), []), list(expected))
        with self.assertRaises(TypeError):
            len(loader)

    def test_a_sampler_without_an_end(self):
        dataset = ours.Rows()
        loader = self.loader(dataset, batch_size=512, sampler=Endless())
        wanted = list(itertools.islice(Endless(), 512 * 40))  # more than is drawn at a time
        made = self.indices(itertools.islice(loader, 40), dataset)
        self.assertEqual(sum(made, []), wanted)

    def test_batches_of_many_sizes(self):
        dataset = ours.Rows()
        for last_first in (False, True):
            for output in ("numpy", *(["torch"] if torch else [])):
                loader = self.loader(dataset, batch_sampler=Buckets(last_first), output=output)
                self.assertEqual(self.indices(loader, dataset), list(Buckets(last_first)))
                self.assertEqual(len(loader), len(Buckets()))
        batches = [[1], [2, 3], [299, 0, 299]]
        loader = self.loader(dataset, batch_sampler=batches)
        self.assertEqual(self.indices(loader, dataset), batches)
        self.assertIs(loader.batch_sampler, batches)

    def test_a_collate_fn_and_samples_one_by_one(self):
        dataset = ours.Rows()
        loader = self.loader(dataset, batch_sampler=Buckets(), collate_fn=len)
        self.assertEqual(list(loader), [len(batch) for batch in Buckets()])
        loader.collate_fn = lambda samples: [label for _, label in samples]
        self.assertEqual(list(loader), [[index % 7 for index in batch] for batch in Buckets()])
        singles = list(self.loader(dataset, batch_size=None, sampler=Odd()))
        self.assertEqual([label for _, label in singles], [index % 7 for index in Odd()])

    def test_processes_and_files_stay_as_few_as_they_are(self):
        loader = self.loader(batch_size=32, sampler=Drawn(1))
        for _ in range(5):
            self.assertEqual(sum(len(labels) for _, labels in loader), 120)
        steps = self.steps()
        self.assertEqual(len(steps), 1)
        self.assertLessEqual(steps[0]["starts"], 2)  # one for each worker
        self.assertEqual(list((self.folder / "xdg_state_home").rglob("*-held.npy")), [])

    def test_what_draws_is_drawn_anew(self):
        loader = self.loader(ours.Noisy(), batch_size=30, sampler=Odd())
        first, second = ({int(index): row[1:].tolist() for rows, indices in loader
                          for row, index in zip(rows, indices.tolist())} for _ in range(2))
        self.assertEqual(set(first), set(Odd()))
        for index, drawn in first.items():
            self.assertNotEqual(drawn, second[index])

    def test_two_jobs_with_one_order_share_what_is_made(self):
        for _ in range(2):
            loader = self.loader(batch_size=32, sampler=Odd())
            other = self.loader(batch_size=50, sampler=Odd())
            for one, two in itertools.zip_longest(loader, other):
                pass
        self.assertLessEqual(self.made(), 2 * len(Odd()))

    # -------------------------------------------------------------------------------- positions --

    def test_it_goes_on_at_the_step(self):
        dataset = ours.Rows()
        for named in ({"batch_size": 32, "sampler": Odd()}, {"batch_sampler": Buckets()}):
            whole = self.indices(self.loader(dataset, **named), dataset)
            for had in (0, 1, 3, len(whole) - 1):
                loader = self.loader(dataset, **named)
                for _ in range(2):
                    iteration = iter(loader)
                    first = self.indices(itertools.islice(iteration, had), dataset)
                    saved = json.dumps(loader.state_dict())
                    again = self.loader(dataset, **named)
                    again.load_state_dict(json.loads(saved))
                    self.assertEqual(first + self.indices(again, dataset), whole)
                    self.assertEqual(self.indices(again, dataset), whole)  # the next epoch
                    list(iteration)

    def test_a_resumed_epoch_has_the_draws_that_it_would_have_had(self):
        def rows(batches):
            return [row.tolist() for rows, _ in batches for row in rows]

        loader = self.loader(ours.Noisy(), batch_size=20, sampler=Odd())
        list(loader)
        iteration = iter(loader)
        rows(itertools.islice(iteration, 3))
        saved = loader.state_dict()
        rest = rows(iteration)
        again = self.loader(ours.Noisy(), batch_size=20, sampler=Odd())
        again.load_state_dict(saved)
        self.assertEqual(rows(again), rest)

    def test_a_sampler_that_says_its_state_is_set_to_it(self):
        dataset = ours.Rows()
        loader = self.loader(dataset, batch_size=20, sampler=Counting())
        list(loader)
        iteration = iter(loader)
        list(itertools.islice(iteration, 2))
        saved = json.loads(json.dumps(loader.state_dict()))
        rest = self.indices(iteration, dataset)
        again = self.loader(dataset, batch_size=20, sampler=Counting())
        again.load_state_dict(saved)
        self.assertEqual(self.indices(again, dataset), rest)

    def test_another_order_is_refused(self):
        loader = self.loader(batch_size=20, sampler=Drawn(1))
        next(iter(loader))
        saved = loader.state_dict()
        again = self.loader(batch_size=20, sampler=Drawn(2))
        again.load_state_dict(saved)
        with self.assertRaisesRegex(ValueError, "the sampler gives another order than before the state "
                                    "was made: its first 1 batches differ"):
            iter(again)

    def test_iterations_at_one_time_and_pickles(self):
        dataset = ours.Rows()
        loader = self.loader(dataset, batch_size=50, sampler=Odd())
        pairs = [(one[1].tolist(), other[1].tolist()) for one, other in zip(loader, loader)]
        self.assertEqual(len(pairs), 3)
        self.assertTrue(all(one == other for one, other in pairs))
        again = pickle.loads(pickle.dumps(loader))
        self.assertEqual(sum(self.indices(again, dataset), []), list(Odd()))

    # ----------------------------------------------------------------------- what cannot be so --

    def test_indices_that_are_no_indices_are_loaded_here(self):
        class Pairs:
            def __iter__(self):
                return iter([(1, 2), (3, 4)])

            def __len__(self):
                return 2

        class Beyond(Pairs):
            def __iter__(self):
                return iter([1, ours.ROWS])

        dataset = ours.ByPair()
        loader = self.loader(dataset, batch_size=2, sampler=Pairs())
        with self.assertWarnsRegex(batchflow.LocalLoadingWarning, "cannot be interpreted as an integer"):
            given = [batch.tolist() for batch in loader]
        self.assertEqual(given, [[3, 7]])
        self.assertEqual([batch.tolist() for batch in loader], [[3, 7]])  # it was said
        loader = self.loader(batch_size=2, sampler=Beyond())
        with self.assertWarnsRegex(batchflow.LocalLoadingWarning, "an index that no Dataset of 300"):
            with self.assertRaises(IndexError):
                list(loader)

    def test_ranks_that_the_sampler_does_not_know_are_refused(self):
        with self.assertRaisesRegex(ValueError, "sampler decides what this rank gets; leave rank"):
            with self.assertWarns(batchflow.LocalLoadingWarning):
                batchflow.DataLoader(ours.Rows(), 8, sampler=Odd(), rank=0, world_size=2)

    def test_without_a_service_meanwhile_it_is_loaded_here(self):
        loader = self.loader(batch_size=50, sampler=Odd(), timeout=5)
        self.daemon.kill()
        with self.assertWarnsRegex(batchflow.LocalLoadingWarning, "no service"):
            self.assertEqual(sum(self.indices(loader, ours.Rows()), []), list(Odd()))


@needs("torch")
class LikePyTorch(InOrder):
    class Seeded:
        """It draws from PyTorch's generators."""

        def __init__(self, generator=None):
            self.generator = generator

        def __iter__(self):
            yield from torch.randperm(ours.ROWS, generator=self.generator)

        def __len__(self):
            return ours.ROWS

    def test_the_same_indices_from_the_same_generators(self):
        dataset = ours.Rows()
        for make in (lambda: {"sampler": self.Seeded(), "batch_size": 32},
                     lambda: {"sampler": self.Seeded(torch.Generator().manual_seed(3)),
                              "batch_size": 32},
                     lambda: {"batch_sampler": torch_data.BatchSampler(self.Seeded(), 40, True)},
                     lambda: {"batch_sampler": Buckets(), "generator": torch.Generator()}):
            made = []
            for kind in (torch_data.DataLoader, self.loader):
                torch.manual_seed(5)
                loader = kind(dataset, **make(), **({} if kind is torch_data.DataLoader else
                                                    {"output": "torch"}))
                made.append([self.indices(loader, dataset) for _ in range(2)])
                made[-1].append(torch.rand(1).item())
            self.assertEqual(*made)

    def test_it_goes_on_from_the_states_of_generators(self):
        dataset = ours.Rows()
        torch.manual_seed(5)
        loader = self.loader(dataset, batch_size=32, sampler=self.Seeded())
        list(loader)
        iteration = iter(loader)
        list(itertools.islice(iteration, 4))
        saved = json.dumps(loader.state_dict())
        rest = self.indices(iteration, dataset)
        torch.manual_seed(6)
        drawn = torch.rand(1)
        torch.manual_seed(6)
        again = self.loader(dataset, batch_size=32, sampler=self.Seeded())
        again.load_state_dict(json.loads(saved))
        self.assertEqual(self.indices(again, dataset), rest)
        self.assertEqual(torch.rand(1), drawn)  # the script draws on as before


if __name__ == "__main__":
    unittest.main()
