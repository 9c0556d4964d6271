"""Does the simulator rank policies as a live service does?

Each case of cases.yaml is run by `batchflowctl run` on a service of its own for each preset, on made
pictures, and by `batchflow-sim run` with what a sample costs here. Jobs sleep instead of computing.
The two rank policies alike if the one that waits less live waits less in the simulation, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))

import environment  # noqa: E402

SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")
# Those that a live service takes, and that need no scores.
PRESETS = ["independent", "tf-data", "silod", "hoard", "coordl", "tensorsocket", "joader",
           "tf-data-service", "default", "batchflow"]
# Jobs of two policies wait equally long if the parts of their time differ by less than this.
ALIKE = 0.03
BATCH = 64
LIVE_PIPELINE = "imagenet-train"


class Waits(NamedTuple):
    part: float  # of the GPUs' time
    samples_per_s: float

    def cell(self) -> str:
        return f"{100 * self.part:.1f} % ({self.samples_per_s:,.0f})"


class Costs(NamedTuple):
    """Seconds of one core for a picture."""

    whole: float
    kept: float  # if it is kept decoded


def scenario_of(case: dict[str, Any], pictures: int, mean_bytes: int, cache: int,
                costs: Costs) -> dict[str, Any]:
    jobs = [{"dataset": "images", "pipeline": "train", "batch": BATCH, **job}
            for job in case["jobs"]]
    count = sum(job.get("count", 1) for job in jobs)
    return {
        "name": case["name"],
        "cluster": {"nodes": [{"name": "node", "cores": len(os.sched_getaffinity(0)),
                               "gpus": count, "memory": "64gb", "cache": cache}],
                    "store": {"bytes_per_s": "1gb", "latency": "100us", "operations_ahead": 64}},
        "datasets": [{"name": "images", "samples": pictures, "bytes": mean_bytes,
                      "format": "jpeg"}],
        "pipelines": [{"name": "train", "steps": [
            {"name": "decode", "cost": f"{1e9 * (costs.whole - costs.kept):.0f}ns",
             "output": "588kb"},
            {"name": "crop and flip", "random": True, "cost": f"{1e9 * costs.kept:.0f}ns",
             "output": 150528}]}],
        "jobs": jobs, "grain": {"samples_per_item": 1},
        "engine": {"block_bytes": "8mib"}}


def run(command: list[str]) -> dict[str, Any]:
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           timeout=600)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(ended.stdout)["runs"][0]
    return result


def waits_of(result: dict[str, Any]) -> Waits:
    return Waits(result["aggregate"]["stall_fraction"], result["aggregate"]["samples_per_s"])


class Bench:
    def __init__(self, pictures: Path, count: int, mean_bytes: int, folder: Path) -> None:
        import yaml
        self._yaml = yaml
        self._pictures, self._count, self._mean_bytes = pictures, count, mean_bytes
        self._folder = folder
        self._numbers = itertools.count()
        self.costs = Costs(1e-3, 1e-4)  # until they are measured

    def _file(self, value: dict[str, Any]) -> Path:
        path = self._folder / f"{next(self._numbers)}.yaml"
        path.write_text(self._yaml.safe_dump(value, sort_keys=False))
        return path

    def _service(self, memory: str, *arguments: str) -> Any:
        from service import Service
        folder = self._folder / f"service-{next(self._numbers)}"
        folder.mkdir()
        node = self._file({"kind": "node", "memory": memory, "storage": {"staging": "64mib"},
                           "engine": {"block_bytes": "8mib"}})
        return Service(folder, "--config", str(node), *arguments)

    def _live(self, service: Any, scenario: dict[str, Any]) -> dict[str, Any]:
        return run([os.environ["BATCHFLOWCTL"], "--service", str(service.socket), "run",
                    str(self._file(scenario)), "--dataset", f"images={self._pictures}",
                    "--pipeline", f"train={LIVE_PIPELINE}", "--json"])

    def _scenario(self, case: dict[str, Any], cache: int) -> dict[str, Any]:
        return scenario_of(case, self._count, self._mean_bytes, cache, self.costs)

    def measure_costs(self) -> None:
        """By one job that hardly computes: with no room for decoded pictures, and with all kept."""
        def rate(memory: str, warm: bool) -> float:
            case = {"name": "cost", "jobs": [{"name": "job", "step": "100us", "epochs": 3}]}
            with self._service(memory) as service:
                if warm:
                    self._live(service, self._scenario(case, 10**9))
                return float(self._live(service, self._scenario(case, 10**9))
                             ["aggregate"]["samples_per_s"])
        cores = len(os.sched_getaffinity(0))
        self.costs = Costs(cores / rate("300mib", False), cores / rate("6gib", True))

    def live(self, case: dict[str, Any], preset: str) -> tuple[Waits, int]:
        with self._service(case["memory"], "--policy", f"preset={preset}") as service:
            cache = int(service.status()["cache_bytes"])
            return waits_of(self._live(service, self._scenario(case, cache))), cache

    def simulated(self, case: dict[str, Any], preset: str, cache: int) -> Waits:
        scenario = self._file(self._scenario(case, cache))
        return waits_of(run([SIM, "run", str(scenario), "--policy", f"preset={preset}", "--json"]))


class Agreement(NamedTuple):
    pairs: int  # of presets of which one waits longer, live and in simulation
    alike: int
    unlike: list[tuple[str, str]]


def agreement(live: dict[str, Waits], simulated: dict[str, Waits]) -> Agreement:
    pairs, unlike = 0, []
    for a, b in itertools.combinations(live, 2):
        lived, planned = live[a].part - live[b].part, simulated[a].part - simulated[b].part
        if abs(lived) < ALIKE or abs(planned) < ALIKE:
            continue
        pairs += 1
        if (lived < 0) != (planned < 0):
            unlike.append((a, b))
    return Agreement(pairs, pairs - len(unlike), unlike)


def page_of(case: dict[str, Any], live: dict[str, Waits], simulated: dict[str, Waits]) -> str:
    rows = [["policy", "live", "simulated"]]
    rows += [[preset, live[preset].cell(), simulated[preset].cell()] for preset in live]
    agreed = agreement(live, simulated)
    unlike = "; ".join(f"{a} and {b}" for a, b in agreed.unlike)
    return "\n".join([
        f"**{case['name']}**: {case['about']}; {case['memory']}.", "", *environment.markdown(rows),
        "", f"Of {agreed.pairs} pairs that differ in both, {agreed.alike} have the same order"
        + (f"; not {unlike}." if unlike else "."), "", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench lived", description=__doc__)
    parser.add_argument("cases", nargs="*", help="some of cases.yaml, by name")
    parser.add_argument("--presets", default=",".join(PRESETS), help="which to compare")
    parser.add_argument("--pictures", type=int, default=2048)
    parser.add_argument("--quick", action="store_true",
                        help="the first case, three presets and 512 pictures")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this Markdown file")
    arguments = parser.parse_args()
    environment.use("lived", {"yaml": "pyyaml", "numpy": "numpy", "PIL": "pillow"})
    import pictures
    import yaml

    cases = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())
    unknown = set(arguments.cases) - {case["name"] for case in cases}
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}; write some of "
                 f"{', '.join(case['name'] for case in cases)}")
    if arguments.cases:
        cases = [case for case in cases if case["name"] in arguments.cases]
    presets, count = arguments.presets.split(","), arguments.pictures
    if arguments.quick:
        cases, presets, count = cases[:1], ["independent", "tensorsocket", "default"], 512
    made = pictures.make(environment.BUILD / "peers", count)
    text, all_pairs, all_alike = "", 0, 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(made, count, pictures.mean_bytes(made), Path(folder))
        bench.measure_costs()
        costs = (f"A picture costs {1e6 * bench.costs.whole:.0f} us of a core, and "
                 f"{1e6 * bench.costs.kept:.0f} if it is kept decoded.")
        print(costs)
        for case in cases:
            live: dict[str, Waits] = {}
            simulated: dict[str, Waits] = {}
            for preset in presets:
                live[preset], cache = bench.live(case, preset)
                simulated[preset] = bench.simulated(case, preset, cache)
                print(f"{case['name']}, {preset}: live {live[preset].cell()}, "
                      f"simulated {simulated[preset].cell()}", flush=True)
            agreed = agreement(live, simulated)
            all_pairs, all_alike = all_pairs + agreed.pairs, all_alike + agreed.alike
            text += page_of(case, live, simulated)
    summary = f"{all_alike} of {all_pairs} pairs of policies that differ have the same order."
    print(summary)
    if arguments.write:
        environment.write_part(Path(arguments.write), "\n" + "\n".join([
            f"{environment.machine()}; {count} pictures of {pictures.mean_bytes(made)} bytes in "
            f"the mean. {costs} {summary}", "", text]))


if __name__ == "__main__":
    main()
