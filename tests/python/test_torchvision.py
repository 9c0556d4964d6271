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
    from torchvision import datasets, models, transforms as T
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
                T.Resize(256, interpolation=InterpolationMode.LANCZOS), T.RandomPerspective(),
                T.CenterCrop(224), T.ToTensor(), T.Lambda(lambda x: x), T.ColorJitter(0.1),
                T.RandomHorizontalFlip(), T.Resize(10)]))
        text = str(raised.exception)
        self.assertEqual(len(text.split("; transform ")), 5, text)
        for part in ("transform 0, Resize: its interpolation is lanczos, and the service has "
                     "bilinear, bicubic and nearest",
                     "transform 1, RandomPerspective: the service has no such step",
                     "transform 4, Lambda: the service has no such step",
                     "transform 5, ColorJitter: it changes bytes, and these are numbers already",
                     "transform 7, Resize: it changes bytes, and these are numbers already"):
            self.assertIn(part, text)
        for transform, why in ((T.Normalize(MEAN, STD), "before ToTensor"),
                               (T.Resize(8, max_size=10), "max_size"),
                               (T.Compose([T.ToTensor(), T.Normalize([0.5] * 2, [0.5])]),
                                "2 means"),
                               (T.Compose([T.PILToTensor(), T.Resize(9, antialias=False)]),
                                "resizes a tensor without antialias"),
                               (lambda x: x, "transform 0, function: .* written with def")):
            with self.assertRaisesRegex(batchflow.NotMappable, why):
                batchflow.from_torchvision(transform)


    def test_each_transform_of_pictures(self):
        nearest, bilinear = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
        for transform, step in (
                (T.Resize(8, InterpolationMode.BICUBIC),
                 {"step": "resize", "size": 8, "interpolation": "bicubic"}),
                (T.RandomCrop(32, 4), {"step": "random_crop", "size": 32, "padding": 4, "fill": 0}),
                (T.RandomCrop((8, 9), pad_if_needed=True, padding_mode="reflect"),
                 {"step": "random_crop", "size": [8, 9], "pad_if_needed": True,
                  "padding_mode": "reflect"}),
                (T.RandomCrop(8), {"step": "random_crop", "size": 8}),
                (T.Pad((1, 2), (3, 4, 5)), {"step": "pad", "padding": [1, 2], "fill": [3, 4, 5]}),
                (T.RandomVerticalFlip(), {"step": "vertical_flip", "probability": 0.5}),
                (T.RandomRotation(10, bilinear, fill=7),
                 {"step": "random_rotation", "degrees": [-10.0, 10.0],
                  "interpolation": "bilinear", "fill": 7}),
                (T.RandomAffine(0, (0.1, 0.2), (0.5, 2), 10),
                 {"step": "random_affine", "degrees": [0.0, 0.0], "translate": [0.1, 0.2],
                  "scale": [0.5, 2.0], "shear": [-10.0, 10.0], "interpolation": "nearest",
                  "fill": 0}),
                (T.Grayscale(3), {"step": "greyscale"}),
                (T.RandomGrayscale(0.2), {"step": "random_greyscale", "probability": 0.2}),
                (T.GaussianBlur((3, 5), 1.5),
                 {"step": "gaussian_blur", "kernel_size": [3, 5], "sigma": [1.5, 1.5]}),
                (T.RandomAdjustSharpness(2, 0.3),
                 {"step": "sharpness", "factor": 2, "probability": 0.3}),
                (T.RandomInvert(1), {"step": "invert", "probability": 1.0}),
                (T.RandomPosterize(4), {"step": "posterize", "bits": 4, "probability": 0.5}),
                (T.RandomSolarize(192.0),
                 {"step": "solarize", "threshold": 192.0, "probability": 0.5}),
                (T.RandomAutocontrast(), {"step": "autocontrast", "probability": 0.5}),
                (T.RandomEqualize(), {"step": "equalize", "probability": 0.5}),
                (T.RandAugment(3, 5),
                 {"step": "rand_augment", "operations": 3, "magnitude": 5, "bins": 31,
                  "interpolation": "nearest", "fill": 0}),
                (T.TrivialAugmentWide(interpolation=bilinear, fill=[1, 2, 3]),
                 {"step": "trivial_augment_wide", "bins": 31, "interpolation": "bilinear",
                  "fill": [1, 2, 3]}),
                (T.AutoAugment(T.AutoAugmentPolicy.SVHN, nearest),
                 {"step": "auto_augment", "policy": "svhn", "interpolation": "nearest", "fill": 0}),
                (T.RandomApply([T.RandomInvert(1), T.Compose([T.Grayscale(3)])], 0.3),
                 {"step": "random_apply", "probability": 0.3, "steps": [
                     {"step": "invert", "probability": 1.0}, {"step": "greyscale"}]}),
                (T.RandomChoice([T.Grayscale(3), T.Compose([T.CenterCrop(8), T.RandomInvert()])],
                                [1, 3]),
                 {"step": "random_choice", "probabilities": [1.0, 3.0], "steps": [
                     {"step": "greyscale"},
                     {"step": "random_apply", "probability": 1, "steps": [
                         {"step": "centre_crop", "size": 8},
                         {"step": "invert", "probability": 0.5}]}]})):
            with self.subTest(step=step["step"]):
                self.assertEqual(batchflow.from_torchvision(transform).steps,
                                 [{"step": "decode"}, step])

    def test_parameters_that_the_service_does_not_honour_are_named(self):
        for transform, why in (
                (T.RandomRotation(3, expand=True), "expand is not known"),
                (T.RandomRotation(3, center=(1, 2)), "center is not known"),
                (T.RandomAffine(3, center=(1, 2)), "center is not known"),
                (T.RandomAffine(3, interpolation=InterpolationMode.LANCZOS),
                 "interpolation is lanczos, and the service has bilinear, bicubic and nearest"),
                (T.Grayscale(), "num_output_channels is 1"),
                (T.Pad(3, 0.5), "not whole"),
                (T.Pad(-3), "takes pixels away"),
                (T.RandomApply([T.ToTensor()]), "ToTensor stands inside of it"),
                (T.RandomApply([T.Grayscale()]), "Grayscale inside of it: num_output_channels"),
                (T.RandomErasing(), "it takes tensors"),
                ([T.ToTensor(), T.RandomErasing(), T.Normalize(MEAN, STD)], "behind RandomErasing"),
                ([T.PILToTensor(), T.RandomErasing(), T.ConvertImageDtype(torch.float32)],
                 "scales to 0..1 what RandomErasing has made"),
                ([T.PILToTensor(), T.RandomRotation(3)], "moves the pixels of tensors otherwise"),
                ([T.PILToTensor(), T.ColorJitter(hue=0.1)], "turns the hue of tensors"),
                ([T.PILToTensor(), T.Resize(8, InterpolationMode.NEAREST, antialias=True)],
                 "takes other pixels of a tensor")):
            with self.assertRaisesRegex(batchflow.NotMappable, why):
                batchflow.from_torchvision(transform)

    def test_erasing_is_of_the_numbers_that_normalise_makes(self):
        for value, made in ((0, 0.0), ((1, 2, 3), [1.0, 2.0, 3.0]), ("random", "random")):
            steps = batchflow.from_torchvision([
                T.CenterCrop(8), T.ToTensor(), T.Normalize(MEAN, STD),
                T.RandomErasing(0.25, value=value), T.ConvertImageDtype(torch.float16)]).steps
            self.assertEqual(steps[2:], [
                {"step": "normalise", "mean": MEAN, "std": STD},
                {"step": "random_erasing", "probability": 0.25, "scale": [0.02, 0.33],
                 "ratio": [0.3, 3.3], "value": made},
                {"step": "cast", "to": "f16"}, {"step": "layout", "order": "nchw"}])

    def test_the_transforms_of_weights(self):
        from torchvision.models import ResNet50_Weights, ViT_B_16_Weights
        from torchvision.transforms._presets import ImageClassification
        end = [{"step": "normalise", "mean": MEAN, "std": STD}, {"step": "layout", "order": "nchw"}]
        for preset, steps in (
                (ResNet50_Weights.IMAGENET1K_V2.transforms(),
                 [{"step": "resize", "size": 232}, {"step": "centre_crop", "size": 224}]),
                (ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1.transforms(),
                 [{"step": "resize", "size": 384, "interpolation": "bicubic"},
                  {"step": "centre_crop", "size": 384}])):
            self.assertIsInstance(preset, ImageClassification)
            self.assertEqual(batchflow.from_torchvision(preset).steps,
                             [{"step": "decode"}, *steps, *end])
        with self.assertRaisesRegex(batchflow.NotMappable, "it is a whole pipeline"):
            batchflow.from_torchvision([T.Resize(300), ResNet50_Weights.IMAGENET1K_V2.transforms()])

    @unittest.skipUnless(T and hasattr(models, "list_models"), "this torchvision does not list its models")
    def test_the_transforms_of_all_weights_that_classify(self):
        from torchvision.transforms._presets import ImageClassification
        mapped, kinds = 0, {}
        for name in models.list_models():
            for weights in models.get_model_weights(name):
                preset = weights.transforms()
                if not isinstance(preset, ImageClassification):
                    kinds[type(preset).__name__] = preset
                    continue
                with self.subTest(weights=str(weights)):
                    steps = batchflow.from_torchvision(preset).steps
                    self.assertEqual([one["step"] for one in steps],
                                     ["decode", "resize", "centre_crop", "normalise", "layout"])
                    self.assertEqual(steps[1]["size"], preset.resize_size[0])
                    self.assertEqual(steps[1].get("interpolation", "bilinear"), preset.interpolation.value)
                    self.assertEqual(steps[2]["size"], preset.crop_size[0])
                    self.assertEqual(steps[3], {"step": "normalise", "mean": preset.mean, "std": preset.std})
                    mapped += 1
        self.assertGreater(mapped, 80)
        # The others are not mapped, and the page names them.
        page = (Path(__file__).parent.parent.parent / "docs" / "python.md").read_text()
        self.assertIn("ObjectDetection", kinds)
        for name, preset in kinds.items():
            with self.subTest(preset=name):
                with self.assertRaisesRegex(batchflow.NotMappable, f"{name}: the service has no such step"):
                    batchflow.from_torchvision(preset)
                self.assertTrue(name in page, f"docs/python.md does not name {name}")

    def test_v2_with_the_tensor_first(self):
        """With classes as torchvision 0.20 has them, because the installed one may have no v2."""
        made = batchflow.from_torchvision([
            of_v2("ToImage"),
            of_v2("RandomResizedCrop", size=[224, 224], scale=(0.08, 1), ratio=(0.75, 1.25),
                  interpolation=InterpolationMode.BILINEAR, antialias=True),
            of_v2("RandomHorizontalFlip", p=0.5), of_v2("ToDtype", dtype=torch.float32, scale=True),
            of_v2("Normalize", mean=MEAN, std=STD, inplace=False),
            of_v2("RandomErasing", p=0.1, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=None),
            of_v2("ToPureTensor")])
        self.assertEqual(made.steps, [
            {"step": "decode"},
            {"step": "random_resized_crop", "size": 224, "scale": [0.08, 1.0], "ratio": [0.75, 1.25]},
            {"step": "horizontal_flip", "probability": 0.5},
            {"step": "normalise", "mean": MEAN, "std": STD},
            {"step": "random_erasing", "probability": 0.1, "scale": [0.02, 0.33],
             "ratio": [0.3, 3.3], "value": "random"},
            {"step": "layout", "order": "nchw"}])
        crop = {"size": (8, 8), "padding": [1, 1, 1, 1], "pad_if_needed": True, "fill": 0}
        for transform, why in (
                (of_v2("RandomCrop", padding_mode="reflect", **crop), "mirror a picture once in v2"),
                (of_v2("Pad", padding=2, padding_mode="constant", fill={int: 3}),
                 "its fill differs by type"),
                ([of_v2("ToImage"), of_v2("Resize", size=[8], max_size=None, antialias=False,
                                          interpolation=InterpolationMode.BILINEAR)],
                 "resizes a tensor without antialias")):
            with self.assertRaisesRegex(batchflow.NotMappable, why):
                batchflow.from_torchvision(transform)

    def test_what_is_mapped_on_tensors_differs_by_1_from_what_it_does_to_pictures(self):
        import numpy
        from PIL import Image
        noise = numpy.random.default_rng(5).integers(0, 256, (60, 80, 3), dtype=numpy.uint8)
        picture = Image.fromarray(noise // 2 + 30)
        tensor = T.PILToTensor()(picture)
        for transform in (T.Resize((30, 20), antialias=True), T.Resize((90, 99), antialias=True),
                          T.CenterCrop(100), T.Pad(9, padding_mode="reflect"), T.Grayscale(3),
                          T.RandomInvert(1), T.RandomPosterize(3, 1), T.RandomSolarize(99.0, 1),
                          T.RandomAutocontrast(1), T.RandomEqualize(1),
                          T.RandomAdjustSharpness(1.7, 1), T.GaussianBlur(5, (1.0, 1.0)),
                          T.ColorJitter((1.3, 1.3)), T.ColorJitter(contrast=(1.3, 1.3)),
                          T.ColorJitter(saturation=(1.3, 1.3))):
            batchflow.from_torchvision([T.PILToTensor(), transform])
            of_picture = T.PILToTensor()(transform(picture)).int()
            difference = (of_picture - transform(tensor).int()).abs().max()
            self.assertLessEqual(int(difference), 1, transform)


def of_v2(kind, **attributes):
    """A transform as torchvision.transforms.v2 has it, with these attributes."""
    made = type(kind, (), {"__module__": "torchvision.transforms.v2._made"})()
    vars(made).update(attributes)
    return made


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
                T.Compose([T.CenterCrop((60, 90)), T.PILToTensor()]),
                T.Compose([T.Resize((30, 40), InterpolationMode.BICUBIC), T.RandomInvert(1),
                           T.Pad((1, 2, 3, 4), padding_mode="edge"), T.RandomEqualize(1),
                           T.RandomApply([T.RandomVerticalFlip(1), T.RandomPosterize(5, 1)], 1),
                           T.RandomRotation((90, 90)), T.Grayscale(3), T.ToTensor()])):
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

    def same_pictures_of_another_kind(self, ending, **options):
        from PIL import Image
        root = self.folder / ending
        for i, path in enumerate(sorted(self.root.glob("*/*"))):
            (root / path.parent.name).mkdir(parents=True, exist_ok=True)
            Image.open(path).convert("RGB").save(root / path.parent.name / f"{i}.{ending}", **options)
        data = datasets.ImageFolder(str(root), T.Compose([T.CenterCrop(60), T.PILToTensor()]))
        try:
            with batchflow.DataLoader(data, 5, service=self.daemon.socket) as loader:
                served = [image.clone() for images, _ in loader for image in images]
        except batchflow.RefusedError as refused:
            self.assertIn("'decode' is for pictures in", str(refused))
            self.skipTest(f"this build does not decode .{ending}")
        self.assertEqual(len(served), 12)
        self.assertTrue(all(torch.equal(one, data[i][0]) for i, one in enumerate(served)))

    def test_the_same_pictures_in_bmp(self):
        self.same_pictures_of_another_kind("bmp")

    def test_the_same_pictures_in_webp(self):
        self.same_pictures_of_another_kind("webp", quality=70)

    def test_the_same_pictures_in_tiff(self):
        self.same_pictures_of_another_kind("tif", compression="tiff_lzw")

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
                                    "no links to folders.*decodes some kinds of them"):
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
