"""MosaicML Streaming: MDS shards of the JPEGs, through PyTorch's DataLoader."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, Iterator

from .stored import folder_of, write_once

TITLE = "MosaicML Streaming"
PACKAGES = ["mosaicml-streaming"]
MODULES = ("streaming", "torch", "torchvision")
GUARANTEE = "each once an epoch"


def convert(options: dict[str, Any]) -> float:
    from streaming import MDSWriter

    def write(folder: Path) -> None:
        with MDSWriter(out=str(folder), columns={"number": "int", "jpg": "bytes"},
                       size_limit=1 << 24, exist_ok=True) as out:
            for file in sorted(Path(options["data"]).glob("*/*.jpg")):
                out.write({"number": int(file.stem), "jpg": file.read_bytes()})
    return write_once(folder_of(options, "mds"), write)


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import torch
    from streaming import StreamingDataset

    from .torch_transforms import one_thread, open_picture, transform
    one_thread()
    augment = transform(options["float"])

    class Pictures(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            sample = super().__getitem__(index)
            return sample["number"], augment(open_picture(sample["jpg"]))

    # Two jobs may not share a folder: it gives the names of shared memory.
    own = Path(options["scratch"]) / f"mds{options['job']}"
    own.mkdir()
    for file in folder_of(options, "mds").iterdir():
        os.symlink(file, own / file.name)
    # Nor may two jobs look for a free name at the same time.
    with open(Path(options["scratch"]) / "mds.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = Pictures(local=str(own), shuffle=True, batch_size=options["batch"])
    loader = torch.utils.data.DataLoader(data, options["batch"], num_workers=options["workers"],
                                         persistent_workers=True, worker_init_fn=one_thread)
    while True:
        yield iter(loader)
