"""SPDL: FFmpeg's decoders in threads, each job for itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD, random_crop

TITLE = "SPDL"
PACKAGES = ["spdl", "numpy"]
MODULES = ("spdl.io", "spdl.pipeline", "numpy")
WITH_SYSTEM = False
TRY = "; spdl.io.decode_config()"  # loads FFmpeg's libraries, which are the system's
GUARANTEE = "each once an epoch"


def _filters(width: int, height: int) -> str:
    """The crop and the flip."""
    x, y, w, h = random_crop(width, height)
    flip = ",hflip" if random.random() < 0.5 else ""
    return f"crop={w}:{h}:{x}:{y},scale={SIDE}:{SIDE}:flags=bilinear{flip},format=pix_fmts=rgb24"


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import numpy
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
    mean, std = (numpy.array(values, numpy.float32)[:, None, None] for values in (MEAN, STD))

    def load(number: int) -> Any:
        packets = spdl.io.demux_image(files[number])
        frames = spdl.io.decode_packets(packets, _filters(packets.width, packets.height))
        picture = spdl.io.to_numpy(spdl.io.convert_frames(frames)).reshape(SIDE, SIDE, 3)
        picture = picture.transpose(2, 0, 1)
        if options["float"]:
            picture = (picture.astype(numpy.float32) / 255 - mean) / std
        return number, picture

    def join(samples: list[Any]) -> Any:
        return [number for number, _ in samples], numpy.stack([picture for _, picture in samples])

    while True:
        order = random.sample(range(len(files)), len(files))
        threads = max(1, options["workers"])
        pipeline = PipelineBuilder().add_source(order).pipe(load, concurrency=threads).aggregate(
            options["batch"]).pipe(join).add_sink(2).build(num_threads=threads)
        with pipeline.auto_stop():
            yield iter(pipeline)
