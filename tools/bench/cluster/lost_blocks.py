"""What the loss of an agent costs: the blocks that it held are prepared again, and no others.

This is counted by the samples that workers have prepared, by the blocks that the coordinator has had
prepared again, and by the samples of the epoch, each of which a job has once.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import service


class Prepared(NamedTuple):
    """Since the nodes began. What an agent that is lost had prepared is not in it any more."""
    here: int  # samples, by workers of the coordinator
    by_agent: dict[str, int]
    again: int  # blocks


def prepared(coordinator: Path) -> Prepared:
    """`coordinator`: its socket."""
    now = service.status(coordinator)
    return Prepared(now["prepared_samples"],
                    {one["name"]: one["prepared_samples"] for one in now["nodes"]}, now["remakes"])


def settled(coordinator: Path) -> Prepared:
    """Once nothing is prepared any more. Agents report every second."""
    while True:
        before = prepared(coordinator)
        time.sleep(2.5)
        if prepared(coordinator) == before:
            return before


class Loss(NamedTuple):
    """In blocks."""
    held: int  # that the agent had prepared
    again: int  # that were prepared again


def loss(before: Prepared, held: Prepared, after: Prepared, agent: str, samples: int,
         block: int) -> Loss:
    """Of an epoch of `samples`, in blocks of `block`, that one job had: `before` it began, when the
    agent was killed, and after it. An AssertionError: the counts say different things."""
    if held.again != before.again:
        raise AssertionError("blocks were prepared again before anything was lost")
    all_prepared = held.by_agent[agent] + after.here - before.here
    again = all_prepared - samples  # each sample of the epoch once, and these twice
    found = Loss(held.by_agent[agent] // block, after.again - before.again)
    if again != found.again * block or again > held.by_agent[agent]:
        raise AssertionError(f"{again} samples were prepared twice, in blocks of {block}: {found}")
    return found
