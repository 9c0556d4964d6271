"""LitData: chunks of the JPEGs, through its StreamingDataLoader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator

from .stored import folder_of, write_once

TITLE = "LitData"
PACKAGES = ["litdata", "torch", "torchvision"]
MODULES = ("litdata", "torch", "torchvision")
WITH_SYSTEM = False  # it wants a newer PyTorch
GUARANTEE = "each once an epoch"


def _numbered(file: str) -> dict[str, Any]:
    return {"number": int(Path(file).stem), "jpg": Path(file).read_bytes()}


def convert(options: dict[str, Any]) -> float:
    import litdata

    def write(folder: Path) -> None:
        files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
        litdata.optimize(fn=_numbered, inputs=files, output_dir=str(folder), chunk_bytes="16MB",
                         num_workers=options["cores"])
    return write_once(folder_of(options, "litdata"), write)


def prepare(options: dict[str, Any]) -> None:
    """What it keeps in the home folder would be shared by jobs and outlive them."""
    os.environ["HOME"] = options["scratch"]
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = options["scratch"] + "/litdata"


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import litdata

    from .torch_transforms import one_thread, open_picture, transform
    one_thread()
    augment = transform(options["float"])

    class Pictures(litdata.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return sample["number"], augment(open_picture(sample["jpg"]))

    data = Pictures(str(folder_of(options, "litdata")), shuffle=True, drop_last=False)
    loader = litdata.StreamingDataLoader(
        data, batch_size=options["batch"], num_workers=options["workers"], persistent_workers=True,
        worker_init_fn=one_thread)
    while True:
        yield ((ids.tolist(), images) for ids, images in loader)
