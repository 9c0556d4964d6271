"""Decides how many agents run on nodes that are there for nothing else, and asks Ray's autoscaler
for these nodes (docs/ray.md).

It goes by the part of jobs' time in which they waited for preparation while workers were busy. Such
nodes have the resource `batchflow_agent`, so that Ray brings no other kind.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Collection, Optional

from .embedded import daemon

RESOURCE = "batchflow_agent"
_EVERY_S = 10.0  # from one look at the service to the next
_WAITED = 0.05  # the part of jobs' time above which there are too few agents
_BUSY = 0.8  # the part of workers below which more of them would not help
_ROOM = 1.25  # workers that are kept, over those that were busy
_LOOKS = 6  # with too many agents, until one goes


@dataclass(frozen=True)
class Look:
    """What a service has done since its start, in seconds."""

    at: float
    spent: float  # by ranks, in steps and waiting
    waited: float  # for preparation
    busy: float  # of all workers
    workers: int  # now
    of_agent: float  # workers, on average

    @staticmethod
    def from_status(status: dict[str, Any]) -> "Look":
        nodes = status["nodes"]
        of_agents = sum(one["workers"] for one in nodes)
        return Look(status["up_s"], status["wait_s"] + status["compute_s"],
                    status["stall_s"]["preparation"],
                    status["preparing_s"] + sum(one["preparing_ns"] for one in nodes) / 1e9,
                    status["workers"] + of_agents, max(1.0, of_agents / max(1, len(nodes))))


def workers_wanted(before: Look, now: Look) -> float:
    """With so many workers no rank would have waited for preparation; 0 without ranks."""
    spent = now.spent - before.spent
    if spent <= 0 or now.at <= before.at:
        return 0
    waited = min(0.9, max(0.0, (now.waited - before.waited) / spent))
    busy = (now.busy - before.busy) / (now.at - before.at)
    if waited > _WAITED and busy >= _BUSY * now.workers:
        return now.workers / (1 - waited)
    return busy * _ROOM


def request(count: int) -> None:
    """The request holds until the next one in this Ray cluster, by any program."""
    from ray.autoscaler.sdk import (  # type: ignore[import-not-found, unused-ignore]
        request_resources)
    request_resources(bundles=[{RESOURCE: 1}] * count)


def _status(socket: Path) -> dict[str, Any]:
    ctl = Path(daemon()).parent / "batchflowctl"
    answer = subprocess.run([str(ctl), "--service", str(socket), "status", "--json"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_EVERY_S)
    return dict(json.loads(answer.stdout))


class CpuAgents:
    """The number of agents: at least `least` and at most `most`. `ask` asks Ray for their nodes."""

    def __init__(self, least: int, most: int, ask: Callable[[int], None] = request,
                 status: Callable[[Path], dict[str, Any]] = _status):
        self._least, self._most = least, most
        self._ask, self._status = ask, status
        self.wanted = least
        self._asked: Optional[int] = None
        self._there = 0
        self._too_many = 0  # looks
        self._before: Optional[Look] = None
        self._next = 0.0

    def look(self, socket: Path) -> None:
        """Is called often, and looks now and then."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_S
            try:
                self.judge(Look.from_status(self._status(socket)))
            except (OSError, subprocess.SubprocessError, KeyError, ValueError) as problem:
                self._before = None  # the service is being started
                print(f"batchflow: {problem}", file=sys.stderr, flush=True)
        if self._asked != self.wanted:
            self._ask(self.wanted)
            self._asked = self.wanted

    def judge(self, now: Look) -> None:
        before, self._before = self._before, now
        if before is None or now.at < before.at:
            return
        more = math.ceil((workers_wanted(before, now) - now.workers) / now.of_agent)
        # Nodes that were asked for have not come yet, so no more are asked for.
        more = 0 if more > 0 and self._there < self.wanted else more
        self._too_many = self._too_many + 1 if more < 0 else 0
        if more > 0:
            self.wanted += min(more, max(1, self.wanted))  # it doubles at most
        elif self._too_many >= _LOOKS:
            self.wanted -= 1
            self._too_many = 0
        self.wanted = min(self._most, max(self._least, self.wanted))

    def too_many(self, nodes: Collection[str], agents: Collection[str]) -> set[str]:
        """The nodes that are to have no agent; those that have one keep it first."""
        self._there = sum(node in agents for node in nodes)
        return set(sorted(nodes, key=lambda node: (node not in agents, node))[self.wanted:])

    def end(self) -> None:
        self._ask(0)
