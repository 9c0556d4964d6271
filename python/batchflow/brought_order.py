"""Samplers over a Dataset that the service loads: the samples that they go over, and the arguments
that mean the same."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from .steps import NotTakable

_DISTRIBUTED = ("DistributedSampler", "StatefulDistributedSampler")
# What these mean is said elsewhere (arguments.py).
_BY_NAME = ("SequentialSampler", "RandomSampler", "WeightedRandomSampler", *_DISTRIBUTED)

ORDERED_BY = ("sampler", "batch_sampler", "shuffle", "batch_size", "rank", "ranks")


class Listed(NamedTuple):
    """`indices`: of the Dataset, an array in the order of the sampler; None: it goes over all of
    them. `meant`: the arguments that replace sampler and batch_sampler. `own`: the class of a
    sampler that is asked for its order at each epoch (own_order.py); else empty."""

    indices: Optional[Any]
    meant: dict[str, Any]
    own: str = ""


def listed(given: dict[str, Any], samples: int) -> Listed:
    """Throws NotTakable for an order that only the script can make."""
    batches = given["batch_sampler"]
    by_rank = given["rank"] is None and given["ranks"] is None  # else these say what a rank gets
    if batches is None:
        return _of_sampler(given["sampler"], samples, {}, by_rank)
    if given["sampler"] is not None or given["shuffle"] or given["batch_size"] != 1:
        raise NotTakable("batch_sampler is given beside batch_size, shuffle or sampler")
    if type(batches).__name__ == "BatchSampler":
        return _of_sampler(batches.sampler, samples, {
            "batch_sampler": None, "sampler": batches.sampler, "batch_size": batches.batch_size,
            "drop_last": batches.drop_last}, by_rank)
    if not isinstance(batches, (list, tuple)) or not batches:
        return _own(batches, {"batch_sampler": None}, by_rank)
    sizes = [len(batch) for batch in batches]
    if any(size != sizes[0] for size in sizes[:-1]) or sizes[-1] > sizes[0]:
        return _own(batches, {"batch_sampler": None}, by_rank)
    return _of_list([index for batch in batches for index in batch], samples,
                    {"batch_sampler": None, "batch_size": sizes[0], "shuffle": False})


def _of_sampler(sampler: Any, samples: int, meant: dict[str, Any], by_rank: bool) -> Listed:
    kind = type(sampler).__name__
    if by_rank and kind in _DISTRIBUTED and not sampler.shuffle:
        # What a rank gets by its number is put back in order by that number, as predictions are.
        return _of_list(list(sampler), samples, {**meant, "sampler": None, "shuffle": False})
    if sampler is None or kind in _BY_NAME:
        return Listed(None, meant)
    if kind == "SubsetRandomSampler":
        return _of_list(sampler.indices, samples, {
            **meant, "sampler": None, "shuffle": True,
            **({} if sampler.generator is None else {"generator": sampler.generator})})
    if kind in ("list", "tuple", "range", "ndarray", "Tensor"):
        return _of_list(sampler, samples, {**meant, "sampler": None, "shuffle": False})
    return _own(sampler, {**meant, "sampler": None}, by_rank)


def _own(order: Any, meant: dict[str, Any], by_rank: bool) -> Listed:
    """A sampler of any class, or batches of any sizes."""
    kind = type(order).__name__
    if not hasattr(order, "__iter__") and not hasattr(order, "__getitem__"):
        raise NotTakable(f"a {kind} gives no indices one after the other")
    if not by_rank:
        raise NotTakable(f"a {kind} says what this rank gets")
    # A last batch that is smaller is left out where the order is drawn.
    return Listed(None, {**meant, "shuffle": False, "drop_last": False}, kind)


def _of_list(values: Any, samples: int, meant: dict[str, Any]) -> Listed:
    return Listed(checked_indices(values, samples), meant)


def checked_indices(values: Any, samples: int) -> Any:
    """The indices as an array."""
    import numpy
    try:
        indices = numpy.asarray(values)
    except (OverflowError, ValueError):
        indices = numpy.empty(0)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise NotTakable("the sampler is no list of indices")
    indices = indices.astype("<i8")
    if indices.min() < -samples or indices.max() >= samples:
        raise NotTakable(f"the sampler has an index that no Dataset of {samples} samples has")
    return indices
