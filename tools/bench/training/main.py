"""A real training job on a GPU, fed by BatchFlow and by its peers, one after the other in one run.

    bench_training --pictures FOLDER [--systems NAME,...] [--steps N] [--batch N] [--workers N]

Each system feeds the same ResNet-50 (channels last, bfloat16) with random resized crops of 224 x 224 of
the JPEGs below FOLDER. `synthetic` feeds the same batch again and again: no system is faster. A table
is printed, and with --json FILE each row is written as JSON, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "peers")]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 224


def synthetic(options: Any) -> Iterator[Any]:
    import torch
    batch = torch.randint(0, 256, (options.batch, 3, SIDE, SIDE), dtype=torch.uint8, device="cuda")
    labels = torch.zeros(options.batch, dtype=torch.int64, device="cuda")
    while True:
        yield batch, labels


def batchflow(options: Any) -> Iterator[Any]:
    import batchflow as bf
    loader = bf.DataLoader(str(options.pictures), options.batch, True, pipeline="imagenet-train", drop_last=True,
                           device="cuda")
    while True:
        for batch in loader:
            yield batch["image"], batch["label"]


def pytorch(options: Any) -> Iterator[Any]:
    import torch
    from torchvision.datasets import ImageFolder
    from peers.torch_transforms import transform
    loader = torch.utils.data.DataLoader(
        ImageFolder(str(options.pictures), transform(False)), options.batch, shuffle=True, drop_last=True,
        num_workers=options.workers, persistent_workers=True, pin_memory=True, prefetch_factor=4)
    while True:
        for images, labels in loader:
            yield images.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)


def dali(options: Any) -> Iterator[Any]:
    """With the GPU's decoders, 16-bit results, and the share of hardware that its documentation gives."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIClassificationIterator

    @pipeline_def(batch_size=options.batch, num_threads=options.workers, device_id=0, prefetch_queue_depth=3)
    def made() -> Any:
        jpegs, labels = fn.readers.file(file_root=str(options.pictures), random_shuffle=True, name="reader",
                                        initial_fill=2048)
        images = fn.decoders.image_random_crop(jpegs, device="mixed", random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3], hw_decoder_load=0.75)
        images = fn.resize(images, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), output_layout="CHW",
                                        dtype=types.UINT8), labels.gpu()

    pipeline = made()
    pipeline.build()
    while True:
        for (batch,) in DALIClassificationIterator(pipeline, reader_name="reader", auto_reset=True):
            yield batch["data"], batch["label"].squeeze(1).long()


SYSTEMS: dict[str, Callable[[Any], Iterator[Any]]] = {
    "synthetic": synthetic, "batchflow": batchflow, "dali": dali, "pytorch": pytorch}


def _tree() -> list[int]:
    """This process, and all that descend from it or were started for it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass
    named = [process for process in parents if _name(process).startswith("batchflow")]
    chosen = [os.getpid(), *named]
    for process in chosen:
        chosen += [child for child, parent in parents.items() if parent == process and child not in chosen]
    return chosen


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return ""


def _cpu_seconds() -> float:
    total = 0.0
    for process in _tree():
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            pass
    return total


def train(options: Any) -> dict[str, Any]:
    import torch
    import torchvision
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1) * 255
    factor = 1 / (torch.tensor(STD, device="cuda").view(1, 3, 1, 1) * 255)
    batches = SYSTEMS[options.one](options)

    def step(images: Any, labels: Any) -> None:
        images = ((images.float() - mean) * factor).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in range(options.warm_up):
        step(*next(batches))
    torch.cuda.synchronize()
    cpu, began, waits, marks = _cpu_seconds(), time.monotonic(), [], []
    for _ in range(options.steps):
        asked = time.monotonic()
        images, labels = next(batches)
        waits.append(time.monotonic() - asked)
        mark = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        mark[0].record()
        step(images, labels)
        mark[1].record()
        marks.append(mark)
        if len(marks) > 2:  # a step ahead of the GPU, as jobs are that log their loss
            marks[-3][1].synchronize()
    torch.cuda.synchronize()
    took = time.monotonic() - began
    pictures = options.steps * options.batch
    busy = sum(begin.elapsed_time(end) for begin, end in marks) / 1000
    waits.sort()
    return {"system": options.one, "pictures_s": pictures / took, "gpu_busy": busy / took,
            "cpu_ms_picture": (_cpu_seconds() - cpu) / pictures * 1000,
            "wait_p50_ms": waits[len(waits) // 2] * 1000, "wait_p99_ms": waits[len(waits) * 99 // 100] * 1000,
            "device": torch.cuda.get_device_name()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, required=True, help="folder of folders of JPEGs")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="of " + ", ".join(SYSTEMS))
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--warm-up", type=int, default=30)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each system")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=list(SYSTEMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train(options)))
        sys.stdout.flush()
        os._exit(0)  # a system's threads may never end
    rows = []
    print(f"{'system':<12}{'pictures/s':>12}{'of synthetic':>14}{'GPU busy':>10}{'CPU ms':>9}"
          f"{'wait p50':>10}{'p99 ms':>9}", flush=True)
    for system in options.systems.split(","):
        with tempfile.TemporaryFile("w+") as errors:
            try:
                ran = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", system],
                                     stdout=subprocess.PIPE, stderr=errors, timeout=options.timeout, check=True)
                row = json.loads(ran.stdout.splitlines()[-1])
            except (subprocess.SubprocessError, ValueError, IndexError) as problem:
                errors.seek(0)
                print(f"{system:<12}did not run: {problem}; {errors.read()[-1500:]}", flush=True)
                continue
        rows.append(row)
        of = rows[0]["pictures_s"] if rows[0]["system"] == "synthetic" else float("nan")
        print(f"{system:<12}{row['pictures_s']:>12.0f}{row['pictures_s'] / of:>13.1%} {row['gpu_busy']:>9.1%}"
              f"{row['cpu_ms_picture']:>9.2f}{row['wait_p50_ms']:>10.2f}{row['wait_p99_ms']:>9.2f}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
