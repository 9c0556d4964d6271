"""Datasets that the service loads and that need PyTorch in its processes, and those of scripts."""

import subprocess
import sys
import textwrap
import unittest

import batchflow
from support import needs
from test_served_dataset import Served

try:
    import torch
    from torch.utils import data as torch_data
except ImportError:
    torch = None

SCRIPT = """
import sys, batchflow, numpy as np
from torch.utils.data import Dataset
SHIFT = 4

def shifted(row):
    return row + SHIFT

class Base(Dataset):
    def __len__(self):
        return 50

class Own(Base):
    sides: "list[int]" = [3, 2]

    def __init__(self, transform):
        self.transform = transform

    def __getitem__(self, index):
        return self.transform(np.full(self.sides, index)), index

loader = batchflow.DataLoader(Own(shifted), 10, True)
seen = sorted((int(label), int(row.min()), int(row.max())) for rows, labels in loader
              for row, label in zip(rows, labels))
assert seen == [(i, i + 4, i + 4) for i in range(50)], seen
print(type(loader).__name__, tuple(next(iter(loader))[0].shape))
"""


class Scripts(Served):
    @needs("torch")
    def test_a_class_of_a_script_is_taken_by_its_source(self):
        script = self.folder / "train.py"
        script.write_text(textwrap.dedent(SCRIPT))
        done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "DataLoader (10, 3, 2)\n")
        self.assertEqual(self.made(), 50)


class KindsOfDataset(Served):
    def check_same(self, dataset, samples):
        """Without a shuffle, batch by batch, and that no sample was made twice."""
        before = self.made()
        loader = batchflow.DataLoader(dataset, 4)
        self.assertIs(type(loader), batchflow.DataLoader)
        given, theirs = list(loader), list(torch_data.DataLoader(dataset, 4))
        self.assertEqual(sum(len(self.parts(batch)[0]) for batch in given), samples)
        self.assertEqual(len(given), len(theirs))
        for batch, other in zip(given, theirs):
            mine, its = self.parts(batch), self.parts(other)
            self.assertEqual(len(mine), len(its))
            for one, two in zip(mine, its):
                self.assertEqual(one.dtype, two.dtype)
                self.assertTrue(torch.equal(one, two), (one, two))
        list(loader)
        self.assertEqual(self.made() - before, samples)

    @staticmethod
    def parts(batch):
        every = batch.values() if isinstance(batch, dict) else batch
        return [part for one in every for part in (one if isinstance(one, list) else [one])]

    @needs("torch")
    def test_those_of_pytorch(self):
        rows = torch.arange(80.0).reshape(20, 4)
        tensors = torch_data.TensorDataset(rows, torch.arange(20))
        some, others = torch_data.random_split(tensors, [15, 5], torch.Generator().manual_seed(1))
        for dataset, samples in ((tensors, 20), (some, 15), (others, 5),
                                 (torch_data.ConcatDataset([tensors, some, others]), 40)):
            with self.subTest(kind=type(dataset).__name__, samples=samples):
                self.check_same(dataset, samples)

    @needs("torch")
    @needs("datasets")
    def test_those_of_hugging_face(self):
        import datasets
        from torch_datasets_of_ours import doubled
        datasets.disable_progress_bars()

        def made():
            return datasets.Dataset.from_dict({"row": [[float(i), i / 2] for i in range(20)],
                                               "label": list(range(20))})

        tensors = made().with_format("torch")
        self.check_same(tensors, 20)
        self.check_same(made(), 20)  # a list of floats in each sample
        self.check_same(made().with_format("numpy"), 20)
        self.check_same(made().map(lambda one: {"row": [2 * each for each in one["row"]]}).with_format(
            "torch"), 20)
        self.check_same(tensors.select(range(3, 14)), 11)
        self.check_same(tensors.select([17, 2, 2, 9]), 4)
        self.check_same(tensors.shuffle(seed=1), 20)
        self.check_same(tensors.filter(lambda one: one["label"] % 3 > 0), 13)
        self.check_same(made().with_transform(doubled), 20)
        tensors.save_to_disk(str(self.folder / "saved"))
        self.check_same(datasets.load_from_disk(str(self.folder / "saved")).with_format("torch"), 20)
        # Another job that makes the same rows shares what was made of them.
        before = self.made()
        keys = [int(key) for batch in batchflow.DataLoader(made().with_format("torch"), 4, True)
                for key in batch["label"]]
        self.assertEqual(sorted(keys), list(range(20)))
        self.assertEqual(self.made(), before)


class Tensors(Served):
    @needs("torch")
    def test_tensors_and_pytorchs_generator_in_a_subset(self):
        from torch_datasets_of_ours import Tensors
        dataset = torch_data.Subset(Tensors(), list(range(50, 90)))
        runs = []
        for _ in range(2):
            loader = batchflow.DataLoader(dataset, 16, True, order="strict", shuffle_seed=2)
            given = {int(index): row for rows, labels in loader
                     for row, index in zip(rows, labels)}
            self.assertEqual(sorted(given), list(range(50, 90)))
            for index, row in given.items():
                drawn = row[0] - 2000 * index
                self.assertTrue(0 <= drawn <= 1)
                self.assertLess((row - dataset.dataset.rows[index] - drawn).abs().max(), 0.1)
            runs.append({index: row[0].item() for index, row in given.items()})
        self.assertEqual(*runs)
        self.assertGreater(len({drawn - 2000 * index for index, drawn in runs[0].items()}), 10)


if __name__ == "__main__":
    unittest.main()
