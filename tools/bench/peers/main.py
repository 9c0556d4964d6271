"""BatchFlow beside other loaders: the same pictures, augmentation, types and shapes; see
docs/benchmarks.md.

    main.py [--quick] [--peers LIST] [--jobs LIST] [--rounds N] [--pictures N] [--json FILE]
            [--write FILE] [--plot FILE]

Exit code 1: BatchFlow's jobs did not get each sample once an epoch.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import environment
import pictures
import plot
import report
import runs

PEERS = ["batchflow_", "pytorch", "tfdata", "tfdata_service", "tensorsocket_", "ray_data",
         "mosaicml", "webdataset_", "spdl_"]
# Seconds a batch: their ratios are those of four models that train at once.
PACED_S = [0.0625, 0.104, 0.339, 0.515]
PACED_FOR_S = 20


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench peers")
    parser.add_argument("--quick", action="store_true",
                        help="one round of 512 pictures and 1 or 4 jobs, to look at")
    parser.add_argument("--peers", default=",".join(PEERS), help="of " + ",".join(PEERS))
    parser.add_argument("--jobs", default="1,2,4,8", help="how many at once")
    parser.add_argument("--types", default="uint8,float32")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, turn by turn")
    parser.add_argument("--pictures", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=1,
                        help="that are measured, after one to warm up")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-paced", action="store_true", help="no jobs that sleep")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this Markdown file")
    parser.add_argument("--plot", metavar="FILE", help="draws them as SVG")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.pictures, arguments.jobs = 1, 512, "1,4"
    arguments.peers = arguments.peers.split(",")
    unknown = set(arguments.peers) - set(PEERS)
    if unknown:
        parser.error(f"no peers {', '.join(sorted(unknown))}, but: {', '.join(PEERS)}")
    try:
        arguments.jobs = [int(one) for one in arguments.jobs.split(",")]
    except ValueError:
        parser.error(f"--jobs {arguments.jobs}: write numbers, as 1,4")
    arguments.types = arguments.types.split(",")
    if not set(arguments.types) <= {"uint8", "float32"}:
        parser.error("--types: write uint8, float32 or both")
    return arguments


def cases_of(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    cases = [{"type": kind, "jobs": jobs, "sleeps_s": [0.0] * jobs}
             for kind in arguments.types for jobs in arguments.jobs]
    if not arguments.no_paced:
        cases.append({"type": arguments.types[0], "jobs": len(PACED_S), "sleeps_s": PACED_S})
    return cases


def measure(arguments: argparse.Namespace, folder: Path, scratch: str) -> dict[str, Any]:
    data = pictures.make(folder, arguments.pictures)
    peers, pythons, absent = {}, {}, {}
    os.environ["PYTHONPATH"] = runs.python_path()
    for name in arguments.peers:
        module = importlib.import_module("peers." + name)
        python, problem = runs.interpreter_of(module, environment.install)
        if problem:
            absent[module.TITLE] = problem
            continue
        peers[name], pythons[name] = module, python
    cores = len(os.sched_getaffinity(0))
    cases = cases_of(arguments)
    results: list[dict[str, Any]] = [
        {**case, "peer": module.TITLE, "guarantee": module.GUARANTEE, "runs": [], "failed": None}
        for case in cases for module in peers.values()]
    names = [name for _ in cases for name in peers]
    hung: dict[str, str] = {}
    for number in range(arguments.rounds):
        for name, result in zip(names, results):
            if name in hung and not result["runs"]:
                result["failed"] = result["failed"] or f"not tried again, since {hung[name]}"
            if result["failed"]:
                continue
            pictures.warm(data)
            paced = any(result["sleeps_s"])
            options = {"peer": name, "data": str(data), "pictures": arguments.pictures,
                       "batch": arguments.batch, "float": result["type"] == "float32",
                       "epochs": arguments.epochs, "seconds": PACED_FOR_S if paced else 0,
                       "jobs": result["jobs"], "cores": cores, "memory": "4gib",
                       "workers": max(1, cores // result["jobs"]), "scratch": scratch,
                       "store": str(folder)}
            try:
                result["runs"].append(runs.run(pythons[name], peers[name], options,
                                               result["sleeps_s"]))
            except runs.Failed as problem:
                result["failed"] = str(problem)
                if isinstance(problem, runs.Hung):
                    hung[name] = str(problem)
            print(f"round {number + 1}: {report.line(result)}", file=sys.stderr, flush=True)
    return {"date": str(datetime.date.today()), "machine": environment.machine(),
            "command": " ".join(["./dev bench peers", *sys.argv[1:]]),
            "pictures": arguments.pictures, "bytes_mean": pictures.mean_bytes(data),
            "batch": arguments.batch, "rounds": arguments.rounds, "epochs": arguments.epochs,
            "results": results, "absent": absent}


def main() -> int:
    arguments = parse()
    # Ended from outside it ends its peers, too.
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    environment.use("peers", {"numpy": "numpy", "PIL": "pillow"})
    folder = environment.BUILD / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="batchflow-peers-") as scratch:
        measured = measure(arguments, folder.absolute(), scratch)
    for title, rows in report.tables(measured):
        print(f"\n{title}")
        environment.show(rows)
    for line in report.notes(measured):
        print(line)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(measured, indent=1))
    if arguments.plot:
        Path(arguments.plot).write_text(plot.svg(measured))
    if arguments.write:
        environment.write_part(Path(arguments.write), report.page(measured))
    return 0 if report.is_once(measured, "BatchFlow") else 1


if __name__ == "__main__":
    sys.exit(main())
