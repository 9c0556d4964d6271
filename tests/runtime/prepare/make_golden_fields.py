#!/usr/bin/env python3
"""Writes what torchvision's transforms (v2) make of masks, boxes and key points: the files of
golden_fields/.

Run with torchvision 0.23 or newer (KeyPoints); fields_test.cpp compares them with what we make. Masks
that are scaled or turned are those of Pillow, as torchvision has them for pictures of Pillow: it
scales and turns tensors by another arithmetic.

usage: tests/runtime/prepare/make_golden_fields.py
"""
import io
import pathlib
import tarfile

import numpy
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import SanitizeBoundingBoxes, functional

from golden_draws import Draws, crop_box

FOLDER = pathlib.Path(__file__).parent / "golden_fields"
WIDTH, HEIGHT = 40, 30
cases = []


class Sample:
    """A mask, boxes and key points, and what was done to them."""

    def __init__(self):
        rng = numpy.random.default_rng(len(cases))
        self.numbers = rng.integers(0, 200, (HEIGHT, WIDTH)).astype(numpy.uint8)
        corners = rng.uniform(0, 1, (9, 2, 2)) * [WIDTH, HEIGHT]
        boxes = numpy.concatenate([corners.min(1), corners.max(1)], 1).astype(numpy.float32)
        boxes[7] = [0, 0, WIDTH, HEIGHT]
        boxes[8] = [3, 4, 3.5, 4.25]
        places = (rng.uniform(0, 1, (5, 2)) * [WIDTH, HEIGHT]).astype(numpy.float32)
        self.stored = boxes, places
        canvas = (HEIGHT, WIDTH)
        self.mask = tv_tensors.Mask(torch.from_numpy(self.numbers))
        self.boxes = tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=canvas)
        self.points = tv_tensors.KeyPoints(torch.from_numpy(places), canvas_size=canvas)
        self.labels = torch.arange(100, 109)

    @property
    def size(self):
        return self.mask.shape[-2:]

    def do(self, function, *arguments, of_mask=None, **options):
        self.mask = function(self.mask, *arguments, **options, **(of_mask or {}))
        self.boxes = function(self.boxes, *arguments, **options)
        self.points = function(self.points, *arguments, **options)

    def resize(self, size):
        self.of_pillow(functional.resize, list(size))
        self.boxes = functional.resize(self.boxes, list(size))
        self.points = functional.resize(self.points, list(size))

    def crop(self, *box):
        self.do(functional.crop, *box)

    def pad(self, left, top, right, bottom, fill):
        self.do(functional.pad, [left, top, right, bottom], of_mask={"fill": fill})

    def turned(self, function, arguments, fill):
        self.of_pillow(function, **arguments, fill=fill)
        self.boxes, self.points = function(self.boxes, **arguments), function(self.points, **arguments)

    def of_pillow(self, function, *arguments, **options):
        picture = Image.fromarray(numpy.ascontiguousarray(self.mask.numpy()))
        made = function(picture, *arguments, interpolation=InterpolationMode.NEAREST, **options)
        self.mask = tv_tensors.Mask(torch.from_numpy(numpy.array(made)))

    def flips(self, across, down):
        if across:
            self.do(functional.horizontal_flip)
        if down:
            self.do(functional.vertical_flip)


def npy(array):
    out = io.BytesIO()
    numpy.save(out, array)
    return out.getvalue()


def png(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def add(name, sample, steps, key, fill=0, sanitise=False):
    members = {"png": png(numpy.dstack([sample.numbers] * 3)), "mask.png": png(sample.numbers),
               "boxes.npy": npy(sample.stored[0]), "points.npy": npy(sample.stored[1]),
               "labels.npy": npy(numpy.arange(100, 109))}
    with tarfile.open(FOLDER / f"{name}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for part, content in members.items():
            info = tarfile.TarInfo(f"sample.{part}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    if sanitise:
        kept = SanitizeBoundingBoxes(labels_getter=lambda given: given["labels"])(
            {"boxes": sample.boxes, "labels": sample.labels})
        sample.boxes, sample.labels = kept["boxes"], kept["labels"]
    for field, made in [("mask", sample.mask), ("boxes", sample.boxes), ("points", sample.points),
                        ("labels", sample.labels)]:
        (FOLDER / f"{name}.{field}.bin").write_bytes(numpy.ascontiguousarray(made.numpy()).tobytes())
    lines = [f"- name: {name}", f"  draw_key: {key}", "  pipeline:", f"    name: {name}", "    fields:",
             "      - {field: image, kind: picture}",
             f"      - {{field: mask, kind: mask, from: mask.png, fill: {fill}}}",
             "      - {field: boxes, kind: boxes, from: boxes.npy" + ", sanitise: {}" * sanitise + "}",
             "      - {field: points, kind: points, from: points.npy}",
             "      - {field: labels, kind: numbers, from: labels.npy, type: i64, rows_of: boxes}",
             "    steps:"]
    cases.append("\n".join(lines + [f"      - {{step: {step}}}" for step in ["decode", *steps]]))


def flipping(key, first):
    return Draws(key, first).unit() < 0.5, Draws(key, first + 1).unit() < 0.5


FLIPS = ["horizontal_flip", "vertical_flip"]


def crops():
    for key in range(8):
        sample = Sample()
        y, x, height, width = crop_box(WIDTH, HEIGHT, Draws(key, 1))
        sample.crop(y, x, height, width)
        sample.resize((24, 20))
        sample.flips(*flipping(key, 2))
        add(f"resized-crop-{key}", sample, ["random_resized_crop, size: [24, 20]", *FLIPS], key,
            sanitise=key % 2 == 1)
    for key in range(4):
        sample, draws = Sample(), Draws(key, 2)
        sample.resize((26, 34))
        sample.pad(3, 2, 3, 2, 255)
        y, x = draws.below(30 - 20 + 1), draws.below(40 - 24 + 1)
        sample.crop(y, x, 20, 24)
        sample.flips(*flipping(key, 3))
        add(f"padded-crop-{key}", sample,
            ["resize, size: [26, 34]", "random_crop, size: [20, 24], padding: [3, 2]", *FLIPS], key, 255,
            sanitise=key % 2 == 1)
    sample = Sample()
    sample.pad(4, 1, 2, 5, 0)
    sample.do(functional.center_crop, [50, 30])
    add("pad-centre", sample, ["pad, padding: [4, 1, 2, 5]", "centre_crop, size: [50, 30]"], 0)
    sample = Sample()
    sample.resize((15, 20))
    sample.do(functional.center_crop, [12, 12])
    add("smaller-centre", sample, ["resize, size: 15", "centre_crop, size: 12"], 0)


def turns():
    for key in range(4):
        sample = Sample()
        sample.turned(functional.rotate, {"angle": Draws(key, 1).uniform(-60, 60)}, 7)
        add(f"rotation-{key}", sample, ["random_rotation, degrees: 60", "centre_crop, size: [30, 40]"], key, 7)
        sample, draws = Sample(), Draws(key, 2)
        flip = Draws(key, 1).unit() < 0.5
        sample.flips(flip, False)
        degrees = draws.uniform(-30, 30)
        x, y = (round(draws.uniform(-most, most)) for most in (0.2 * WIDTH, 0.1 * HEIGHT))
        affine = {"angle": degrees, "translate": [x, y], "scale": draws.uniform(0.5, 1.5)}
        affine["shear"] = [draws.uniform(-10, 10), draws.uniform(-5, 5)]
        sample.turned(functional.affine, affine, 0)
        add(f"affine-{key}", sample,
            ["horizontal_flip", "random_affine, degrees: 30, translate: [0.2, 0.1], scale: [0.5, 1.5], "
             "shear: [-10, 10, -5, 5]", "centre_crop, size: [30, 40]"], key, sanitise=key % 2 == 1)


FOLDER.mkdir(exist_ok=True)
for old in FOLDER.iterdir():
    old.unlink()
crops()
turns()
(FOLDER / "cases.yaml").write_text(
    "# Written by make_golden_fields.py.\ncases:\n"
    + "".join("  " + line + "\n" for case in cases for line in case.split("\n")))
print(f"{len(cases)} cases")
