"""Datasets in Python that a script brings: which these are, and whether the service can load them."""

from __future__ import annotations

import os
from typing import Any, Optional

from .image_folder import ImageFolder, is_folder


def is_dataset(thing: Any) -> bool:
    """Whether PyTorch would take it as a Dataset: by index, or as an iterable one."""
    if isinstance(thing, (str, bytes, bytearray, memoryview, os.PathLike)):
        return False
    return is_iterable(thing) or (hasattr(thing, "__getitem__") and hasattr(thing, "__len__"))


def is_iterable(dataset: Any) -> bool:
    return any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__)


def why_not_served(given: dict[str, Any]) -> Optional[str]:
    """Why the script has to load its dataset itself; None where the service does."""
    dataset = given["dataset"]
    if not is_dataset(dataset):
        return None
    if is_folder(dataset):
        try:
            ImageFolder(dataset, given["pipeline"] is None)
        except (TypeError, ValueError) as problem:
            return str(problem)
        return None
    if is_iterable(dataset):
        return "the service prepares samples in any order, and this one gives them in its own"
    part = getattr(dataset, "dataset", None)
    if type(dataset).__name__ == "Subset" and part is not None and is_folder(part):
        return ("a part of a folder that the service can read is split=, as {'fraction': 0.9} and "
                "for what that leaves {'fraction': 0.9, 'part': 'rest'}")
    return "the service reads files, and what __getitem__ does is not a file"
