"""What a job asks of its order beside its name: draws, blocks for a node, rehearsal; and the
samplers of PyTorch that draw with replacement, which are such orders."""

from __future__ import annotations

import dataclasses
import math
from array import array
from typing import Any, Optional, Sequence

from . import mixture
from . import rehearsal as rehearsals
from .checks import whole
from .library import DRAWINGS
from .live import Live
from .rehearsal import Buffer

DRAWS_MOST = 2**31  # as in core/order/weights.h
EXEMPLARS_MOST = 65536  # BF_EXEMPLARS_MOST
# Weights have 32 bits: up to this ratio each is taken to one part in as many, or better.
_WEIGHTS_RATIO_MOST = 65536.0

Scores = tuple[Sequence[int], Sequence[float]]  # keys, and one for each


@dataclasses.dataclass
class OrderOptions:
    drawing: str
    draws: int  # 0: as many as there are samples
    node_local: bool
    runs: bool  # shuffle="runs"
    rehearsed: int
    exemplars: "array[int]"  # the buffer: keys
    buffer: Optional[Buffer] = None  # or one that the service fills
    sources: "dict[str, float]" = dataclasses.field(default_factory=dict)  # of a mixture
    sources_in_order: bool = False
    weights_change: bool = False
    schedule: "list[mixture.Change]" = dataclasses.field(default_factory=list)
    weights_policy: Optional[str] = None
    live: Optional[Live] = None


def keys_of(name: str, keys: Any) -> "array[int]":
    """Keys of samples from a tensor on any device, an array or a list."""
    values = keys.tolist() if hasattr(keys, "tolist") else list(keys)
    if len(values) > EXEMPLARS_MOST:
        raise ValueError(f"{name} has {len(values)} keys; a buffer holds {EXEMPLARS_MOST}")
    try:
        return array("Q", values)
    except (OverflowError, TypeError) as problem:
        raise ValueError(f"{name} should be keys of samples, as batch.sample_keys gives them: "
                         f"{problem}") from None


def read(given: dict[str, Any], order: str) -> OrderOptions:
    drawing, draws = given["drawing"], given["draws"]
    buffer, rehearsed = rehearsals.read(given)
    batch_size = given["batch_size"] or 1
    if drawing not in (None, *DRAWINGS):
        raise ValueError(f"drawing={drawing!r}: write systematic or multinomial")
    if order != "weighted" and (drawing is not None or (draws is not None and order != "mixed")):
        raise ValueError(f"draws and drawing are for order='weighted', and this order is {order}; "
                         "write that, or leave them out")
    if given["node_local"] and order != "relaxed":
        raise ValueError("node_local=True is for order='relaxed', which alone has a sequence for "
                         f"each node, and this order is {order}; leave it out")
    if rehearsed and order == "weighted":
        raise ValueError("rehearsed is for an order that has each sample once, or a mixture, and "
                         "order='weighted' is drawn; leave it out")
    if rehearsed >= batch_size:
        raise ValueError(f"rehearsed={rehearsed} of batch_size={batch_size} leaves no room for new "
                         "samples; write less than the batch size")
    exemplars = keys_of("exemplars", () if given["exemplars"] is None else given["exemplars"])
    if exemplars and not rehearsed:
        raise ValueError("exemplars are the buffer that is rehearsed; write rehearsed=, how many "
                         "samples of each batch come from it")
    sources = mixture.read(given)
    return OrderOptions(
        drawing=drawing or "systematic",
        draws=0 if draws is None else whole("draws", draws, 1,
                                            10**12 if order == "mixed" else DRAWS_MOST),
        node_local=bool(given["node_local"]),
        runs=given["shuffle"] == "runs",
        rehearsed=rehearsed,
        exemplars=exemplars,
        buffer=buffer,
        sources=sources,
        sources_in_order=not given["shuffle"],
        weights_change=bool(given["weights_change"]),
        schedule=mixture.schedule_of(given["weights_at"], sources, given["dataset"]),
        weights_policy=given["weights_policy"],
        live=given.get("live"))


# ----------------------------------------------------------------------- PyTorch's samplers --

def with_replacement(sampler: Any) -> Optional[tuple[dict[str, Any], int]]:
    """The arguments that mean the same as a sampler that draws with replacement, and the samples it
    draws from; None for another sampler."""
    kind = type(sampler).__name__
    if kind not in ("RandomSampler", "WeightedRandomSampler") or not sampler.replacement:
        return None
    meant = {"order": "weighted", "shuffle": None, "drawing": "multinomial",
             "draws": sampler.num_samples}
    samples = len(sampler.data_source if kind == "RandomSampler" else sampler.weights)
    return meant, samples


def scores_of(sampler: Any) -> Optional[Scores]:
    """The scores by which a WeightedRandomSampler draws; None where all samples weigh the same."""
    if type(sampler).__name__ != "WeightedRandomSampler":
        return None
    weights = [float(weight) for weight in sampler.weights.tolist()]
    # PyTorch raises the first two errors when it draws, in these words.
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError("probability tensor contains either `inf`, `nan` or element < 0")
    greatest = max(weights, default=0)
    if greatest == 0:
        raise ValueError("invalid multinomial distribution (sum of probabilities <= 0)")
    least = min(weight for weight in weights if weight > 0)
    if greatest / least > _WEIGHTS_RATIO_MOST:
        raise ValueError(f"sampler: its weights are from {least:g} to {greatest:g}, and the service "
                         f"draws by weights of which the greatest is at most "
                         f"{_WEIGHTS_RATIO_MOST:.0f} times the least; raise the least, or make "
                         "them 0")
    if least == greatest == min(weights):
        return None
    # A power of two changes no weight; the greatest becomes 2^15 to 2^16, where they are finest.
    power = 16 - math.frexp(greatest)[1]
    return (array("Q", range(len(weights))),
            array("f", (math.ldexp(weight, power) for weight in weights)))
