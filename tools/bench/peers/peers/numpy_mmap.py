"""A loop over numpy.load(mmap_mode="r"), as a user would write it. Only of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

TITLE = "NumPy memory map"
PACKAGES: list[str] = []
MODULES = ("numpy",)
GUARANTEE = "each once an epoch"


def rows(options: dict[str, Any]) -> Iterator[Any]:
    import numpy
    data = numpy.load(Path(options["data"]) / "rows.npy", mmap_mode="r")

    def epoch() -> Iterator[Any]:
        order = numpy.random.permutation(len(data))
        for begin in range(0, len(data), options["batch"]):
            yield data[order[begin:begin + options["batch"]]]
    while True:
        yield epoch()
