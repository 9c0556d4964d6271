"""DALI without a GPU: its pipeline in threads, each job for itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD

TITLE = "DALI on CPUs"
PACKAGES = ["nvidia-dali-cuda120", "numpy"]
MODULES = ("nvidia.dali", "nvidia.dali.fn", "numpy")
WITH_SYSTEM = False
GUARANTEE = "each once an epoch"


def pipeline(options: dict[str, Any]) -> Any:
    from nvidia.dali import fn, pipeline_def, types
    numbered = list(enumerate(sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))))
    random.shuffle(numbered)  # the reader shuffles only after an epoch
    numbers, files = zip(*numbered)
    normal: dict[str, Any] = {"dtype": types.UINT8}
    if options["float"]:
        normal = {"dtype": types.FLOAT, "mean": [255 * value for value in MEAN],
                  "std": [255 * value for value in STD]}

    @pipeline_def(batch_size=options["batch"], num_threads=max(1, options["workers"]),
                  device_id=None, prefetch_queue_depth=2)  # type: ignore[misc]
    def made() -> Any:
        jpegs, number = fn.readers.file(files=list(files), labels=list(numbers), name="reader",
                                        shuffle_after_epoch=True, pad_last_batch=True)
        images = fn.decoders.image_random_crop(
            jpegs, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR,
                           antialias=True)
        images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(),
                                          output_layout="CHW", **normal)
        return number, images

    return made()


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    made = pipeline(options)
    made.build()

    def epoch() -> Iterator[Any]:
        left = options["pictures"]
        while left:
            numbers, images = made.run()
            count = min(left, options["batch"])  # the rest of the last batch is padding
            yield numbers.as_array().ravel()[:count], images.as_array()[:count]
            left -= count
    while True:
        yield epoch()
