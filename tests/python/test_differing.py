"""Samples of which each has parts of other lengths, or other parts, from a Dataset that the service
loads."""

import unittest
from unittest import mock

import batchflow
from batchflow import served_dataset
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


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    return one == other


class Differing(Served):
    def check_samples(self, dataset, **named):
        """That a collate_fn gets what the Dataset gives."""
        loader = batchflow.DataLoader(dataset, 32, collate_fn=list, output="numpy", **named)
        self.assertEqual(type(loader).__name__, "DataLoader")
        samples = [sample for batch in loader for sample in batch]
        self.assertEqual(len(samples), ours.ROWS)
        for index, sample in enumerate(samples):
            self.assertTrue(same(sample, dataset[index]), (index, sample, dataset[index]))
        return loader

    def test_a_collate_fn_gets_each_sample_as_the_dataset_gives_it(self):
        for dataset in (ours.Uneven(), ours.Text(), ours.Tokens(), ours.Boxes()):
            with self.subTest(dataset=type(dataset).__name__):
                self.check_samples(dataset)
                self.check_samples(dataset, num_workers=2)

    def test_where_no_time_is_left_some_samples_are_looked_at(self):
        with mock.patch.object(served_dataset, "_PROBE_S", -1):
            self.check_samples(ours.Uneven())

    def test_they_are_made_once(self):
        loader = self.check_samples(ours.Tokens())
        made = self.made()
        for _ in range(2):
            list(loader)
        self.assertEqual((made, self.made()), (ours.ROWS, ours.ROWS))

    def test_fields_of_other_lengths_are_ragged(self):
        dataset = ours.Tokens()
        index = 0
        for batch in batchflow.DataLoader(dataset, 32, output="numpy"):
            self.assertEqual(batch.sample_keys.tolist(),
                             list(range(index, index + len(batch["label"]))))
            self.assertEqual(batch["label"].dtype, np.int64)
            for ids, text, weights, label in zip(batch["ids"], batch["text"], batch["weights"],
                                                 batch["label"].tolist()):
                expected = dataset[index]
                self.assertEqual((ids.tolist(), text, label),
                                 (expected["ids"], expected["text"], expected["label"]))
                self.assertEqual((weights.dtype, weights.tolist()),
                                 (np.float32, expected["weights"].tolist()))
                index += 1
        self.assertEqual(index, ours.ROWS)

    def test_samples_of_other_parts_need_a_collate_fn(self):
        with self.assertRaisesRegex(RuntimeError, "samples of Boxes are of different parts, .* write "
                                    "collate_fn="):
            next(iter(batchflow.DataLoader(ours.Boxes(), 32, output="numpy")))

    def test_one_by_one(self):
        dataset = ours.Uneven()
        for index, row in enumerate(batchflow.DataLoader(dataset, None, output="numpy")):
            self.assertEqual(row.tolist(), dataset[index].tolist())

    def test_a_length_that_is_drawn(self):
        loader = batchflow.DataLoader(ours.Flipped(), 50, collate_fn=list, output="numpy")
        epochs = [[len(row) for batch in loader for row in batch] for _ in range(2)]
        self.assertNotEqual(*epochs)
        self.assertEqual({*epochs[0]}, set(range(1, 10)))

    @needs("torch")
    def test_text_is_put_together_as_pytorch_does_it(self):
        for one, other in zip(batchflow.DataLoader(ours.Text(), 32),
                              torch_data.DataLoader(ours.Text(), 32)):
            self.assertEqual(one[0], list(other[0]))
            self.assertTrue(torch.equal(one[1], other[1]))


class TooLong(Served):
    ARGUMENTS = ("--corrupt-ratio-allowed", "100%")

    def test_one_that_is_longer_than_there_is_room_for_says_what_to_write(self):
        loader = batchflow.DataLoader(ours.LateLong(), 32, collate_fn=list, output="numpy",
                                      corrupt_ratio_max=0.05)
        with self.assertWarnsRegex(UserWarning, "sample 5 of LateLong could not be made"):
            rows = [row for batch in loader for row in batch]
        self.assertEqual(len(rows), ours.ROWS)
        self.assertLess(max(map(len, rows)), 1000)
        self.assertRegex(self.daemon.log.read_text(), r"write @batchflow.step\(random=..., "
                         r"output=\('uint8', \(\d+,\)\)\) before __getitem__")
        rows = [row for batch in batchflow.DataLoader(ours.LateLongSaid(), 32, collate_fn=list,
                                                      output="numpy") for row in batch]
        self.assertEqual([len(row) for row in rows],
                         [1000 if index == 5 else 1 + index % 2 for index in range(ours.ROWS)])


if __name__ == "__main__":
    unittest.main()
