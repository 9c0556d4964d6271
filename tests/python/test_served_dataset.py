"""Datasets in Python that the service loads: each sample once and as the Dataset gives it, made once
for all jobs."""

import os
import pickle
import signal
import threading
import unittest
import warnings

import batchflow
from support import Daemon, Folder, needs, status

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


@needs("numpy")
class Served(Folder):
    ARGUMENTS = ()

    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self.folder, "--open-datasets", "--workers", "2", *self.ARGUMENTS,
                             memory="2gib")
        self.addCleanup(self.daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error", batchflow.LocalLoadingWarning)

    def made(self):
        """How many samples the service has had made by Datasets."""
        return sum(step["samples"] for step in self.steps())

    def steps(self):
        return status(self.daemon.socket)["plugins"]

    def check_local(self, dataset, why, **named):
        with self.assertWarnsRegex(batchflow.LocalLoadingWarning, why):
            return batchflow.DataLoader(dataset, **named)


class Values(Served):
    def check_epoch(self, loader, dataset, label=lambda index: index % 7):
        seen = []
        for rows, labels in loader:
            for row, given in zip(rows.tolist(), labels.tolist()):
                index = int(row[0] / dataset.factor) // 1024
                self.assertEqual(row, (dataset.rows[index] * dataset.factor).tolist())
                self.assertEqual(given, label(index))
                seen.append(index)
        return seen

    def test_each_sample_once_with_its_label(self):
        dataset = ours.Rows(factor=3)
        loader = batchflow.DataLoader(dataset, 32, True, output="numpy")
        for _ in range(3):
            seen = self.check_epoch(loader, dataset)
            self.assertEqual(sorted(seen), list(range(ours.ROWS)))
            self.assertNotEqual(seen, sorted(seen))
        self.assertEqual(len(loader), 10)
        self.assertIs(loader.dataset, dataset)
        batch = next(iter(loader))
        self.assertEqual((batch.names, batch[0].dtype, batch[1].dtype),
                         (("data", "label"), np.float32, np.int64))
        self.assertEqual([int(row[0] / 3) // 1024 for row in batch["data"]],
                         batch.sample_keys.tolist())

    def test_it_is_made_once_for_all_jobs_and_epochs(self):
        dataset = ours.Rows()
        loaders = [batchflow.DataLoader(ours.Rows(), 32, True, output="numpy") for _ in range(3)]
        threads = [threading.Thread(target=lambda one=one: [list(one) for _ in range(2)])
                   for one in loaders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(sorted(self.check_epoch(loaders[0], dataset)), list(range(ours.ROWS)))
        self.assertEqual(self.made(), ours.ROWS)
        self.assertEqual(len(self.steps()), 1)

    def test_another_state_is_another_dataset(self):
        batches = []
        for factor in (1, 2):
            dataset = ours.Rows(factor=factor)
            loader = batchflow.DataLoader(dataset, ours.ROWS, output="numpy")
            self.assertEqual(self.check_epoch(loader, dataset), list(range(ours.ROWS)))
            batches.append(loader.state_dict())
        self.assertEqual(self.made(), 2 * ours.ROWS)
        self.assertNotEqual(batches[0]["dataset"], batches[1]["dataset"])
        with self.assertRaisesRegex((ValueError, batchflow.ServiceError), "dataset"):
            loader = batchflow.DataLoader(ours.Rows(factor=3), 32, output="numpy")
            loader.load_state_dict(batches[0])
            next(iter(loader))

    def test_a_dataset_that_is_changed_later_is_refused(self):
        dataset = ours.Rows()
        loader = batchflow.DataLoader(dataset, 32, output="numpy")
        list(loader)
        dataset.factor = 5
        with self.assertRaisesRegex(ValueError, "the Rows was changed after the DataLoader was made"):
            iter(loader)

    def test_one_array_is_given_alone(self):
        dataset = ours.Alone()
        for rows in batchflow.DataLoader(dataset, 64, output="numpy"):
            self.assertIsInstance(rows, np.ndarray)
        self.assertEqual(rows[-1].tolist(), dataset.rows[-1].tolist())

    def test_samples_for_a_collate_fn_and_one_by_one(self):
        dataset = ours.Rows()
        samples = [sample for batch in batchflow.DataLoader(dataset, 32, collate_fn=list,
                                                            output="numpy") for sample in batch]
        for index, (row, label) in enumerate(samples):
            self.assertEqual(row.tolist(), dataset[index][0].tolist())
            self.assertIs(type(label), int)
            self.assertEqual(label, index % 7)
        singles = list(batchflow.DataLoader(dataset, None, output="numpy"))
        self.assertEqual([label for _, label in singles], [index % 7 for index in range(ours.ROWS)])

    def test_arguments_without_a_meaning_are_named_only_where_they_have_none(self):
        from batchflow import arguments
        for named, texts in (({"num_workers": 1}, ["num_workers has no meaning here"]),
                             ({"num_workers": 1, "batch_sampler": [[1], [2, 3]]},
                              ["num_workers has no meaning here"]),
                             ({"num_workers": 1, "worker_init_fn": print},
                              ["own workers, as PyTorch would: worker_init_fn is not for"])):
            arguments._said.clear()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                batchflow.DataLoader(ours.Rows(), **named)
            self.assertEqual(len(said), len(texts), [str(one.message) for one in said])
            for one, text in zip(said, texts):
                self.assertIn(text, str(one.message))

    def test_a_loader_may_be_used_in_a_child_of_fork(self):
        loader = batchflow.DataLoader(ours.Rows(), 32, output="numpy")
        child = os.fork()
        if child == 0:
            os._exit(sum(len(labels) for _, labels in loader) != ours.ROWS)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_spawned_process_and_a_state(self):
        loader = batchflow.DataLoader(ours.Rows(), 32, True, order="strict", shuffle_seed=1,
                                      output="numpy")
        whole = [labels.tolist() for _, labels in loader]
        again = pickle.loads(pickle.dumps(loader))
        iteration = iter(again)
        next(iteration)
        third = batchflow.DataLoader(ours.Rows(), 32, True, order="strict", shuffle_seed=1,
                                     output="numpy")
        again.set_epoch(0)
        iteration = iter(again)
        self.assertEqual(next(iteration)[1].tolist(), whole[0])
        third.load_state_dict(again.state_dict())
        self.assertEqual([labels.tolist() for _, labels in third], whole[1:])

    @needs("torch")
    def test_batches_are_as_pytorch_makes_them(self):
        for dataset in (ours.Rows(), ours.Alone(), ours.Numbers()):
            theirs = list(torch_data.DataLoader(dataset, 32))
            given = list(batchflow.DataLoader(dataset, 32))
            self.assertEqual(len(given), len(theirs))
            for batch, other in zip(given, theirs):
                if isinstance(dataset, ours.Alone):
                    batch, other = [batch], [other]
                self.assertEqual(len(batch), len(other))
                for one, two in zip(batch, other):
                    self.assertEqual(one.dtype, two.dtype)
                    self.assertTrue(torch.equal(one, two), (one, two))

    @needs("torch")
    def test_dicts_and_what_is_nested(self):
        dataset = ours.ByName()
        theirs = list(torch_data.DataLoader(dataset, 32))
        given = list(batchflow.DataLoader(dataset, 32))
        for batch, other in zip(given, theirs):
            self.assertEqual(batch.keys(), other.keys())
            self.assertTrue(torch.equal(batch["x"], other["x"]))
            self.assertTrue(torch.equal(batch["index"], other["index"]))
            self.assertTrue(torch.equal(batch["more"][0]["half"], other["more"][0]["half"]))
            self.assertTrue(torch.equal(batch["more"][1][0], other["more"][1][0]))
            self.assertEqual(batch.sample_keys.tolist(), other["index"].tolist())
        sample = dataset[0]
        first = next(iter(batchflow.DataLoader(dataset, 2, collate_fn=list)))[0]
        self.assertEqual((first["index"], first["more"]), (sample["index"], sample["more"]))

    @needs("torch")
    def test_samplers(self):
        dataset = ours.Rows()
        seeded = torch.Generator().manual_seed(3)
        runs = [self.check_epoch(batchflow.DataLoader(
            dataset, 32, sampler=torch_data.RandomSampler(dataset, generator=seeded.manual_seed(3))),
            dataset) for _ in range(2)]
        self.assertEqual(*runs)
        weights = [float(index < 10) for index in range(ours.ROWS)]
        drawn = self.check_epoch(batchflow.DataLoader(
            dataset, 32, sampler=torch_data.WeightedRandomSampler(weights, 200)), dataset)
        self.assertEqual(len(drawn), 200)
        self.assertLess(max(drawn), 10)
        made = self.made()
        batches = torch_data.BatchSampler(torch_data.WeightedRandomSampler(weights, 200), 32, True)
        loader = batchflow.DataLoader(dataset, batch_sampler=batches)
        self.assertIs(loader.batch_sampler, batches)
        self.assertEqual((loader.batch_size, len(loader)), (None, 6))
        self.assertEqual(len(self.check_epoch(loader, dataset)), 6 * 32)
        self.assertEqual(self.made(), made)  # they are the samples of before

    @needs("torch")
    def test_a_part_that_is_shuffled(self):
        dataset = ours.Rows()
        wanted = [index for index in range(ours.ROWS) if index % 5 == 0]
        loader = batchflow.DataLoader(dataset, 16, sampler=torch_data.SubsetRandomSampler(wanted))
        epochs = [self.check_epoch(loader, dataset) for _ in range(2)]
        self.assertNotEqual(*epochs)
        for epoch in epochs:
            self.assertEqual(sorted(epoch), wanted)
        self.assertEqual((len(loader), self.made()), (4, len(wanted)))
        seeded = torch_data.SubsetRandomSampler(wanted, torch.Generator())
        runs = []
        for seed in (1, 1, 2):
            seeded.generator.manual_seed(seed)
            runs.append(self.check_epoch(batchflow.DataLoader(dataset, 16, sampler=seeded), dataset))
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_lists_of_indices_are_taken_in_their_order(self):
        dataset = ours.Rows()
        wanted = [7, 3, 3, 299, 298, 0, 12, 5]
        for named in ({"sampler": wanted, "batch_size": 3}, {"sampler": np.array(wanted)},
                      {"batch_sampler": [wanted[:3], wanted[3:6], wanted[6:]]}):
            loader = batchflow.DataLoader(dataset, output="numpy", **named)
            for _ in range(2):
                self.assertEqual(self.check_epoch(loader, dataset), wanted)
            whole = batchflow.DataLoader(dataset, output="numpy", **named)
            sizes = [len(labels) for _, labels in whole]
            self.assertEqual(sizes, [1] * 8 if len(sizes) == 8 else [3, 3, 2])
            self.assertEqual(len(whole), len(sizes))
        self.assertEqual(self.made(), len(wanted))
        loader = batchflow.DataLoader(dataset, 4, sampler=wanted, output="numpy")
        list(loader)
        wanted.append(1)
        with self.assertRaisesRegex(ValueError, "indices of the sampler were changed"):
            iter(loader)

    def test_orders_that_no_dataset_has_go_local(self):
        self.check_local(ours.Rows(), "an index that no Dataset of 300 samples has",
                         sampler=[1, 300])


class Random(Served):
    def numbers(self, loader):
        return {int(index): row[1:].tolist() for rows, indices in loader
                for row, index in zip(rows, indices.tolist())}

    def test_what_draws_is_made_anew_by_the_draw_keys(self):
        def strict():
            return batchflow.DataLoader(ours.Noisy(), 32, True, order="strict", shuffle_seed=4,
                                        output="numpy")
        loader = strict()
        epochs = [self.numbers(loader) for _ in range(2)]
        self.assertEqual([len(epoch) for epoch in epochs], [ours.ROWS] * 2)
        for index in range(ours.ROWS):
            self.assertNotEqual(epochs[0][index], epochs[1][index])
        self.assertEqual(self.numbers(strict()), epochs[0])
        self.assertGreaterEqual(self.made(), 2 * ours.ROWS)

    def test_a_draw_that_changes_nothing_counts_as_random(self):
        loader = batchflow.DataLoader(ours.Rarely(), 32, output="numpy")
        for _ in range(2):
            list(loader)
        self.assertGreaterEqual(self.made(), 2 * ours.ROWS)  # and some of the next epoch

    @needs("torch")
    def test_what_loads_pytorch_has_not_drawn(self):
        loader = batchflow.DataLoader(ours.LoadsPyTorch(), 32, output="numpy")
        for _ in range(2):
            list(loader)
        self.assertEqual(self.made(), ours.ROWS)

    @needs("torch")
    def test_what_loads_pytorch_draws_by_the_draw_keys(self):
        def rows():
            loader = batchflow.DataLoader(ours.DrawsByPyTorch(), 32, True, order="strict",
                                          shuffle_seed=4, output="numpy")
            return [row.tolist() for batch in loader for row in batch]
        first = rows()
        self.assertEqual(len({tuple(row) for row in first}), ours.ROWS)
        # Other processes are given other samples first.
        self.daemon.kill(15)
        self.daemon.start()
        self.assertEqual(rows(), first)

    def test_what_is_declared_is_believed(self):
        loader = batchflow.DataLoader(ours.Declared(), 32, output="numpy")
        first, second = ([row.tolist() for rows in loader for row in rows] for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(self.made(), ours.ROWS)


class Failures(Served):
    ARGUMENTS = ("--corrupt-ratio-allowed", "100%")

    def test_a_sample_that_fails_is_replaced(self):
        for crashes, corrupt in ((False, {5}), (True, {5, 11})):
            loader = batchflow.DataLoader(ours.Broken(crashes), 32, output="numpy",
                                          corrupt_ratio_max=0.05)
            wanted, replaced = [], set()
            for batch in loader:
                keys, asked = batch.sample_keys.tolist(), batch.wanted_keys.tolist()
                wanted += asked
                replaced |= {one for one, key in zip(asked, keys) if one != key}
                self.assertEqual([int(row[0]) // 1024 for row in batch[0]], keys)
            self.assertEqual(sorted(wanted), list(range(ours.ROWS)))
            self.assertEqual(replaced, corrupt)
        log = self.daemon.log.read_text()
        self.assertIn("ValueError: sample 5 is broken", log)
        self.assertIn("datasets_of_ours.py", log)

    def test_samples_that_differ_end_the_job_with_what_to_write(self):
        loader = batchflow.DataLoader(ours.LateUneven(), 32, output="numpy", corrupt_ratio_max=0.05)
        replaced = [key for batch in [*loader] for key in [len(batch)]]
        self.assertEqual(sum(replaced), ours.ROWS)
        self.assertIn("samples that differ are for local=True", self.daemon.log.read_text())

    def test_a_length_that_lies_goes_local_with_the_reason(self):
        self.check_local(ours.Short(), r"sample \d+: .*IndexError: index \d+ is out of bounds")

    def test_what_cannot_be_taken_goes_local_with_the_reason(self):
        class Inner(ours.Rows):
            pass

        with_lambda = ours.Rows()
        with_lambda.transform = lambda row: row
        with_file = ours.Rows()
        with_file.file = open(os.devnull)
        self.addCleanup(with_file.file.close)
        for dataset, why in (
                (with_lambda, "a lambda cannot be taken to another process"),
                (with_file, "it cannot be pickled .*cannot pickle '_io.TextIOWrapper'"),
                (Inner(), "it cannot be pickled .*local"),
                (ours.OwnGenerator(), "differs from one call to the next, also where random"),
                (ours.Things(), "sample 0 has a object, and the service makes arrays, numbers and"),
                (ours.Slow(), "does not run in a confined process: it took more than 10 s"),
                (ours.Writes(), "does not run in a confined process: sample 0: .*Error"),
                ([1, 2], "a list is in its memory already")):
            with self.subTest(why=why):
                self.check_local(dataset, why)

    @needs("torch")
    def test_a_tensor_that_is_not_in_memory_goes_local_with_the_reason(self):
        dataset = ours.Rows()
        dataset.more = torch.zeros(3, device="meta")
        loader = self.check_local(dataset, "a tensor on meta stays in this process", batch_size=50)
        self.assertEqual(sum(len(labels) for _, labels in loader), ours.ROWS)

    def test_without_a_service_it_goes_local(self):
        self.daemon.kill(signal.SIGTERM)
        loader = self.check_local(ours.Rows(), "no service", batch_size=50)
        self.assertEqual(sum(len(labels) for _, labels in loader), ours.ROWS)


if __name__ == "__main__":
    unittest.main()
