"""BatchFlow beside other loaders: the same pictures, augmentation, types and shapes; see
docs/benchmarks.md.

    main.py [--quick] [--peers LIST] [--jobs LIST] [--row-jobs LIST] [--rounds N] [--pictures N]
            [--rows N] [--seconds N] [--json FILE [--go-on]] [--write FILE] [--plot FILE]

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
import rows
import runs
import took

PEERS = ["batchflow_default", "batchflow_", "batchflow_small", "pytorch", "torchvision_io",
         "opencv", "tfdata", "tfdata_service", "dali", "tensorsocket_", "ray_data",
         "mosaicml", "litdata_", "ffcv_", "webdataset_", "grain_", "spdl_", "numpy_mmap"]
# Seconds a batch of four models that train at once: shufflenetv2, resnet18, resnet50, vgg16.
PACED = [0.0625, 0.104, 0.339, 0.515]
PACED_FOR_S = 10
DEMANDS = [0.5, 1, 2]
LATE_AFTER_S = 3
ROW_BYTES = [64, 4096]
START_EPOCHS = 3  # before what is measured as steady, of jobs that do not sleep


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench peers")
    parser.add_argument("--quick", action="store_true",
                        help="one round of 512 pictures, 2048 rows and few jobs, to look at")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of " + ",".join(PEERS))
    parser.add_argument("--jobs", default="1,2,4,8", help="numbers of jobs at once")
    parser.add_argument("--row-jobs", default="1,8,64", help="the same, of rows")
    parser.add_argument("--types", default="uint8,float32")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, turn by turn")
    parser.add_argument("--pictures", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=rows.COUNT)
    parser.add_argument("--seconds", type=float, default=5,
                        help="seconds to measure at least, in whole epochs, after the first three")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-paced", action="store_true", help="no jobs that sleep or come late")
    parser.add_argument("--no-pictures", action="store_true", help="only rows")
    parser.add_argument("--no-rows", action="store_true", help="only pictures")
    parser.add_argument("--json", metavar="FILE", help="keeps the results, run by run")
    parser.add_argument("--go-on", action="store_true",
                        help="with --json: with what is in it, if that was cut short or is to "
                        "have more rounds")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this Markdown file")
    parser.add_argument("--plot", metavar="FILE", help="draws them as SVG")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.pictures, arguments.jobs = 1, 512, "1,4"
        arguments.seconds, arguments.rows, arguments.row_jobs = 1, 2048, "1,8"
    arguments.peers = arguments.peers.split(",")
    unknown = set(arguments.peers) - set(PEERS)
    if unknown:
        parser.error(f"no peers {', '.join(sorted(unknown))}, but: {', '.join(PEERS)}")
    for name in ("jobs", "row_jobs"):
        text = getattr(arguments, name)
        try:
            setattr(arguments, name, [int(number) for number in text.split(",")])
        except ValueError:
            parser.error(f"--{name.replace('_', '-')} {text}: write numbers, as 1,4")
    if arguments.go_on and not arguments.json:
        parser.error("--go-on wants --json FILE")
    arguments.types = arguments.types.split(",")
    if not set(arguments.types) <= {"uint8", "float32"}:
        parser.error("--types: write uint8, float32 or both")
    return arguments


def cases_of(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    return [*([] if arguments.no_pictures else cases_of_pictures(arguments)),
            *([] if arguments.no_rows else cases_of_rows(arguments))]


def cases_of_rows(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    return [{"what": "rows", "type": "float32", "row_bytes": row_bytes, "jobs": jobs}
            for row_bytes in ROW_BYTES for jobs in arguments.row_jobs]


def takes_part(module: Any, case: dict[str, Any]) -> bool:
    if case["what"] != "rows":
        return hasattr(module, "epochs")
    jobs: int = case["jobs"]
    return hasattr(module, "rows") and jobs <= getattr(module, "ROW_JOBS_MOST", jobs)


def cases_of_pictures(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    first, *others = arguments.types
    cases: list[dict[str, Any]] = [{"what": "speed", "type": first, "jobs": jobs}
                                   for jobs in arguments.jobs]
    # How jobs share does not depend on the type.
    cases += [{"what": "speed", "type": kind, "jobs": jobs} for kind in others
              for jobs in arguments.jobs if jobs in (1, 4) or jobs == arguments.jobs[0]]
    if not arguments.no_paced:
        cases += [{"what": "demand", "type": first, "jobs": len(PACED), "demand": demand}
                  for demand in DEMANDS]
        cases.append({"what": "late", "type": first, "jobs": 2})
    return cases


def sleeps_s(demand: float, rate: float, batch: int) -> list[float]:
    """The sleep of each job after a batch: all ask for `demand` times `rate` samples a second."""
    scale = sum(batch / seconds for seconds in PACED) / (demand * rate)
    return [seconds * scale for seconds in PACED]


def run(case: dict[str, Any], python: str, peer: Any, options: dict[str, Any],
        rate: float) -> dict[str, Any]:
    if case["what"] == "late":
        return runs.run_late(python, peer, options, PACED[0], LATE_AFTER_S)
    if case["what"] == "demand":
        return runs.run(python, peer, options, sleeps_s(case["demand"], rate, options["batch"]),
                        PACED_FOR_S)
    return runs.run(python, peer, options, [0.0] * case["jobs"], options["seconds"])


def rate_of_one(measured: dict[str, Any]) -> float:
    """The rate of one job at full speed in the first round, of PyTorch if it was measured."""
    ran = {result["peer"]: result["runs"][0]["samples_per_s"]
           for result in reversed(measured["results"])
           if result["what"] == "speed" and result["runs"]
           and result["type"] == measured["types"][0]}
    rate: float = ran.get("PyTorch DataLoader", next(iter(ran.values()), 500.0))
    return rate


def turns(arguments: argparse.Namespace,
          peers: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Each case with each peer that takes part in it, in the order of a round."""
    return [(case, name) for case in cases_of(arguments) for name, module in peers.items()
            if takes_part(module, case)]


def plan(arguments: argparse.Namespace, peers: dict[str, Any], data: Path) -> dict[str, Any]:
    """The measurement to make, or the one that was begun."""
    fresh = {"date": str(datetime.date.today()), "machine": environment.machine(),
             "pictures": arguments.pictures, "bytes_mean": pictures.mean_bytes(data),
             "rows": arguments.rows, "batch": arguments.batch, "seconds": arguments.seconds,
             "types": arguments.types, "rounds": 0, "results": [
                 {**case, "peer": peers[name].TITLE, "guarantee": peers[name].GUARANTEE,
                  "runs": [], "failed": None} for case, name in turns(arguments, peers)]}
    if not arguments.go_on or not Path(arguments.json).exists():
        return fresh
    begun: dict[str, Any] = json.loads(Path(arguments.json).read_text())

    def what(measured: dict[str, Any]) -> Any:
        return [{name: measured[name] for name in measured if name not in (
            "date", "rounds", "results", "absent", "converted", "command")}] + [
            {**result, "runs": 0, "failed": 0} for result in measured["results"]]
    if what(begun) != what(fresh):
        sys.exit(f"{arguments.json} is of other peers, cases, options or another machine; measure "
                 "without --go-on, or into another file")
    return begun


def measure(arguments: argparse.Namespace, folder: Path, scratch: str) -> dict[str, Any]:
    data = pictures.make(folder, arguments.pictures)
    peers, pythons, absent, converted = {}, {}, {}, {}
    cores = len(os.sched_getaffinity(0))
    os.environ["PYTHONPATH"] = runs.python_path()
    for name in arguments.peers:
        module = importlib.import_module("peers." + name)
        python, problem = runs.interpreter_of(module, environment.install)
        if problem:
            absent[module.TITLE] = problem
            continue
        try:
            seconds = None if arguments.no_pictures else runs.convert(
                python, module, {"peer": name, "data": str(data), "cores": cores,
                                 "scratch": scratch, "store": str(folder)})
        except runs.Failed as failed:
            absent[module.TITLE] = f"it cannot convert the pictures: {failed}"
            continue
        if seconds is not None:
            converted[module.TITLE] = seconds
        peers[name], pythons[name] = module, python
    measured = plan(arguments, peers, data)
    measured.update(absent=absent, converted=converted,
                    command=" ".join(["./dev bench peers", *sys.argv[1:]]))
    results = measured["results"]
    names = [name for _, name in turns(arguments, peers)]
    hung: dict[str, str] = {}
    while measured["rounds"] < arguments.rounds:
        for name, result in zip(names, results):
            if name in hung and not result["runs"]:
                result["failed"] = result["failed"] or f"not tried again, since {hung[name]}"
            is_enough = (result["what"] == "demand" and
                         len(result["runs"]) >= report.ROUNDS_OF_DEMAND)
            if result["failed"] or is_enough or len(result["runs"]) > measured["rounds"]:
                continue
            options = {"peer": name, "batch": arguments.batch, "seconds": arguments.seconds,
                       "jobs": result["jobs"], "cores": cores,
                       "workers": max(1, cores // result["jobs"]),
                       "start_epochs": START_EPOCHS if result["what"] in report.FULL_SPEED else 1,
                       "scratch": scratch, "store": str(folder),
                       **data_of(result, arguments, data, folder)}
            try:
                result["runs"].append(run(result, pythons[name], peers[name], options,
                                          rate_of_one(measured)))
            except runs.Failed as problem:
                result["failed"] = str(problem)
                if isinstance(problem, runs.Hung):
                    hung[name] = str(problem)
            print(f"round {measured['rounds'] + 1}: {report.line(result)}", file=sys.stderr,
                  flush=True)
            keep(arguments, measured)
        measured["rounds"] += 1
        keep(arguments, measured)
    return measured


def data_of(case: dict[str, Any], arguments: argparse.Namespace, pictures_at: Path,
            folder: Path) -> dict[str, Any]:
    """What a case reads, which is in the page cache then."""
    if case["what"] == "rows":
        made = rows.make(folder, case["row_bytes"], arguments.rows)
        rows.warm(made)
        return {"data": str(made), "rows": arguments.rows, "row_bytes": case["row_bytes"]}
    pictures.warm(pictures_at)
    return {"data": str(pictures_at), "rows": 0, "pictures": arguments.pictures,
            "float": case["type"] == "float32"}


def keep(arguments: argparse.Namespace, measured: dict[str, Any]) -> None:
    if arguments.json:
        file = Path(arguments.json)
        file.with_suffix(".new").write_text(json.dumps(measured, indent=1))
        file.with_suffix(".new").replace(file)


def main() -> int:
    arguments = parse()
    # A signal from outside ends its peers, too.
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    environment.use("peers", {"numpy": "numpy", "PIL": "pillow"})
    took.adopt_orphans()
    folder = environment.BUILD / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="batchflow-peers-") as scratch:
        measured = measure(arguments, folder.absolute(), scratch)
    for title, table in report.tables(measured):
        print(f"\n{title}")
        environment.show(table)
    for line in report.notes(measured):
        print(line)
    if arguments.plot:
        Path(arguments.plot).write_text(plot.svg(measured))
    if arguments.write:
        environment.write_part(Path(arguments.write), report.page(measured))
    return 0 if report.is_once(measured, "BatchFlow, ") else 1


if __name__ == "__main__":
    sys.exit(main())
