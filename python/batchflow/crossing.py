"""How Python crosses into the library for each batch: by the C extension, or by ctypes.

The extension (python/extension/batches.c) is built where Python's headers are, and lies beside the
client library. Where it is missing or cannot be loaded, or BATCHFLOW_EXTENSION is 0, ctypes does the
same.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import operator
import os
import sys
import sysconfig
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Optional, Protocol

from . import library as c

_NAME = "batchflow_batches"
_INTERFACE = 1  # which functions it has; as in batches.c


class Crossing(Protocol):
    """`batch`: the address of a RawBatch."""

    def look(self, loader: int, batch: int, seconds: float) -> int:
        """bf_loader_next_within."""

    def hold(self, handle: int) -> Any:
        """What keeps the batch's memory. It goes back to the service when the last array in it is
        gone.

        That may happen on any thread, and after the loader was closed: the library knows a batch by
        its handle. No line of Python runs then, since an exception that a signal handler raises
        there, such as for a Ctrl-C, would be dropped.
        """

    def add_facts(self, to: dict[str, Any], batch: int) -> None:
        """Adds the batch's numbers and marks, which are attributes of batch.Batch."""

    def held_count(self) -> int:
        """How many batches this process holds."""


# ----------------------------------------------------------------------------------- by ctypes --

class _Held:
    __slots__ = ("__weakref__",)

    def __init__(self, release: Callable[[], Any], ends: "dict[Any, _End]"):
        end = _End(self, _call_release)
        end.release = release
        ends[weakref.ref(self, ends.pop)] = end


class _End(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("release",)
    release: Callable[[], Any]


_call_release = operator.methodcaller("release")
# A weak reference must live to be called.
_ends: dict[Any, _End] = {}  # of batches that are held
_other_ends: dict[Any, _End] = {}


def hold_until(handle: int, release: Callable[[Any, int], None]) -> Any:
    """An object. When it ends, `release(None, handle)` is called, which is a function of C: no line of
    Python runs then (Crossing.hold)."""
    return hold_until_call(functools.partial(release, None, handle))


def hold_until_call(release: Callable[[], Any]) -> Any:
    """The same for a call of other arguments, made by functools.partial of a function of C."""
    return _Held(release, _other_ends)


class _ByCtypes:
    def __init__(self) -> None:
        self.look = c.library().bf_loader_next_within
        self._release = c.library().bf_batch_release

    def hold(self, handle: int) -> Any:
        return _Held(functools.partial(self._release, None, handle), _ends)

    def add_facts(self, to: dict[str, Any], batch: int) -> None:
        raw = c.RawBatch.from_address(batch)
        to.update(samples=raw.samples, fillers=raw.fillers, rehearsed=raw.rehearsed,
                  repeats=raw.repeats, epoch=raw.epoch, step=raw.step,
                  last_of_epoch=bool(raw.last_of_epoch), copied=bool(raw.copied))

    def held_count(self) -> int:
        return len(_ends)


# ----------------------------------------------------------------------------- by the extension --

def _address(function: Any) -> Any:
    return ctypes.cast(function, ctypes.c_void_p).value


class _ByExtension:
    def __init__(self, extension: ModuleType):
        by = c.library()
        self.look = functools.partial(extension.look, _address(by.bf_loader_next_within))
        self.hold = functools.partial(extension.hold, _address(by.bf_batch_release))
        self.add_facts, self.held_count = extension.add_facts, extension.held_count


@functools.lru_cache(maxsize=None)
def extension() -> Optional[ModuleType]:
    """The C extension, or None."""
    # It relies on CPython's global lock.
    if (os.environ.get("BATCHFLOW_EXTENSION") == "0" or sys.implementation.name != "cpython" or
            sysconfig.get_config_var("Py_GIL_DISABLED")):
        return None
    named = os.environ.get("BATCHFLOW_LIBRARY")
    folder = Path(named).parent if named else Path(__file__).parent / "lib"
    path = folder / f"{_NAME}.abi3.so"
    if not os.access(path, os.R_OK):  # another user's folder may be closed to this one
        return None
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError:  # of an interpreter that takes no such module, or another processor's
        return None
    return module if module.INTERFACE == _INTERFACE else None  # else of another version


@functools.lru_cache(maxsize=None)
def crossing() -> Crossing:
    found = extension()
    return _ByCtypes() if found is None else _ByExtension(found)
