"""How far is the simulator from what a live service does?

This machine is calibrated once for each dataset. Then each case of cases.yaml runs live, five times
on a service of its own, and simulated from the same file with that calibration. A figure of a case
is the median of its live runs. Where these differ among themselves by more than the bound that is
to be reached, that says nothing, and is called so.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))

import environment  # noqa: E402
from live import Data, Live, Throttle, answer, calibrated  # noqa: E402

SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")
SEEDS = 3
MARK = "<!-- measured: gap -->"


class Figure(NamedTuple):
    name: str
    field: str
    relative: bool   # else the difference counts in points
    bound: float     # of a case
    median: float    # of all cases; 0: none
    of_ones: float = 0  # below that the figure is hardly there, and differences are of this


FIGURES = [Figure("samples/s", "samples_per_s", True, 0.10, 0.02),
           Figure("time", "makespan_s", True, 0.10, 0.02),
           Figure("stall", "stall_fraction", False, 0.03, 0),
           Figure("hits", "hit_ratio", False, 0.01, 0),
           Figure("bytes", "storage_bytes", True, 0.05, 0, 1e6)]


def figures_of(run: dict[str, Any]) -> dict[str, float]:
    return {figure.field: float({**run["aggregate"], "makespan_s": run["makespan_s"]}[figure.field])
            for figure in FIGURES}


# What the model knows of a machine and a service, and what it was without that.
KEYS: dict[str, Any] = {
    "processors": lambda s: s["cluster"]["nodes"][0].pop("processors", None),
    "workers_help": lambda s: s["cluster"]["nodes"][0].pop("workers_help", None),
    "overhead": lambda s: s["cluster"]["nodes"][0].pop("overhead", None),
    "queue": lambda s: s["cluster"]["store"].pop("queue", None),
    "read_bytes": lambda s: s["datasets"][0].pop("read_bytes", None),
    "opens": lambda s: s["datasets"][0].pop("opens", None),
    "kept": lambda s: [step.pop("kept", None) for step in s["pipelines"][0]["steps"]],
    "staging": lambda s: s.pop("engine", None),
}


def without(scenario: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    less: dict[str, Any] = json.loads(json.dumps(scenario))
    for key in keys:
        KEYS[key](less)
    return less


class Cell(NamedTuple):
    live: float
    simulated: float
    gap: float     # (simulated - live) / live, or their difference
    spread: float  # of the live runs, likewise: from the middle to the farthest

    def verdict(self, figure: Figure) -> str:
        if abs(self.gap) <= figure.bound:
            return "within"
        return "inconclusive" if self.spread > figure.bound else "OFF"


def cell_of(figure: Figure, lived: list[float], simulated: list[float]) -> Cell:
    live, sim = statistics.median(lived), statistics.mean(simulated)
    scale = max(abs(live), figure.of_ones, 1e-9) if figure.relative else 1.0
    return Cell(live, sim, (sim - live) / scale, max(abs(one - live) for one in lived) / scale)


def datasets(yaml: Any, wanted: set[str], work: Path, seconds: float) -> dict[str, Data]:
    import numpy
    import pictures
    made = {}
    if "pictures" in wanted:
        made["pictures"] = calibrated(yaml, "pictures",
                                      pictures.make(environment.BUILD / "peers", 1024),
                                      "imagenet-train", 64, work, seconds)
    for name, samples, size, batch in (("rows", 8192, 65536, 64), ("small", 32768, 4096, 128)):
        if name not in wanted:
            continue
        folder = environment.BUILD / "gap" / name
        if not (folder / "samples.npy").exists():
            folder.mkdir(parents=True, exist_ok=True)
            draws = numpy.random.default_rng(samples)
            numpy.save(folder / "samples.npy",
                       draws.integers(0, 256, (samples, size), dtype=numpy.uint8))
        made[name] = calibrated(yaml, name, folder.resolve(), "bytes", batch, work, seconds)
    return made


def scenario_of(case: dict[str, Any], data: Data) -> dict[str, Any]:
    jobs = [{"dataset": "data", "pipeline": data.pipeline_model["name"], "batch": data.batch, **job}
            for job in case["jobs"]]
    gpus = sum(job.get("count", 1) * job.get("ranks", 1) for job in jobs)
    nodes = [{**data.cluster["nodes"][0], "gpus": gpus}]
    return {"name": case["name"], "cluster": {**data.cluster, "nodes": nodes},
            "datasets": [data.dataset], "pipelines": [data.pipeline_model], "jobs": jobs}


def simulated_as(scenario: dict[str, Any], case: dict[str, Any],
                 lived: dict[str, Any]) -> dict[str, Any]:
    """What docs/simulated-and-lived.md says that differs on purpose is told to the simulator."""
    cluster = json.loads(json.dumps(scenario["cluster"]))
    settings = {name: lived["settings"][name]
                for name in ("count_staging", "staging_bytes", "staging_sector_bytes")}
    cluster["nodes"][0]["cache"] = lived["planned_bytes"] + int(settings["staging_bytes"])
    if "store_bytes_per_s" in case:
        cluster["store"]["bytes_per_s"] = case["store_bytes_per_s"]
        cluster["store"].pop("efficiency", None)
    return {**scenario, "cluster": cluster, "engine": settings}


def rank_agreement(rows: dict[tuple[str, str], dict[str, Cell]]) -> tuple[int, int, list[str]]:
    """Of policies of a case that differ by more than 3 % of samples/s in both: the order."""
    pairs, unlike = 0, []
    for (a, one), (b, other) in itertools.combinations(rows.items(), 2):
        if a[0] != b[0]:
            continue
        live = one["samples_per_s"].live / other["samples_per_s"].live - 1
        sim = one["samples_per_s"].simulated / other["samples_per_s"].simulated - 1
        if min(abs(live), abs(sim)) < 0.03:
            continue
        pairs += 1
        if (live < 0) != (sim < 0):
            unlike.append(f"{a[0]}: {a[1]} and {b[1]}")
    return pairs, pairs - len(unlike), unlike


def text_of(figure: Figure, cell: Cell) -> str:
    gap = 100 * cell.gap
    live = {"samples_per_s": f"{cell.live:,.0f}", "makespan_s": f"{cell.live:.2f} s",
            "stall_fraction": f"{100 * cell.live:.1f} %", "hit_ratio": f"{100 * cell.live:.1f} %",
            "storage_bytes": f"{cell.live / 1e6:,.0f} MB"}[figure.field]
    unit = "%" if figure.relative else ""
    mark = {"within": "", "inconclusive": " ?", "OFF": " !"}[cell.verdict(figure)]
    return f"{live} ± {100 * cell.spread:.1f}{unit}: {gap:+.1f}{unit}{mark}"


def report(rows: dict[tuple[str, str], dict[str, Cell]], intro: str) -> str:
    table = [["case, policy", *(figure.name for figure in FIGURES)]]
    for (case, policy), cells in rows.items():
        table.append([f"{case}, {policy}", *(text_of(figure, cells[figure.field])
                                             for figure in FIGURES)])
    lines = [intro, "", *environment.markdown(table), ""]
    for figure in FIGURES:
        cells = [row[figure.field] for row in rows.values()]
        gaps = sorted(abs(cell.gap) for cell in cells)
        verdicts = [cell.verdict(figure) for cell in cells]
        unit = " %" if figure.relative else " points"
        aim = f"; to reach: {100 * figure.bound:.0f}{unit} in each" + (
            f", {100 * figure.median:.0f}{unit} in the median" if figure.median else "")
        lines.append(
            f"- {figure.name}: {100 * statistics.median(gaps):.1f}{unit} in the median, "
            f"{100 * gaps[-1]:.1f}{unit} in the worst; {verdicts.count('within')} of {len(cells)} "
            f"within the bound, {verdicts.count('inconclusive')} inconclusive{aim}.")
    pairs, alike, unlike = rank_agreement(rows)
    lines.append(f"- Of {pairs} pairs of policies of a case that differ by 3 % in both, {alike} "
                 "have the same order" + (f"; not {'; '.join(unlike)}." if unlike else "."))
    return "\n".join(lines) + "\n"


def what_keys_are_worth(rows: dict[tuple[str, str], dict[str, Cell]], yaml: Any, folder: Path,
                        cores: int) -> str:
    """Each key left out of all simulations, and all of them: how far they are then."""
    figures = [figure for figure in FIGURES if figure.field in ("samples_per_s", "storage_bytes")]
    table = [["without", *(f"{figure.name}, {what}" for figure in figures
                           for what in ("median", "worst", "the worst case"))]]
    for label, keys in (("nothing", []), *((key, [key]) for key in KEYS),
                        ("all of these", list(KEYS))):
        gaps: dict[str, list[tuple[float, str]]] = {figure.field: [] for figure in figures}

        def simulate(item: tuple[tuple[str, str], dict[str, Cell]]) -> None:
            (case, policy), cells = item
            name = f"{case}-{policy.replace('=', '-')}"
            path = folder / f"{name}-without-{label.replace(' ', '-')}.yaml"
            path.write_text(yaml.safe_dump(
                without(yaml.safe_load((folder / f"{name}.yaml").read_text()), keys)))
            run = answer([SIM, "run", str(path), "--policy", policy, "--json"])["runs"][0]
            for figure in figures:
                live = cells[figure.field].live
                gap = (figures_of(run)[figure.field] - live) / max(abs(live), figure.of_ones, 1e-9)
                gaps[figure.field].append((abs(gap), f"{case}, {policy}"))

        with concurrent.futures.ThreadPoolExecutor(cores) as pool:
            list(pool.map(simulate, rows.items()))
        row = [label]
        for figure in figures:
            ordered = sorted(gaps[figure.field])
            row += [f"{100 * statistics.median(gap for gap, _ in ordered):.1f} %",
                    f"{100 * ordered[-1][0]:.1f} %", ordered[-1][1]]
        table.append(row)
    return "\n".join(["What each key of the model is worth: how far the same runs are from the live "
                      "ones without it.", "", *environment.markdown(table)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench gap", description=__doc__)
    parser.add_argument("cases", nargs="*", help="some of cases.yaml, by name")
    parser.add_argument("--runs", type=int, default=5, help="live ones of each (5)")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement (2)")
    parser.add_argument("--quick", action="store_true", help="two cases, one run of each")
    parser.add_argument("--write", metavar="FILE", help="puts the table into this Markdown file")
    parser.add_argument("--keep", metavar="FOLDER", help="keeps scenarios and results there")
    arguments = parser.parse_args()
    environment.use("gap", {"yaml": "pyyaml", "numpy": "numpy", "PIL": "pillow"})
    import yaml

    cases = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())
    unknown = set(arguments.cases) - {case["name"] for case in cases}
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}; write some of "
                 f"{', '.join(case['name'] for case in cases)}")
    if arguments.quick:
        arguments.cases, arguments.runs, arguments.seconds = ["rows-fast", "rows-ranks"], 1, 0.2
    if arguments.cases:
        cases = [case for case in cases if case["name"] in arguments.cases]
    for case in cases:
        if "store" in case:
            case["store_bytes_per_s"] = int(case["store"].removesuffix("mb")) * 1_000_000
    environment.BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        throttle = Throttle(environment.BUILD)
        try:
            rows = measure(yaml, cases, arguments, folder, throttle)
            worth = what_keys_are_worth(rows, yaml, folder, len(os.sched_getaffinity(0)))
        finally:
            throttle.close()
    intro = (f"{environment.machine()}; `./dev bench gap`, {arguments.runs} live runs of each. "
             "A cell is the median of the live runs, how far the farthest of them is from it, and "
             "how far the simulation is; `!` is beyond the bound, `?` where the live runs "
             "themselves differ by more.")
    if throttle.reason:
        intro += f" No store was throttled: {throttle.reason}."
    text = report(rows, intro) + "\n" + worth
    print(text)
    if arguments.write:
        environment.write_part(Path(arguments.write), "\n" + text + "\n", MARK)


def measure(yaml: Any, cases: list[dict[str, Any]], arguments: argparse.Namespace, folder: Path,
            throttle: Throttle) -> dict[tuple[str, str], dict[str, Cell]]:
    data_of = datasets(yaml, {case["data"] for case in cases}, folder, arguments.seconds)
    live = Live(yaml, folder, throttle)
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for case in cases:
        if "store_bytes_per_s" in case and throttle.reason:
            print(f"{case['name']}: left out, since {throttle.reason}", file=sys.stderr)
            continue
        data = data_of[case["data"]]
        scenario = scenario_of(case, data)
        for policy in case["policies"]:
            lived = [live.run(case, policy, data, scenario) for _ in range(arguments.runs)]
            name = f"{case['name']}-{policy.replace('=', '-')}"
            (folder / f"{name}-live.json").write_text(json.dumps(lived))
            path = folder / f"{name}.yaml"
            path.write_text(yaml.safe_dump(simulated_as(scenario, case, lived[0])))
            seeds = [answer([SIM, "run", str(path), "--policy", policy, "--seed", str(seed),
                             "--json"])["runs"][0] for seed in range(1, SEEDS + 1)]
            (folder / f"{name}-sim.json").write_text(json.dumps(seeds))
            row = {figure.field: cell_of(figure, [figures_of(run)[figure.field] for run in lived],
                                         [figures_of(run)[figure.field] for run in seeds])
                   for figure in FIGURES}
            rows[case["name"], policy] = row
            print(f"{case['name']}, {policy}: "
                  + "; ".join(f"{figure.name} {text_of(figure, row[figure.field])}"
                              for figure in FIGURES), flush=True)
    return rows


if __name__ == "__main__":
    main()
