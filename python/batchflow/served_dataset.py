"""A Dataset of a script that the service loads: packed as a step, tried, and put into files.

What goes to the service is a file of indices, which is the dataset, and a step that makes
`dataset[index]` of each (step_dataset.py). Both have the hash of the Dataset's code and state in
their names, so two jobs that bring the same Dataset share all that is made of it.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import operator
import os
import pickle
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Optional

from .arguments import say
from .brought_folder import HELD, HeldFile, alone_in, brought_folder, keep_longer, write_whole
from .brought_order import ORDERED_BY, checked_indices, listed
from .passing import ApartPickler, cannot_be_pickled, pieces
from .shown_here import shown_here
from .step_dataset import (ALIGNMENT, FORM, SHOWN_BYTES, alike, is_plain, open_layout, tensor_of,
                           view_of, words)
from .step_memory import memory_for
from .step_probe import Failed, Probe
from .step_worker import TYPES
from .steps import MARK, NotTakable, Packer, written

_STATE_MOST = 4 << 30
_SAMPLES_MOST = 1 << 31
_ROW_MOST = 256 << 20
_BUNDLE_MOST = 48 << 10
_MAKES = "and the service makes arrays, numbers and texts, and tuples, lists and dicts of these"
_PROBED = 8  # samples
_MEASURED = 64  # samples more, where they differ in length
# Room for a sample that differs, over the longest that was seen. A longer sample is corrupt.
_ROOM_TIMES, _ROOM_MORE = 4, 256
_SEED = 1000
_PROBED_LEAST = 3  # however long they take
_PROBE_S = 10.0  # no further sample is probed then, from when the Dataset was there
_MIB = 1 << 20

# What is in memory as it is given has nothing that a service could prepare.
_AT_HAND = ("list", "tuple", "range", "ndarray", "Tensor", "dict")


class ByFolder(NotTakable):
    """Another result is possible in the folder of the script, if the Dataset has paths that begin
    there."""


class _StatePickler(ApartPickler):
    """Code of the script goes into the bundle."""

    def __init__(self, out: Any, buffers: list[Any], packer: Packer):
        super().__init__(out, buffers)
        self._packer = packer

    def take_code(self, value: Any) -> None:
        if value in (tensor_of, view_of):
            return
        super().take_code(value)
        if getattr(value, "__module__", None) == "__main__":
            self._packer.take(getattr(value, "__qualname__", ""), value, value)
        else:  # its module is part of the version
            imported = self._packer.importable(value)
            if imported and imported[2]:
                top = str(imported[0]).split(".")[0]
                self._packer.content.setdefault("versions", {})[top] = imported[2]


class Packed:
    """The code and the state of a Dataset; a trial shows the rest. Throws NotTakable."""

    def __init__(self, dataset: Any):
        self.samples = operator.index(len(dataset))
        self.packer = Packer(takes_classes=True)
        mark = getattr(type(dataset).__getitem__, MARK, {})
        self.declared: Optional[bool] = mark.get("random")  # None: it says nothing
        said = mark.get("output")  # of samples that differ: the bytes of the longest
        self.room = int(said[1][0]) if said and said[0] == "uint8" and len(said[1]) == 1 else 0
        if self.room:
            self.packer.content["room"] = self.room
        self.packer.content.update(
            name=type(dataset).__name__[:64], random=True, version=mark.get("version", ""),
            output=["uint8", [SHOWN_BYTES]], memory=mark.get("memory"), entry="")
        self.buffers: list[Any] = []
        self.digest = ""
        out = io.BytesIO()
        try:
            _StatePickler(out, self.buffers, self.packer).dump(dataset)
        except NotTakable:
            raise
        except Exception as problem:  # of many kinds, of the classes of the state
            raise cannot_be_pickled(problem) from None
        self.pickle = out.getvalue()
        self.shown: dict[str, Any] = {}
        if not self.packer.source_lines:
            self.packer.source_lines.append((_file_of(dataset), 1))
        self.packer.content.update(self.packer.own_modules())

    def checksum(self) -> tuple[Any, ...]:
        """Shows quickly whether the Dataset was changed."""
        return (self.samples, zlib.crc32(self.pickle), len(self.pickle),
                *(zlib.adler32(buffer) for buffer in self.buffers))

    def show_here(self) -> None:
        """Makes a sample in this process, of a copy of the Dataset: other processes do not have what
        the script has set for itself, in its environment or in the variables of modules."""
        self.shown = shown_here(self.pickle, self.buffers, _SEED)
        if self.shown.get("problem"):
            raise NotTakable(f"sample 0 has {self.shown['problem']}, {_MAKES}")

    def begin_here(self) -> bool:
        """Lets confined processes begin in the folder in which the script is. The folder is then
        part of what the Dataset is."""
        here = os.getcwd()
        if here == "/" or "folder" in self.packer.content:
            return False
        self.packer.content["folder"] = here
        return True

    def check_shown(self, there: dict[str, Any]) -> None:
        if "raised" in self.shown:
            raise ByFolder(f"sample 0 raises {self.shown['raised']} in this script, and not in a "
                             "confined process")
        if alike(self.shown, there):
            return
        here, there_is = _shown(self.shown), _shown(there)
        raise ByFolder(
            (f"sample 0 is {here} in this script and {there_is} in a confined process"
             if here != there_is else "sample 0 has other values in a confined process") +
            ", which has nothing that the script has set outside of the Dataset (variables of modules "
            "or of the environment, defaults of PyTorch); keep that in the Dataset")

    def take_digest(self) -> str:
        """Names the Dataset by its code, its state and its length, and by sample 0, which shows
        something of the files that it reads."""
        state = hashlib.sha256(f"{FORM} {sys.executable} ".encode())
        state.update(struct.pack("<QQ", self.samples, len(self.pickle)) + self.pickle)
        for buffer in self.buffers:
            state.update(struct.pack("<Q", buffer.nbytes))
            state.update(buffer)
        state.update(json.dumps(self.packer.content, sort_keys=True).encode())
        state.update(self.shown.get("digest", "").encode())
        self.digest = state.hexdigest()[:40]
        return self.digest

    def check(self) -> None:
        if not 0 < self.samples <= _SAMPLES_MOST:
            raise NotTakable(f"it has {self.samples} samples, and the service takes 1 to "
                             f"{_SAMPLES_MOST}")
        size = len(self.pickle) + sum(buffer.nbytes for buffer in self.buffers)
        if size > _STATE_MOST:
            raise NotTakable(f"its state has {size >> 20} MiB, and the service takes "
                             f"{_STATE_MOST >> 20} MiB; keep it in a file that it reads")

    def step(self, folder: Path, layout: Optional[dict[str, Any]]) -> dict[str, Any]:
        content = copy.copy(self.packer.content)
        content["dataset"] = {"state": str(folder / f"{self.digest}.state"), "layout": layout,
                              "samples": self.samples, "digest": self.digest}
        bundle = json.dumps(content, sort_keys=True)
        if len(bundle) > _BUNDLE_MOST:
            raise NotTakable(f"its code has {len(bundle)} bytes, and a job brings {_BUNDLE_MOST} at "
                             "most; put it into a module")
        return written(bundle, self.packer)

    def write_state(self, file: Path) -> None:
        write_whole(file, pieces(self.pickle, self.buffers))


def _file_of(dataset: Any) -> str:
    module = sys.modules.get(type(dataset).__module__)
    return str(getattr(module, "__file__", None) or type(dataset).__module__)


class Tried(NamedTuple):
    """What a trial of some samples has shown."""

    layout: dict[str, Any]
    random: bool
    memory: int  # that its process takes
    first: dict[str, Any]  # sample 0


class ServedDataset:
    """A Dataset as the service loads it. Throws NotTakable, with the reason, for one that has to be
    loaded here. `meant`: arguments of the DataLoader that replace those given. `sampler_kind`: the
    class of a sampler that says the order of each epoch; else empty. `why_in_python`: why the
    service does not read the files itself, where it reads such files; else empty."""

    _held: HeldFile
    why_in_python = ""

    def __init__(self, dataset: Any, given: dict[str, Any]):
        if type(dataset).__name__ in _AT_HAND:
            raise NotTakable(f"a {type(dataset).__name__} is in its memory already, and has nothing "
                             "to be prepared")
        self.dataset, self.kind = dataset, type(dataset).__name__
        packed = Packed(dataset)
        packed.check()
        self._given = {name: given[name] for name in ORDERED_BY}
        indices, self.meant, self.sampler_kind = listed(self._given, packed.samples)
        self.is_listed = indices is not None or bool(self.sampler_kind)
        self._order = _name_of(indices)
        packed.show_here()
        self.samples = packed.samples if indices is None else len(indices)
        self._checksum = packed.checksum()
        self._folder = brought_folder()
        try:
            found = self._settled(packed, indices)
        except ByFolder:
            # A path that is not whole leads elsewhere from the folder in which a service begins.
            if not packed.begin_here():
                raise
            found = self._settled(packed, indices)
        self.layout = found.layout
        content = packed.packer.content
        content["random"] = found.random if packed.declared is None else packed.declared
        first = self.layout["parts"][0] if self.layout["parts"] else {}
        self.is_plain = is_plain(self.layout, TYPES)
        content["output"] = ([first["type"], first["shape"]] if self.is_plain else
                             ["uint8", [self.layout["bytes"]]])
        self.step = packed.step(self._folder, self.layout)
        measured = memory_for(found.memory, self.layout["bytes"])
        if content["memory"] is None and measured is not None:
            self.step["memory_measured"] = measured

    def _settled(self, packed: Packed, indices: Any) -> Tried:
        """Puts it into files, and tries it."""
        self.digest, folder = packed.take_digest(), self._folder
        state, tried = folder / f"{self.digest}.state", folder / f"{self.digest}.tried.json"
        rows = folder / f"{self.digest}{self._order}.npy"
        self.path = str(rows)
        with alone_in(folder):
            if not state.exists():
                packed.write_state(state)
            found = _tried(packed, folder, tried)
            if not rows.exists() and not self.sampler_kind:
                write_whole(rows, _numpy_file(self.samples, indices))
        packed.check_shown(found.first)
        for one in (state, tried, *([] if self.sampler_kind else [rows])):
            keep_longer(one)
        return found

    def say_that_python_reads(self) -> None:
        """It is slower than the service's own reading, and another transform may be enough."""
        if self.why_in_python:
            say(f"{self.kind} is read by Python, in the service's processes: {self.why_in_python}")

    def in_order(self, indices: list[int], part: str) -> "ServedDataset":
        """The same Dataset in an order that a sampler has said; `part`: of which epoch, and which
        part of it, so that what draws is drawn anew. Throws NotTakable. `release` it."""
        made = copy.copy(self)
        array = checked_indices(indices, len(self.dataset))
        made.samples = len(array)
        name = f"{self.digest}{_name_of(array)}-{part}{HELD}"
        made._held = HeldFile(self._folder / name, lambda: _numpy_file(len(array), array))
        made.path = str(made._held.file)
        return made

    def release(self) -> None:
        """The order is needed no more."""
        self._held.release()

    def pipeline(self) -> str:
        name = f"dataset {self.kind}"[:60]
        return json.dumps({"kind": "pipeline", "name": name, "steps": [self.step]})

    def check_unchanged(self) -> None:
        """PyTorch reads a Dataset as it is now. Here it is as it was when the loader was made."""
        if self.dataset is None:
            return
        packed = Packed(self.dataset)
        if packed.checksum() != self._checksum:
            raise ValueError(f"the {type(self.dataset).__name__} was changed after the DataLoader was "
                             "made with it; make a new DataLoader")
        if _name_of(listed(self._given, packed.samples).indices) != self._order:
            raise ValueError("the indices of the sampler were changed after the DataLoader was made "
                             "with it; make a new DataLoader")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "dataset": None, "_given": None}


def _name_of(indices: Any) -> str:
    """Names a part of the samples, or another order of them; empty: it is the whole Dataset."""
    return "" if indices is None else f"-{hashlib.sha256(indices.tobytes()).hexdigest()[:20]}"


def _numpy_file(samples: int, indices: Any) -> Iterable[bytes]:
    """The index of the Dataset in each row; `indices`: None where that is the row's own number."""
    import numpy
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({samples}, 1), }}"
    head = head.ljust((10 + len(head) + 64) // 64 * 64 - 10 - 1) + "\n"
    yield b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
    if indices is not None:
        yield indices.tobytes()
        return
    for first in range(0, samples, _MIB):
        yield numpy.arange(first, min(samples, first + _MIB), dtype="<i8").tobytes()


# -------------------------------------------------------------------------------------- trials --

def _tried(packed: Packed, folder: Path, kept: Path) -> Tried:
    try:
        return Tried(**json.loads(kept.read_text()))
    except (OSError, ValueError, TypeError):
        pass
    found = _try(packed, folder)
    write_whole(kept, [json.dumps(found._asdict()).encode()])
    return found


def _try(packed: Packed, folder: Path) -> Tried:
    """Loads some samples in two processes, confined as the service's: with the same seeds in another
    order, and with other seeds."""
    last = packed.samples - 1
    wanted = dict.fromkeys((0, last, *(last * (2 * i + 1) // (2 * _PROBED)
                                       for i in range(_PROBED - 2))))
    step = packed.step(folder, None)
    ahead, again, other, more = {}, {}, {}, 0
    try:
        with Probe(step) as first, Probe(step) as second:
            first.wait()
            second.wait()
            until = time.monotonic() + _PROBE_S
            for index in wanted:
                ahead[index] = first.show(index, _SEED + index)
                if len(ahead) >= _PROBED_LEAST and time.monotonic() > until:
                    break
            for index in reversed(list(ahead)):
                other[index] = second.show(index, 5000 + index)
                again[index] = second.show(index, _SEED + index)
            more = _longest(packed, first, list(ahead.values()), until)
    except Failed as problem:
        kind = ByFolder if _is_of_a_path(str(problem)) else NotTakable
        raise kind(f"it does not run in a confined process: {problem}") from None
    for shown in (ahead, other, again):
        for index, one in shown.items():
            if "problem" in one:
                raise NotTakable(f"sample {index} has {one['problem']}, {_MAKES}")
    if any(again[index]["digest"] != ahead[index]["digest"] for index in ahead):
        raise NotTakable("what it gives for an index differs from one call to the next, also where "
                         "random, NumPy and PyTorch have the same seeds")
    every = [one for shown in (ahead, other, again) for one in shown.values()]
    layout = _layout_of_all(every, packed.room, more)
    if layout["bytes"] > _ROW_MOST:
        raise NotTakable(f"a sample has {layout['bytes']} bytes, and the service takes {_ROW_MOST}")
    draws = any(one["drew"] for one in (*ahead.values(), *other.values()))
    differs = any(other[index]["digest"] != ahead[index]["digest"] for index in ahead)
    return Tried(layout, draws or differs, max(one["memory"] for one in every),
                 {name: ahead[0][name] for name in ("layout", "open", "parts")})


def _longest(packed: Packed, probe: Probe, shown: list[dict[str, Any]], until: float) -> int:
    """The bytes of the longest of some more samples, where samples differ in length."""
    if all(one.get("layout") is not None and one["layout"] == shown[0]["layout"] for one in shown):
        return 0
    longest = 0
    for index in sorted({packed.samples * i // _MEASURED for i in range(_MEASURED)}):
        if time.monotonic() > until:
            break
        longest = max(longest, probe.show(index, _SEED + index).get("open_bytes", 0))
    return longest


def _layout_of_all(every: list[dict[str, Any]], room: int, more: int) -> dict[str, Any]:
    """The layout that all samples share; else that of samples that each say their own parts.
    `room`: for such a sample, if the script says so. `more`: the longest of the samples of which
    only the length was looked at."""
    first = every[0]
    if first["layout"] is not None and all(one["layout"] == first["layout"] for one in every):
        return dict(first["layout"])
    heads = [one["open"] for one in every]
    varies: Optional[list[int]] = None
    if all(isinstance(head, list) and head[0] == heads[0][0] for head in heads):
        varies = [leaf for leaf, part in enumerate(heads[0][1])
                  if any(head[1][leaf] != part for head in heads)]
    longest = max(more, *(one["open_bytes"] for one in every))
    wanted = room or _ROOM_TIMES * longest + _ROOM_MORE
    return open_layout(-(-wanted // ALIGNMENT) * ALIGNMENT, varies)


def _is_of_a_path(problem: str) -> bool:
    """Some libraries raise errors of their own for a file that is not there."""
    return any(words in problem for words in ("FileNotFound", "NotADirectory", "No such file",
                                              "does not exist", "not found", "unable to open"))


def _shown(one: dict[str, Any]) -> str:
    if one["layout"] is None:
        parts = [f"{kind} {tuple(shape)}" for _, kind, shape in one["open"][1]
                 ] if isinstance(one["open"], list) else ["a sample of very many parts"]
    else:
        parts = [words(part) for part in one["layout"]["parts"]]
    return ", ".join(parts if len(parts) < 7 else [*parts[:5], f"{len(parts) - 5} more"])
