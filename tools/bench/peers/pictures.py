"""The pictures that all peers read: synthetic JPEGs of photographic size, the same at each run.

pictures/CLASS/NUMBER.jpg, numbered so that the ascending order of paths is that of the numbers.
"""

from __future__ import annotations

from pathlib import Path

CLASSES = 8
BYTES_MEAN = 114_660
QUALITY = 90


def picture(number: int, noise: float) -> bytes:
    """Smooth shapes and grain: as many coefficients as a photograph has."""
    import io

    import numpy
    from PIL import Image
    draws = numpy.random.default_rng(number)
    width, height = 500 + int(draws.integers(-40, 41)), 400 + int(draws.integers(-40, 41))
    coarse = draws.integers(0, 256, (12, 15, 3), dtype=numpy.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.BICUBIC)
    grain = draws.normal(0, noise, (height, width, 1)) + draws.normal(0, noise / 4,
                                                                      (height, width, 3))
    pixels = numpy.clip(numpy.asarray(smooth) + grain, 0, 255).astype(numpy.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def grain() -> float:
    """The quality that gives the wanted mean size, over a few pictures."""
    low, high = 0.0, 80.0
    for _ in range(12):
        noise = (low + high) / 2
        mean = sum(len(picture(number, noise)) for number in range(16)) / 16
        low, high = (noise, high) if mean < BYTES_MEAN else (low, noise)
    return high


def make(folder: Path, count: int) -> Path:
    """The folder with that many pictures; made once."""
    pictures = folder / f"pictures-{count}"
    done = pictures.with_suffix(".made")
    if not done.exists():
        noise, size = grain(), 0
        for number in range(count):
            folder_of_class = pictures / f"c{number * CLASSES // count}"
            folder_of_class.mkdir(parents=True, exist_ok=True)
            data = picture(number, noise)
            (folder_of_class / f"{number:06}.jpg").write_bytes(data)
            size += len(data)
        done.write_text(f"{size / count:.0f}")
    return pictures


def mean_bytes(pictures: Path) -> int:
    return int(pictures.with_suffix(".made").read_text())


def files(pictures: Path) -> list[Path]:
    return sorted(pictures.glob("*/*.jpg"))


def warm(pictures: Path) -> None:
    """Reads all files, so that every peer finds them in the page cache."""
    for file in files(pictures):
        file.read_bytes()
