"""MixUp and CutMix: what a loader does to a batch as a whole, after the service has made it.

Their draws follow from the job's seed, the epoch and the samples of the batch. So a job that goes
on from its state mixes each batch as it would have done.
"""

from __future__ import annotations

import hashlib
import math
import random
import sys
from array import array
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

from .batch import Batch

Mixing = Callable[..., Any]


class _Mixing:
    """As the transform of torchvision's `v2` with this name. `labels` are class numbers, or a row
    of `num_classes` parts for each sample. Draws come from PyTorch's generator."""

    def __init__(self, *, alpha: float = 1.0, num_classes: Optional[int] = None):
        if not alpha > 0:
            raise ValueError(f"{type(self).__name__}: alpha={alpha!r} is not above 0")
        self.alpha, self.num_classes = float(alpha), num_classes

    def __call__(self, images: Any, labels: Any) -> tuple[Any, Any]:
        name = type(self).__name__
        if images.ndim != 4 or not images.is_floating_point():
            raise ValueError(f"{name} mixes batches of float images, not {images.dtype} of shape "
                             f"{tuple(images.shape)}; write normalise or a cast in the pipeline")
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError(f"{name}: num_classes must be given where labels are class numbers")
        if len(labels) != len(images):
            raise ValueError(f"{name}: {len(images)} images and {len(labels)} labels")
        drawn = random.Random(int(_torch().randint(2**62, ())))
        return self._mix(images, self._parts(labels), drawn)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(alpha={self.alpha}, num_classes={self.num_classes})"

    def _mix(self, images: Any, labels: Any, drawn: random.Random) -> tuple[Any, Any]:
        raise NotImplementedError

    def _parts(self, labels: Any) -> Any:
        if labels.ndim == 1:
            labels = _torch().nn.functional.one_hot(labels, num_classes=self.num_classes)
        return labels if labels.is_floating_point() else labels.float()


class MixUp(_Mixing):
    """Each sample becomes `part` of itself and the rest of the sample before it."""

    def _mix(self, images: Any, labels: Any, drawn: random.Random) -> tuple[Any, Any]:
        part = drawn.betavariate(self.alpha, self.alpha)
        return mixed_up(images, part), mixed_up(labels, part)


class CutMix(_Mixing):
    """A box of each picture becomes what the picture before it has there."""

    def _mix(self, images: Any, labels: Any, drawn: random.Random) -> tuple[Any, Any]:
        height, width = images.shape[-2:]
        part = drawn.betavariate(self.alpha, self.alpha)
        x, y = drawn.randrange(width), drawn.randrange(height)
        return cut_and_mixed(images, labels, box_of(part, x, y, width, height))


def mixed_up(values: Any, part: float) -> Any:
    return values.roll(1, 0).mul_(1.0 - part).add_(values.mul(part))


def box_of(part: float, x: int, y: int, width: int, height: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a box around (x, y) that leaves about `part` of a picture."""
    side = 0.5 * math.sqrt(1.0 - part)
    across, down = int(side * width), int(side * height)
    return max(x - across, 0), max(y - down, 0), min(x + across, width), min(y + down, height)


def cut_and_mixed(images: Any, labels: Any, box: tuple[int, int, int, int]) -> tuple[Any, Any]:
    left, top, right, bottom = box
    height, width = images.shape[-2:]
    made = images.clone()
    made[..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
    return made, mixed_up(labels, 1.0 - (right - left) * (bottom - top) / (width * height))


# ---------------------------------------------------------------------------- in a DataLoader --


def check_mixing(mixing: Any, batch_size: Optional[int], output: str) -> None:
    if mixing is None:
        return
    if not callable(mixing):
        raise TypeError("mixing should be a function of images and labels, as "
                        "MixUp(num_classes=10)")
    if batch_size is None:
        raise ValueError("mixing is for batches, and batch_size=None gives samples one by one")
    if output not in ("auto", "torch"):
        raise ValueError(f"mixing is for PyTorch's tensors, and these batches are {output}; leave "
                         "output out")


def mix(mixing: Mixing, given: Any, batch: Batch, seed: Optional[int]) -> Any:
    """What the script gets: `given`, mixed. `batch`: as the service gave it."""
    with _draws_of(batch, seed):
        made = mixing(*given) if isinstance(given, (tuple, list)) else mixing(given)
    if not isinstance(given, Batch) or not isinstance(made, (tuple, list)):
        return made
    result = Batch(made)
    result.__dict__.update(given.__dict__)
    return result


@contextmanager
def _draws_of(batch: Batch, seed: Optional[int]) -> Iterator[None]:
    """PyTorch's generator draws by the batch, and is set back afterwards."""
    generator = _torch().default_generator
    state = generator.get_state()
    generator.manual_seed(draw_key(seed or 0, batch.epoch, batch.sample_keys.tolist()))
    try:
        yield
    finally:
        generator.set_state(state)


def draw_key(seed: int, epoch: int, keys: list[int]) -> int:
    numbers = array("Q", [seed, epoch, *keys])
    if sys.byteorder == "big":
        numbers.byteswap()
    return int.from_bytes(hashlib.blake2b(numbers.tobytes(), digest_size=8).digest(), "little") >> 1


def _torch() -> Any:
    import torch  # type: ignore[import-not-found, unused-ignore]
    return torch
