"""The scripts that people write, with batchflow.DataLoader in the place of PyTorch's: labels, counts
and, where PyTorch's order is one that can be named, the order are PyTorch's; or it is refused."""

import json
import tarfile
import unittest

import batchflow
from compared import PICTURES, Compared
from support import needs, result, start_job

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset
    from torchvision import transforms as T

    from pictures import CLASSES, epoch_of, flat, pictures_of
except ImportError:
    torch = None


@needs("torchvision")
class Scripts(Compared):
    # ------------------------------------------------------------------------------- training --

    def test_a_training_loop_over_an_image_folder(self):
        theirs, ours = self.both(self.data(), batch_size=8, shuffle=True, num_workers=0)
        self.assertEqual(len(ours), len(theirs))
        self.assertEqual(len(ours.dataset), len(theirs.dataset))
        self.assertEqual(len(ours.sampler), len(theirs.sampler))
        self.assertEqual(len(ours.batch_sampler), len(theirs.batch_sampler))
        epochs = [epoch_of(ours) for _ in range(2)]
        for epoch in epochs:
            self.assert_same_samples(epoch_of(theirs), epoch)
        self.assertNotEqual(*epochs)

    def test_evaluation_without_shuffling_is_the_same_in_order_and_values(self):
        theirs, ours = self.both(self.data(), batch_size=8, shuffle=False)
        for _ in range(2):
            for expected, given in zip(theirs, ours):
                self.assertTrue(torch.equal(given[0], expected[0]))
                self.assertTrue(torch.equal(given[1], expected[1]))
        self.assertEqual(epoch_of(ours), epoch_of(theirs))

    def test_drop_last(self):
        for size in (8, 43):
            theirs, ours = self.both(self.data(), size, True, drop_last=True)
            self.assertEqual(len(ours), len(theirs))
            made = epoch_of(ours)
            self.assertEqual([len(batch) for batch in made], [len(batch) for batch in epoch_of(theirs)])
            self.assertEqual(len(set(flat(made))), len(flat(made)))
            self.assertLessEqual(set(flat(made)), set(flat(epoch_of(DataLoader(self.data(), 1)))))

    def test_a_run_that_is_resumed_goes_on_where_it_was(self):
        def loader():
            return batchflow.DataLoader(self.data(), 8, shuffle=True,
                                        generator=torch.Generator().manual_seed(7))

        whole = [epoch_of(one) for one in [loader()] for _ in range(3)]
        first = loader()
        done = epoch_of(first)
        for i, batch in enumerate(first):
            if i == 2:
                saved = json.dumps({"epoch": 1, "loader": first.state_dict()})
                break
        again = loader()
        again.load_state_dict(json.loads(saved)["loader"])
        self.assertEqual(done, whole[0])
        self.assertEqual(epoch_of(again), whole[1][3:])
        self.assertEqual(epoch_of(again), whole[2])

    # --------------------------------------------------------------------------- several ranks --

    def test_training_and_validation_in_a_data_parallel_script(self):
        world = 3
        jobs = [start_job("ddp_script", str(self.root), str(self.folder / "gloo"),
                          RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT="29611") for rank in range(world)]
        ranks = [result(job) for job in jobs]
        for loader in ("theirs", "ours"):
            for epoch in range(3):
                parts = [rank[loader]["train"][epoch] for rank in ranks]
                # 43 samples over three ranks: 15 each, two of them twice.
                self.assertEqual([[len(batch) for batch in part] for part in parts],
                                 [[4, 4, 4, 3]] * world)
                self.assertEqual(len({one for part in parts for one, _ in flat(part)}), PICTURES)
        for rank in ranks:
            self.assertEqual(rank["ours"]["length"], rank["theirs"]["length"])
            self.assertEqual(rank["ours"]["val"], rank["theirs"]["val"])
            self.assertEqual(rank["ours"]["labels"], rank["theirs"]["labels"])
            # The epoch is the one that set_epoch says: the last two were one.
            self.assertEqual(rank["ours"]["epochs"], [0, 1, 1])
            self.assertNotEqual(*rank["ours"]["train"][:2])
            self.assertEqual(len(rank["said"]), 1, rank["said"])
            self.assertIn("each of the 3 ranks gets all samples, as in PyTorch; write "
                          "ranks='auto'", rank["said"][0])
        # Only rank 0 went through this one.
        self.assertEqual(ranks[0]["ours"]["alone"], ranks[0]["theirs"]["alone"])
        self.assertIsNone(ranks[1]["ours"]["alone"])

    # ------------------------------------------------------------------- iterations at one time --

    def test_nested_iterations(self):
        theirs, ours = self.both(self.data(), 20, shuffle=True)
        for loader in (theirs, ours):
            outer, inner = [], []
            for batch in loader:
                outer.append(pictures_of(batch))
                inner.append([pictures_of(other) for other in loader])
            self.assertEqual([len(batch) for batch in outer], [20, 20, 3])
            self.assertEqual(len(set(flat(outer))), PICTURES)
            for epoch in inner:
                self.assertEqual([len(batch) for batch in epoch], [20, 20, 3])
                self.assertEqual(set(flat(epoch)), set(flat(outer)))
            self.assertEqual(len({str(epoch) for epoch in [outer, *inner]}), 4)
        for order in ("strict", "relaxed", "sequential"):
            loader = batchflow.DataLoader(self.data(), 20, order=order)
            pairs = [(pictures_of(a), pictures_of(b)) for a, b in zip(loader, loader)]
            for side in zip(*pairs):
                self.assertEqual([len(batch) for batch in side], [20, 20, 3])
                self.assertEqual(len(set(flat(side))), PICTURES)
            if order == "sequential":
                self.assertTrue(all(a == b for a, b in pairs))

    def test_an_iteration_that_is_kept_goes_on_when_another_begins(self):
        for loader in self.both(self.data(), 20, shuffle=False):
            first = iter(loader)
            seen = [pictures_of(next(first))]
            second = epoch_of(loader)
            seen += [pictures_of(batch) for batch in first]
            self.assertEqual(seen, second)
            self.assertEqual(list(first), [])
            self.assertEqual(epoch_of(loader), second)

    def test_two_loaders_over_one_data_set(self):
        data = self.data()
        for kind in (DataLoader, batchflow.DataLoader):
            train, test = kind(data, 8, shuffle=True), kind(data, 10, shuffle=False)
            for _ in range(2):
                self.assertEqual(len(set(flat(epoch_of(train)))), PICTURES)
                self.assertEqual(epoch_of(test), epoch_of(DataLoader(data, 10)))
            together = [(pictures_of(a), pictures_of(b)) for a, b in zip(train, test)]
            self.assertEqual([len(a) + len(b) for a, b in together], [18, 18, 18, 18, 11])

    # ----------------------------------------------------------------- parts and other formats --

    def test_splits_by_the_service(self):
        data = self.data()
        train = batchflow.DataLoader(self.root, 8, True, split={"fraction": 0.7},
                                     pipeline=data.transform)
        rest = batchflow.DataLoader(self.root, 8, split={"fraction": 0.7, "part": "rest"},
                                    pipeline=data.transform)
        both = flat(epoch_of(train)) + flat(epoch_of(rest))
        self.assertEqual(sorted(both), sorted(flat(epoch_of(DataLoader(data, 8)))))

    def test_a_webdataset(self):
        shard = self.folder / "shards" / "000.tar"
        shard.parent.mkdir()
        samples = self.data().samples
        with tarfile.open(shard, "w") as tar:
            for i, (path, label) in enumerate(samples):
                tar.add(path, f"{i:04}.png")
                (self.folder / "label").write_text(str(label))
                tar.add(self.folder / "label", f"{i:04}.cls")

        class Shards(IterableDataset):
            def __iter__(self):
                from PIL import Image
                with tarfile.open(shard) as tar:
                    for member in tar:
                        if member.name.endswith(".png"):
                            picture = T.ToTensor()(Image.open(tar.extractfile(member)).convert(
                                "RGB"))
                        else:
                            yield picture, int(tar.extractfile(member).read())

        theirs = epoch_of(DataLoader(Shards(), 8))
        transform = self.data().transform
        self.assertEqual(epoch_of(batchflow.DataLoader(shard.parent, 8, pipeline=transform)), theirs)
        self.assert_same_samples(theirs, epoch_of(
            batchflow.DataLoader(shard.parent, 8, True, pipeline=transform)))

    # ------------------------------------------------------------------------------ no pictures --

    def test_pictures_that_cannot_be_decoded_are_counted_and_bounded_by_the_script(self):
        for i in range(8):
            (self.root / "bee" / f"{i:04}.ppm").write_bytes(b"P6\n" + bytes(60))
        cut = self.root / "cat" / "0002.png"
        cut.write_bytes(cut.read_bytes()[:50])
        transform = self.data().transform

        def epoch(**more):
            with batchflow.DataLoader(self.root, 8, pipeline=transform, **more) as loader:
                for _ in loader:
                    pass
        said = self.said_by(lambda: self.assertRaisesRegex(
            batchflow.RefusedError, "9 samples cannot be prepared, 8 may be so", epoch))
        self.assertEqual(len(said), 1, said)
        self.assertIn("8 of 51 samples cannot be decoded: .ppm (8); JPEG, PNG", said[0])
        (replaced,) = self.said_by(lambda: epoch(corrupt_ratio_max=0.2))
        self.assertIn("were replaced by others: 9 up to the end of epoch 0", replaced)
        self.assertEqual(self.said_by(lambda: epoch(corrupt_ratio_max=0.2)), [])  # it was said
        with self.assertRaisesRegex(batchflow.RefusedError, "lets a job ask for 0.5"):
            epoch(corrupt_ratio_max=0.6)

    def test_files_that_are_no_pictures_are_bytes_with_a_word_and_refused_by_a_decoder(self):
        root = self.folder / "sounds"
        for i in range(6):
            (root / CLASSES[i % 2]).mkdir(parents=True, exist_ok=True)
            (root / CLASSES[i % 2] / f"{i}.wav").write_bytes(b"RIFF" + bytes(i))
        said = self.said_by(lambda: list(batchflow.DataLoader(root, 3)))
        self.assertEqual(len(said), 1, said)
        self.assertIn("its samples are the bytes of its files, .wav (6), as they are", said[0])
        self.assertEqual(self.said_by(lambda: list(batchflow.DataLoader(root, 3, pipeline="bytes"))),
                         [])
        with self.assertRaisesRegex(batchflow.RefusedError, "'decode' is for pictures in JPEG, "
                                    r".*, and dataset '.*' holds .wav \(6\)"):
            len(batchflow.DataLoader(root, 3, pipeline=self.data().transform))

    # ---------------------------------------------------------------- attributes and information --

    def test_attributes_are_pytorchs(self):
        data = self.data()
        for loader in self.both(data, 8, shuffle=False):
            self.assertIs(loader.dataset, data)
            self.assertEqual(list(loader.sampler), list(range(PICTURES)))
            self.assertEqual((loader.batch_sampler.batch_size, loader.batch_sampler.drop_last),
                             (8, False))
            self.assertIs(loader.collate_fn, torch.utils.data.default_collate)
            self.assertEqual((loader.timeout, loader.pin_memory, loader.num_workers), (0, False, 0))
            loader.collate_fn = lambda samples: [label for _, label in samples]
            labels = [label for batch in loader for label in batch]
            self.assertEqual(labels, [label for _, label in data.samples])
            self.assertTrue(all(type(label) is int for label in labels))
            with self.assertRaisesRegex(ValueError, "sampler attribute should not be set after "
                                        "DataLoader is initialized"):
                loader.sampler = None
        for drop_last in (False, True):
            theirs, ours = self.both(data, 8, shuffle=False, drop_last=drop_last)
            self.assertEqual(list(ours.batch_sampler), list(theirs.batch_sampler))
        by_path = batchflow.DataLoader(self.root, 8, True)
        self.assertEqual(by_path.dataset.class_to_idx, data.class_to_idx)
        self.assertEqual(by_path.dataset.classes, list(CLASSES))
        part = batchflow.DataLoader(self.root, 8, rank=0, world_size=2, job_name="part")
        for loader in (by_path, part):
            for sampler in (loader.sampler, loader.batch_sampler):
                with self.assertRaisesRegex(TypeError, "the service draws the order"):
                    list(sampler)
        with self.assertRaisesRegex(NotImplementedError, "samples of a service come in batches"):
            by_path.dataset[0]
        sample = next(iter(batchflow.DataLoader(data, None)))
        self.assertIs(type(sample[1]), int)


if __name__ == "__main__":
    unittest.main()
