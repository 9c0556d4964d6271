"""An IterableDataset, and `worker_init_fn`: the script's own workers load. What workers, their seeds,
generators and ranks do is then what they do with PyTorch's DataLoader."""

import json
import os
import unittest
import warnings

import batchflow
from support import Folder, needs

try:
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
except ImportError:
    torch = None
    Dataset = IterableDataset = object


def seen(dataset, index):
    """What a sample can know of the worker that makes it."""
    info = get_worker_info()
    return {"index": index, "worker": -1 if info is None else info.id,
            "workers": 0 if info is None else info.num_workers,
            "seed": 0 if info is None else info.seed, "process": os.getpid(),
            "begun": dataset.begun, "set_up": dataset.set_up, "drawn": torch.rand(1)}


class Stream(IterableDataset):
    def __init__(self):
        self.begun = self.set_up = 0

    def __iter__(self):
        self.begun += 1
        for index in range(5):
            yield seen(self, index)


class OfARank(Stream):
    """Splits itself, as PyTorch says that a script should."""

    def __iter__(self):
        for sample in super().__iter__():
            if sample["index"] % int(os.environ["WORLD_SIZE"]) == int(os.environ["RANK"]):
                yield sample


class Rows(Dataset):
    begun = set_up = 0

    def __len__(self):
        return 7

    def __getitem__(self, index):
        return seen(self, index)


def set_up(worker):
    get_worker_info().dataset.set_up += 10 + worker
    torch.manual_seed(worker)


@needs("torch")
class OwnWorkers(Folder):
    def epochs(self, loader, count=2):
        """What was seen, with processes numbered as they come."""
        made, processes = [], {}
        for _ in range(count):
            made.append([])
            for batch in loader:
                numbers = [processes.setdefault(one, len(processes)) for one in batch.pop("process").tolist()]
                made[-1].append(({name: part.tolist() for name, part in batch.items()}, numbers))
        return made, len(processes)

    def both(self, make, count=2, **arguments):
        """Of PyTorch's loader and ours, and what ours said."""
        every = []
        for kind in (DataLoader, batchflow.DataLoader):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                given = {name: value() if name == "generator" else value for name, value in arguments.items()}
                torch.manual_seed(11)
                every.append(self.epochs(kind(make(), **given), count))
        self.assertEqual(every[1], every[0])
        # PyTorch says so where there are fewer processors.
        said = [one for one in said if "worker processes in total" not in str(one.message)]
        self.assertEqual([(one.category, one.filename) for one in said],
                         [(batchflow.LocalLoadingWarning, __file__)])
        return every[1], str(said[0].message)

    def test_workers_are_set_up_as_pytorchs(self):
        (made, processes), said = self.both(Stream, batch_size=2, num_workers=2, worker_init_fn=set_up)
        self.assertEqual(processes, 4)  # two for each epoch
        for epoch in made:
            rows = [(worker, at) for batch, _ in epoch for worker, at in zip(batch["worker"], batch["set_up"])]
            self.assertEqual(sorted(set(rows)), [(0, 10), (1, 11)])
        self.assertIn("Stream is loaded by this script's own workers, as PyTorch would: the service prepares "
                      "samples in any order, and this one gives them in its own", said)
        self.assertNotIn("worker_init_fn", said)  # it has its effect

    def test_workers_that_stay_go_on_with_their_dataset(self):
        (made, processes), _ = self.both(Stream, 3, batch_size=2, num_workers=2, worker_init_fn=set_up,
                                         persistent_workers=True)
        self.assertEqual(processes, 2)
        for number, epoch in enumerate(made):
            for batch, _ in epoch:
                self.assertEqual(set(batch["begun"]), {number + 1})
                self.assertEqual(set(batch["set_up"]), {10 + batch["worker"][0]})  # once

    def test_seeds_of_workers_are_those_of_the_generator(self):
        seeds = []
        for seed in (5, 5, 6):
            (made, _), _ = self.both(Stream, batch_size=1, num_workers=2,
                                     generator=lambda seed=seed: torch.Generator().manual_seed(seed))
            seeds.append([batch["seed"][0] for epoch in made for batch, _ in epoch])
        self.assertEqual(seeds[0], seeds[1])
        self.assertNotEqual(seeds[0], seeds[2])
        self.assertEqual(len(set(seeds[0])), 4)  # of two workers in two epochs

    def test_worker_init_fn_has_any_dataset_loaded_by_the_script(self):
        for more in ({}, {"persistent_workers": True}, {"shuffle": True},
                     {"shuffle": True, "generator": lambda: torch.Generator().manual_seed(3)}):
            with self.subTest(**{name: str(value) for name, value in more.items()}):
                (made, processes), said = self.both(Rows, batch_size=2, num_workers=2, worker_init_fn=set_up,
                                                    **more)
                self.assertEqual(processes, 2 if "persistent_workers" in more else 4)
                self.assertIn("Rows is loaded by this script's own workers, as PyTorch would: worker_init_fn "
                              "is not for a Dataset that the service loads", said)
                for epoch in made:
                    self.assertEqual(sorted(index for batch, _ in epoch for index in batch["index"]),
                                     list(range(7)))

    def test_ranks_of_a_launcher_split_nothing_that_does_not_split_itself(self):
        for rank in range(2):
            os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
            for make, indices in ((Stream, list(range(5))), (OfARank, list(range(rank, 5, 2)))):
                (made, _), _ = self.both(make, batch_size=1, num_workers=1)
                for epoch in made:
                    self.assertEqual([batch["index"][0] for batch, _ in epoch], indices)
            with self.assertRaisesRegex(ValueError, "an IterableDataset decides itself what each rank gets"):
                batchflow.DataLoader(Stream(), ranks="auto")

    def test_a_stream_that_goes_on_draws_what_it_would_have_drawn(self):
        def loader(seed):
            return batchflow.DataLoader(Stream(), 2, num_workers=2, worker_init_fn=set_up,
                                        generator=torch.Generator().manual_seed(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", batchflow.LocalLoadingWarning)
            first = loader(5)
            iteration = iter(first)
            next(iteration)
            state = json.loads(json.dumps(first.state_dict()))
            rest, _ = self.epochs(iteration, 1)
            again = loader(9)
            again.load_state_dict(state)
            went_on, _ = self.epochs(again, 1)
        self.assertEqual([batch for batch, _ in went_on[0]], [batch for batch, _ in rest[0]])
        self.assertEqual(len(rest[0]), 5)


if __name__ == "__main__":
    unittest.main()
