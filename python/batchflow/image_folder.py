"""torchvision's ImageFolder in the place of a path: what it says of its samples is what counts.

The service finds the samples of the folder itself. What the ImageFolder has is compared with that,
path by path and label by label, by checksums: pieces of a few thousand samples at a time. Labels
that were edited are given as they are there; other samples, or another order of a sequence, are
refused, with the first difference.
"""

from __future__ import annotations

import os
import zlib
from array import array
from pathlib import Path
from typing import Any, NamedTuple, Optional, Protocol

PIECE = 4096  # samples that one question is about
_LABEL_MOST = 2**63 - 1


class Sums(NamedTuple):
    """Of samples in a row, as bf_loader_samples_sum has them."""

    names: int  # in order
    labels: int  # in order
    pairs: int  # in any order


class Finds(Protocol):
    """What a session knows of the data set."""

    def samples_sum(self, first: int, count: int) -> Sums: ...
    def sample_name(self, key: int) -> str: ...
    def class_names(self) -> list[str]: ...


def is_image_folder(dataset: Any) -> bool:
    """Of torchvision, or derived from it so that its samples are still what it says."""
    bases = [(base.__module__, base.__name__) for base in type(dataset).__mro__]
    if ("torchvision.datasets.folder", "DatasetFolder") not in bases:
        return False
    if not hasattr(dataset, "classes") or not hasattr(dataset, "root"):
        return False
    for name in ("__getitem__", "__len__"):
        owner = next(base for base in type(dataset).__mro__ if name in vars(base))
        if owner.__module__ != "torchvision.datasets.folder":
            raise TypeError(
                f"dataset: {type(dataset).__name__} has a {name} of its own, which the service "
                "cannot carry out; write what it does as steps (pipeline=, batchflow.step), and the "
                "folder's path here")
    return True


class ImageFolder:
    """One that a loader was given. It may be edited until the loader is opened."""

    def __init__(self, dataset: Any):
        loader = getattr(dataset, "loader", None)
        if getattr(loader, "__module__", None) != "torchvision.datasets.folder":
            raise ValueError(
                f"dataset: its loader={getattr(loader, '__name__', loader)!r} cannot be carried out "
                "by the service, which decodes pictures itself; leave it out, or write what it does "
                "to a picture as a step (pipeline=, batchflow.step)")
        if getattr(dataset, "target_transform", None) is not None:
            raise ValueError("target_transform cannot be carried out by the service; map labels "
                             "in the training loop, or in the data set's samples, and leave it out")
        self.dataset = dataset
        self.transform = getattr(dataset, "transform", None)
        self._settled: Optional[list[Any]] = None  # the samples as they were compared
        self.labels: Optional[array[int]] = None  # by key, where they differ from the service's

    @property
    def root(self) -> Path:
        # Some of torchvision's have theirs below the root that they were given.
        places = [getattr(self.dataset, name, None) for name in ("split_folder", "_data_folder")]
        return Path(next(filter(None, places), self.dataset.root))

    @property
    def classes(self) -> list[str]:
        """Folders' names, where the class list says something else of each."""
        return list(getattr(self.dataset, "wnids", self.dataset.classes))

    def settle(self, finds: Finds, found: int, ordered: bool) -> None:
        """Compares it with what the service finds, if it was not compared as it is now. `ordered`:
        the order of samples is part of what the loader promises."""
        if self.dataset.transform is not self.transform:
            raise ValueError(f"the transform of {self._kind} was changed after the DataLoader was "
                             "made, whose pipeline it is; make the DataLoader anew")
        samples = self.dataset.samples
        if self._settled is not None and samples == self._settled:  # by identity, mostly
            return
        if len(samples) != found:
            raise ValueError(
                f"{self._kind} has {_counted(len(samples), self.classes)}, and the service finds "
                f"{_counted(found, finds.class_names())}; {_WHY_OTHERS}")
        names = [self._name(path) for path, _ in samples]
        labels = [_label(target) for _, target in samples]
        self.labels = None
        for first in range(0, found, PIECE):
            piece = slice(first, min(first + PIECE, found))
            own, there = _sums(names[piece], labels[piece]), finds.samples_sum(
                first, piece.stop - first)
            if own.names != there.names:
                self._compare_unordered(names, labels, finds, ordered, piece)
                self.labels = None
                break
            if own.labels != there.labels:
                self.labels = array("q", labels)
        self._settled = list(samples)

    def _compare_unordered(self, names: list[bytes], labels: list[int], finds: Finds,
                           ordered: bool, piece: slice) -> None:
        """Where an order is drawn anyway, it does not matter in which they stand in the folder."""
        count = len(names)
        there = sum(finds.samples_sum(first, min(PIECE, count - first)).pairs
                    for first in range(0, count, PIECE)) % 2**64
        same = _sums(names, labels).pairs == there
        if same and not ordered:
            return
        key = _first_difference(names, finds, piece)
        raise ValueError(
            f"sample {key} of {self._kind} is {os.fsdecode(names[key])}, and that of the service "
            f"{finds.sample_name(key)}; " +
            ("the service goes through a folder by ascending paths: let samples be in that order, "
             "or write shuffle=True" if same else _WHY_OTHERS))

    @property
    def _kind(self) -> str:
        return type(self.dataset).__name__

    def _name(self, path: Any) -> bytes:
        """As the service calls it: below the root."""
        root = os.path.join(os.fsencode(self.root), b"")
        whole = os.fsencode(path)
        if not whole.startswith(root):
            raise ValueError(f"{self._kind} has the sample {os.fsdecode(whole)}, which does not lie "
                             f"in its root {self.root}; {_WHY_OTHERS}")
        return whole[len(root):]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settled": None, "labels": None}


_WHY_OTHERS = (
    "it follows no links to folders, takes pictures by their endings (docs/datasets.md) and decodes "
    "JPEG and PNG: put copies in the place of links, convert others, and write split= for a part of "
    "a folder")


def _label(target: Any) -> int:
    if isinstance(target, bool) or not hasattr(target, "__index__"):
        raise ValueError(f"a target {target!r} among the samples of the data set is no whole number; "
                         "the service gives labels as int64")
    label: int = target.__index__()
    if not -_LABEL_MOST <= label <= _LABEL_MOST:
        raise ValueError(f"a target {label} among the samples of the data set does not fit into "
                         "int64")
    return label


def _sums(names: list[bytes], labels: list[int]) -> Sums:
    texts = [str(label).encode() for label in labels]
    return Sums(zlib.crc32(b"\0".join(names) + b"\0"), zlib.crc32(b"\0".join(texts) + b"\0"),
                sum(zlib.crc32(name + b"\0" + text)
                    for name, text in zip(names, texts)) % 2**64)


def _first_difference(names: list[bytes], finds: Finds, piece: slice) -> int:
    first, end = piece.start, piece.stop
    while end - first > 1:
        half = (first + end) // 2
        own = _sums(names[first:half], [0] * (half - first))
        if own.names != finds.samples_sum(first, half - first).names:
            end = half
        else:
            first = half
    return int(first)


def _counted(samples: int, classes: list[str]) -> str:
    some = ", ".join(classes[:5]) + (", ..." if classes[5:] else "")
    return f"{samples} samples of {len(classes)} classes ({some})"
