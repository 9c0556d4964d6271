"""The augmentation, as torchvision's users write it, and pictures with their numbers."""

from __future__ import annotations

from typing import Any

from .crop import MEAN, SIDE, STD


def transform(as_float: bool) -> Any:
    from torchvision import transforms as t
    steps = [t.RandomResizedCrop(SIDE), t.RandomHorizontalFlip()]
    steps += [t.ToTensor(), t.Normalize(MEAN, STD)] if as_float else [t.PILToTensor()]
    return t.Compose(steps)


def one_thread(*unused: Any) -> None:
    import torch
    torch.set_num_threads(1)


def open_picture(data: bytes) -> Any:
    import io

    from PIL import Image
    return Image.open(io.BytesIO(data)).convert("RGB")
