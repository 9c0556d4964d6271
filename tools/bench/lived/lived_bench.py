"""Jobs on made pictures, on a service of their own or in the simulator."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")
BATCH = 64
# Parts of the time in which jobs wait that differ by less than this count as equal.
ALIKE = 0.03
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

    def file(self, value: dict[str, Any]) -> Path:
        path = self._folder / f"{next(self._numbers)}.yaml"
        path.write_text(self._yaml.safe_dump(value, sort_keys=False))
        return path

    def service(self, memory: str, *arguments: str) -> Any:
        from service import Service
        folder = self._folder / f"service-{next(self._numbers)}"
        folder.mkdir()
        node = self.file({"kind": "node", "memory": memory, "storage": {"staging": "64mib"},
                           "engine": {"block_bytes": "8mib"}})
        return Service(folder, "--config", str(node), *arguments)

    def command(self, service: Any, scenario: dict[str, Any]) -> list[str]:
        """What runs the scenario's jobs on the service."""
        return [os.environ["BATCHFLOWCTL"], "--service", str(service.socket), "run",
                str(self.file(scenario)), "--dataset", f"images={self._pictures}",
                "--pipeline", f"train={LIVE_PIPELINE}", "--json"]

    def _run(self, service: Any, scenario: dict[str, Any]) -> dict[str, Any]:
        return run(self.command(service, scenario))

    def scenario(self, case: dict[str, Any], cache: int) -> dict[str, Any]:
        return scenario_of(case, self._count, self._mean_bytes, cache, self.costs)

    def measure_costs(self) -> None:
        """By one job that hardly computes: with no room for decoded pictures, and with all kept."""
        def rate(memory: str, warm: bool) -> float:
            case = {"name": "cost", "jobs": [{"name": "job", "step": "100us", "epochs": 3}]}
            with self.service(memory) as service:
                if warm:
                    self._run(service, self.scenario(case, 10**9))
                return float(self._run(service, self.scenario(case, 10**9))
                             ["aggregate"]["samples_per_s"])
        cores = len(os.sched_getaffinity(0))
        self.costs = Costs(cores / rate("300mib", False), cores / rate("6gib", True))

    def live(self, case: dict[str, Any], preset: str) -> tuple[Waits, int]:
        with self.service(case["memory"], "--policy", f"preset={preset}") as service:
            cache = int(service.status()["cache_bytes"])
            return waits_of(self._run(service, self.scenario(case, cache))), cache

    def simulated(self, case: dict[str, Any], preset: str, cache: int) -> Waits:
        scenario = self.file(self.scenario(case, cache))
        return waits_of(run([SIM, "run", str(scenario), "--policy", f"preset={preset}", "--json"]))
