#!/usr/bin/env python3
"""Writes what Pillow, torchvision and torch make of pictures: the files of golden/.

Run where python3-torchvision is installed; golden_test.cpp compares them with what we make. The
draws of random steps are reckoned here a second time, from the rules of core/order/keys.h.

usage: tests/runtime/prepare/make_golden.py
"""
import io
import math
import pathlib
import struct
import zlib

import numpy
import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

FOLDER = pathlib.Path(__file__).parent / "golden"
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
cases = []


def mix(z):
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def hash_words(*words):
    h = 0
    for word in words:
        h = mix((h + GOLDEN & MASK) ^ mix(word + GOLDEN & MASK))
    return h


class Draws:
    def __init__(self, key, step):
        self.state = hash_words(key, step)

    def draw(self):
        self.state = self.state + GOLDEN & MASK
        return mix(self.state)

    def below(self, n):
        return self.draw() * n >> 64

    def uniform(self, least, most):
        return least + (self.draw() >> 11) * 2.0**-53 * (most - least)


def crop_box(width, height, draws, scale=(0.08, 1), ratio=(3 / 4, 4 / 3)):
    for _ in range(10):
        area = width * height * draws.uniform(*scale)
        aspect = math.exp(draws.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return draws.below(height - h + 1), draws.below(width - w + 1), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def add(name, encoded, steps, result, key=0):
    source = f"{zlib.crc32(encoded):08x}.{'png' if encoded[1:4] == b'PNG' else 'jpg'}"
    (FOLDER / source).write_bytes(encoded)
    (FOLDER / f"{name}.bin").write_bytes(numpy.ascontiguousarray(result).tobytes())
    lines = [f"- name: {name}", f"  picture: {source}", f"  draw_key: {key}", "  pipeline:",
             f"    name: {name}", "    steps:"]
    cases.append("\n".join(lines + [f"      - {{step: {step}}}" for step in steps]))


def pixels(width, height, seed=1, noise=40):
    y, x = numpy.mgrid[0:height, 0:width]
    edge = ((x // 7 + y // 5) % 3 == 0) * 60
    grain = numpy.random.default_rng(seed).integers(0, noise, (height, width, 3))
    slopes = numpy.stack([x * 160 // width, y * 160 // height, (x + y) * 120 // (width + height)], 2)
    return numpy.clip(slopes + edge[:, :, None] + grain, 0, 255).astype(numpy.uint8)


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def png(image, **options):
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue()


def wide_png(array, colour):
    """16 bits a channel, which Pillow does not write."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = array.shape[:2]
    rows = b"".join(b"\0" + array[y].astype(">u2").tobytes() for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def opened(encoded):
    return Image.open(io.BytesIO(encoded)).convert("RGB")


def decoding():
    image = Image.fromarray(pixels(45, 37))
    grey = image.convert("L")
    cmyk = Image.fromarray(numpy.concatenate([pixels(45, 37), pixels(45, 37, 2)[:, :, :1]], 2), "CMYK")
    files = {
        "jpeg-444": jpeg(image, subsampling=0), "jpeg-422": jpeg(image, subsampling=1),
        "jpeg-420": jpeg(image, subsampling=2), "jpeg-grey": jpeg(grey),
        "jpeg-progressive": jpeg(image, progressive=True), "jpeg-cmyk": jpeg(cmyk),
        "png-rgb": png(image), "png-rgba": png(Image.fromarray(
            numpy.concatenate([pixels(45, 37), pixels(45, 37, 2)[:, :, :1]], 2), "RGBA")),
        "png-palette": png(image.quantize(13)),
        "png-palette-transparent": png(image.quantize(200), transparency=3),
        "png-grey": png(grey), "png-grey-alpha": png(Image.merge("LA", (grey, grey))),
        "png-one-bit": png(grey.convert("1")),
        "png-transparent-colour": png(image, transparency=(10, 20, 30)),
        "png-grey-16": wide_png(pixels(45, 37)[:, :, 0].astype(int) * 3, 0),
        "png-rgb-16": wide_png(pixels(45, 37).astype(int) * 257 + 100, 2),
        "png-rgba-16": wide_png(numpy.concatenate([pixels(45, 37), pixels(45, 37)[:, :, :1]], 2).astype(int) * 200, 6),
        "png-grey-alpha-16": wide_png(pixels(45, 37)[:, :, :2].astype(int) * 250, 4),
    }
    for name, encoded in files.items():
        add("decode-" + name, encoded, ["decode", "centre_crop, size: [37, 45]"],
            numpy.asarray(opened(encoded)))


def geometry():
    encoded = png(Image.fromarray(pixels(61, 43)))
    image = opened(encoded)
    for height, width in [(20, 30), (43, 30), (20, 61), (90, 100), (1, 1), (43, 61)]:
        add(f"resize-{height}-{width}", encoded, ["decode", f"resize, size: [{height}, {width}]"],
            functional.resize(image, [height, width]))
    tall = png(Image.fromarray(pixels(33, 70)))
    for name, picture in (("wide", encoded), ("tall", tall)):
        for shorter, size in [(24, 20), (24, 33), (50, 44), (43, 41)]:
            add(f"val-{name}-{shorter}-{size}", picture,
                ["decode", f"resize, size: {shorter}", f"centre_crop, size: {size}"],
                functional.center_crop(functional.resize(opened(picture), shorter), size))
    add("centre-padded", encoded, ["decode", "centre_crop, size: [50, 20]"],
        functional.center_crop(image, [50, 20]))
    add("centre-padded-odd", encoded, ["decode", "centre_crop, size: [46, 70]"],
        functional.center_crop(image, [46, 70]))
    narrow = png(Image.fromarray(pixels(12, 80)))
    for key in range(12):
        picture = narrow if key % 4 == 3 else encoded
        width, height = opened(picture).size
        i, j, h, w = crop_box(width, height, Draws(key, 1))
        result = functional.resized_crop(opened(picture), i, j, h, w, [24, 20])
        if Draws(key, 2).uniform(0, 1) < 0.5:
            result = functional.hflip(result)
        add(f"train-{key}", picture,
            ["decode", "random_resized_crop, size: [24, 20]", "horizontal_flip"], result, key)


def colour():
    encoded = png(Image.fromarray(pixels(24, 20, noise=120)))
    reach = {"brightness": 0.4, "contrast": 0.5, "saturation": 0.6, "hue": 0.2}
    adjust = [functional.adjust_brightness, functional.adjust_contrast,
              functional.adjust_saturation, functional.adjust_hue]
    for key in range(12):
        used = list(reach) if key >= 8 else [list(reach)[key // 2]]
        draws = Draws(key, 1)
        order = [0, 1, 2, 3]
        for i in range(4, 1, -1):
            k = draws.below(i)
            order[i - 1], order[k] = order[k], order[i - 1]
        factors = []
        for i, name in enumerate(reach):
            middle = 0 if name == "hue" else 1
            r = reach[name] if name in used else 0
            factors.append(draws.uniform(middle - r, middle + r))
        result = opened(encoded)
        for change in order:
            if list(reach)[change] in used:
                result = adjust[change](result, factors[change])
        text = ", ".join(f"{name}: {reach[name]}" for name in used)
        add(f"colour-{key}", encoded, ["decode", f"colour_jitter, {text}",
                                       "centre_crop, size: [20, 24]"], result, key)


def values():
    encoded = png(Image.fromarray(pixels(16, 12)))
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    tensor = transforms.Normalize(mean, std)(transforms.ToTensor()(opened(encoded)))
    start = ["decode", "centre_crop, size: [12, 16]"]
    normalise = start + [f"normalise, mean: {mean}, std: {std}"]
    planes = "layout, order: nchw"
    add("f32-nchw", encoded, normalise + [planes], tensor.numpy())
    add("f32-nhwc", encoded, normalise, tensor.permute(1, 2, 0).numpy())
    add("f16-nchw", encoded, normalise + ["cast, to: f16", planes], tensor.half().numpy())
    add("bf16-nchw", encoded, normalise + ["cast, to: bf16", planes],
        tensor.bfloat16().view(torch.int16).numpy())
    add("u8-nchw", encoded, start + [planes], transforms.PILToTensor()(opened(encoded)).numpy())
    add("f32-of-bytes", encoded, start + ["cast, to: f32"],
        numpy.asarray(opened(encoded)).astype(numpy.float32))


FOLDER.mkdir(exist_ok=True)
for old in FOLDER.iterdir():
    old.unlink()
decoding()
geometry()
colour()
values()
(FOLDER / "cases.yaml").write_text(
    "# Written by make_golden.py.\ncases:\n"
    + "".join("  " + line + "\n" for case in cases for line in case.split("\n")))
print(f"{len(cases)} cases")
