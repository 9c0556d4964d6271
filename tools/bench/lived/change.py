"""How soon do jobs do as well as under `default`, once the preset of their service changes to it?

Four jobs of different speed train on the same pictures, on a service with the preset `independent`.
Then `batchflowctl policy set preset=default` changes it, and nothing is restarted. Each job goes on
in the shared stream from its next epoch on. How long a job waits is looked at in windows of time;
the same jobs on a service that had `default` from the start say what they should reach.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from typing import Any, NamedTuple, Optional

import environment
from lived_bench import ALIKE, Bench

BEFORE_S, AFTER_S = 15, 30
WARM_S = 10  # of a run, until its windows count
WINDOW_S = 3.0
LOOK_EVERY_S = 0.25


class Look(NamedTuple):
    """What the status says of a job."""

    at: float
    epoch: int
    wait_s: float
    compute_s: float


Looks = dict[str, list[Look]]


def waits_in(looks: list[Look], begin: float, end: float) -> Optional[float]:
    """The part of this time in which the job waits; None: it was not looked at."""
    within = [look for look in looks if begin <= look.at <= end]
    if len(within) < 2:
        return None
    wait_s = within[-1].wait_s - within[0].wait_s
    all_s = wait_s + within[-1].compute_s - within[0].compute_s
    return wait_s / all_s if all_s > 0 else None


def windows(looks: list[Look], begin: float, end: float) -> list[float]:
    found = []
    while begin + WINDOW_S <= end:
        waits = waits_in(looks, begin, begin + WINDOW_S)
        if waits is not None:
            found.append(waits)
        begin += WINDOW_S
    return found


def look_on(bench: Bench, case: dict[str, Any], preset: str, seconds: float,
            change: Optional[tuple[float, str]] = None) -> tuple[Looks, float]:
    """Runs the jobs for so long. Also answers when the change was made."""
    jobs = [{**job, "epochs": 10**6, "leaves_after": f"{seconds:.0f}s"} for job in case["jobs"]]
    looks: Looks = {job["name"]: [] for job in jobs}
    changed_at = 0.0
    with bench.service(case["memory"], "--policy", f"preset={preset}") as service:
        cache = int(service.status()["cache_bytes"])
        running = subprocess.Popen(
            bench.command(service, bench.scenario({**case, "jobs": jobs}, cache)),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        begin = time.monotonic()
        while running.poll() is None:
            status = service.status()
            now = time.monotonic() - begin
            for job in status["jobs"]:
                name = job["name"].rsplit("-", 1)[0]
                looks[name].append(Look(now, job["epoch"], job["wait_s"], job["compute_s"]))
            if change and now >= change[0] and not changed_at:
                subprocess.run([os.environ["BATCHFLOWCTL"], "--service", str(service.socket),
                                "policy", "set", change[1]], check=True)
                changed_at = time.monotonic() - begin
            time.sleep(LOOK_EVERY_S)
        if running.wait() != 0:
            raise RuntimeError(f"the jobs failed: {running.communicate()[1]}")
    return looks, changed_at


def next_epoch(looks: list[Look], changed_at: float) -> float:
    """When the job got the first batch of an epoch that began after the change."""
    epoch = max(look.epoch for look in looks if look.at <= changed_at)
    return next(look.at for look in looks if look.epoch > epoch)


def reached_at(looks: list[Look], begin: float, end: float, most: float) -> Optional[float]:
    """From when on the job waits no longer than that, in the next window and until the end."""
    for look in looks:
        if not begin <= look.at <= end - WINDOW_S:
            continue
        now, rest = (waits_in(looks, look.at, until) for until in (look.at + WINDOW_S, end))
        if now is not None and rest is not None and max(now, rest) <= most:
            return look.at
    return None


def measure(bench: Bench, case: dict[str, Any]) -> None:
    all_s = BEFORE_S + AFTER_S
    meant, _ = look_on(bench, case, "default", all_s)
    changed, at = look_on(bench, case, "independent", all_s, (BEFORE_S, "preset=default"))
    rows = [["job", "independent", "default", "after the change", "to its next epoch",
             "from then to the default's"]]
    for name, looks in changed.items():
        end = looks[-1].at - 1  # jobs that leave make room
        reference = windows(meant[name], WARM_S, meant[name][-1].at - 1)
        mean = statistics.mean(reference)
        most = mean + max(ALIKE, 2 * statistics.stdev(reference))
        epoch_at = next_epoch(looks, at)
        reached = reached_at(looks, epoch_at, end, most)
        before, after = waits_in(looks, WARM_S / 3, at), waits_in(looks, epoch_at + 10, end)
        rows.append([name, *(f"{100 * (part or 0):.1f} %" for part in (before, mean, after)),
                     f"{epoch_at - at:.1f} s",
                     f"{reached - epoch_at:.1f} s" if reached is not None else "never"])
    environment.show(rows)
    print("\n".join(environment.markdown(rows)))
