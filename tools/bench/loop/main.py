"""What a training loop in Python gets of batches that are small: rows of a .npy file that are kept
in memory, from BatchFlow and from a loop over numpy.load(mmap_mode="r") as a user would write it.

    main.py [--quick] [--rounds N] [--seconds N] [--row-bytes LIST] [--batches LIST]
            [--outputs LIST] [--prefetch N] [--receipts] [--json FILE]

Each figure is of a process of its own that computes nothing; the two loops run in turn, round by
round. Both are shuffled anew each epoch and give tensors (or arrays, with output `numpy`). NumPy's
loop copies the rows of a batch from the page cache, which is `rows[order[i:i + size]]`. BatchFlow's
batches are in place, and its service works in a process beside it. A ratio is BatchFlow's rate over
NumPy's in the same round: the middle one, and in brackets the least and the most. CPU is that of the
loop's process.

Exit code 1: BatchFlow's first epoch did not have each row once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import environment
from service import Service

LOOPS = ("batchflow", "numpy")
ROWS = 65536  # of 4 KB: 256 MiB, which the service keeps, and so does the page cache
WARM_S = 0.5
ASKED_AT_ONCE = 64  # batches between two looks at the clock


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench loop")
    parser.add_argument("--quick", action="store_true", help="one short round, to look at")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each, turn by turn")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run, after a warm-up")
    parser.add_argument("--row-bytes", type=numbers, default=[64, 4096])
    parser.add_argument("--batches", type=numbers, default=[1, 8, 64, 256], help="rows of a batch")
    parser.add_argument("--outputs", default="torch", help="torch, numpy or both")
    parser.add_argument("--prefetch", type=int, help="prefetch_factor of BatchFlow's loader")
    parser.add_argument("--receipts", action="store_true", help="BatchFlow's loader writes receipts")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures, run by run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.1
        arguments.row_bytes, arguments.batches = arguments.row_bytes[:1], arguments.batches[:2]
    arguments.outputs = arguments.outputs.split(",")
    if not set(arguments.outputs) <= {"torch", "numpy"}:
        parser.error("--outputs: write torch, numpy or both")
    return arguments


def write_rows(folder: Path, row_bytes: int, rows: int) -> None:
    import numpy
    width = row_bytes // 4
    folder.mkdir()
    numpy.save(folder / "rows.npy",
               numpy.arange(rows * width, dtype=numpy.float32).reshape(rows, width))


# -------------------------------------------------------------------- in a process of its own ----

def numpy_epochs(folder: Path, size: int, output: str) -> Iterator[Any]:
    import numpy
    rows = numpy.load(folder / "rows.npy", mmap_mode="r")
    if output == "torch":
        import torch
    while True:
        order = numpy.random.permutation(len(rows))
        for i in range(0, len(rows), size):
            batch = rows[order[i:i + size]]
            yield torch.from_numpy(batch) if output == "torch" else batch


def batchflow_epochs(folder: Path, size: int, output: str, prefetch: Any,
                     receipts: bool) -> Iterator[Any]:
    import batchflow
    more: dict[str, Any] = {} if prefetch is None else {"num_workers": 1, "prefetch_factor": prefetch}
    if receipts:
        more["receipts"] = tempfile.mkdtemp(dir=folder.parent)
    loader: Any = batchflow.DataLoader(str(folder), size, True, output=output, **more)
    while True:
        for (rows,) in loader:
            yield rows


def check(folder: Path, size: int) -> None:
    """An epoch has each row once. A row's first number is the row's index times its width."""
    import batchflow
    import numpy
    rows = numpy.load(folder / "rows.npy", mmap_mode="r")
    seen = [numpy.array(batch[0][:, 0]) for batch in
            batchflow.DataLoader(str(folder), size, True, output="numpy")]
    if not (numpy.sort(numpy.concatenate(seen)) == rows[:, 0]).all():
        sys.exit("an epoch of BatchFlow did not have each row once")


def measure(work: dict[str, Any]) -> dict[str, float]:
    folder, size, output = Path(work["folder"]), work["size"], work["output"]
    batches = (numpy_epochs(folder, size, output) if work["loop"] == "numpy" else
               batchflow_epochs(folder, size, output, work["prefetch"], work["receipts"]))
    take(batches, WARM_S * min(1, work["seconds"]))
    cpu = time.process_time()
    given, samples, seconds = take(batches, work["seconds"])
    return {"batches_per_s": given / seconds, "rows_per_s": samples / seconds,
            "cpu_us": (time.process_time() - cpu) / given * 1e6}


def take(batches: Iterator[Any], seconds: float) -> tuple[int, int, float]:
    """Batches, rows, and seconds. As in a training loop, one batch is held when the next comes."""
    given = samples = 0
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds:
        for rows in itertools.islice(batches, ASKED_AT_ONCE):
            samples += len(rows)
        given += ASKED_AT_ONCE
    return given, samples, time.perf_counter() - begin


# ----------------------------------------------------------------------------------- the table ----

def run(work: dict[str, Any]) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--one", json.dumps(work)], check=True,
                          stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def line(case: dict[str, Any], runs: dict[str, list[dict[str, float]]]) -> list[str]:
    def values(loop: str, name: str) -> list[float]:
        return [one[name] for one in runs[loop]]

    ratios = [ours / theirs for ours, theirs in zip(values("batchflow", "rows_per_s"),
                                                    values("numpy", "rows_per_s"))]
    return [f"{case['row_bytes']} B, {case['size']}, {case['output']}",
            *(format(statistics.median(values(loop, "batches_per_s")), ",.0f") for loop in LOOPS),
            environment.spread(ratios, ".2f"),
            *(environment.spread(values(loop, "cpu_us"), ".1f") for loop in LOOPS)]


def main() -> None:
    arguments = parse()
    if arguments.one:
        print(json.dumps(measure(json.loads(arguments.one))))
        return
    environment.use("loop", {"numpy": "numpy", **({"torch": "torch"} if "torch" in arguments.outputs
                                                   else {})})
    table = [["rows of, rows a batch, output", "batches/s", "of NumPy", "ratio",
              "CPU us a batch", "of NumPy"]]
    kept = []
    with tempfile.TemporaryDirectory(prefix="batchflow-") as name:
        folder = Path(name)
        with Service(folder, "--memory", "2gib"):
            for row_bytes in arguments.row_bytes:
                data = folder / f"rows-{row_bytes}"
                write_rows(data, row_bytes, 2048 if arguments.quick else ROWS)
                check(data, 64)
                for output, size in itertools.product(arguments.outputs, arguments.batches):
                    case = {"row_bytes": row_bytes, "size": size, "output": output}
                    runs: dict[str, list[dict[str, float]]] = {loop: [] for loop in LOOPS}
                    for _, loop in itertools.product(range(arguments.rounds), LOOPS):
                        runs[loop].append(run({**case, "loop": loop, "folder": str(data),
                                               "seconds": arguments.seconds,
                                               "prefetch": arguments.prefetch,
                                               "receipts": arguments.receipts}))
                    kept.append({**case, **runs})
                    table.append(line(case, runs))
                    if arguments.rounds > 1:
                        print(" | ".join(table[-1]), file=sys.stderr, flush=True)
    environment.report(table, kept, arguments.json)


if __name__ == "__main__":
    main()
