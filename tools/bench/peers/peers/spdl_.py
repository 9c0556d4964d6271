"""SPDL: FFmpeg's decoders in threads, each job for itself."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any, Iterator

TITLE = "SPDL"
PACKAGES = ["spdl", "numpy"]
MODULES = ("spdl.io", "spdl.pipeline", "numpy")
WITH_SYSTEM = False
GUARANTEE = "each once an epoch"

SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _crop(width: int, height: int) -> str:
    """torchvision's RandomResizedCrop and flip as filters."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w, h = width, height
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    flip = ",hflip" if random.random() < 0.5 else ""
    return f"crop={w}:{h}:{x}:{y},scale={SIDE}:{SIDE}:flags=bilinear{flip},format=pix_fmts=rgb24"


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import numpy
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
    mean, std = (numpy.array(one, numpy.float32)[:, None, None] for one in (MEAN, STD))

    def load(number: int) -> Any:
        packets = spdl.io.demux_image(files[number])
        frames = spdl.io.decode_packets(packets, _crop(packets.width, packets.height))
        picture = spdl.io.to_numpy(spdl.io.convert_frames(frames)).reshape(SIDE, SIDE, 3)
        picture = picture.transpose(2, 0, 1)
        if options["float"]:
            picture = (picture.astype(numpy.float32) / 255 - mean) / std
        return number, picture

    def join(samples: list[Any]) -> Any:
        return [number for number, _ in samples], numpy.stack([one for _, one in samples])

    while True:
        order = random.sample(range(len(files)), len(files))
        threads = max(1, options["workers"])
        pipeline = PipelineBuilder().add_source(order).pipe(load, concurrency=threads).aggregate(
            options["batch"]).pipe(join).add_sink(2).build(num_threads=threads)
        with pipeline.auto_stop():
            yield iter(pipeline)
