"""DALI beside gpu_check: the same pictures, from memory to training-ready tensors, in the same run.

dali.py PICTURES [--seconds S]: a line of JSON for each measurement, as {"what", "pictures_a_second", "p99_ms", ...}.
JPEGs are decoded, randomly cropped, scaled to 224 x 224 (antialiased), mirrored, normalised, and laid out as FLOAT16 in
planes. A rate is the median of several epochs after one for warming up. What is not installed is said to be so.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy

BATCH = 256
SIDE = 224
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def load(folder: Path) -> list[numpy.ndarray]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return [numpy.fromfile(path, numpy.uint8) for path in files]


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(what: str, batches_an_epoch: int, seconds: float, batch, end=lambda: None, **more) -> None:
    """`batch()` makes one batch; `end()` waits until all that was begun is there."""
    rates, took, epochs = [], [], 0
    cpu, pictures = 0.0, 0
    begin = time.perf_counter()
    while epochs < 3 or time.perf_counter() - begin < seconds:
        epoch = before = time.perf_counter()
        used = cpu_seconds()
        for _ in range(batches_an_epoch):
            batch()
            now = time.perf_counter()
            if epochs:
                took.append((now - before) * 1e3)
            before = now
        end()
        if epochs:  # the first warms up
            rates.append(batches_an_epoch * BATCH / (time.perf_counter() - epoch))
            cpu += cpu_seconds() - used
            pictures += batches_an_epoch * BATCH
        epochs += 1
    took.sort()
    print(json.dumps({"what": what, "pictures_a_second": round(statistics.median(rates)),
                      "slowest_epoch": round(min(rates)), "fastest_epoch": round(max(rates)),
                      "p50_ms": round(took[len(took) // 2], 2), "p99_ms": round(took[(len(took) - 1) * 99 // 100], 2),
                      "cpu_us_a_picture": round(cpu / pictures * 1e6, 1), "batches": len(took), **more}), flush=True)


def not_run(what: str, why: object) -> None:
    print(json.dumps({"what": what, "not_run": str(why).strip().splitlines()[-1][:300] if str(why).strip() else
                      type(why).__name__}), flush=True)


def dali_pipeline(pictures: list[numpy.ndarray], threads: int, hardware: float, fused: bool):
    import nvidia.dali.fn as fn
    from nvidia.dali import pipeline_def, types

    at = 0

    def batches():
        nonlocal at
        batch = [pictures[(at + i) % len(pictures)] for i in range(BATCH)]
        at += BATCH
        return batch

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=0, prefetch_queue_depth=3, seed=1)
    def pipeline():
        jpegs = fn.external_source(source=batches, no_copy=True, dtype=types.UINT8, ndim=1)
        decoding = {"device": "mixed", "output_type": types.RGB, "hw_decoder_load": hardware,
                    "preallocate_width_hint": 640, "preallocate_height_hint": 640}
        if fused:
            images = fn.decoders.image_random_crop(jpegs, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3],
                                                   num_attempts=10, **decoding)
            images = fn.resize(images, resize_x=SIDE, resize_y=SIDE, antialias=True,
                               interp_type=types.INTERP_LINEAR)
        else:  # whole pictures, which the engines decode, and then the random part
            images = fn.decoders.image(jpegs, **decoding)
            images = fn.random_resized_crop(images, size=[SIDE, SIDE], random_area=[0.08, 1.0],
                                            random_aspect_ratio=[3 / 4, 4 / 3], antialias=True,
                                            interp_type=types.INTERP_LINEAR)
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT16, output_layout="CHW",
                                        mirror=fn.random.coin_flip(probability=0.5),
                                        mean=[255 * one for one in MEAN], std=[255 * one for one in DEVIATION])

    made = pipeline()
    made.build()
    return made


def wait_for_gpu() -> None:
    try:
        import torch
        torch.cuda.synchronize()
    except ImportError:
        pass


def measure_dali(pictures: list[numpy.ndarray], threads: int, seconds: float) -> None:
    try:
        import nvidia.dali
    except Exception as error:  # pylint: disable=broad-except
        return not_run("DALI", error)
    for fused in (True, False):
        for hardware in (0.0, 0.65, 0.75, 0.9, 1.0):
            kind = "image_random_crop" if fused else "image, random_resized_crop"
            what = f"DALI {nvidia.dali.__version__}: {kind}, hw_decoder_load {hardware}"
            try:
                pipeline = dali_pipeline(pictures, threads, hardware, fused)
                measure(what, max(8, len(pictures) // BATCH), seconds, pipeline.run, wait_for_gpu,
                        threads=threads, hw_decoder_load=hardware, fused=fused)
                del pipeline
            except Exception as error:  # pylint: disable=broad-except
                not_run(what, error)


def measure_torchvision(pictures: list[numpy.ndarray], seconds: float) -> None:
    what = "torchvision decode_jpeg (device=cuda), pictures alone"
    try:
        import torch
        import torchvision
        from torchvision.io import ImageReadMode, decode_jpeg
        tensors = [torch.from_numpy(one) for one in pictures]
        at = 0

        def batch() -> None:
            nonlocal at
            decode_jpeg([tensors[(at + i) % len(tensors)] for i in range(BATCH)], mode=ImageReadMode.RGB,
                        device="cuda")
            at += BATCH
            torch.cuda.synchronize()

        measure(what, max(4, len(pictures) // BATCH // 2), seconds, batch, torchvision=torchvision.__version__)
    except Exception as error:  # pylint: disable=broad-except
        not_run(what, error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long each is measured")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--skip-torchvision", action="store_true")
    given = parser.parse_args()
    pictures = load(given.pictures)
    if not pictures:
        print(f"{given.pictures} has no JPEG files", file=sys.stderr)
        return 2
    measure_dali(pictures, given.threads, given.seconds)
    if not given.skip_torchvision:
        measure_torchvision(pictures, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
