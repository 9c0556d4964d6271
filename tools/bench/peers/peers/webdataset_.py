"""WebDataset: tar shards through PyTorch's DataLoader, shuffled by shards and in a buffer."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, Iterator

TITLE = "WebDataset"
PACKAGES = ["webdataset"]
MODULES = ("webdataset", "torch", "torchvision")
GUARANTEE = "each once an epoch; shuffled in a buffer of 1000"

SHARDS = 16


def shards(options: dict[str, Any]) -> list[str]:
    data = Path(options["data"])
    folder = Path(options["store"]) / f"{data.name}-tar"
    if not (folder / "made").exists():
        folder.mkdir(exist_ok=True)
        files = sorted(data.glob("*/*.jpg"))
        for shard in range(SHARDS):
            with tarfile.open(folder / f"{shard:03}.tar", "w") as tar:
                for file in files[shard::SHARDS]:
                    tar.add(file, f"{file.stem}.jpg")
        (folder / "made").touch()
    return sorted(str(file) for file in folder.glob("*.tar"))


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import webdataset

    from .torch_transforms import one_thread, open_picture, transform
    one_thread()
    augment = transform(options["float"])

    def prepare(sample: dict[str, Any]) -> Any:
        return int(sample["__key__"]), augment(open_picture(sample["jpg"]))

    data = webdataset.WebDataset(
        shards(options), shardshuffle=SHARDS, nodesplitter=None, empty_check=False).shuffle(
            1000).map(prepare).batched(options["batch"])
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=options["workers"],
                                  persistent_workers=True, worker_init_fn=one_thread)
    while True:
        yield iter(loader)
