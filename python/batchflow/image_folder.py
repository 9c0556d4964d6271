"""torchvision's ImageFolder as the dataset of a loader, instead of a path.

The service finds the samples of the folder itself. The paths and labels of the ImageFolder are
compared with them by checksums, a few thousand samples at a time. Labels that were edited are given
as the ImageFolder has them. Other samples, or another order of a sequence, are refused; the error
names the first difference. All of it is looked at again at each epoch, since a script may edit it.
"""

from __future__ import annotations

import itertools
import operator
import os
import zlib
from array import array
from pathlib import Path
from typing import Any, NamedTuple, Optional, Protocol

from .torchvision import Pipeline, pipeline_of
from .torchvision_steps import NotMappable, parts_of

_TORCHVISIONS = "torchvision.datasets.folder"
PIECE = 4096  # samples in one question to the service
_LABEL_MOST = 2**63 - 1


class Sums(NamedTuple):
    """Checksums of consecutive samples, as in bf_samples_sum."""

    names: int  # in order
    labels: int  # in order
    pairs: int  # in any order


class Finds(Protocol):
    """What a session knows about the dataset."""

    def samples_sum(self, first: int, count: int) -> Sums: ...
    def sample_name(self, key: int) -> str: ...
    def class_names(self) -> list[str]: ...


def is_folder(dataset: Any) -> bool:
    """Whether it is torchvision's, or derived from it."""
    bases = [(base.__module__, base.__name__) for base in type(dataset).__mro__]
    return ((_TORCHVISIONS, "DatasetFolder") in bases and hasattr(dataset, "classes") and
            hasattr(dataset, "root"))


def is_image_folder(dataset: Any) -> bool:
    """Whether it is a folder that is read as torchvision does. Refuses one that is read
    otherwise."""
    if not is_folder(dataset):
        return False
    own = [name for name in ("__getitem__", "__len__")
           if not _is_torchvisions(getattr(type(dataset), name))]
    if getattr(dataset, "__getitems__", None):  # with which PyTorch reads where it is
        own.append("__getitems__")
    if own:
        raise TypeError(
            f"dataset: {type(dataset).__name__} has a {own[0]} of its own, which the service "
            "cannot carry out; write what it does as steps (pipeline=, batchflow.step), and the "
            "folder's path here")
    return True


def _is_torchvisions(function: Any) -> bool:
    # functools.wraps copies __module__, but not this.
    return getattr(function, "__globals__", {}).get("__name__") == _TORCHVISIONS


def _check(dataset: Any) -> None:
    if not is_image_folder(dataset):
        raise TypeError(f"dataset: a {type(dataset).__name__} is no ImageFolder any more; make a "
                        "new DataLoader")
    loader = getattr(dataset, "loader", None)
    if not _is_torchvisions(loader):
        raise ValueError(
            f"dataset: its loader={getattr(loader, '__name__', loader)!r} cannot be carried out "
            "by the service, which decodes pictures itself; leave it out, or write what it does "
            "to a picture as a step (pipeline=, batchflow.step)")
    if getattr(dataset, "target_transform", None) is not None:
        raise ValueError("target_transform cannot be carried out by the service; map labels "
                         "in the training loop, or in the dataset's samples, and leave it out")


class ImageFolder:
    """The ImageFolder of a loader. `is_mapped`: its transform is what the service carries out."""

    def __init__(self, dataset: Any, is_mapped: bool):
        _check(dataset)
        self.dataset, self._is_mapped = dataset, is_mapped
        self.pipeline = self._mapped()
        self._transforms = self._shown()
        self._settled: Optional[list[Any]] = None  # the samples as they were compared
        self.labels: Optional[array[int]] = None  # by key, where they differ from the service's

    @property
    def root(self) -> Path:
        # Some classes of torchvision have their folder below the root that they were given.
        folders = [getattr(self.dataset, name, None) for name in ("split_folder", "_data_folder")]
        return Path(next(filter(None, folders), self.dataset.root))

    @property
    def classes(self) -> list[str]:
        """The names of folders, also where `classes` has other names."""
        return list(getattr(self.dataset, "wnids", self.dataset.classes))

    def settle(self, finds: Finds, found: int, ordered: bool) -> None:
        """Compares it with the samples that the service finds, unless that was done before and it
        has not changed. `ordered`: the loader promises the order of the samples, too."""
        _check(self.dataset)
        self._check_transform()
        samples = self.dataset.samples
        if type(samples) not in (list, tuple):  # others may give something else each time
            raise ValueError(f"samples of {self._kind} is a {type(samples).__name__}; make it a "
                             "plain list: [(str(path), int(label)) for path, label in samples]")
        if self._settled is not None and len(samples) == len(self._settled) and all(
                map(operator.is_, samples, self._settled)):
            return
        if len(samples) != found:
            raise ValueError(
                f"{self._kind} has {_counted(len(samples), self.classes)}, and the service finds "
                f"{_counted(found, finds.class_names())}; {_WHY_OTHERS}")
        names = [self._name(path) for path, _ in samples]
        labels = [_label(target) for _, target in samples]
        given: Optional[array[int]] = None
        for first in range(0, found, PIECE):
            piece = slice(first, min(first + PIECE, found))
            own, there = _sums(names[piece], labels[piece]), finds.samples_sum(
                first, piece.stop - first)
            if own.names != there.names:
                self._compare_unordered(names, labels, finds, ordered, piece)
                given = None
                break
            if own.labels != there.labels:
                given = array("q", labels)
        self.labels = given  # at once, for iterations that are under way
        # What can be edited in place is compared each time.
        fixed = all(type(one) is tuple and type(one[1]) is int for one in samples)
        self._settled = list(samples) if fixed else None

    def _mapped(self) -> Optional[Pipeline]:
        transform = getattr(self.dataset, "transform", None)
        return pipeline_of(transform) if self._is_mapped and transform is not None else None

    def _shown(self) -> list[str]:
        """The transforms in the user's words."""
        transform = getattr(self.dataset, "transform", None)
        return [] if transform is None else list(map(repr, parts_of(transform)))

    def _check_transform(self) -> None:
        try:
            if self._mapped() == self.pipeline:
                return
            why = ""
        except NotMappable as problem:
            why = f", and cannot be mapped ({problem})"
        pairs = itertools.zip_longest(self._transforms, self._shown(), fillvalue="nothing")
        was, now = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        what = f": {was} became {now}" if was else ""
        raise ValueError(f"the transform of {self._kind} was changed after the DataLoader was made "
                         f"with it{what}{why}; make a new DataLoader")

    def _compare_unordered(self, names: list[bytes], labels: list[int], finds: Finds,
                           ordered: bool, piece: slice) -> None:
        """Compares the samples without their order, which does not matter where the service draws
        one."""
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
        """The service's name of a sample: its path below the root."""
        root = os.path.join(os.fsencode(self.root), b"")
        whole = os.fsencode(path)
        if not whole.startswith(root):
            raise ValueError(f"{self._kind} has the sample {os.fsdecode(whole)}, which is not in "
                             f"its root {self.root}; {_WHY_OTHERS}")
        return whole[len(root):]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settled": None, "labels": None}


_WHY_OTHERS = (
    "it follows no links to folders, takes pictures by their endings (docs/datasets.md) and decodes "
    "some kinds of them (docs/python.md): replace links by copies, convert other pictures, and write "
    "split= for a part of a folder")


def _label(target: Any) -> int:
    """`target` may be a number of NumPy or PyTorch, too."""
    is_whole = not isinstance(target, bool) and "bool" not in str(getattr(target, "dtype", ""))
    try:
        label = operator.index(target)
    except (TypeError, RuntimeError):  # PyTorch's, of a tensor that is no whole number
        is_whole = False
    if not is_whole or getattr(target, "shape", ()) != ():
        raise ValueError(f"a target {target!r} among the samples of the dataset is not a whole "
                         "number; the service gives labels as int64")
    if not -_LABEL_MOST <= label <= _LABEL_MOST:
        raise ValueError(f"a target {label} among the samples of the dataset does not fit into "
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
    names = ", ".join(classes[:5]) + (", ..." if classes[5:] else "")
    return f"{samples} samples of {len(classes)} classes ({names})"
