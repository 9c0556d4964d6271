"""Runs the studies of configs/studies/ that compare policies, and those of streams (streams.py), and
writes what they say.

Each is run by `batchflow-sim sweep`. Beside the policies stands the fluid bound (bound.py).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import environment  # noqa: E402
import recovery  # noqa: E402
import streams  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent.parent
CONFIGS = ROOT / "configs"
SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")
# Of systems that choose samples by what is kept: each comes once an epoch, but not in an order
# that is as good as random.
CHOOSING = {"quiver", "seneca", "deepio"}
OURS = "default"
NOISE = 0.003  # of waiting
# Studies of what happens to one job, by its name.
WATCHED = {"cache-flood": "reread"}


def sweep(study: Path, folder: Path) -> dict[str, Any]:
    command = [SIM, "sweep", str(study), "--json", "--out", str(folder / f"{study.stem}.jsonl")]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}")
    return json.loads(ended.stdout)


def name_of(policy: str) -> str:
    return policy.removeprefix("preset=")


class Point(NamedTuple):
    """What a policy does at a point of a study, for all jobs together or for the watched one."""

    waits: float  # the part of their time in which GPUs wait, also for the slowest rank of their job
    samples_per_s: float
    repeats: float

    @staticmethod
    def from_run(point: dict[str, Any], run: dict[str, Any], watched: Optional[str]) -> "Point":
        jobs = [job for job in run["jobs"] if job["name"] == watched]
        values = jobs[0] if watched else {name: figure["mean"]
                                          for name, figure in point["figures"].items()}
        return Point(max(0.0, 1 - values["au"]), values["samples_per_s"],
                     point["figures"]["repeats"]["mean"])

    def cell(self) -> str:
        return f"{100 * self.waits:.1f} % ({self.samples_per_s:,.0f})"


class Study:
    """What a sweep found, and the bounds of its points."""

    def __init__(self, study: Path, result: dict[str, Any]) -> None:
        import bound
        import yaml
        self.name = result["study"]["name"]
        self.about = result["study"]["about"]
        # Those of a list are one axis there, with commas in its name and values.
        axes = [axis["name"] for axis in result["study"]["axes"] if axis["name"] != "policy"]
        self.axes = [name for axis in axes for name in axis.split(", ")]
        self.watched = WATCHED.get(self.name)
        self.points: dict[tuple[str, ...], dict[str, Point]] = {}  # values of the axes, and policies
        for point, run in zip(result["points"], result["runs"], strict=True):
            at = tuple(part for axis in axes for part in point["values"][axis].split(", "))
            self.points.setdefault(at, {})[name_of(point["values"]["policy"])] = Point.from_run(
                point, run, self.watched)
        self.bounds: dict[tuple[str, ...], tuple[float, float]] = {}
        described = yaml.safe_load(study.read_text())
        for at in self.points:
            scenario = bound.scenario_of(CONFIGS, described, dict(zip(self.axes, at)))
            shared, alone = (bound.seconds(scenario, one) for one in (True, False))
            if shared and alone and not self.watched:
                all_samples = bound.samples(scenario)
                self.bounds[at] = all_samples / shared, all_samples / alone

        # Axes that say no more than those before them do not name a column.
        self.named: list[int] = []
        for i in range(len(self.axes)):
            if len({self.column(at) for at in self.points}) < len(self.points):
                self.named.append(i)

    def column(self, at: tuple[str, ...]) -> str:
        return ", ".join(at[i] for i in self.named)

    def policies(self) -> list[str]:
        return list(next(iter(self.points.values())))

    def best(self, at: tuple[str, ...], policies: list[str]) -> float:
        return min(self.points[at][one].waits for one in policies)

    def table(self) -> list[list[str]]:
        """A row a policy, a column a point; the least wait of those that choose no samples, and of
        those that do, in bold."""
        rows = [["policy", *map(self.column, self.points)]]
        for chooses in (False, True):
            some = [one for one in self.policies() if (one in CHOOSING) == chooses]
            for policy in some:
                row = [policy + (" (chooses samples)" if chooses else "")]
                for at, points in self.points.items():
                    text = points[policy].cell()
                    # What differs by less than a tenth of a percent does not differ.
                    is_best = points[policy].waits <= self.best(at, some) + 0.001
                    row.append(f"**{text}**" if is_best else text)
                rows.append(row)
        for i, name in enumerate(("bound, all shared", "bound, each job alone")):
            if self.bounds:
                rows.append([name, *(f"({self.bounds[at][i]:,.0f})" if at in self.bounds else ""
                                     for at in self.points)])
        return rows

    def behind(self) -> list[list[str]]:
        """Where the default waits longer than another that keeps the orders, by more than noise."""
        rows = []
        others = [one for one in self.policies() if one not in CHOOSING | {OURS}]
        if OURS not in self.policies():
            return rows
        for at, points in self.points.items():
            best = min(others, key=lambda one: points[one].waits)
            lost = points[OURS].waits - points[best].waits
            if lost > NOISE:
                rows.append([self.name, self.column(at), points[OURS].cell(), best,
                             points[best].cell(), f"{100 * lost:.1f}"])
        return rows

    def above_bound(self) -> list[list[str]]:
        """How much longer GPUs wait than the bound lets them, where the next best is 3 points above."""
        rows = []
        others = [one for one in self.policies() if one not in CHOOSING | {OURS}]
        for at, points in self.points.items():
            if at not in self.bounds or OURS not in points:
                continue
            ours = points[OURS]
            never_waiting = ours.samples_per_s / (1 - ours.waits)
            bound = max(0.0, 1 - self.bounds[at][0] / never_waiting)
            best = min(others, key=lambda one: points[one].waits)
            theirs = points[best].waits - bound
            if theirs >= 0.03:
                mine = max(ours.waits - bound, 0.001)
                rows.append([self.name, self.column(at), f"{100 * bound:.1f} %",
                             f"{100 * (ours.waits - bound):.1f}", best, f"{100 * theirs:.1f}",
                             f"{theirs / mine:.1f}"])
        return rows

    def picture(self) -> str:
        import lines
        names = list(map(self.column, self.points))
        waits: dict[str, dict[int, float]] = {}
        speeds: dict[str, dict[int, float]] = {}
        for index, (at, points) in enumerate(self.points.items()):
            for policy, point in points.items():
                waits.setdefault(policy, {})[index] = 100 * point.waits
                speeds.setdefault(policy, {})[index] = point.samples_per_s
            if at in self.bounds:
                speeds.setdefault("bound, all shared", {})[index] = self.bounds[at][0]
        jobs = f"the job {self.watched}" if self.watched else "all jobs"
        return lines.svg([lines.Panel(f"time that GPUs of {jobs} wait, in %", names, waits, False),
                          lines.Panel(f"samples/s of {jobs}", names, speeds, False)])

    def page(self) -> str:
        axes = " and ".join(f"`{self.axes[i]}`" for i in self.named)
        repeats = sum(point.repeats for points in self.points.values()
                      for point in points.values())
        watched = f" Figures are of the job `{self.watched}` alone." if self.watched else ""
        return "\n".join([
            f"## {self.name}", "", f"{self.about[0].upper()}{self.about[1:]}. Columns are {axes}."
            f"{watched}", "",
            *environment.markdown(self.table()), "",
            f"Samples that came with draws that their job had before: {repeats:.0f}.", "",
            f"![Waiting and speed of each policy in the study {self.name}](studies/{self.name}.svg)",
            "", ""])


def summary(studies: list[Study]) -> str:
    behind = [row for study in studies for row in study.behind()]
    above = [row for study in studies for row in study.above_bound()]
    columns = sum(len(study.points) for study in studies if OURS in study.policies())
    return "\n".join([
        f"## Where `{OURS}` is not ahead", "",
        f"`{OURS}` waits least of what keeps the orders, or at most {100 * NOISE:.1f} points longer, in "
        f"{columns - len(behind)} of {columns} columns of all studies. The others:", "",
        *environment.markdown([["study", "column", OURS, "least", "waits", "points"], *behind]), "",
        f"## How far `{OURS}` is above the bound", "",
        "Points of waiting above the bound of all policies, where the next best that keeps the orders is 3 points or "
        "more above it, and how many times as much that is.", "",
        *environment.markdown([["study", "column", "bound", OURS, "next best", "points", "times"],
                               *above]), "", ""])


def keep_picture(page: Optional[str], name: str, picture: str) -> None:
    """In a folder beside the page, if there is one."""
    if page:
        pictures = Path(page).with_suffix("")
        pictures.mkdir(exist_ok=True)
        (pictures / f"{name}.svg").write_text(picture)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench studies", description=__doc__)
    parser.add_argument("studies", nargs="*", help="some of configs/studies/, by name")
    parser.add_argument("--quick", action="store_true", help="the smallest study alone")
    parser.add_argument("--write", metavar="FILE",
                        help="puts tables into this Markdown file, and plots into a folder beside it")
    arguments = parser.parse_args()
    environment.use("studies", {"scipy": "scipy", "yaml": "pyyaml"})

    # Two alone are the world with BatchFlow and without.
    known = {path.stem: path for path in sorted((CONFIGS / "studies").glob("*.yaml"))
             if path.read_text().count("preset=") > 2}
    wanted = arguments.studies or (["importance"] if arguments.quick else [*known, "recovery", *streams.STUDIES])
    for name in wanted:
        if name not in known and name not in streams.STUDIES and name != "recovery":
            sys.exit(f"no study '{name}' that is written down; write some of {', '.join(known)}, "
                     f"recovery, {', '.join(streams.STUDIES)}")
    pages = []
    stream_pages = []
    studies = []
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            if name == "recovery":
                table = recovery.rows(SIM, ["independent", "fixed", "default"])
                print("\nrecovery: seconds until jobs train as fast as they will\n")
                environment.show(table)
                pages.append(recovery.page(table))
                continue
            if name in streams.STUDIES:
                path = CONFIGS / "studies" / f"{name}.yaml"
                stream = streams.StreamStudy(path, sweep(path, Path(folder)))
                print(f"\n{stream.name}: {stream.about}\n")
                environment.show(stream.table())
                stream_pages.append(stream.page())
                keep_picture(arguments.write, name, stream.picture())
                continue
            study = Study(known[name], sweep(known[name], Path(folder)))
            studies.append(study)
            print(f"\n{study.name}: {study.about}; waiting (samples/s)\n")
            environment.show(study.table())
            pages.append(study.page())
            keep_picture(arguments.write, name, study.picture())
    if len(studies) > 1:
        pages.append(summary(studies))
        print("\n" + pages[-1])
    if arguments.write and pages:
        environment.write_part(Path(arguments.write), "\n" + "".join(pages))
    if arguments.write and stream_pages:
        environment.write_part(Path(arguments.write), "\n" + "".join(stream_pages), streams.BEGIN)


if __name__ == "__main__":
    main()
