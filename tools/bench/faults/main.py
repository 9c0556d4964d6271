"""What each class of recorded faults costs jobs, in a simulated cluster of 400 nodes.

    main.py TRACE [--first DAY] [--days N] [--seeds N] [--busy PART] [--steps N] [--least N] [--json FILE]

TRACE is a trace of faults that `batchflow-sim trace faults` reads; --first and --days choose a part of it. Jobs are
made by the seed, for as long as that lasts: pretraining on 256 GPUs for some 5 days, training on 64 for a day, and
jobs of 8 GPUs for half a day, by 9 : 9 : 2 of the GPU time. They are replayed with all faults, with none, and with all
but those of one class. What a class costs is the difference, with 95 % intervals over the seeds: jobs, and the node
that has the faults of a node of the trace, are the same in all runs of a seed. Nodes that are down when the part
begins are down in all runs. A job that loses a node moves to other GPUs.

Exit code 1: a run has jobs that were not done.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import environment  # noqa: E402

SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")
DAY = 86400
GPUS_A_NODE = 8
# 97.5 % of Student's t with so many degrees of freedom; beyond the list it is near the normal one.
STUDENT = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
# In the format of the traces, for --quick: GPU, NIC and power of three nodes, within a day and a half.
MADE = [("a", .2, .3, "GPU"), ("b", .4, .9, "GPU"), ("c", .5, .8, "NIC"), ("a", .8, 1.2, "GPU"),
        ("b", 1.1, 1.3, "Power Supply"), ("c", 1.0, 1.0, "NIC")]


class Kind(NamedTuple):
    """Jobs of one kind: how many nodes each needs, for how long, and their part of all GPU time."""

    name: str
    nodes: int
    days: float
    part: float


LARGE = [Kind("pretraining", 32, 5, 0.45), Kind("training", 8, 1, 0.45), Kind("tuning", 1, 0.5, 0.1)]
SMALL = [Kind("training", 2, 0.25, 0.6), Kind("tuning", 1, 0.1, 0.4)]


def call(words: list[str]) -> str:
    ended = subprocess.run([SIM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        lines = ended.stderr.splitlines()
        what = [line for line in lines if "refused" in line or "error" in line] or lines
        sys.exit("\n".join([f"batchflow-sim {' '.join(words)} ended with {ended.returncode}:", *what[-5:]]))
    return ended.stdout


def write_jobs(path: Path, kinds: list[Kind], nodes: int, days: float, busy: float, seed: int) -> int:
    """A log of jobs that keep so large a part of the GPUs busy, each with the start that it had."""
    draw = random.Random(seed)
    rows = []
    for kind in kinds:
        left = busy * kind.part * nodes * days  # node days
        while left > 0:
            lasts = kind.days * draw.lognormvariate(-0.125, 0.5)  # of mean 1
            left -= kind.nodes * lasts
            start = draw.uniform(0, days)
            user = f"{kind.name}-{draw.randrange(8)}"
            rows.append((start, kind.name, user, lasts, kind.nodes))
    rows.sort()
    with path.open("w") as file:
        print("# BatchFlow jobs 1, times: relative", file=file)
        print("id,name,user,submit_s,start_s,duration_s,gpus,nodes", file=file)
        for index, (start, name, user, lasts, of) in enumerate(rows):
            at = f"{start * DAY:.3f}"
            print(f"{index},{name},{user},{at},{at},{lasts * DAY:.3f},{of * GPUS_A_NODE},{of}", file=file)
    return len(rows)


class Faults:
    """The faults of a part of a trace on nodes of a cluster, which the seed draws."""

    def __init__(self, trace: Path, folder: Path, cluster: list[str], seed: int, first: float, days: float) -> None:
        self.folder = folder
        self.rows: list[dict[str, str]] = []
        path = folder / "all.csv"
        call(["trace", "faults", str(trace), *cluster, "--seed", str(seed), "-o", str(path)])
        with path.open() as file:
            for row in csv.DictReader(file):
                down = float(row["down"]) - first * DAY
                up = float(row["up"]) - first * DAY if row["up"] else math.inf
                if down > days * DAY or up <= 0:
                    continue
                row["down"], row["up"] = f"{down:.3f}", f"{up:.3f}" if up < math.inf else ""
                self.rows.append(row)

    def classes(self, days: float) -> dict[str, tuple[int, float]]:
        """How many faults begin, and for how many hours nodes are down for them within the days."""
        found: dict[str, tuple[int, float]] = {}
        for row in self.rows:
            down = float(row["down"])
            if down >= 0:
                up = min(float(row["up"] or math.inf), days * DAY)
                faults, hours = found.get(name_of(row), (0, 0.0))
                found[name_of(row)] = faults + 1, hours + max(0.0, up - down) / 3600
        return found

    def without(self, label: str, classes: list[str]) -> Path:
        path = self.folder / f"{label}.csv"
        with path.open("w") as file:
            writer = csv.DictWriter(file, ["node", "down", "up", "level", "class"])
            writer.writeheader()
            writer.writerows(row for row in self.rows
                             if name_of(row) not in classes or float(row["down"]) < 0)
        return path


def name_of(row: dict[str, str]) -> str:
    return f"{row['level']}: {row['class']}" if row["level"] else row["class"]


def simulate(words: list[str]) -> dict[str, float]:
    run = json.loads(call(["replay", *words, "--scheduler", "recorded", "--json"]))["runs"][0]
    undone = [job["name"] for job in run["jobs"] if job["state"] != "done"]
    if undone:
        sys.exit(f"{' '.join(words)}: {len(undone)} jobs were not done, first {undone[0]}")

    def gpu_hours(field: str) -> float:
        return sum(job[field] * job["ranks"] for job in run["jobs"]) / 3600
    total = run["aggregate"]
    return {
        "jobs": len(run["jobs"]),
        "struck": sum(fault["struck"] for fault in run["faults"]),
        "computed": gpu_hours("compute_s"),
        "stalled": gpu_hours("stall_s"),
        "idle": gpu_hours("idle_s"),
        "down": gpu_hours("down_s"),
        "moves": sum(job["restarts"] for job in run["jobs"]),
        "prepared": total["preparations"],
        "read": total["storage_bytes"],
        "fetched": total["network_bytes"],
        "remade": total["remade_blocks"],
        "wall_s": run["wall_s"],
    }


def difference(with_it: list[dict[str, float]], without: list[dict[str, float]], name: str,
               scale: float = 1, digits: int = 1) -> str:
    values = [(a[name] - b[name]) * scale for a, b in zip(with_it, without, strict=True)]
    mean = f"{statistics.fmean(values):,.{digits}f}"
    if len(values) < 2:
        return mean
    student = STUDENT[min(len(values), len(STUDENT)) - 1]
    margin = student * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} ± {margin:,.{digits}f}"


def cost(with_it: list[dict[str, float]], without: list[dict[str, float]]) -> list[str]:
    return [difference(with_it, without, "moves", digits=0), difference(with_it, without, "stalled"),
            difference(with_it, without, "idle"), difference(with_it, without, "down"),
            difference(with_it, without, "prepared", 1e-6, 2), difference(with_it, without, "read", 1e-12, 2)]


HEADER = ["class", "faults", "node h", "moves", "GPU h stalled for data", "GPU h idle", "GPU h without GPUs",
          "M samples prepared again", "TB read again"]


def made_trace(path: Path) -> Path:
    events = []
    for node, start, end, kind in MADE:
        for time, what in ((start, "start"), (end, "end")):
            events.append({"node_id": node, "event_time": time, "event_type": f"fault_{what}",
                           "fault_type": {"Level": "Hardware Failure", "Class": kind, "Desc": "made"}})
    events.sort(key=lambda event: event["event_time"])
    path.write_text(json.dumps(events, indent=1))
    return path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench faults", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", metavar="TRACE", help="a trace of faults")
    parser.add_argument("--quick", action="store_true",
                        help="a made trace of a few faults on four nodes, for the tests")
    parser.add_argument("--first", type=float, default=0, metavar="DAY", help="of the trace, with which it begins")
    parser.add_argument("--days", type=float, metavar="N", help="of the trace (default: all)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--busy", type=float, default=0.5, metavar="PART", help="of the GPUs, by jobs")
    parser.add_argument("--cluster", default="pretraining", help="a file, or a name of configs/clusters")
    parser.add_argument("--nodes", type=int, default=400, metavar="N", help="of the cluster")
    parser.add_argument("--overlay", default="mixed", help="what jobs train on")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="of a job of an hour, about")
    parser.add_argument("--least", type=int, default=3, metavar="N",
                        help="classes of fewer faults are taken together")
    parser.add_argument("--json", metavar="FILE", help="all figures, for programs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.nodes, arguments.seeds, arguments.least = 4, 2, 2
        arguments.first, arguments.days = 0, None
    elif not arguments.trace:
        parser.error("name a TRACE of faults, or write --quick")
    return arguments


def main() -> None:
    arguments = parse()
    cluster = ["--cluster", arguments.cluster, "--set", f"cluster.nodes.0.count={arguments.nodes}"]
    with tempfile.TemporaryDirectory(prefix="batchflow-faults-") as made:
        folder = Path(made)
        trace = made_trace(folder / "made.json") if arguments.quick else Path(arguments.trace)
        known = json.loads(call(["trace", "faults", str(trace), "--json"]))
        days = arguments.days or known["last_event_s"] / DAY - arguments.first
        folder_of = {seed: folder / str(seed) for seed in range(1, arguments.seeds + 1)}
        faults_of = {}
        for seed, of_seed in folder_of.items():
            of_seed.mkdir()
            faults_of[seed] = Faults(trace, of_seed, cluster, seed, arguments.first, days)
        groups: dict[str, list[str]] = {}
        counts: dict[str, tuple[int, float]] = {}
        for name, (faults, hours) in sorted(faults_of[1].classes(days).items()):
            label = name if faults >= arguments.least else "other classes"
            groups.setdefault(label, []).append(name)
            of_label = counts.get(label, (0, 0.0))
            counts[label] = of_label[0] + faults, of_label[1] + hours
        if "other classes" in groups:  # last
            groups["other classes"] = groups.pop("other classes")
        everything = [name for names in groups.values() for name in names]
        variants = {"all": [], "none": everything, **groups}
        found: dict[str, list[dict[str, float]]] = {label: [] for label in variants}
        for seed, of_seed in folder_of.items():
            log = of_seed / "jobs.csv"
            write_jobs(log, SMALL if arguments.quick else LARGE, arguments.nodes, days, arguments.busy, seed)
            faults = faults_of[seed]
            for index, (label, classes) in enumerate(variants.items()):
                lost = faults.without(str(index), classes)
                words = [str(log), *cluster, "--overlay", arguments.overlay, "--seed", str(seed), "--steps",
                         str(arguments.steps), "--set", "after_loss=moves", "--faults", str(lost)]
                found[label].append(simulate(words))
                last = found[label][-1]
                print(f"seed {seed}, {'without ' if classes else ''}{label}: {last['wall_s']:.0f} s, "
                      f"{last['jobs']:.0f} jobs, {last['struck']:.0f} losses, "
                      f"{last['stalled']:,.1f} GPU h stalled", file=sys.stderr, flush=True)
    whole, none = found["all"], found["none"]

    def mean(runs: list[dict[str, float]], name: str) -> float:
        return statistics.fmean(run[name] for run in runs)
    print(f"{days:.1f} days, {mean(none, 'jobs'):,.0f} jobs on {arguments.nodes} nodes, {arguments.seeds} seeds. "
          f"Without faults GPUs compute {mean(none, 'computed'):,.0f} h, are stalled for data "
          f"{mean(none, 'stalled'):,.0f} h and idle {mean(none, 'idle'):,.0f} h; "
          f"{mean(none, 'prepared') / 1e6:,.0f} M samples are prepared, and "
          f"{mean(none, 'read') / 1e12:,.0f} TB read.")
    rows = [HEADER]
    for label in groups:
        rows.append([label, str(counts[label][0]), f"{counts[label][1]:,.0f}", *cost(whole, found[label])])
    rows.append(["all", str(sum(faults for faults, _ in counts.values())),
                 f"{sum(hours for _, hours in counts.values()):,.0f}", *cost(whole, none)])
    environment.show(rows)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
