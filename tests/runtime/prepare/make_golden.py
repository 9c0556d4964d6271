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
from torchvision.transforms import InterpolationMode, autoaugment, functional

from golden_draws import Draws, crop_box, hash_words

FOLDER = pathlib.Path(__file__).parent / "golden"
cases = []


def erased_part(width, height, draws, scale=(0.02, 0.33), ratio=(0.3, 3.3)):
    for _ in range(10):
        area = width * height * draws.uniform(*scale)
        aspect = math.exp(draws.uniform(math.log(ratio[0]), math.log(ratio[1])))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < height and w < width:
            return draws.below(height - h + 1), draws.below(width - w + 1), h, w
    return 0, 0, 0, 0


def normal_numbers(draws, count):
    made = []
    while len(made) < count:
        x, y = 2 * draws.unit() - 1, 2 * draws.unit() - 1
        square = x * x + y * y
        if 0 < square < 1:
            factor = math.sqrt(-2 * math.log(square) / square)
            made += [x * factor, y * factor]
    return numpy.array(made[:count], numpy.float32)


def add(name, encoded, steps, result, key=0, tolerance=0):
    ending = {b"\x89P": "png", b"\xff\xd8": "jpg", b"BM": "bmp", b"RI": "webp", b"II": "tif", b"MM": "tif"}[encoded[:2]]
    source = f"{zlib.crc32(encoded):08x}.{ending}"
    (FOLDER / source).write_bytes(encoded)
    (FOLDER / f"{name}.bin").write_bytes(numpy.ascontiguousarray(result).tobytes())
    lines = [f"- name: {name}", f"  picture: {source}", f"  draw_key: {key}"]
    if tolerance:
        lines.append(f"  differ_at_most: {tolerance}")  # bytes that may differ, by 1
    lines += ["  pipeline:", f"    name: {name}", "    steps:"]
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


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def bmp(array, bits, from_top=False, head=40, colours=None):
    """Rows of `array` hold palette indices, or blue, green, red and what fills the pixel."""
    height, width = array.shape[:2]
    rows = [row.tobytes() + bytes(-row.nbytes % 4) for row in (array if from_top else array[::-1])]
    palette = b"" if colours is None else b"".join(bytes([*colour, 0]) for colour in colours)
    info = struct.pack("<IiiHHIIiiII", head, width, -height if from_top else height, 1, bits, 0, 0, 0, 0,
                       0 if colours is None else len(colours), 0) + bytes(head - 40)
    begin = 14 + head + len(palette)
    return b"BM" + struct.pack("<IHHI", begin + len(b"".join(rows)), 0, 0, begin) + info + palette + b"".join(rows)


def chunk_of_webp(name, content):
    return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def moving_webp(frames, width, height, alpha=False):
    """Frames (x, y, encoded as WebP) in a larger picture: Pillow writes only frames of its size."""
    def size(number):
        return struct.pack("<I", number)[:3]
    body = chunk_of_webp(b"VP8X", bytes([2 | 16 * alpha, 0, 0, 0]) + size(width - 1) + size(height - 1))
    body += chunk_of_webp(b"ANIM", bytes([50, 100, 150, 255, 0, 0]))
    for x, y, encoded in frames:
        w, h = Image.open(io.BytesIO(encoded)).size
        body += chunk_of_webp(b"ANMF", size(x // 2) + size(y // 2) + size(w - 1) + size(h - 1) + size(40)
                              + b"\0" + encoded[12:])
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def tiff(array, colours=None, order="<", rows=9, tile=None, orientation=1, deflated=False, predicted=False,
         palette=None, extra=None):
    """TIFFs of kinds that Pillow reads and does not write. `colours`: the number of the tag."""
    array = array if array.ndim == 3 else array[:, :, None]
    height, width, samples = array.shape
    if tile:
        padded = numpy.pad(array, [(0, -height % tile[1]), (0, -width % tile[0]), (0, 0)])
        pieces = [padded[y:y + tile[1], x:x + tile[0]] for y in range(0, height, tile[1])
                  for x in range(0, width, tile[0])]
    else:
        pieces = [array[y:y + rows] for y in range(0, height, rows)]
    if predicted:
        pieces = [numpy.concatenate([one[:, :1], one[:, 1:] - one[:, :-1]], 1) for one in pieces]
    stored = [zlib.compress(one.tobytes()) if deflated else one.tobytes() for one in pieces]
    out, places = bytearray({"<": b"II*\0", ">": b"MM\0*"}[order] + bytes(4)), []
    for one in stored:
        places.append(len(out))
        out += one + bytes(len(one) % 2)
    default = 2 if samples >= 3 else 1
    tags = {256: ("I", [width]), 257: ("I", [height]), 258: ("H", [8] * samples),
            259: ("H", [8 if deflated else 1]), 262: ("H", [default if colours is None else colours]),
            274: ("H", [orientation]), 277: ("H", [samples]), 284: ("H", [1])}
    places, sizes = ("I", places), ("I", [len(one) for one in stored])
    if tile:
        tags |= {322: ("H", [tile[0]]), 323: ("H", [tile[1]]), 324: places, 325: sizes}
    else:
        tags |= {273: places, 278: ("H", [rows]), 279: sizes}
    if predicted:
        tags[317] = ("H", [2])
    if palette is not None:
        tags[320] = ("H", [int(value) * 257 for value in numpy.asarray(palette).T.flatten()])
    if extra is not None:
        tags[338] = ("H", [extra])
    entries = b""
    for tag in sorted(tags):
        kind, values = tags[tag]
        value = struct.pack(f"{order}{len(values)}{kind}", *values)
        if len(value) > 4:
            at = len(out)
            out += value
            value = struct.pack(order + "I", at)
        entries += struct.pack(order + "HHI", tag, {"H": 3, "I": 4}[kind], len(values)) + value.ljust(4, b"\0")
    out[4:8] = struct.pack(order + "I", len(out))
    return bytes(out + struct.pack(order + "H", len(tags)) + entries + bytes(4))


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


def other_kinds():
    array, alpha = pixels(45, 37), pixels(45, 37, 2)[:, :, :1]
    image, grey, palette = Image.fromarray(array), Image.fromarray(array).convert("L"), pixels(256, 1, 3)[0]
    indices = array[:, :, 0]
    turned, with_alpha = numpy.ascontiguousarray(array[:, :, ::-1]), numpy.concatenate([array, alpha], 2)
    see_through = Image.fromarray(with_alpha, "RGBA")
    smooth = Image.fromarray(pixels(45, 37, noise=4))
    small = Image.fromarray(pixels(20, 16, 5))
    files = {
        "bmp-rgb": saved(image, "BMP"), "bmp-grey": saved(grey, "BMP"), "bmp-palette": saved(image.quantize(13), "BMP"),
        "bmp-rgb-from-top": bmp(turned, 24, True), "bmp-long-head": bmp(turned, 24, head=124),
        "bmp-32": bmp(numpy.concatenate([turned, alpha], 2), 32),
        "bmp-32-from-top": bmp(numpy.concatenate([turned, alpha], 2), 32, True),
        "bmp-palette-from-top": bmp(indices, 8, True, colours=palette),
        "webp": saved(image, "WEBP"), "webp-low": saved(image, "WEBP", quality=5, method=0),
        "webp-smooth": saved(smooth, "WEBP", quality=95),
        "webp-alpha": saved(see_through, "WEBP"), "webp-grey": saved(grey, "WEBP"),
        "webp-lossless": saved(image, "WEBP", lossless=True),
        "webp-lossless-0": saved(smooth, "WEBP", lossless=True, quality=0, method=0),
        "webp-lossless-6": saved(smooth, "WEBP", lossless=True, quality=100, method=6),
        "webp-lossless-alpha": saved(see_through, "WEBP", lossless=True, exact=True),
        "webp-lossless-palette": saved(image.quantize(13).convert("RGB"), "WEBP", lossless=True),
        "webp-lossless-large": saved(Image.fromarray(pixels(300, 200, noise=3)), "WEBP", lossless=True, method=6),
        "webp-moving": saved(image, "WEBP", save_all=True, append_images=[smooth, image]),
        "webp-moving-alpha": saved(see_through, "WEBP", save_all=True, append_images=[image]),
        "webp-moving-part": moving_webp([(6, 10, saved(small, "WEBP")), (0, 0, saved(small, "WEBP"))], 45, 37),
        "webp-moving-part-alpha": moving_webp(
            [(20, 0, saved(see_through.crop((0, 0, 21, 37)), "WEBP", lossless=True))], 45, 37, True),
        "webp-named": saved(image, "WEBP", exif=b"Exif\0\0MM\0*\0\0\0\b\0\0", xmp=b"<x/>"),
        **{"tiff-" + name: saved(image, "TIFF", compression=compression) for name, compression in {
            "plain": None, "lzw": "tiff_lzw", "deflate": "tiff_adobe_deflate", "packbits": "packbits"}.items()},
        "tiff-grey": saved(grey, "TIFF"), "tiff-grey-lzw": saved(grey, "TIFF", compression="tiff_lzw"),
        "tiff-grey-alpha": saved(Image.merge("LA", (grey, grey)), "TIFF"),
        "tiff-palette": saved(image.quantize(13), "TIFF"),
        "tiff-palette-lzw": saved(image.quantize(200), "TIFF", compression="tiff_lzw"),
        "tiff-rgba": saved(see_through, "TIFF"), "tiff-rgba-lzw": saved(see_through, "TIFF", compression="tiff_lzw"),
        "tiff-strips": tiff(array), "tiff-big-end": tiff(array, order=">"),
        "tiff-palette-big-end": tiff(indices, 3, ">", palette=palette),
        "tiff-tiles": tiff(array, tile=(16, 32)), "tiff-tiles-deflate": tiff(array, tile=(32, 16), deflated=True),
        "tiff-grey-inverted": tiff(indices, 0), "tiff-grey-inverted-deflate": tiff(indices, 0, deflated=True),
        "tiff-predictor": tiff(array, deflated=True, predicted=True),
        "tiff-predictor-tiles": tiff(with_alpha, order=">", tile=(16, 16), deflated=True, predicted=True, extra=2),
        "tiff-unnamed": tiff(with_alpha, extra=0), "tiff-first": saved(
            image, "TIFF", save_all=True, append_images=[grey]),
    }
    for turn in range(1, 9):
        files[f"tiff-turned-{turn}"] = tiff(array, orientation=turn)
    files["tiff-turned-tiles"] = tiff(array, orientation=6, tile=(16, 16), deflated=True)
    for name, encoded in files.items():
        result = numpy.asarray(opened(encoded))
        add("decode-" + name, encoded, ["decode", f"centre_crop, size: [{result.shape[0]}, {result.shape[1]}]"], result)


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


FILTERS = {"bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC,
           "nearest": InterpolationMode.NEAREST}


def filters():
    encoded = png(Image.fromarray(pixels(61, 43, noise=120)))
    image = opened(encoded)
    for name in ("bicubic", "nearest"):
        for height, width in [(20, 30), (43, 30), (20, 61), (90, 100), (1, 1), (5, 97)]:
            add(f"{name}-{height}-{width}", encoded,
                ["decode", f"resize, size: [{height}, {width}], interpolation: {name}"],
                functional.resize(image, [height, width], FILTERS[name]))
        add(f"{name}-val", encoded,
            ["decode", f"resize, size: 24, interpolation: {name}", "centre_crop, size: 20"],
            functional.center_crop(functional.resize(image, 24, FILTERS[name]), 20))
        for key in range(4):
            i, j, h, w = crop_box(61, 43, Draws(key, 1))
            result = functional.resized_crop(image, i, j, h, w, [24, 20], FILTERS[name])
            if Draws(key, 2).unit() < 0.5:
                result = functional.hflip(result)
            add(f"{name}-train-{key}", encoded,
                ["decode", f"random_resized_crop, size: [24, 20], interpolation: {name}",
                 "horizontal_flip"], result, key)


def places():
    encoded = png(Image.fromarray(pixels(31, 23, noise=120)))
    image = opened(encoded)
    whole = "centre_crop, size: [23, 31]"
    for key in range(4):
        result = functional.vflip(image) if Draws(key, 2).unit() < 0.5 else image
        if Draws(key, 3).unit() < 0.5:
            result = functional.hflip(result)
        add(f"flips-{key}", encoded, ["decode", whole, "vertical_flip", "horizontal_flip"], result, key)
    for mode in ("constant", "reflect", "edge", "symmetric"):
        fill = ", fill: [9, 80, 200]" if mode == "constant" else ""
        for name, padding in (("4", [4]), ("5-2", [5, 2]), ("1-2-3-40", [1, 2, 3, 40]), ("70", [70])):
            result = functional.pad(image, padding, (9, 80, 200), mode)
            width, height = result.size
            add(f"pad-{mode}-{name}", encoded,
                ["decode", f"pad, padding: {padding}, padding_mode: {mode}{fill}",
                 f"centre_crop, size: [{height}, {width}]"], result)
    for key in range(12):
        mode = ("constant", "reflect", "edge", "symmetric")[key % 4]
        padding, size = ([4], (23, 31)) if key < 8 else ([0, 3], (50, 20 + key))
        steps = ["decode", f"random_crop, size: [{size[0]}, {size[1]}], padding: {padding}, "
                 f"padding_mode: {mode}{', pad_if_needed: true' if key >= 8 else ''}"]
        padded = functional.pad(image, padding, 0, mode)
        if key >= 8:
            across, down = max(0, size[1] - padded.width), max(0, size[0] - padded.height)
            padded = functional.pad(functional.pad(padded, [across, 0], 0, mode), [0, down], 0, mode)
        draws = Draws(key, 1)
        i = draws.below(padded.height - size[0] + 1)
        j = draws.below(padded.width - size[1] + 1)
        add(f"random-crop-{key}", encoded, steps, functional.crop(padded, i, j, *size), key)


def warps():
    encoded = png(Image.fromarray(pixels(48, 36, noise=120)))
    square = png(Image.fromarray(pixels(32, 32, noise=120)))
    fill = ", fill: [9, 80, 200]"
    for name in ("nearest", "bilinear", "bicubic"):
        for key in range(6):
            angle = Draws(key, 1).uniform(-45, 45)
            add(f"rotation-{name}-{key}", encoded,
                ["decode", f"random_rotation, degrees: 45, interpolation: {name}{fill}",
                 "centre_crop, size: [36, 48]"],
                functional.rotate(opened(encoded), angle, FILTERS[name], fill=[9, 80, 200]), key)
        for angle in (0, 90, 180, -90):
            add(f"rotation-{name}-by-{angle}", square,
                ["decode", f"random_rotation, degrees: [{angle}, {angle}], interpolation: {name}",
                 "centre_crop, size: 32"], functional.rotate(opened(square), angle, FILTERS[name]))
        for key in range(10):
            draws = Draws(key, 1)
            angle = draws.uniform(-30, 30)
            x, y = (round(draws.uniform(-share * side, share * side))
                    for share, side in ((0.1, 48), (0.3, 36)))
            scale = draws.uniform(0.5, 1.5)
            shear = [draws.uniform(-20, 20), draws.uniform(-10, 5)]
            text = "degrees: 30, translate: [0.1, 0.3], scale: [0.5, 1.5], shear: [-20, 20, -10, 5]"
            if key >= 8:
                angle, scale, shear = 0, 1, [0, 0]
                text = "degrees: 0, translate: [0.1, 0.3]"
            add(f"affine-{name}-{key}", encoded,
                ["decode", f"random_affine, {text}, interpolation: {name}{fill}",
                 "centre_crop, size: [36, 48]"],
                functional.affine(opened(encoded), angle, [x, y], scale, shear, FILTERS[name],
                                  fill=[9, 80, 200]), key)


def recolouring():
    encoded = png(Image.fromarray(pixels(32, 24, noise=120)))
    dull = png(Image.fromarray(pixels(90, 40, noise=120) // 3 + 40))
    flat = png(Image.new("RGB", (9, 2), (7, 80, 200)))
    for picture_name, picture in (("noisy", encoded), ("dull", dull), ("flat", flat)):
        image = opened(picture)
        size = f"centre_crop, size: [{image.height}, {image.width}]"
        changes = {
            "greyscale": functional.to_grayscale(image, 3),
            "invert, probability: 1": functional.invert(image),
            "autocontrast, probability: 1": functional.autocontrast(image),
            "equalize, probability: 1": functional.equalize(image)}
        for bits in (0, 1, 4, 8):
            changes[f"posterize, bits: {bits}, probability: 1"] = functional.posterize(image, bits)
        for threshold in (0, 100.5, 128, 256):
            changes[f"solarize, threshold: {threshold}, probability: 1"] = (
                functional.solarize(image, threshold))
        for factor in (0, 0.3, 1, 1.7, 9):
            changes[f"sharpness, factor: {factor}, probability: 1"] = (
                functional.adjust_sharpness(image, factor))
        for step, result in changes.items():
            name = "-".join(word.strip(",") for word in step.split() if word not in ("probability:", "1"))
            add(f"{picture_name}-{name.replace(':', '').replace(',', '')}", picture, ["decode", step, size], result)
    for key in range(4):
        result = opened(encoded)
        if Draws(key, 1).unit() < 0.4:
            result = functional.to_grayscale(result, 3)
        if Draws(key, 2).unit() < 0.5:
            result = functional.solarize(result, 128)
        add(f"maybe-grey-{key}", encoded,
            ["decode", "random_greyscale, probability: 0.4", "solarize, threshold: 128",
             "centre_crop, size: [24, 32]"], result, key)
    for key, (reach, sizes) in enumerate((("3", [3, 3]), ("[5, 9]", [5, 9]), ("23", [23, 23]), ("[1, 7]", [1, 7]))):
        sigma = Draws(key, 1).uniform(0.1, 2)
        result = functional.gaussian_blur(opened(encoded), sizes, [sigma, sigma])
        add(f"blur-{key}", encoded, ["decode", f"gaussian_blur, kernel_size: {reach}, sigma: [0.1, 2]",
                                     "centre_crop, size: [24, 32]"], result, key, tolerance=1)


def erasing():
    encoded = png(Image.fromarray(pixels(40, 30)))
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    normalised = transforms.Normalize(mean, std)(transforms.ToTensor()(opened(encoded)))
    start = ["decode", "centre_crop, size: [30, 40]"]
    normalise = f"normalise, mean: {mean}, std: {std}"
    planes = "layout, order: nchw"
    for key in range(8):
        draws = Draws(key, 3)
        assert draws.unit() < 1
        i, j, h, w = erased_part(40, 30, draws)
        value = ("0", "[0.5, -1, 2]", "random", "random_colour")[key % 4]
        colour = torch.zeros(3, 1, 1)
        if value == "[0.5, -1, 2]":
            colour = torch.tensor([0.5, -1, 2])[:, None, None]
        elif value == "random":
            colour = torch.from_numpy(normal_numbers(draws, 3 * h * w).reshape(3, h, w))
        elif value == "random_colour":
            colour = torch.from_numpy(normal_numbers(draws, 3))[:, None, None]
        result = functional.erase(normalised, i, j, h, w, colour)
        step = f"random_erasing, probability: 1, value: {value}"
        if key < 4:
            add(f"erase-{key}", encoded, start + [normalise, step, planes], result.numpy(), key)
        else:
            add(f"erase-{key}", encoded, start + [normalise, step, "cast, to: f16"],
                result.permute(1, 2, 0).half().numpy(), key)
    for key in range(4):
        draws = Draws(key, 2)
        result = transforms.PILToTensor()(opened(encoded))
        if draws.unit() < 0.5:
            i, j, h, w = erased_part(40, 30, draws, (0.1, 0.2), (1, 2))
            result = functional.erase(result, i, j, h, w, torch.tensor([1, 2, 255])[:, None, None])
        add(f"erase-bytes-{key}", encoded,
            start + ["random_erasing, scale: [0.1, 0.2], ratio: [1, 2], value: [1, 2, 255]", planes],
            result.numpy(), key)


CHANGES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color",
           "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
SIGNED = CHANGES[1:10]


def changed(image, change, magnitude, name, fill):
    return autoaugment._apply_op(image, change, magnitude, FILTERS[name], fill)


def augmenting():
    encoded = png(Image.fromarray(pixels(50, 40, noise=120)))
    size = "centre_crop, size: [40, 50]"
    rand, wide, auto = (autoaugment.RandAugment(), autoaugment.TrivialAugmentWide(),
                        {policy.value: autoaugment.AutoAugment(policy)
                         for policy in autoaugment.AutoAugmentPolicy})
    for key in range(24):
        name = ("nearest", "bilinear")[key % 2]
        style = f"interpolation: {name}, fill: [9, 80, 200]"
        fill = [9, 80, 200]
        draws, result = Draws(key, 1), opened(encoded)
        for _ in range(3):
            change = CHANGES[draws.below(14)]
            strengths, _ = rand._augmentation_space(31, (40, 50))[change]
            magnitude = float(strengths[9 + key // 2]) if strengths.ndim else 0.0
            if change in SIGNED and draws.below(2):
                magnitude = -magnitude
            result = changed(result, change, magnitude, name, fill)
        add(f"rand-augment-{key}", encoded,
            ["decode", f"rand_augment, operations: 3, magnitude: {9 + key // 2}, {style}", size], result, key)

        draws, result = Draws(key, 1), opened(encoded)
        change = CHANGES[draws.below(14)]
        strengths, _ = wide._augmentation_space(31)[change]
        magnitude = float(strengths[draws.below(31)]) if strengths.ndim else 0.0
        if change in SIGNED and draws.below(2):
            magnitude = -magnitude
        add(f"trivial-augment-{key}", encoded, ["decode", f"trivial_augment_wide, {style}", size],
            changed(result, change, magnitude, name, fill), key)

        for policy, augment in auto.items():
            draws, result = Draws(key, 1), opened(encoded)
            pair = augment.policies[draws.below(25)]
            probabilities, signs = [draws.unit(), draws.unit()], [draws.below(2), draws.below(2)]
            space = augment._augmentation_space(10, (40, 50))
            for (change, probability, bin), drawn, sign in zip(pair, probabilities, signs):
                if drawn > probability:
                    continue
                strengths, signed = space[change]
                magnitude = float(strengths[bin]) if bin is not None else 0.0
                result = changed(result, change, -magnitude if signed and sign == 0 else magnitude, name, fill)
            add(f"auto-augment-{policy}-{key}", encoded,
                ["decode", f"auto_augment, policy: {policy}, {style}", size], result, key)


def nested():
    encoded = png(Image.fromarray(pixels(40, 30, noise=120)))
    inner = "[{step: vertical_flip}, {step: random_rotation, degrees: 20}]"
    for key in range(6):
        result, seed = opened(encoded), hash_words(key, 1)
        draws = Draws(key, 1)
        if draws.unit() < 0.7:
            if Draws(seed, 0).unit() < 0.5:
                result = functional.vflip(result)
            result = functional.rotate(result, Draws(seed, 1).uniform(-20, 20))
        add(f"random-apply-{key}", encoded,
            ["decode", f"random_apply, probability: 0.7, steps: {inner}", "centre_crop, size: [30, 40]"],
            result, key)
        result, drawn = opened(encoded), Draws(key, 1).unit()
        if drawn < 0.25:
            result = functional.to_grayscale(result, 3)
        elif drawn < 0.75:
            result = functional.rotate(result, Draws(seed, 1).uniform(-90, 90))
        else:
            result = functional.invert(functional.hflip(result))
        add(f"random-choice-{key}", encoded,
            ["decode", "random_choice, probabilities: [1, 2, 1], steps: [{step: greyscale}, "
             "{step: random_rotation, degrees: 90}, {step: random_apply, probability: 1, steps: "
             "[{step: horizontal_flip, probability: 1}, {step: invert, probability: 1}]}]",
             "centre_crop, size: [30, 40]"], result, key)


FOLDER.mkdir(exist_ok=True)
for old in FOLDER.iterdir():
    old.unlink()
decoding()
other_kinds()
geometry()
colour()
values()
filters()
places()
warps()
recolouring()
erasing()
augmenting()
nested()
(FOLDER / "cases.yaml").write_text(
    "# Written by make_golden.py.\ncases:\n"
    + "".join("  " + line + "\n" for case in cases for line in case.split("\n")))
print(f"{len(cases)} cases")
