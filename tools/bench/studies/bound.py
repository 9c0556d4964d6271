"""The fluid bound: how soon a scenario could be over if nothing ever waited its turn.

A linear programme over what all jobs need. Each sample of a dataset is prepared once for each epoch
of the job that has most of them (`shared`), or once for each job (`alone`). What is kept decoded
needs no decoding and no read after its first, what is kept as it is stored needs no read. Workers,
the store and each job's GPU are each used no faster than they are, and all at once. So no policy
that delivers each sample once an epoch, with draws of its own, is faster than `shared`. Windows of
prepared blocks take no memory here, and nothing has a latency. Several nodes are one with the cores
and the memory of all. Faults are left out, since none makes anything faster.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, Callable, Optional

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
    settings = [*copy.deepcopy(study.get("set", {})).items(),
                *((path, yaml.safe_load(value)) for path, value in point.items())]
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
        model = next(one for one in scenario["pipelines"] if one["name"] == pipeline)
        steps = model["steps"]
        slow = model.get("slow", {})
        mean = 1 + slow.get("fraction", 0) * (slow.get("times", 1) - 1)
        self.samples = float(data["samples"])
        self.bytes = quantity(data["bytes"])
        first = next((i for i, step in enumerate(steps) if step.get("random")), len(steps))
        self.decode_s = mean * sum(quantity(step.get("cost", 0)) for step in steps[:first])
        self.rest_s = mean * sum(quantity(step.get("cost", 0)) for step in steps[first:])
        outputs = [quantity(step["output"]) for step in steps[:first] if "output" in step]
        self.decoded_bytes = outputs[-1] if outputs else self.bytes
        self.dataset = dataset
        # Pipelines that begin alike share what is kept decoded.
        self.decoding = dataset + repr(steps[:first])
        # What is kept of it, as it is stored or decoded.
        self.kept = f"kept {dataset} {pipeline}"
        self.epochs: list[float] = []

    def times(self, shared: bool) -> float:
        """That each sample is made."""
        return max(self.epochs) if shared else sum(self.epochs)


class _Programme:
    """Rows of the linear programme, of variables by their names. Each is at least 0."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._rows: list[tuple[dict[str, float], float]] = []

    def limit(self, row: dict[str, float], most: float) -> None:
        """The sum of all variables, times their factors in the row, is no more than this."""
        greatest = max(map(abs, row.values())) or 1.0  # bytes beside seconds are not solved well
        self._rows.append(({name: factor / greatest for name, factor in row.items()},
                           most / greatest))
        for name in row:
            self._columns.setdefault(name, len(self._columns))

    def least(self, name: str) -> Optional[float]:
        matrix = [[0.0] * len(self._columns) for _ in self._rows]
        for line, (row, _) in zip(matrix, self._rows):
            for column, factor in row.items():
                line[self._columns[column]] = factor
        goal = [float(column == name) for column in self._columns]
        # The presolve of HiGHS in SciPy 1.10 takes some of these programmes for infeasible.
        solved = linprog(goal, A_ub=matrix, b_ub=[most for _, most in self._rows],
                         options={"presolve": False})
        return float(solved.fun) if solved.success else None


def _at_least(programme: _Programme, result: str, groups: list[_Group], shared: bool,
              saved_by: Callable[[_Group], str], for_all: str) -> None:
    """How many times a dataset is read, or decoded: at best for the jobs that need most, with all
    others for nothing, or else for all of them. What is kept is read, or decoded, once."""
    for some in [[group] for group in groups] + ([] if shared else [groups]):
        row, times = {result: -1.0}, 0.0
        for group in some:
            times += group.times(shared)
            row[saved_by(group)] = row.get(saved_by(group), 0.0) - group.times(shared)
        once = saved_by(some[0]) if len(some) == 1 else for_all
        row[once] = row.get(once, 0.0) + 1
        programme.limit(row, -times)


def seconds(scenario: dict[str, Any], shared: bool) -> Optional[float]:
    """The least time to the end of all jobs, or None where the scenario is of another kind."""
    groups: dict[tuple[str, str], _Group] = {}
    programme = _Programme()
    for job in scenario["jobs"]:
        if job.get("order") == "weighted" or "leaves_after" in job:
            return None
        key = job["dataset"], job["pipeline"]
        group = groups.setdefault(key, _Group(scenario, *key))
        count, epochs = int(job.get("count", 1)), float(job.get("epochs", 1))
        group.epochs += [epochs] * count
        steps = group.samples / (int(job.get("batch", 1)) * int(job.get("ranks", 1)))
        arrives = quantity(job.get("arrives", 0)) + (count - 1) * quantity(job.get("every", 0))
        programme.limit({"time": -1}, -(arrives + steps * quantity(job["step"]) * epochs))
    nodes = [(one, int(one.get("count", 1))) for one in scenario["cluster"]["nodes"]]
    cores = sum(float(one.get("cores", 1)) * count for one, count in nodes)
    cache = sum(quantity(one["cache"]) * count for one, count in nodes)
    work: dict[str, float] = {"time": -cores}
    reads: dict[str, float] = {}
    memory: dict[str, float] = {}
    work_all = 0.0
    for group in groups.values():
        encoded, decoded = f"encoded {group.dataset}", f"decoded {group.decoding}"
        reads[f"read {group.dataset}"] = group.samples * group.bytes
        work[f"made {group.decoding}"] = group.samples * group.decode_s
        work_all += group.times(shared) * group.samples * group.rest_s
        memory[encoded] = group.samples * group.bytes
        memory[decoded] = group.samples * group.decoded_bytes
        for name in encoded, decoded, group.kept:
            programme.limit({name: 1}, 1)
        programme.limit({group.kept: 1, encoded: -1, decoded: -1}, 0)
    for dataset in {group.dataset for group in groups.values()}:
        _at_least(programme, f"read {dataset}",
                  [group for group in groups.values() if group.dataset == dataset], shared,
                  lambda group: group.kept, f"encoded {dataset}")
    for decoding in {group.decoding for group in groups.values()}:
        _at_least(programme, f"made {decoding}",
                  [group for group in groups.values() if group.decoding == decoding], shared,
                  lambda group: f"decoded {group.decoding}", f"decoded {decoding}")
    programme.limit(work, -work_all)
    store = quantity(scenario["cluster"].get("store", {}).get("bytes_per_s", 0))
    if store:
        programme.limit({"time": -store, **reads}, 0)
    programme.limit(memory, cache)
    return programme.least("time")


def samples(scenario: dict[str, Any]) -> float:
    """That all jobs train on."""
    sizes = {one["name"]: float(one["samples"]) for one in scenario["datasets"]}
    return sum(sizes[job["dataset"]] * float(job.get("epochs", 1)) * int(job.get("count", 1))
               for job in scenario["jobs"])
