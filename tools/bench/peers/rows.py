"""The rows that peers read in cases of rows: one .npy file of float32, in the same page cache for
all. The first number of a row is the row's."""

from __future__ import annotations

from pathlib import Path

COUNT = 65536  # of 4 KiB: 256 MiB, which fits into memory everywhere


def make(folder: Path, row_bytes: int, count: int) -> Path:
    """The folder with that many rows; made once."""
    import numpy
    made = folder / f"rows-{row_bytes}-{count}"
    done = made.with_name(made.name + ".made")
    if not done.exists():
        made.mkdir(exist_ok=True)
        rows = numpy.random.default_rng(1).random((count, row_bytes // 4), numpy.float32)
        rows[:, 0] = numpy.arange(count)
        numpy.save(made / "rows.npy", rows)
        done.touch()
    return made


def warm(made: Path) -> None:
    """Reads the file, so that every peer finds it in the page cache."""
    (made / "rows.npy").read_bytes()
