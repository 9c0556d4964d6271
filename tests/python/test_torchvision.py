"""from_torchvision: the same pictures as torchvision makes, or the transform that cannot be."""

import functools
import os
import random
import shutil
import unittest
from pathlib import Path

import batchflow
from batchflow.torchvision import pipeline_of
from support import Daemon, Folder, needs

try:
    import torch
    from torchvision import datasets, transforms as T
    from torchvision.transforms import InterpolationMode
except ImportError:
    T = None

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


RESIZED = {"step": "resize", "size": [16, 16]}
NORMALISED = {"step": "normalise", "mean": [0, 0, 0], "std": [1, 1, 1]}


class Given(unittest.TestCase):
    def test_what_is_no_step_is_at_fault_and_not_those_beside_it(self):
        class Callable:
            def __call__(self, picture):
                return picture

        for thing, kind in ((functools.partial(max), "partial"), (Callable(), "Callable"),
                            (3, "int")):
            with self.assertRaises(batchflow.NotMappable) as raised:
                batchflow.DataLoader("./pictures", pipeline=[{"step": "decode"}, RESIZED, thing])
            self.assertTrue(str(raised.exception).startswith(f"transform 2, {kind}: "),
                            raised.exception)

    def test_a_file_or_its_text_is_for_the_service(self):
        for pipeline, what in (("a/b.yaml", "the file a/b.yaml"), (Path("a.yml"), "the file a.yml"),
                               (batchflow.Pipeline([RESIZED]).yaml(), "YAML")):
            with self.assertRaisesRegex(ValueError, f"pipeline: {what} is for the service"):
                batchflow.DataLoader("./pictures", pipeline=pipeline)


@needs("torchvision")
class Mapping(unittest.TestCase):
    def test_steps_may_stand_among_transforms(self):
        planes = {"step": "layout", "order": "nchw"}
        crop = {"step": "centre_crop", "size": 8}
        for mixed, made in (
                ([{"step": "decode", "pixels_most": 9}, T.Resize((16, 16))],
                 [{"step": "decode", "pixels_most": 9}, RESIZED]),
                ([T.Resize((16, 16)), crop, T.PILToTensor()],
                 [{"step": "decode"}, RESIZED, crop, planes]),
                ([T.Resize((16, 16)), NORMALISED, planes],
                 [{"step": "decode"}, RESIZED, NORMALISED, planes])):
            self.assertEqual(pipeline_of(mixed).steps, made)
        with self.assertRaisesRegex(batchflow.NotMappable, "behind what works on numbers"):
            pipeline_of([NORMALISED, T.CenterCrop(8)])

    def test_one_mean_is_that_of_all_channels(self):
        for mean, std in (((0.5,), [0.25]), (0.5, 0.25), (torch.tensor(0.5), torch.tensor([0.25])),
                          ([0.5] * 3, 0.25)):
            steps = batchflow.from_torchvision([T.ToTensor(), T.Normalize(mean, std)]).steps
            self.assertEqual(steps[1], {"step": "normalise", "mean": [0.5] * 3, "std": [0.25] * 3})

    def test_what_derives_from_a_transform_is_not_that_transform(self):
        for base, arguments in ((T.Resize, (8,)), (T.Compose, ([T.Resize(8)],)),
                                (torch.nn.Sequential, (T.Resize(8),))):
            own = type(base.__name__, (base,), {"__module__": "mytorchvision.ext"})(*arguments)
            with self.assertRaisesRegex(batchflow.NotMappable, "neither torchvision's own"):
                batchflow.from_torchvision(own)

    def test_training(self):
        made = batchflow.from_torchvision(T.Compose([
            T.RandomResizedCrop(224, scale=(0.2, 1)), T.RandomHorizontalFlip(0.3),
            T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.ToTensor(), T.Normalize(MEAN, STD),
            T.ConvertImageDtype(torch.float16)]))
        self.assertEqual(made.steps, [
            {"step": "decode"},
            {"step": "random_resized_crop", "size": 224, "scale": [0.2, 1.0],
             "ratio": [3 / 4, 4 / 3]},
            {"step": "horizontal_flip", "probability": 0.3},
            {"step": "colour_jitter", "brightness": [0.6, 1.4], "contrast": [0.6, 1.4],
             "saturation": [0.6, 1.4], "hue": [-0.1, 0.1]},
            {"step": "normalise", "mean": MEAN, "std": STD}, {"step": "cast", "to": "f16"},
            {"step": "layout", "order": "nchw"}])
        self.assertIn("  - {step: normalise, mean: [0.485, 0.456, 0.406], std:", made.yaml())

    def test_what_cannot_be_mapped_is_named_all_of_it(self):
        with self.assertRaises(batchflow.NotMappable) as raised:
            batchflow.from_torchvision(T.Compose([
                T.Resize(256, interpolation=InterpolationMode.BICUBIC), T.RandomRotation(3),
                T.CenterCrop(224), T.ToTensor(), T.Lambda(lambda x: x), T.ColorJitter(0.1),
                T.RandomHorizontalFlip(), T.Resize(10)]))
        text = str(raised.exception)
        self.assertEqual(len(text.split("; transform ")), 5, text)
        for part in ("transform 0, Resize: its interpolation is bicubic, and the service's is "
                     "bilinear", "transform 1, RandomRotation: the service has no such step",
                     "transform 4, Lambda: the service has no such step",
                     "transform 5, ColorJitter: it changes the colours of what are not bytes",
                     "transform 7, Resize: it resizes what are not bytes any more"):
            self.assertIn(part, text)
        for transform, why in ((T.Normalize(MEAN, STD), "before ToTensor"),
                               (T.Resize(8, max_size=10), "max_size"),
                               (T.Compose([T.ToTensor(), T.Normalize([0.5] * 2, [0.5])]),
                                "2 means"),
                               (T.Compose([T.PILToTensor(), T.Resize(9)]), "resizes a tensor"),
                               (lambda x: x, "transform 0, function: .* written with def")):
            with self.assertRaisesRegex(batchflow.NotMappable, why):
                batchflow.from_torchvision(transform)


@needs("torchvision")
class Pictures(Folder):
    def setUp(self):
        super().setUp()
        from PIL import Image
        draw = random.Random(7)
        self.root = self.folder / "pictures"
        for i in range(12):
            folder = self.root / ("cat" if i % 2 else "dog")
            folder.mkdir(parents=True, exist_ok=True)
            small = Image.new("RGB", (6, 5))
            small.putdata([tuple(draw.randrange(256) for _ in range(3)) for _ in range(30)])
            small.resize((80 + 5 * i, 70 + 7 * (i % 3)), Image.BILINEAR).save(
                folder / f"{i:02}.{'png' if i % 3 else 'jpg'}")
        daemon = Daemon(self.folder, "--open-datasets")
        self.addCleanup(daemon.kill)
        self.daemon = daemon

    def test_the_same_pictures(self):
        for transform in (
                T.Compose([T.Resize(64), T.CenterCrop(56), T.ToTensor(), T.Normalize(MEAN, STD)]),
                T.Compose([T.Resize((40, 50)), T.ToTensor()]),
                T.Compose([T.CenterCrop((60, 90)), T.PILToTensor()])):
            data = datasets.ImageFolder(str(self.root), transform)
            # The dataset object of a PyTorch script has all that the service needs.
            loader = batchflow.DataLoader(data, 5, service=self.daemon.socket)
            self.assertEqual(loader.classes, data.classes)
            seen = 0
            for images, labels in loader:
                for image, label in zip(images, labels):
                    expected, expected_label = data[seen]
                    self.assertEqual((image.dtype, image.shape), (expected.dtype, expected.shape))
                    self.assertEqual(int(label), expected_label)
                    scale = 1 if expected.dtype == torch.uint8 else 255 * min(STD)
                    difference = (image.float() - expected.float()).abs() * scale
                    self.assertLess(float(difference.mean()), 0.5)
                    self.assertLess(float(difference.max()), 4)
                    seen += 1
            self.assertEqual(seen, len(data))

    def test_a_data_set_of_which_the_service_finds_something_else_is_refused(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        transform = T.Compose([T.Resize(8), T.CenterCrop(8), T.ToTensor()])

        def classes_of(data):
            with batchflow.DataLoader(data, 5, service=self.daemon.socket) as loader:
                return loader.classes

        data = datasets.ImageFolder("pictures", transform)
        self.assertEqual(classes_of(data), ["cat", "dog"])
        data.classes = ["dog", "cat"]  # the script's names for them, as in PyTorch
        self.assertEqual(classes_of(data), ["dog", "cat"])
        shutil.copytree(self.root / "cat", self.folder / "more" / "fish")
        for linked in ("cat", "dog"):
            (self.folder / "more" / linked).symlink_to(self.root / linked)
        with self.assertRaisesRegex(ValueError, r"18 samples of 3 classes \(cat, dog, fish\), and "
                                    r"the service finds 6 samples of 1 classes \(fish\); it follows "
                                    "no links to folders.*decodes JPEG and PNG"):
            classes_of(datasets.ImageFolder("more", transform))

    def test_jobs_with_the_same_steps_share_them(self):
        transform = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
        loaders = [batchflow.DataLoader(self.root, 4, True, pipeline=pipeline,
                                        service=self.daemon.socket)
                   for pipeline in (transform, batchflow.from_torchvision(transform, "another"))]
        seen = [{key: image.sum().item() for images, labels, keys in
                 ((*batch, batch.sample_keys.tolist()) for batch in loader)
                 for image, key in zip(images, keys)} for loader in loaders]
        self.assertEqual(len(seen[0]), 12)
        jobs = self.daemon.status()["jobs"]
        self.assertEqual(len({job["pipeline"] for job in jobs}), 1)
        self.assertRegex(jobs[0]["pipeline"], "^#[0-9a-f]{16}$")

    def test_steps_that_the_service_does_not_take_are_its_words(self):
        for steps, why in (([{"step": "sharpen"}], "sharpen"), ([{"step": "decode", "x": 1}], "x"),
                           ([{"step": "decode"}], "different sizes")):
            loader = batchflow.DataLoader(self.root, pipeline=batchflow.Pipeline(steps),
                                          service=self.daemon.socket)
            with self.assertRaisesRegex(batchflow.RefusedError, why):
                len(loader)


if __name__ == "__main__":
    unittest.main()
