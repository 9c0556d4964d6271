"""Says at the end of an epoch how long its loop waited for batches, where that was much."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Mapping, Optional

from . import embedded
from .library import NoServiceError

_log = logging.getLogger("batchflow")
LEAST = 0.05  # of the time of an epoch
_LEAST_S = 1.0  # what is shorter is soon over, whatever it was
_ASK_S = 5.0

# By the stage that a rank waits for (docs/operations.md, "Why a job waits").
_HELPS = {
    "storage": "more memory to keep what was read (cache_limit=), or faster storage",
    "preparation": "more cores for the service (target_workers=), or a cheaper pipeline",
    "delivery": "more batches ahead (prefetch_factor=8), or larger ones",
    "room": "more memory for the service (cache_limit=), or ranks that are equally fast",
    "records": "producers that send more, or a shorter wait= of Live with a fill=,"}


class EpochStalls:
    """One epoch of a loader. `times`: those of the loader so far."""

    def __init__(self, times: Callable[[], Mapping[str, float]]):
        self._times = times
        self._waited = times()["wait_s"]
        self._between: Optional[float] = None

    def first_came(self) -> None:
        """What the loop did between two epochs belongs to neither."""
        self._between = self._times()["between_s"]

    def share(self) -> tuple[float, float]:
        """The part of the epoch's time that the loop waited, and that time."""
        now = self._times()
        waited = now["wait_s"] - self._waited
        between = now["between_s"] - (now["between_s"] if self._between is None else self._between)
        whole = waited + between
        return (waited / whole if whole > 0 else 0.0), whole

    def say(self, epoch: int, helps: Callable[[], str]) -> None:
        share, whole = self.share()
        if share <= LEAST or share * whole < _LEAST_S:
            return
        _log.warning("batchflow.DataLoader: the loop waited for batches for %.0f %% of the %.3g s of "
                     "epoch %d; %s (say_stalls=False says nothing of it)", 100 * share, whole, epoch,
                     helps())


def helps_service(service: Optional[str]) -> str:
    """What would help a job of this service: by what its jobs wait for."""
    status = _status(service)
    page = status.get("page", "")
    more = "'batchflowctl doctor' says what holds it up" + (f", {page} shows it" if page else "")
    stalls = {str(stage): float(s) for stage, s in status.get("stall_s", {}).items()}
    whole = sum(stalls.values())
    if whole <= 0:
        return more
    stage = max(stalls, key=lambda one: stalls[one])
    helps = f"{_HELPS[stage]} may help, and " if stage in _HELPS else ""
    return (f"{100 * stalls[stage] / whole:.0f} % of the waits at its service are for {stage}: "
            f"{helps}{more}")


def _status(service: Optional[str]) -> dict[str, Any]:
    try:
        program = Path(embedded.daemon()).parent / "batchflowctl"
        asked = [str(program), *(["--service", service] if service else []), "status", "--json"]
        answer = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, timeout=_ASK_S, check=True)
        return dict(json.loads(answer.stdout))
    except (NoServiceError, OSError, subprocess.SubprocessError, ValueError):
        return {}


def helps_collate(workers: int) -> str:
    cores = len(os.sched_getaffinity(0))
    return (f"most of it for collate_fn: more workers (num_workers={workers} now, up to {cores} here) or "
            "a cheaper collate_fn may help")


def helps_local(why: str) -> str:
    cores = len(os.sched_getaffinity(0))
    return (f"more workers of its own (num_workers=, up to {cores} here), or a Dataset that the "
            f"service can load: {why}")
