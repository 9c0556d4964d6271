"""PyTorch's DataLoader: each job decodes for itself, in worker processes of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

TITLE = "PyTorch DataLoader"
PACKAGES: list[str] = []
MODULES = ("torch", "torchvision")
GUARANTEE = "each once an epoch"


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import torch
    from torchvision.datasets import ImageFolder

    from .torch_transforms import one_thread, transform

    class Numbered(ImageFolder):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            return index, super().__getitem__(index)[0]

    one_thread()
    data = Numbered(options["data"], transform(options["float"]))
    loader = torch.utils.data.DataLoader(
        data, options["batch"], shuffle=True, num_workers=options["workers"],
        persistent_workers=True, worker_init_fn=one_thread)
    while True:
        yield ((ids.tolist(), images) for ids, images in loader)


def rows(options: dict[str, Any]) -> Iterator[Any]:
    """In the job's own process: workers would copy each row twice more."""
    import numpy
    import torch
    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(torch.from_numpy(
        numpy.load(Path(options["data"]) / "rows.npy", mmap_mode="c")))
    loader = torch.utils.data.DataLoader(data, options["batch"], shuffle=True)
    while True:
        yield (batch.numpy() for (batch,) in loader)
