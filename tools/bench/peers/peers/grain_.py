"""Grain: Pillow's decoders in worker processes, each job for itself."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any, Iterator

from .crop import augmented

TITLE = "Grain"
PACKAGES = ["grain", "pillow", "numpy"]
MODULES = ("grain", "PIL", "numpy")
WITH_SYSTEM = False
GUARANTEE = "each once an epoch"
ROW_JOBS_MOST = 8  # each has a process and threads of its own


class _Pictures:
    """(number, picture) by number, as torchvision makes it."""

    def __init__(self, files: list[str], as_float: bool):
        self._files, self._as_float = files, as_float

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> Any:
        return number, self._files[number]

    def augmented(self, sample: Any, draws: Any) -> Any:
        number, file = sample
        # Grain gives each sample draws of its own; the crop and the flip draw from `random`.
        random.seed(int(draws.integers(2**62)))
        return number, augmented(file, self._as_float)


def _epochs_of(batches: Iterator[Any], count: int, batch: int) -> Iterator[Any]:
    """It repeats, so that its workers go on; as many batches as an epoch has."""
    while True:
        yield itertools.islice(batches, -(-count // batch))


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import grain
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
    pictures = _Pictures(files, options["float"])
    data = grain.MapDataset.source(pictures).seed(random.getrandbits(31)).shuffle().random_map(
        pictures.augmented).batch(options["batch"]).repeat()
    workers = grain.MultiprocessingOptions(num_workers=max(1, options["workers"]))
    # One thread in each worker, and a batch ahead. By default 16 threads make as many batches at
    # once, and the first comes when nearly all are made.
    one_thread = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    batches = iter(data.to_iter_dataset(one_thread).mp_prefetch(workers))
    return _epochs_of(batches, len(files), options["batch"])


class _Rows:
    def __init__(self, file: Path):
        import numpy
        self._rows = numpy.load(file, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Any:
        return self._rows[number]


def rows(options: dict[str, Any]) -> Iterator[Any]:
    """In threads of the job's own process, which is its default."""
    import grain
    source = _Rows(Path(options["data"]) / "rows.npy")
    data = grain.MapDataset.source(source).seed(random.getrandbits(31)).shuffle().batch(
        options["batch"]).repeat()
    return _epochs_of(iter(data.to_iter_dataset()), len(source), options["batch"])
