"""The fluid bound: how soon a scenario of one node could be over if nothing ever waited its turn.

A linear programme over what all jobs need. Each sample of a dataset is prepared once for each epoch
of the job that has most of them (`shared`), or once for each job (`alone`). What is kept decoded
needs no decoding and no read after its first, what is kept as it is stored needs no read. Workers,
the store and each job's GPU are each used no faster than they are, and all at once. So no policy
that delivers each sample once an epoch, with draws of its own, is faster than `shared`. Windows of
prepared blocks take no memory here, and nothing has a latency.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Optional

import yaml
from scipy.optimize import linprog

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10,
          "mib": 2**20, "gib": 2**30, "tib": 2**40, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1,
          "min": 60, "h": 3600}


def quantity(value: Any) -> float:
    """Bytes, or seconds, of a text as a scenario has it."""
    number, unit = re.fullmatch(r"([\d.e+]+)\s*([a-zA-Z]*)", str(value)).groups()  # type: ignore
    return float(number) * _UNITS[unit.lower()]


def scenario_of(configs: Path, study: dict[str, Any], point: dict[str, str]) -> dict[str, Any]:
    """The study's scenario with all that holds for the point."""
    scenario = yaml.safe_load((configs / "scenarios" / f"{study['scenario']}.yaml").read_text())
    if isinstance(scenario["cluster"], str):
        scenario["cluster"] = yaml.safe_load(
            (configs / "clusters" / f"{scenario['cluster']}.yaml").read_text())
    settings = [*study.get("set", {}).items(), *((path, yaml.safe_load(value))
                                                 for path, value in point.items())]
    for path, value in settings:
        at: Any = scenario
        *parents, last = path.split(".")
        for key in parents:
            at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
        at[int(last) if isinstance(at, list) else last] = value
    return scenario


class _Group:
    """The jobs that read a dataset through a pipeline."""

    def __init__(self, scenario: dict[str, Any], dataset: str, pipeline: str) -> None:
        data = next(one for one in scenario["datasets"] if one["name"] == dataset)
        steps = next(one for one in scenario["pipelines"] if one["name"] == pipeline)["steps"]
        self.samples = float(data["samples"])
        self.bytes = quantity(data["bytes"])
        first = next((i for i, step in enumerate(steps) if step.get("random")), len(steps))
        self.decode_s = sum(quantity(step["cost"]) for step in steps[:first])
        self.rest_s = sum(quantity(step["cost"]) for step in steps[first:])
        outputs = [quantity(step["output"]) for step in steps[:first] if "output" in step]
        self.decoded_bytes = outputs[-1] if outputs else self.bytes
        self.epochs: list[float] = []


def seconds(scenario: dict[str, Any], shared: bool) -> Optional[float]:
    """The least time to the end of all jobs, or None where the scenario is of another kind."""
    nodes = scenario["cluster"]["nodes"]
    if len(nodes) != 1 or nodes[0].get("count", 1) != 1 or scenario.get("faults"):
        return None
    groups: dict[tuple[str, str], _Group] = {}
    least = 0.0
    for job in scenario["jobs"]:
        if job.get("order") == "weighted":
            return None
        key = job["dataset"], job["pipeline"]
        group = groups.setdefault(key, _Group(scenario, *key))
        count, epochs = int(job.get("count", 1)), float(job.get("epochs", 1))
        group.epochs += [epochs] * count
        steps = group.samples / (int(job.get("batch", 1)) * int(job.get("ranks", 1)))
        least = max(least, steps * quantity(job["step"]) * epochs)
    # Variables: the time, then for each group the parts kept decoded and as stored.
    width = 1 + 2 * len(groups)
    cores, store = float(nodes[0]["cores"]), quantity(scenario["cluster"]["store"]["bytes_per_s"])
    memory, work, reads, rows, limits = [0.0] * width, [0.0] * width, [0.0] * width, [], []
    work_all = bytes_all = 0.0
    for i, group in enumerate(groups.values()):
        decoded, encoded = 1 + 2 * i, 2 + 2 * i
        most = max(group.epochs)
        made = group.samples * (most if shared else sum(group.epochs))
        again = made - group.samples
        read_again = group.samples * (most - 1) if shared else again  # by one job for all, at best
        memory[decoded] = group.samples * group.decoded_bytes
        memory[encoded] = group.samples * group.bytes
        work_all += made * (group.decode_s + group.rest_s)
        work[decoded] = -again * group.decode_s
        bytes_all += (group.samples + read_again) * group.bytes
        reads[decoded] = reads[encoded] = -read_again * group.bytes
        both = [0.0] * width
        both[decoded] = both[encoded] = 1
        rows.append(both)
        limits.append(1.0)
    work[0], reads[0] = -cores, -store
    rows += [memory, work, reads]
    limits += [quantity(nodes[0]["cache"]), -work_all, -bytes_all]
    solved = linprog([1.0] + [0.0] * (width - 1), A_ub=rows, b_ub=limits,
                     bounds=[(least, None)] + [(0, 1)] * (width - 1))
    return float(solved.x[0]) if solved.success else None


def samples(scenario: dict[str, Any]) -> float:
    """That all jobs train on."""
    sizes = {one["name"]: float(one["samples"]) for one in scenario["datasets"]}
    return sum(sizes[job["dataset"]] * float(job.get("epochs", 1)) * int(job.get("count", 1))
               for job in scenario["jobs"])
