"""Training pictures as an order of keys makes them come.

A picture's crop depends on the seed, the epoch, the sample and how often it came in the epoch, and
not on where it comes. So two trainings of one seed see the same pictures, in two orders.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator

import torch
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from training import AUGMENTATION, Batch, Epochs

Orders = Iterable[Iterable[list[int]]]  # of each epoch, the keys of its batches


class Views:
    def __init__(self, folder: Path, seed: int):
        self._seed = seed
        # Its order is that of BatchFlow's keys.
        self._samples = [(default_loader(file), label)
                         for file, label in ImageFolder(str(folder)).samples]
        self._made: dict[tuple[int, int, int], Any] = {}

    def epochs(self, orders: Orders) -> Epochs:
        for epoch, batches in enumerate(orders):
            yield self._batches(epoch, batches)

    def _batches(self, epoch: int, batches: Iterable[list[int]]) -> Iterator[Batch]:
        came: Counter[int] = Counter()
        for keys in batches:
            pictures = []
            for key in keys:
                pictures.append(self._picture(epoch, key, came[key]))
                came[key] += 1
            labels = torch.tensor([self._samples[key][1] for key in keys])
            yield Batch(torch.stack(pictures), labels, keys)

    def _picture(self, epoch: int, key: int, before: int) -> Any:
        name = epoch, key, before
        if name not in self._made:
            number = ((self._seed * 1000 + epoch) * 10_000 + key) * 10_000 + before
            torch.manual_seed(number)  # the transforms draw from it
            self._made[name] = AUGMENTATION(self._samples[key][0])
        return self._made[name]
