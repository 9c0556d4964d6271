"""What the service makes of a Dataset is what the script would make of it, or the script is told."""

import os
import random
import sys
import unittest
import warnings
from pathlib import Path

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


class OutsideOfTheDataset(Served):
    def test_what_the_script_has_set_elsewhere_is_missed(self):
        os.environ["BATCHFLOW_TEST_SIDE"] = "7"
        loader = self.check_local(ours.Elsewhere(), r"sample 0 is int64 \(7,\) in this script and int64 "
                                  r"\(3,\) in a confined process, .* keep that in the Dataset")
        self.assertEqual(next(iter(loader)).shape, (1, 7))
        del os.environ["BATCHFLOW_TEST_SIDE"]
        loader = batchflow.DataLoader(ours.Elsewhere(), output="numpy")
        self.assertEqual(next(iter(loader)).tolist(), [[0, 0, 0]])
        self.addCleanup(setattr, ours, "FACTOR", ours.FACTOR)
        ours.FACTOR += 1
        loader = self.check_local(ours.Elsewhere(), "sample 0 has other values in a confined process")
        self.assertEqual(next(iter(loader)).tolist(), [[1, 1, 1]])

    @needs("torch")
    def test_a_default_type_of_pytorch(self):
        self.addCleanup(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)
        self.check_local(ours.DefaultType(), r"float64 \(2,\) in this script and float32 \(2,\) in")

    def test_relative_paths(self):
        np.save(self.folder / "rows.npy", np.arange(20).reshape(10, 2))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for file in ("rows.npy", str(self.folder / "rows.npy")):
            loader = batchflow.DataLoader(ours.InFile(file), output="numpy")
            self.assertEqual(next(iter(loader)).tolist(), [[0, 1]])
        self.check_local(ours.InFile("none.npy"), "No such file or directory: 'none.npy'")

    def test_relative_paths_lead_from_the_folder_of_each_script(self):
        self.addCleanup(os.chdir, os.getcwd())
        for name, first in (("one", 10), ("other", 20)):
            (self.folder / name / "data").mkdir(parents=True)
            for i in range(3):
                (self.folder / name / "data" / f"{i}.txt").write_text(str(first + i))
        for _ in range(2):  # as far as it goes at one service, both at a time
            loaders = []
            for name, first in (("one", 10), ("other", 20)):
                os.chdir(self.folder / name)
                loaders.append((first, batchflow.DataLoader(ours.Named(), 50, output="numpy")))
            os.chdir("/")
            for first, loader in loaders:
                rows = [row for batch in loader for row in batch.tolist()]
                self.assertEqual(rows, [[first + i % 3, i] for i in range(ours.ROWS)])

    def test_a_file_that_was_written_anew_is_another_dataset(self):
        file, loaders = str(self.folder / "rows.npy"), []
        for first in (0, 100):
            np.save(file, np.arange(first, first + 20).reshape(10, 2))
            loaders.append(batchflow.DataLoader(ours.InFile(file), 10, output="numpy"))
            self.assertEqual(next(iter(loaders[-1]))[9].tolist(), [first + 18, first + 19])

    def test_what_opens_null_to_look_at_it_is_served(self):
        loader = batchflow.DataLoader(ours.LooksAtFiles(), output="numpy")
        self.assertEqual(next(iter(loader)).tolist(), [[6, 13, 14, 14]])

    def test_the_script_draws_on_as_before(self):
        random.seed(1)
        np.random.seed(1)
        expected = random.random(), np.random.rand()
        random.seed(1)
        np.random.seed(1)
        batchflow.DataLoader(ours.Noisy(), output="numpy")
        self.assertEqual((random.random(), np.random.rand()), expected)

    def test_files_of_a_dataset_stay_as_they_are_for_ranks_that_begin_together(self):
        batchflow.DataLoader(ours.Rows(), output="numpy")
        folder = Path(os.environ["XDG_STATE_HOME"]) / "batchflow" / "brought"
        before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
        batchflow.DataLoader(ours.Rows(), output="numpy")
        self.assertEqual({file.name: file.stat().st_mtime_ns for file in folder.iterdir()}, before)
        rows = next(folder.glob("*.npy"))
        os.utime(rows, (1, rows.stat().st_mtime - 7 * 24 * 3600))
        batchflow.DataLoader(ours.Rows(), output="numpy")
        self.assertLess(abs(rows.stat().st_mtime_ns - before[rows.name]), 3600 * 10**9)


class Replaced(Served):
    ARGUMENTS = ("--corrupt-ratio-allowed", "100%")

    def test_the_script_is_told_once(self):
        for dataset in (ours.Broken(False), ours.LateUneven()):
            loader = batchflow.DataLoader(dataset, 32, output="numpy", corrupt_ratio_max=0.05)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for _ in range(2):
                    list(loader)
            self.assertEqual(len(said), 1, [str(one.message) for one in said])
            self.assertRegex(str(said[0].message), rf"sample \d+ of {type(dataset).__name__} could not "
                             "be made, and another sample stands for it")


@needs("torch")
class Ranks(Served):
    def test_an_order_that_is_not_shuffled_is_pytorchs_in_each_rank(self):
        dataset = ours.Numbered(19)
        for rank in range(2):
            for drop_last in (False, True):
                sampler = torch_data.DistributedSampler(dataset, 2, rank, False, drop_last=drop_last)
                theirs, given = (
                    [one.tolist() for one in kind(dataset, 4, sampler=sampler)]
                    for kind in (torch_data.DataLoader, batchflow.DataLoader))
                self.assertEqual(given, theirs)

    def test_what_a_framework_does_not_split_is_said(self):
        from batchflow import arguments
        os.environ.update(RANK="0", WORLD_SIZE="2")
        self.addCleanup(sys.modules.pop, "accelerate", None)
        for words in ("as in PyTorch", r"since Accelerate's prepare\(\) splits none but PyTorch's own"):
            arguments._said.clear()
            with self.assertWarnsRegex(UserWarning, f"each of the 2 ranks gets all samples, {words}.*; "
                                       "write ranks='auto'"):
                batchflow.DataLoader("rows", 8)
            sys.modules["accelerate"] = type(sys)("accelerate")

    def test_ranks_drop_a_last_batch_where_pytorch_does(self):
        from batchflow import arguments
        for samples in range(25, 33):
            for of_sampler in (False, True):
                sampler = torch_data.DistributedSampler(range(samples), 2, 0, drop_last=of_sampler)
                loader = batchflow.DataLoader("rows", 8, sampler=sampler, drop_last=True)
                theirs = len(torch_data.DataLoader(range(samples), 8, sampler=sampler, drop_last=True))
                drops = loader._arguments.drop_last
                self.assertEqual(samples // 16 if drops else -(-samples // 16), theirs)
                self.assertTrue(loader.drop_last)
        arguments._said.clear()
        with self.assertWarnsRegex(UserWarning, "take turns by whole batches .* needs local=True"):
            batchflow.DataLoader("rows", 8, sampler=torch_data.DistributedSampler(range(9), 2, 0, False))


if __name__ == "__main__":
    unittest.main()
