"""PyTorch's DataLoader over today's torchvision: libjpeg of torchvision.io, and transforms of
tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD

TITLE = "PyTorch, torchvision.io"
PACKAGES = ["torchvision", "torch", "numpy"]
MODULES = ("torch", "torchvision.io", "torchvision.transforms.v2", "numpy")
WITH_SYSTEM = False  # the system's torchvision may be older than transforms.v2
GUARANTEE = "each once an epoch"


def augmentation(as_float: bool) -> Any:
    import torch
    from torchvision.transforms import v2
    steps = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
    if as_float:
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose(steps)


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    from .torch_transforms import one_thread
    one_thread()
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
    augment = augmentation(options["float"])

    class Pictures(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> Any:
            return index, augment(decode_jpeg(read_file(files[index]), ImageReadMode.RGB))

    loader = torch.utils.data.DataLoader(
        Pictures(), options["batch"], shuffle=True, num_workers=options["workers"],
        persistent_workers=True, worker_init_fn=one_thread)
    while True:
        yield ((ids.tolist(), images) for ids, images in loader)
