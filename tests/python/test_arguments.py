"""Arguments: PyTorch's words where PyTorch has them, nothing with a meaning passed over."""

import os
import pickle
import sys
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

import batchflow
from batchflow import arguments, ranks
from support import Folder, needs


def read(*positional, **named):
    return batchflow.DataLoader(*positional, **named)._arguments


class Arguments(Folder):
    def test_pytorchs_errors(self):
        for text, named in (
                ("sampler option is mutually exclusive with shuffle",
                 {"sampler": object(), "shuffle": True}),
                ("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                 "drop_last", {"batch_sampler": object(), "drop_last": True}),
                ("batch_size=None option disables auto-batching and is mutually exclusive with "
                 "drop_last", {"batch_size": None, "drop_last": True}),
                ("num_workers option should be non-negative; use num_workers=0 to disable "
                 "multiprocessing.", {"num_workers": -1}),
                ("batch_size should be a positive integer value, but got batch_size=0",
                 {"batch_size": 0}),
                ("batch_size should be a positive integer value, but got batch_size=-1",
                 {"batch_size": -1}),
                ("batch_size should be a positive integer value, but got batch_size=1.5",
                 {"batch_size": 1.5}),
                ("batch_size should be a positive integer value, but got batch_size=True",
                 {"batch_size": True}),
                ("timeout option should be non-negative", {"timeout": -1}),
                ("prefetch_factor option should be non-negative", {"prefetch_factor": -1})):
            with self.assertRaises(ValueError) as raised:
                read("rows", **named)
            self.assertEqual(str(raised.exception), text)
        loader = batchflow.DataLoader("rows")
        for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset",
                     "persistent_workers"):
            with self.assertRaises(ValueError) as raised:
                setattr(loader, name, 2)
            self.assertEqual(str(raised.exception),
                             f"{name} attribute should not be set after DataLoader is initialized")
        loader.anything_else = 2
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'batchsize'"):
            read("rows", batchsize=3)
        with self.assertRaisesRegex(TypeError, "missing 1 required positional argument: 'dataset'"):
            read()

    def test_what_cannot_be_meant_is_refused(self):
        for kind, text, named in (
                (ValueError, "batch_size should be from 1 to 4294967295", {"batch_size": 2**32}),
                (ValueError, "latency_target should be 0 to 3600 seconds, but got latency_target=-1",
                 {"latency_target": -1}),
                (ValueError, "latency_target=True", {"latency_target": True}),
                (ValueError, "rehearsed=8 of batch_size=8 leaves no room",
                 {"batch_size": 8, "rehearsed": 8}),
                (TypeError, "generator should be a torch.Generator, not int", {"generator": 3}),
                (TypeError, "generator should be a torch.Generator, not int",
                 {"generator": 3, "shuffle": True}),
                (ValueError, "the service cannot use a object", {"sampler": object()}),
                (ValueError, "the service decides what is in a batch", {"batch_sampler": [[1]]}),
                (ValueError, "order='random': write strict", {"order": "random"}),
                (ValueError, "contradicts shuffle=False", {"order": "strict", "shuffle": False}),
                (ValueError, "contradicts shuffle=True", {"order": "sequential", "shuffle": True}),
                (ValueError, "rank 2 of 2 does not exist", {"rank": 2, "world_size": 2}),
                (ValueError, "rank and world_size belong together", {"rank": 2}),
                (ValueError, "cache_limit='64 apples' is not a size", {"cache_limit": "64 apples"}),
                (ValueError, "epochs should be from 1", {"epochs": 0}),
                (TypeError, "collate_fn should be a function", {"collate_fn": 3}),
                (ValueError, "shuffle_seed should be from 0", {"shuffle_seed": -1}),
                (ValueError, "cache_limit=0 is not a size", {"cache_limit": 0}),
                (ValueError, "corrupt_ratio_max should be a part of all samples, from 0 to 1",
                 {"corrupt_ratio_max": 5}),
                (ValueError, "timeout should be at most 100000000 seconds, but got timeout=inf",
                 {"timeout": float("inf")}),
                (ValueError, "output='bogus': write auto, torch", {"output": "bogus"}),
                (TypeError, "job_name should be a text, not int", {"job_name": 5}),
                (TypeError, "service should be a text, not int", {"service": 5}),
                (ValueError, "has a NUL in it", {"service": "a\0b"})):
            with self.assertRaisesRegex(kind, text):
                read("rows", **named)
        for dataset in (3, b"./rows", (one for one in [1, 2, 3])):
            with self.assertRaisesRegex(TypeError, "a Dataset with __getitem__ and __len__, not "):
                read(dataset)
        with self.assertRaisesRegex(ValueError, "has a NUL in it"):
            read("./a\0b")
        with self.assertRaisesRegex(ValueError, "mount or copy that, and write its path"):
            read(remote="hdfs://bucket/x")

    def test_a_url_is_a_path(self):
        read_url = read(remote="s3://bucket/x/")
        self.assertEqual(read_url.dataset, "s3://bucket/x/")
        self.assertTrue(read_url.is_path)
        self.assertEqual(read("https://host/x.u16", tokens=8).reading, "tokens=8")

    def test_meanings(self):
        self.assertEqual(read("rows").order, "sequential")
        self.assertEqual(read("rows", shuffle=True).order, "relaxed")
        self.assertEqual(read("rows", order="strict").order, "strict")
        self.assertEqual(read("rows").timeout_s, 300)
        self.assertEqual(read("rows", timeout=7).timeout_s, 7)
        self.assertEqual(read("./x").dataset, os.path.abspath("x"))
        self.assertEqual(read(Path("x")).dataset, os.path.abspath("x"))
        self.assertEqual(read("~/x").dataset, os.path.expanduser("~/x"))
        self.assertEqual(read(Path("~/x")).dataset, os.path.expanduser("~/x"))
        self.assertEqual(read("rows", service=Path("/run/x.sock")).service, "/run/x.sock")
        self.assertFalse(read("x").is_path)
        for text, size in (("64gb", 64 * 10**9), ("64gib", 64 * 2**30), (5, 5), ("1.5kib", 1536)):
            self.assertEqual(read("rows", cache_limit=text).cache_limit, size)

    def test_other_words_for_the_same(self):
        self.assertEqual(read(input_dir="rows").dataset, "rows")
        self.assertEqual(read(remote="rows").dataset, "rows")
        self.assertEqual(read("rows", max_cache_size="1gb").cache_limit, 10**9)
        self.assertEqual(read("rows", seed=5, shuffle=True).shuffle_seed, 5)
        self.assertEqual(read("rows", prefetch_batches=4).credits, 5)
        self.assertEqual(read("rows", batches_ahead=4).credits, 5)
        with self.assertRaisesRegex(TypeError, "'seed' means the same as 'shuffle_seed'"):
            read("rows", seed=5, shuffle_seed=4)

    def test_what_has_no_meaning_is_said_once(self):
        arguments._said.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                read("rows", num_workers=4, persistent_workers=True, worker_init_fn=print,
                     in_order=False, snapshot_every_n_steps=10)
        texts = [str(one.message) for one in said]
        self.assertEqual(len(texts), 5, texts)
        self.assertTrue(said[0].filename.endswith("test_arguments.py"), said[0].filename)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            read("rows", 256, True, None, None, 0, None, False, False, 0, None, None, None)
        self.assertEqual(said, [])

    def test_it_pickles_before_it_is_used(self):
        loader = batchflow.DataLoader("rows", 7, True, shuffle_seed=3, timeout=5)
        again = pickle.loads(pickle.dumps(loader))
        self.assertEqual(again._arguments, loader._arguments)
        self.assertEqual(again.batch_size, 7)

    @needs("torch")
    def test_samplers_that_say_nothing_but_an_order(self):
        import torch
        from torch.utils.data import (DistributedSampler, RandomSampler, SequentialSampler,
                                      SubsetRandomSampler)
        data = range(10)
        self.assertEqual(read("rows", sampler=SequentialSampler(data)).order, "sequential")
        seeded = RandomSampler(data, generator=torch.Generator().manual_seed(9))
        self.assertEqual(read("rows", sampler=seeded).order, "strict")
        self.assertEqual(read("rows", sampler=seeded, order="relaxed").order, "relaxed")
        self.assertEqual(read("rows", sampler=seeded).shuffle_seed, 9)
        made = read("rows", sampler=DistributedSampler(data, 4, 3, True, 11, True))
        # Its drop_last is of ranks, and PyTorch's DataLoader gives the last batch all the same.
        self.assertEqual((made.order, made.shuffle_seed, made.drop_last), ("relaxed", 11, False))
        self.assertEqual(made.ranks(), (3, 4))
        generator = torch.Generator().manual_seed(12)
        seeded = read("rows", shuffle=True, generator=generator)
        self.assertEqual((seeded.order, seeded.shuffle_seed), ("strict", 12))
        self.assertEqual(read("rows", generator=generator).order, "sequential")
        with self.assertRaisesRegex(ValueError, "device='gpu': .*device"):
            read("rows", device="gpu")
        with self.assertRaisesRegex(ValueError, "the service cannot use a SubsetRandomSampler"):
            read("rows", sampler=SubsetRandomSampler([1]))


class Identity(Folder):
    def test_ranks_come_from_what_is_said_or_from_the_launcher(self):
        launched = {"RANK": "3", "WORLD_SIZE": "8"}
        self.assertEqual(ranks.find_rank(1, 2, True, launched), (1, 2))
        self.assertEqual(ranks.find_rank(None, None, True, launched), (3, 8))
        self.assertEqual(ranks.find_rank(None, None, False, launched), (0, 1))  # as in PyTorch
        self.assertEqual(ranks.find_rank(None, None, True, {}), (0, 1))
        with self.assertRaisesRegex(ValueError, "are not numbers"):
            ranks.find_rank(None, None, True, {"RANK": "x", "WORLD_SIZE": "8"})

    def test_ranks_of_a_training_function_of_ray(self):
        context = types.SimpleNamespace(get_world_rank=lambda: 1, get_world_size=lambda: 2)
        train = types.SimpleNamespace(get_context=lambda: context)
        with mock.patch.dict(sys.modules, {"ray.train": train}):
            self.assertEqual(ranks.launched({}), (1, 2))
            self.assertEqual(ranks.launched({"RANK": "3", "WORLD_SIZE": "8"}), (3, 8))
            with mock.patch.object(ranks, "_run_of_ray", lambda: "run"):
                self.assertEqual(ranks.job_name(None, ranks.Rank(1, 2), 0, "d", {}), "run/0/d")
            train.get_context = lambda: 1 / 0  # outside of one, Ray raises something
            self.assertEqual(ranks.launched({}), (0, 1))

    def test_what_is_said_of_ranks_is_what_counts(self):
        os.environ.update(RANK="1", WORLD_SIZE="4")
        arguments._said.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(read("rows").ranks(), (0, 1))
            self.assertEqual(read("rows", 7, True).ranks(), (0, 1))
        self.assertEqual(len(said), 1)
        self.assertIn("each of the 4 ranks gets all samples, as in PyTorch", str(said[0].message))
        self.assertTrue(said[0].filename.endswith("test_arguments.py"), said[0].filename)
        arguments._said.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(read("rows", ranks="auto").ranks(), (1, 4))
            self.assertEqual(read("rows", rank=2, world_size=3).ranks(), (2, 3))
        self.assertEqual(said, [])
        with self.assertRaisesRegex(ValueError, "ranks='all': write 'auto'"):
            read("rows", ranks="all")

    def test_names_of_jobs(self):
        two = ranks.Rank(0, 2)
        by_port = {"MASTER_ADDR": "h", "MASTER_PORT": "29500"}
        self.assertIsNone(ranks.job_name(None, ranks.Rank(0, 1), 0, "d", by_port))
        self.assertEqual(ranks.job_name("mine", two, 0, "d", by_port), "mine")
        alone = ranks.Rank(0, 1)
        self.assertEqual(ranks.job_name("mine", alone, 0, "d", by_port), "mine")
        launched = {"RANK": "1", "WORLD_SIZE": "2"}  # where each rank has a job of that name
        self.assertEqual(ranks.job_name("mine", alone, 0, "d", launched), "mine.rank1")
        self.assertEqual(ranks.job_name(None, two, 1, "d", by_port), "h:29500/1/d")
        for none in ("", "none"):
            self.assertEqual(ranks.job_name(None, two, 1, "d",
                                            {**by_port, "TORCHELASTIC_RUN_ID": none}),
                             "h:29500/1/d")
        self.assertEqual(ranks.job_name(None, two, 0, "d",
                                        {**by_port, "TORCHELASTIC_RUN_ID": "7"}), "7/0/d")
        with self.assertRaisesRegex(ValueError, "write job_name="):
            ranks.job_name(None, two, 0, "d", {})


if __name__ == "__main__":
    unittest.main()
