"""torchvision's RandomResizedCrop as numbers, for peers that have no torchvision."""

from __future__ import annotations

import math
import random

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
