"""What training loops get of a Dataset in Python: from BatchFlow's service, which makes a sample once
for all jobs and keeps it, and from PyTorch's DataLoader with as many workers.

    main.py [--quick] [--rounds N] [--epochs N] [--jobs LIST] [--rows N] [--work-us N] [--random]
            [--json FILE]

The Dataset has rows of NumPy of 4 KiB, and its __getitem__ computes for so many microseconds. Each
job is a process of its own that computes nothing, and goes through all epochs. PyTorch's jobs have
`num_workers` such that all together have as many as there are cores, at least one each; BatchFlow's
service has one worker a core. The two run in turn, round by round; the service is a new one each
time, and the time to begin (trying the Dataset, starting workers) counts. With --random the Dataset
draws, so that nothing is kept.

A rate is samples of all jobs a second, from the first that begins to the last that ends. A ratio is
BatchFlow's rate over PyTorch's in the same round: the middle one, and in brackets the least and the
most. `first epoch` is the same of the first epoch, with all that it takes to begin, and `others` of
the epochs behind it.

Exit code 1: an epoch did not have each sample once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import environment
from service import Service

LOOPS = ("batchflow", "torch")


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench datasets")
    parser.add_argument("--quick", action="store_true", help="one short round, to look at")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, turn by turn")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--jobs", type=numbers, default=[1, 4])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--work-us", type=int, default=100, help="of a __getitem__")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--random", action="store_true", help="the Dataset draws")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures, run by run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.epochs, arguments.rows = 1, 2, 500
    return arguments


# -------------------------------------------------------------------- in a process of its own ----

def job(work: dict[str, Any]) -> None:
    """Says when it begins and, after each epoch, the time."""
    import torch
    from rows import Rows
    dataset = Rows(work["rows"], work["work_us"], work["random"])
    torch.set_num_threads(1)
    print(json.dumps(time.time()), flush=True)
    sys.stdin.readline()
    times = [time.time()]
    if work["loop"] == "batchflow":
        import batchflow
        loader: Any = batchflow.DataLoader(dataset, work["batch"], True)
        if type(loader) is not batchflow.DataLoader:
            sys.exit("the service did not load the Dataset")
    else:
        loader = torch.utils.data.DataLoader(dataset, work["batch"], True,
                                             num_workers=work["workers"], persistent_workers=True)
    for _ in range(work["epochs"]):
        seen = torch.cat([labels.clone() for _, labels in loader])
        times.append(time.time())
        if not torch.equal(seen.sort().values, torch.arange(work["rows"])):
            sys.exit("an epoch did not have each sample once")
    print(json.dumps(times), flush=True)


# ----------------------------------------------------------------------------------- the table ----

def run(work: dict[str, Any], jobs: int) -> dict[str, float]:
    processes = [subprocess.Popen([sys.executable, __file__, "--one", json.dumps(work)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for _ in range(jobs)]
    for one in processes:
        assert one.stdout is not None
        one.stdout.readline()  # it has imported what it needs
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    times = [json.loads(one.communicate()[0] or "[]") for one in processes]
    if any(one.returncode for one in processes):
        sys.exit("a job failed; its words are above")
    begin = min(one[0] for one in times)
    samples = jobs * work["rows"]
    end = max(one[-1] for one in times)
    return {"samples_per_s": samples * work["epochs"] / (end - begin),
            "first_per_s": samples / (max(one[1] for one in times) - begin),
            "others_per_s": samples * (work["epochs"] - 1) / (end - min(one[1] for one in times))}


def line(jobs: int, runs: dict[str, list[dict[str, float]]]) -> list[str]:
    def ratios(name: str) -> list[float]:
        return [ours[name] / theirs[name] for ours, theirs in zip(*(runs[loop] for loop in LOOPS))]

    rates = [statistics.median(one["samples_per_s"] for one in runs[loop]) for loop in LOOPS]
    return [str(jobs), *(f"{rate:,.0f}" for rate in rates),
            *(environment.spread(ratios(name), ".2f")
              for name in ("samples_per_s", "first_per_s", "others_per_s"))]


def main() -> None:
    arguments = parse()
    sys.path.insert(0, str(HERE))
    if arguments.one:
        job(json.loads(arguments.one))
        return
    environment.use("datasets", {"numpy": "numpy", "torch": "torch"})
    cores = len(os.sched_getaffinity(0))
    table = [["jobs", "samples/s", "of PyTorch", "ratio", "first epoch", "others"]]
    kept = []
    for jobs in arguments.jobs:
        work = {"rows": arguments.rows, "work_us": arguments.work_us, "random": arguments.random,
                "epochs": arguments.epochs, "batch": arguments.batch,
                "workers": max(1, cores // jobs)}
        runs: dict[str, list[dict[str, float]]] = {loop: [] for loop in LOOPS}
        for _ in range(arguments.rounds):
            for loop in LOOPS:
                with tempfile.TemporaryDirectory(prefix="batchflow-") as name:
                    folder = Path(name)
                    os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
                    with Service(folder, "--memory", "2gib", "--workers", str(cores)):
                        runs[loop].append(run({**work, "loop": loop}, jobs))
        kept.append({"jobs": jobs, **work, **runs})
        table.append(line(jobs, runs))
        print(" | ".join(table[-1]), file=sys.stderr, flush=True)
    environment.report(table, kept, arguments.json)


if __name__ == "__main__":
    main()
