"""MixUp and CutMix on batches: as torchvision's, with draws that a resume repeats."""

import os
import pickle
import struct
import unittest

import batchflow
from batchflow import mixing
from support import Daemon, Folder, needs

try:
    import torch
except ImportError:
    torch = None
try:
    from torchvision.transforms import v2
    v2.MixUp, v2.CutMix
except (ImportError, AttributeError):  # torchvision has them from 0.16 on
    v2 = None

CLASSES, SIDE, PICTURES = 3, 12, 60
needs_v2 = unittest.skipUnless(v2, "torchvision.transforms.v2 with MixUp is not installed")


def bmp(number):
    rows = b"".join(bytes((number * 7 + x * 5 + y * 3 + c * 40) % 256 for x in range(SIDE)
                          for c in range(3)) for y in range(SIDE))
    return (b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54)
            + struct.pack("<IiiHHIIiiII", 40, SIDE, SIDE, 1, 24, 0, 0, 0, 0, 0, 0) + rows)


def batch_of(count=8, seed=3):
    torch.manual_seed(seed)
    return torch.rand(count, 3, 10, 14), torch.arange(count) % CLASSES


@needs("torch")
class Alone(unittest.TestCase):
    def test_labels_are_parts_that_add_up_to_one_and_follow_the_pictures(self):
        images, labels = torch.zeros(4, 1, 1, 1), torch.tensor([0, 1, 2, 1])
        images[2] = 1
        mixed, parts = batchflow.MixUp(num_classes=CLASSES)(images, labels)
        self.assertEqual((parts.dtype, tuple(parts.shape)), (torch.float32, (4, CLASSES)))
        self.assertTrue(torch.allclose(parts.sum(1), torch.ones(4)))
        part = float(mixed[2])
        self.assertTrue(0 < part < 1)
        self.assertTrue(torch.allclose(mixed.flatten(), torch.tensor([0, 0, part, 1 - part])))
        self.assertTrue(torch.allclose(parts[2], torch.tensor([0, 1 - part, part])))
        self.assertTrue(torch.allclose(parts[3], torch.tensor([0, part, 1 - part])))

    def test_a_box_is_cut_out_of_the_picture_before_and_labels_have_its_share(self):
        images = torch.arange(6.0).reshape(6, 1, 1, 1).expand(6, 3, 10, 14)
        shares = set()
        for seed in range(30):
            torch.manual_seed(seed)
            mixed, parts = batchflow.CutMix(num_classes=6, alpha=0.5)(images, torch.arange(6))
            own = mixed == images
            self.assertTrue(bool(((mixed == images.roll(1, 0)) | own).all()))
            share = float(own[0].float().mean())
            self.assertAlmostEqual(float(parts[0, 0]), share, 5)
            self.assertTrue(torch.equal(own, own[:1].expand_as(own)))  # one box for all
            shares.add(share)
        self.assertGreater(len(shares), 10)
        self.assertTrue(bool((images == torch.arange(6.0).reshape(6, 1, 1, 1)).all()))

    def test_what_cannot_be_mixed_is_refused_with_a_reason(self):
        images, labels = batch_of()
        for wrong, made in (
                ("num_classes must be given", lambda: batchflow.MixUp()(images, labels)),
                ("float images, not torch.uint8",
                 lambda: batchflow.CutMix(num_classes=3)((images * 255).byte(), labels)),
                ("8 images and 7 labels",
                 lambda: batchflow.MixUp(num_classes=3)(images, labels[1:])),
                ("alpha=0 is not above 0", lambda: batchflow.MixUp(num_classes=3, alpha=0)),
                ("mixing is for batches",
                 lambda: batchflow.DataLoader("x", None, mixing=batchflow.MixUp(num_classes=3))),
                ("these batches are numpy",
                 lambda: batchflow.DataLoader("x", 4, output="numpy", mixing=max))):
            with self.assertRaisesRegex(ValueError, wrong):
                made()
        with self.assertRaisesRegex(TypeError, "mixing should be a function"):
            batchflow.DataLoader("x", 4, mixing=3)

    def test_rows_of_parts_need_no_number_of_classes(self):
        images, labels = batch_of()
        once = batchflow.MixUp(num_classes=CLASSES)(images, labels)
        twice = batchflow.CutMix()(*once)[1]
        self.assertTrue(torch.allclose(twice.sum(1), torch.ones(len(images))))

    def test_draws_are_those_of_the_samples_the_epoch_and_the_seed(self):
        key = mixing.draw_key(1, 2, [3, 4])
        self.assertEqual(key, mixing.draw_key(1, 2, [3, 4]))
        others = {mixing.draw_key(*one) for one in
                  ((1, 2, [4, 3]), (2, 1, [3, 4]), (0, 2, [3, 4]), (1, 3, [3, 4]), (1, 2, [3]),
                   (2**64 - 1, 2, [3, 4]))}
        self.assertEqual(len(others | {key}), 7)
        self.assertTrue(all(0 <= one < 2**63 for one in others))

    @needs_v2
    def test_with_the_same_part_and_box_they_are_torchvisions(self):
        images, labels = batch_of()
        theirs = v2.MixUp(num_classes=CLASSES, alpha=0.4)
        made = batchflow.MixUp(num_classes=CLASSES)
        cuts = v2.CutMix(num_classes=CLASSES, alpha=0.7)
        for seed in range(40):
            torch.manual_seed(seed)
            drawn = theirs.make_params([images])
            expected = (theirs.transform(images, {"labels": labels, "batch_size": 8, **drawn}),
                        theirs.transform(labels, {"labels": labels, "batch_size": 8, **drawn}))
            ours = (mixing.mixed_up(images, drawn["lam"]),
                    mixing.mixed_up(made._parts(labels), drawn["lam"]))
            self.assertTrue(all(map(torch.equal, expected, ours)))
            drawn = cuts.make_params([images])
            expected = (cuts.transform(images, {"labels": labels, "batch_size": 8, **drawn}),
                        cuts.transform(labels, {"labels": labels, "batch_size": 8, **drawn}))
            ours = mixing.cut_and_mixed(images, made._parts(labels), drawn["box"])
            self.assertTrue(all(map(torch.equal, expected, ours)))

    @needs_v2
    def test_boxes_are_torchvisions_boxes(self):
        images, _ = batch_of()
        for seed in range(100):
            torch.manual_seed(seed)
            cuts = v2.CutMix(num_classes=CLASSES)
            box = cuts.make_params([images])["box"]
            torch.manual_seed(seed)
            part = float(cuts._dist.sample(()))
            x, y = int(torch.randint(14, size=(1,))), int(torch.randint(10, size=(1,)))
            self.assertEqual(mixing.box_of(part, x, y, 14, 10), box)


@needs("torch")
class Loaded(Folder):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "pictures"
        for i in range(PICTURES):
            folder = self.root / f"class{i % CLASSES}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{i:03}.bmp").write_bytes(bmp(i))
        self.daemon = Daemon(self.folder, "--open-datasets")
        self.addCleanup(self.daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket

    def loader(self, size=8, **more):
        pipeline = batchflow.Pipeline([
            {"step": "decode"}, {"step": "centre_crop", "size": SIDE},
            {"step": "normalise", "mean": [0, 0, 0], "std": [1, 1, 1]},
            {"step": "layout", "order": "nchw"}])
        return batchflow.DataLoader(self.root, size, pipeline=pipeline,
                                    **{"order": "strict", "shuffle_seed": 5, **more})

    def epoch(self, loader):
        return [(images.clone(), labels.clone()) for images, labels in loader]

    def assert_same(self, ours, others):
        self.assertEqual(len(ours), len(others))
        for one, other in zip(ours, others):
            self.assertTrue(all(map(torch.equal, one, other)))

    def test_an_epoch_is_mixed_alike_in_every_run_and_otherwise_in_the_next(self):
        mixed = batchflow.MixUp(num_classes=CLASSES, alpha=0.8)
        torch.manual_seed(1)
        with self.loader(mixing=mixed) as loader:
            first, second = self.epoch(loader), self.epoch(loader)
        drawn = torch.rand(3)
        torch.manual_seed(1)
        self.assertTrue(torch.equal(drawn, torch.rand(3)))  # nothing was drawn of the script's
        with self.loader(mixing=mixed) as loader:
            self.assert_same(self.epoch(loader), first)
        with self.loader() as loader:
            plain = [self.epoch(loader), self.epoch(loader)]
        for epoch, unmixed in zip((first, second), plain):
            parts = set()
            for (images, labels), (own, classes) in zip(epoch, unmixed):
                self.assertEqual(labels.shape, (len(classes), CLASSES))
                one_hot = torch.nn.functional.one_hot(classes, CLASSES).float()
                # Each part of a label is how much there is of a picture, or of the other one.
                may_be = [part for one in labels.unique().tolist() for part in (one, 1 - one)]
                off, part = min((float((mixing.mixed_up(own, one) - images).abs().max()), one)
                                for one in may_be)
                self.assertLess(off, 1e-5)
                self.assertTrue(torch.allclose(mixing.mixed_up(one_hot, part), labels))
                parts.add(round(part, 6))
            self.assertGreater(len(parts), len(epoch) // 2)
        self.assertFalse(torch.equal(first[0][1], second[0][1]))

    def test_a_resumed_epoch_goes_on_as_it_would_have(self):
        for mixed in [batchflow.CutMix(num_classes=CLASSES)] + (
                [v2.RandomChoice([v2.CutMix(num_classes=CLASSES), v2.MixUp(num_classes=CLASSES)])]
                if v2 else []):
            with self.loader(mixing=mixed) as loader:
                whole = self.epoch(loader)
            with self.loader(mixing=mixed) as loader:
                begun = []
                for images, labels in loader:
                    begun.append((images.clone(), labels.clone()))
                    if len(begun) == 3:
                        state = loader.state_dict()
                        break
            torch.manual_seed(99)
            with self.loader(mixing=mixed) as loader:
                loader.load_state_dict(state)
                self.assert_same(begun + self.epoch(loader), whole)

    def test_the_batch_keeps_its_keys_and_the_loader_can_be_pickled(self):
        loader = pickle.loads(pickle.dumps(self.loader(
            mixing=batchflow.CutMix(num_classes=CLASSES))))
        with loader:
            keys = []
            for batch in loader:
                self.assertEqual(batch["label"].dtype, torch.float32)
                keys += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
        self.assertEqual(sorted(keys), list(range(PICTURES)))

    def test_what_collate_fn_makes_is_mixed_too(self):
        def collate(samples):
            return {"pictures": torch.stack([one[0] for one in samples]),
                    "classes": torch.tensor([one[1] for one in samples])}

        def mixed(batch):
            images, labels = batchflow.MixUp(num_classes=CLASSES)(batch["pictures"],
                                                                  batch["classes"])
            return {"pictures": images, "classes": labels}

        with self.loader(collate_fn=collate, mixing=mixed) as loader:
            named = [(one["pictures"], one["classes"]) for one in loader]
        with self.loader(mixing=batchflow.MixUp(num_classes=CLASSES)) as loader:
            self.assert_same(named, self.epoch(loader))

    @needs_v2
    def test_scripts_as_torchvision_shows_them_work_and_mix_what_is_served(self):
        cutmix_or_mixup = v2.RandomChoice([v2.CutMix(num_classes=CLASSES),
                                           v2.MixUp(num_classes=CLASSES)])
        default_collate = torch.utils.data.default_collate

        def collate_fn(batch):
            return cutmix_or_mixup(*default_collate(batch))

        with self.loader(collate_fn=collate_fn) as loader:
            torch.manual_seed(7)
            collated = list(loader)
        with self.loader() as loader:
            torch.manual_seed(7)
            afterwards = [cutmix_or_mixup(images, labels) for images, labels in loader]
        self.assert_same(collated, afterwards)
        for images, labels in collated:
            self.assertEqual(labels.shape, (len(images), CLASSES))
            self.assertTrue(torch.allclose(labels.sum(1), torch.ones(len(images))))

    def test_a_dataset_that_the_script_loads_itself_is_mixed_in_its_collate_fn(self):
        data = [(torch.zeros(3, 4, 4), 0)] * 4
        with self.assertRaisesRegex(ValueError, "mixing.*call it in a collate_fn"):
            batchflow.DataLoader(data, 2, local=True, mixing=batchflow.MixUp(num_classes=2))


if __name__ == "__main__":
    unittest.main()
