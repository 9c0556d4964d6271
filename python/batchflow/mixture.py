"""Mixtures: several sources of one dataset, each at its share of the samples."""

from __future__ import annotations

import bisect
import ctypes
import dataclasses
import functools
import math
import os
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from . import library as c
from .checks import whole

SOURCES_MOST = 4096  # BF_SOURCES_MOST


class Source(NamedTuple):
    """A source of a mixture, after the batches that the loader has given."""

    weight: float  # all weights sum to 1
    drawn: int  # samples, by all ranks
    first_key: int
    samples: int  # the keys of its samples are first_key and those that follow


class Change(NamedTuple):
    """Other weights that are known to come."""

    at: int  # they count from this sample of the job on
    weights: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Where the mixture of a job is, after the batches that its loader has given."""

    drawn: int  # samples, by all ranks
    sources: dict[str, Source]
    changes: list[Change]

    @functools.cached_property
    def _by_key(self) -> tuple[list[int], list[str]]:
        pairs = sorted((source.first_key, name) for name, source in self.sources.items())
        return [first for first, _ in pairs], [name for _, name in pairs]

    def source_of(self, key: int) -> str:
        """The name of the source that a sample is from."""
        firsts, names = self._by_key
        name = names[max(0, bisect.bisect_right(firsts, key) - 1)]
        source = self.sources[name]
        if not 0 <= key - source.first_key < source.samples:
            raise ValueError(f"sample {key} is of no source of the mixture")
        return name


def take_apart(given: dict[str, Any]) -> None:
    """A dataset that is a dict of paths and weights becomes the folder that they are in, with the
    mixture of what lies there."""
    dataset = given["dataset"]
    if isinstance(dataset, Mapping):
        if given["mixture"] is not None:
            raise TypeError("dataset is a mixture, and mixture= is given, too; leave one of them out")
        given["dataset"], given["mixture"] = _one_folder(dataset)
    elif given["mixture"] is not None and not isinstance(dataset, (str, os.PathLike)):
        raise TypeError("mixture= is for files that the service reads, not for a "
                        f"{type(dataset).__name__}; write their folder as the dataset")
    given["mix"] = None
    if given["mixture"] is not None and given["packing"] is not None:
        _take_documents(given)


def _take_documents(given: dict[str, Any]) -> None:
    """Documents are mixed before they are packed, so the sequences are a dataset of their own."""
    for name in ("weights_change", "weights_at", "weights_policy", "draws"):
        if given[name]:
            raise ValueError(f"{name}={given[name]!r}: with packing= documents are mixed before they are "
                             "packed, by weights that stay; pack each source for itself (batchflowctl "
                             "pack SOURCE FOLDER/NAME --tokens N), and mix what is in FOLDER")
    names = read(given)
    for name in names:
        if set(name) & set(",+:"):
            raise ValueError(f"mixture: {name!r}: the name of a source of documents has no comma, plus or "
                             "colon")
    given["mix"] = "+".join(f"{name}:{weight!r}" for name, weight in names.items())
    given["mixture"] = None


def _one_folder(weights: Mapping[Any, Any]) -> tuple[Path, dict[str, Any]]:
    paths = {}
    for path in weights:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"a source of a mixture should be a path, not {type(path).__name__}")
        if "://" in os.fspath(path):
            raise ValueError(f"{path}: sources in a store are named below their common prefix: "
                             "DataLoader('s3://bucket/prefix', mixture={'web': 0.7, ...})")
        paths[path] = os.path.abspath(os.path.expanduser(path))
    if len(set(paths.values())) < len(paths):
        raise ValueError("two sources of the mixture are the same folder or file")
    if not paths:
        raise ValueError("the mixture has no sources; write paths and their weights")
    folder = os.path.commonpath([os.path.dirname(path) for path in paths.values()])
    if folder == os.path.dirname(folder):
        raise ValueError(f"the sources of a mixture should lie below one folder, which is the dataset, "
                         f"and {', '.join(paths.values())} have only {folder} in common")
    return Path(folder), {os.path.relpath(path, folder): weights[name]
                          for name, path in paths.items()}


def read(given: dict[str, Any]) -> dict[str, float]:
    """The sources and their weights, checked; none where the job has no mixture."""
    mixture = given["mixture"]
    if mixture is None:
        for name in ("weights_change", "weights_at", "weights_policy"):
            if given[name]:
                raise ValueError(f"{name}={given[name]!r} is for a mixture; write mixture=, or leave "
                                 "it out")
        return {}
    if not isinstance(given["weights_change"], bool):
        raise TypeError(f"weights_change should be a boolean, not {given['weights_change']!r}")
    policy = given["weights_policy"]
    if policy is not None and not isinstance(policy, str):
        raise TypeError("weights_policy should be the name of a policy, as 'excess-loss', not "
                        f"{policy!r}")
    if policy is not None and given["weights_at"]:
        raise ValueError("weights_at is a schedule of the weights, and weights_policy changes them, "
                         "too; leave one of them out")
    if not isinstance(mixture, Mapping):
        raise TypeError("mixture should be a dict of sources and their weights, not "
                        f"{type(mixture).__name__}")
    if not 0 < len(mixture) <= SOURCES_MOST:
        raise ValueError(f"mixture has {len(mixture)} sources; write 1 to {SOURCES_MOST}")
    if given["shuffle"] == "runs":
        raise ValueError("shuffle='runs' is a relaxed order, and a mixture has its own; write "
                         "shuffle=True")
    if given["order"] not in (None, "mixed"):
        raise ValueError(f"order={given['order']!r} contradicts mixture=, which is an order; leave "
                         "one of them out")
    if given["sampler"] is not None or given["batch_sampler"] is not None:
        raise ValueError("a sampler and a mixture each say which samples come; leave one of them out")
    names = {}
    for name, weight in mixture.items():
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(f"a source of a mixture should be a name, not {type(name).__name__}")
        names[os.path.normpath(os.fspath(name))] = _weight(f"mixture: {name}", weight)
    if len(names) < len(mixture):
        raise ValueError("two sources of the mixture are the same folder or file")
    check_any(names.values())
    # The same in all ranks, and in a later run, in whatever order it was written.
    return dict(sorted(names.items()))


def check_any(weights: Any) -> None:
    if not any(weight > 0 for weight in weights):
        raise ValueError("all weights of the mixture are 0, so there is nothing to draw; write one "
                         "above 0")


def _weight(what: str, weight: Any) -> float:
    if isinstance(weight, (str, bytes)) or not hasattr(weight, "__float__"):
        raise TypeError(f"{what}: the weight should be a number, not {weight!r}")
    try:
        value = float(weight)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{what}: the weight is {value:g}; write a finite number that is not below 0")
    return value


def _by_source(what: str, names: Sequence[str], folder: str, given: Any) -> dict[str, Any]:
    """The values that the method `what` was given, by the names of the sources, which lie in
    `folder`."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} takes a dict of sources, not {type(given).__name__}")
    known = {_name_in(folder, name): value for name, value in given.items()}
    if len(known) < len(given):
        raise ValueError(f"{what}: two of the sources are the same folder or file")
    for unknown in set(known) - set(names):
        raise ValueError(f"{what}: there is no source {unknown!r}; the mixture has "
                         f"{', '.join(sorted(names)[:20])}")
    return known


def weights_of(names: Sequence[str], folder: str, given: Any, what: str = "set_weights") -> list[float]:
    """The weights that were given, in the order of the sources."""
    known = _by_source(what, names, folder, given)
    if len(known) < len(names):
        missing = next(name for name in names if name not in known)
        raise ValueError(f"{what}: {missing!r} has no weight; write one for each source, 0 for none")
    weights = [_weight(f"{what}: {name}", known[name]) for name in names]
    check_any(weights)
    return weights


def losses_of(names: Sequence[str], folder: str, given: Any) -> list[float]:
    """The losses that report_losses() was given, in the order of the sources: NaN for a source
    without one."""
    known = _by_source("report_losses", names, folder, given)
    for name, loss in known.items():
        if isinstance(loss, (str, bytes)) or not hasattr(loss, "__float__"):
            raise TypeError(f"report_losses: {name}: the loss should be a number, not {loss!r}")
    return [float(known.get(name, math.nan)) for name in names]


def schedule_of(given: Any, sources: Mapping[str, float], folder: Any) -> list[Change]:
    """The weights that weights_at= says, by the sample from which on they count."""
    if not given:
        return []
    try:
        pairs = list(given.items() if isinstance(given, Mapping) else given)
        changes = [Change(whole("weights_at", at, 0, 2**62), weights) for at, weights in pairs]
    except (TypeError, ValueError) as problem:
        raise type(problem)("weights_at should say from which samples on which weights count, as "
                            f"{{90_000: {{'web': 1, 'code': 2}}}}: {problem}") from None
    names = list(sources)
    return sorted((Change(at, dict(zip(names, weights_of(names, os.path.abspath(folder), weights,
                                                         f"weights_at: {at}"))))
                   for at, weights in changes), key=lambda change: change.at)


def _name_in(folder: str, name: Any) -> str:
    path = os.path.expanduser(os.fspath(name))
    return os.path.relpath(path, folder) if os.path.isabs(path) else os.path.normpath(path)


def fill(options: Any, names: Mapping[str, float], in_order: bool, weights_change: bool) -> None:
    """Puts the mixture into the options of the library, which keep all that they refer to."""
    count = len(names)
    options.kept_names = (ctypes.c_char_p * count)(
        *(name.encode("utf-8", "surrogateescape") for name in names))
    options.kept_weights = (ctypes.c_double * count)(*names.values())
    options.sources = ctypes.cast(options.kept_names, ctypes.POINTER(ctypes.c_char_p))
    options.source_weights = ctypes.cast(options.kept_weights, ctypes.POINTER(ctypes.c_double))
    options.sources_count = count
    options.sources_in_order, options.weights_change = in_order, weights_change


def fill_changes(options: Any, schedule: Sequence[Change], policy: Optional[str]) -> None:
    """Puts into the options how weights change without being asked for."""
    options.weights_policy = None if policy is None else policy.encode()
    if not schedule:
        return
    weights = [weight for change in schedule for weight in change.weights.values()]
    options.kept_schedule = (ctypes.c_double * len(weights))(*weights)
    options.kept_times = (ctypes.c_uint64 * len(schedule))(*(change.at for change in schedule))
    options.schedule_weights = ctypes.cast(options.kept_schedule, ctypes.POINTER(ctypes.c_double))
    options.schedule_at = ctypes.cast(options.kept_times, ctypes.POINTER(ctypes.c_uint64))
    options.schedule_count = len(schedule)


def described(raw: c.RawMixture, names: Sequence[str]) -> Mixture:
    """What the library says of a mixture."""
    return Mixture(raw.drawn, {
        name: Source(raw.weights[i], raw.taken[i], raw.first[i], raw.samples[i])
        for i, name in enumerate(names)}, [
        Change(raw.changes_at[k], {name: raw.changed_weights[k * len(names) + i]
                                   for i, name in enumerate(names)})
        for k in range(raw.changes)])


__all__ = ["Change", "Mixture", "Source"]
