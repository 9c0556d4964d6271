"""Datasets in Python that a script brings: which these are, and whether the service can load them."""

from __future__ import annotations

import os
from typing import Any, Union

from .arguments import meant_by
from .brought_order import listed
from .image_folder import ImageFolder, is_folder
from .served_dataset import ServedDataset
from .steps import NotTakable


def is_dataset(thing: Any) -> bool:
    """Whether PyTorch would take it as a Dataset: by index, or as an iterable one."""
    if isinstance(thing, (str, bytes, bytearray, memoryview, os.PathLike)):
        return False
    return is_iterable(thing) or (hasattr(thing, "__getitem__") and hasattr(thing, "__len__"))


def is_iterable(dataset: Any) -> bool:
    return any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__)


def _is_in_own_order(given: dict[str, Any]) -> bool:
    """Whether its sampler has to be asked for the order of each epoch."""
    try:
        return bool(listed(given, len(given["dataset"])).own)
    except NotTakable:
        return False


def _why_not_in_order(given: dict[str, Any]) -> str:
    """Why the service cannot give a folder that it reads in the order of the script. Empty: it can,
    and the arguments now say what a batch_sampler means."""
    try:
        # Ranks of a folder take turns by batches, whatever its DistributedSampler says.
        found = listed({**given, "ranks": "auto"}, len(given["dataset"]))
        if found.indices is not None:
            return "the service takes no list of samples for a folder that it reads itself"
        sampler = found.meant.get("sampler", given["sampler"])
        if sampler is not None:
            meant_by(sampler)
    except (NotTakable, ValueError) as problem:
        return str(problem)
    given.update(found.meant)
    return ""


def _why_not_as_folder(given: dict[str, Any]) -> str:
    """Why the service cannot read a folder itself; empty: it can, or this is no folder. Python may
    still make its samples, in the service's processes."""
    dataset = given["dataset"]
    part = getattr(dataset, "dataset", None)
    if type(dataset).__name__ == "Subset" and part is not None and is_folder(part):
        return ("a part of a folder that the service can read is split=, as {'fraction': 0.9} and "
                "for what that leaves {'fraction': 0.9, 'part': 'rest'}")
    if not is_folder(dataset):
        return ""
    try:
        ImageFolder(dataset, given["pipeline"] is None)
    except (TypeError, ValueError) as problem:
        return str(problem)
    return ""


def _why_not_loaded(given: dict[str, Any]) -> str:
    """Which of the arguments has no meaning for a Dataset in Python that the service loads."""
    for name in ("worker_init_fn", "pipeline", "split", "tokens", "packing", "packing_seed",
                 "end_token", "rows"):
        if given[name] is not None:
            return f"{name} is not for a Dataset that the service loads"
    if given["output"] not in ("auto", "torch", "numpy"):
        return f"output={given['output']!r} is not for a Dataset that the service loads"
    if str(given["service"] or os.environ.get("BATCHFLOW_SERVICE", "")).startswith("tcp://"):
        return "a service on another machine runs no code of this one"
    if _is_in_own_order(given):
        for name in ("draws", "drawing", "rehearsed", "exemplars", "receipts"):
            if given[name] is not None:
                return f"{name} is not for a sampler that decides the order"
    return ""


def served(given: dict[str, Any]) -> Union[ServedDataset, str, None]:
    """How the service loads the Dataset among the arguments, or why the script has to load it itself;
    None where the service reads files."""
    dataset = given["dataset"]
    if not is_dataset(dataset):
        if given["local"]:
            raise ValueError("local=True is for a Dataset with __getitem__ and __len__, and the "
                             f"service reads {dataset!r}; leave it out")
        return None
    if given["local"]:
        return "local=True says so"
    why = _why_not_as_folder(given)
    if is_folder(dataset) and not why and not _is_in_own_order(given):
        why = _why_not_in_order(given)
        if not why:
            return None
    if is_iterable(dataset):
        return "the service prepares samples in any order, and this one gives them in its own"
    problem = _why_not_loaded(given)
    if not problem:
        try:
            made = ServedDataset(dataset, given)
            made.why_in_python = why
            return made
        except NotTakable as refusal:
            problem = str(refusal)
    return f"{why}; and as a Dataset in Python: {problem}" if why else problem
