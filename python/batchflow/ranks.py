"""Which rank of its job this process is, and what the job is called.

As in PyTorch, a loader is split over ranks only where the script says so: by a DistributedSampler,
by `rank` and `world_size`, or by ranks="auto". Otherwise each rank's loader is a job of its own.
"""

from __future__ import annotations

import functools
import os
import secrets
import sys
from typing import Mapping, NamedTuple, Optional


class Rank(NamedTuple):
    rank: int
    world_size: int


ALONE = Rank(0, 1)


def find_rank(rank: Optional[int], world_size: Optional[int], auto: bool = False,
              environment: Mapping[str, str] = os.environ) -> Rank:
    """The rank that was given; with `auto`, the one that was launched; else the only rank of a
    job."""
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size belong together; write both, or neither")
    if rank is None or world_size is None:
        return launched(environment) if auto else ALONE
    return _checked(Rank(rank, world_size))


def launched(environment: Mapping[str, str] = os.environ) -> Rank:
    """The rank in torch.distributed, if that is initialised; else the one that a launcher set, or
    that this process has in a training function of Ray."""
    if (begun := _ranks_from_torch()) is not None:
        found = begun
    elif "RANK" in environment and "WORLD_SIZE" in environment:
        try:
            found = Rank(int(environment["RANK"]), int(environment["WORLD_SIZE"]))
        except ValueError:
            raise ValueError(f"RANK={environment['RANK']} and "
                             f"WORLD_SIZE={environment['WORLD_SIZE']} in the environment "
                             "are not numbers") from None
    else:
        found = _ranks_from_ray() or ALONE
    return _checked(found)


def _checked(found: Rank) -> Rank:
    if found.world_size < 1 or not 0 <= found.rank < found.world_size:
        raise ValueError(f"rank {found.rank} of {found.world_size} does not exist; ranks count "
                         "from 0 to world_size - 1")
    return found


def _ranks_from_torch() -> Optional[Rank]:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def _ranks_from_ray() -> Optional[Rank]:
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        return Rank(context.get_world_rank(), context.get_world_size())
    except Exception:  # of several kinds: this is no training function
        return None


@functools.lru_cache(maxsize=None)
def _run_of_ray() -> str:
    """The same on all ranks, and another each time that Ray starts them."""
    from ray.train import collective  # type: ignore[import-not-found, unused-ignore]
    return str(collective.broadcast_from_rank_zero(secrets.token_hex(8)))


def job_name(given: Optional[str], ranks: Rank, number: int, dataset: str,
             environment: Mapping[str, str] = os.environ) -> Optional[str]:
    """The name by which the ranks of a job find each other. None: a new name each time."""
    if given is not None:
        return given if ranks.world_size > 1 else given + _suffix_of_rank(environment)
    if ranks.world_size == 1:
        return None
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    if run in ("", "none"):
        address, port = environment.get("MASTER_ADDR"), environment.get("MASTER_PORT")
        if address and port:
            run = f"{address}:{port}"
        elif _ranks_from_ray():
            run = _run_of_ray()
        else:
            raise ValueError(
                f"rank {ranks.rank} of {ranks.world_size} does not know what its job is called: "
                "neither TORCHELASTIC_RUN_ID nor MASTER_ADDR and MASTER_PORT are set; write "
                "job_name=, the same for all ranks and different for each loader")
    return f"{run}/{number}/{dataset}"


def _suffix_of_rank(environment: Mapping[str, str]) -> str:
    """All ranks run the same script, so a job_name in it needs a suffix to name a job of each."""
    try:
        rank = launched(environment)
    except ValueError:
        return ""
    return f".rank{rank.rank}" if rank.world_size > 1 else ""
