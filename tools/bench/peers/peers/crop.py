"""torchvision's RandomResizedCrop and flip, for peers that have no torchvision."""

from __future__ import annotations

import math
import random
from typing import Any

SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def random_crop(width: int, height: int) -> tuple[int, int, int, int]:
    """x, y, width, height: a part of 8 to 100 % of the area, of ratio 3/4 to 4/3."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def augmented(file: str, as_float: bool) -> Any:
    """The picture of a file, by Pillow."""
    import numpy
    from PIL import Image
    with Image.open(file) as opened:
        image = opened.convert("RGB")
    x, y, w, h = random_crop(*image.size)
    image = image.crop((x, y, x + w, y + h)).resize((SIDE, SIDE), Image.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    pixels = numpy.ascontiguousarray(numpy.asarray(image).transpose(2, 0, 1))
    if as_float:
        mean, std = (numpy.array(values, numpy.float32)[:, None, None] for values in (MEAN, STD))
        pixels = (pixels.astype(numpy.float32) / 255 - mean) / std
    return pixels
