"""WebDataset: tar shards through PyTorch's DataLoader, shuffled by shards and in a buffer."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, Iterator

from .stored import folder_of, write_once

TITLE = "WebDataset"
PACKAGES = ["webdataset"]
MODULES = ("webdataset", "torch", "torchvision")
GUARANTEE = "each once an epoch; shuffled in a buffer of 1000"

SHARDS = 16


def convert(options: dict[str, Any]) -> float:
    def write(folder: Path) -> None:
        folder.mkdir()
        files = sorted(Path(options["data"]).glob("*/*.jpg"))
        for shard in range(SHARDS):
            with tarfile.open(folder / f"{shard:03}.tar", "w") as tar:
                for file in files[shard::SHARDS]:
                    tar.add(file, f"{file.stem}.jpg")
    return write_once(folder_of(options, "tar"), write)


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import webdataset

    from .torch_transforms import one_thread, open_picture, transform
    one_thread()
    augment = transform(options["float"])

    def prepare(sample: dict[str, Any]) -> Any:
        return int(sample["__key__"]), augment(open_picture(sample["jpg"]))

    shards = sorted(str(file) for file in folder_of(options, "tar").glob("*.tar"))
    data = webdataset.WebDataset(
        shards, shardshuffle=SHARDS, nodesplitter=None, empty_check=False).shuffle(
            1000).map(prepare).batched(options["batch"])
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=options["workers"],
                                  persistent_workers=True, worker_init_fn=one_thread)
    while True:
        yield iter(loader)
