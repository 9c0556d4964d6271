"""PyTorch's DataLoader over OpenCV. Scaled without antialiasing, as its users do, which is less
work than other peers have."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD, random_crop

TITLE = "PyTorch, OpenCV"
PACKAGES = ["opencv-python-headless"]
MODULES = ("cv2", "torch", "numpy")
GUARANTEE = "each once an epoch"


def _one_thread(*unused: Any) -> None:
    import cv2

    from .torch_transforms import one_thread
    one_thread()
    cv2.setNumThreads(0)


def augmented(file: str, as_float: bool) -> Any:
    import cv2
    import numpy
    picture = cv2.cvtColor(cv2.imread(file, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    x, y, w, h = random_crop(picture.shape[1], picture.shape[0])
    picture = cv2.resize(picture[y:y + h, x:x + w], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    if random.random() < 0.5:
        picture = cv2.flip(picture, 1)
    if as_float:
        mean, std = (numpy.array(values, numpy.float32) for values in (MEAN, STD))
        picture = (picture.astype(numpy.float32) / 255 - mean) / std
    return numpy.ascontiguousarray(picture.transpose(2, 0, 1))


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import torch
    _one_thread()
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))

    class Pictures(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> Any:
            return index, torch.from_numpy(augmented(files[index], options["float"]))

    loader = torch.utils.data.DataLoader(
        Pictures(), options["batch"], shuffle=True, num_workers=options["workers"],
        persistent_workers=True, worker_init_fn=_one_thread)
    while True:
        yield ((ids.tolist(), images) for ids, images in loader)
