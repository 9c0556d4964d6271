"""How long a policy takes until jobs train as fast as they will, after a load has changed.

A job's batches are counted in windows of time (`batchflow-sim run --batches`). A change has been
dealt with at the first window that, with the nine behind it, is as fast as the last third of the
run, but for a twentieth: single windows differ by more.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

WINDOW_S = 1
SMOOTHED = 10  # windows
WITHIN = 0.95
SCENARIO = "four-seeds"
# So long that what is found in the end is what stays. Settings of the engine are those of the other
# studies, which are not the defaults.
LONG = ["engine.credits=2", "engine.block_bytes=32mib", "engine.blocks_least=1",
        "cluster.nodes.0.cache=1gb", "jobs.0.epochs=60", "jobs.1.epochs=60", "jobs.2.epochs=40",
        "jobs.3.epochs=40", "ends_after=360s"]


class Change(NamedTuple):
    name: str
    about: str
    at_s: int
    settings: list[str]


CHANGES = [
    Change("wrong first measures", "for the first 60 s workers prepare at a tenth of their speed", 60,
           ["faults=[{kind: worker-slow, target: node, count: 8, factor: 0.1, lasts: 60s}]"]),
    Change("a slower store", "after 120 s the store has a third of its speed", 120,
           ["faults=[{kind: drive-slow, target: store, factor: 0.33, at: 120s}]"]),
    Change("a faster store", "for the first 120 s the store has a third of its speed", 120,
           ["faults=[{kind: drive-slow, target: store, factor: 0.33, lasts: 120s}]"]),
    Change("more jobs", "after 120 s two of the four jobs come", 120,
           ["jobs.2.arrives=120s", "jobs.3.arrives=120s"]),
]


class Recovery(NamedTuple):
    before: float  # samples a second, in the last window before the change
    after: float   # in the end
    seconds: float

    def cell(self) -> str:
        return f"{self.seconds:.0f} s ({self.before:,.0f} to {self.after:,.0f})"


def trained(sim: str, preset: str, settings: list[str]) -> dict[int, int]:
    """How many samples all jobs trained on in each window."""
    with tempfile.TemporaryDirectory() as folder:
        batches = Path(folder) / "batches.jsonl"
        command = [sim, "run", SCENARIO, "--policy", f"preset={preset}", "--batches", str(batches)]
        for one in [*LONG, *settings]:
            command += ["--set", one]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        windows: dict[int, int] = {}
        with batches.open() as lines:
            for line in lines:
                batch = json.loads(line)
                window = int(batch["time_s"]) // WINDOW_S
                windows[window] = windows.get(window, 0) + len(batch["samples"])
    return windows


def recovery(sim: str, preset: str, change: Change) -> Recovery:
    windows = trained(sim, preset, change.settings)
    last = max(windows)  # may be cut short
    first = change.at_s // WINDOW_S
    behind = [windows.get(one, 0) / WINDOW_S for one in range(first, last)]
    end = behind[-len(behind) // 3:]
    after = sum(end) / len(end)
    recovered = next(i for i in range(len(behind))
                     if sum(behind[i:i + SMOOTHED]) >= WITHIN * after * len(behind[i:i + SMOOTHED]))
    return Recovery(windows.get(first - 1, 0) / WINDOW_S, after, recovered * WINDOW_S)


def page(table: list[list[str]]) -> str:
    import environment
    return "\n".join([
        "## recovery", "", "Seconds until jobs train as fast as they will, after a load has changed, and in brackets "
        "samples a second before the change and in the end. The scenario is `four-seeds` with a cache of 1 GB; "
        f"windows of {WINDOW_S} s.", "", *environment.markdown(table), "", ""])


def rows(sim: str, presets: list[str]) -> list[list[str]]:
    table = [["change", *presets]]
    for change in CHANGES:
        table.append([f"{change.name}: {change.about}",
                      *(recovery(sim, preset, change).cell() for preset in presets)])
    return table
