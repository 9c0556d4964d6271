"""An eviction policy sketched in Python, for `batchflow-sim cache`. It is called once or more for each
request, so it is some hundred times slower than one in C++.

    batchflow-sim cache gen:perm,n=1000,epochs=3 --plugin mine.py --policy lru,mine --size 10%

`mine.py` has a class `Policy`; its name is that of the file unless it says `name = "..."`:

    class Policy:
        \"\"\"First in, first out.\"\"\"                # its help

        def __init__(self, items, capacity, seed):
            self.queue = {}                        # ids are below `items`, sizes are in slots

        def hit(self, item): ...                   # a resident is requested
        def missed(self, item): return True        # any other; False: it is not kept
        def inserted(self, item, slots): self.queue[item] = slots
        def removed(self, item): del self.queue[item]
        def victim(self): return next(iter(self.queue), None)   # the resident that is to leave

`hit` and `missed` may be left out.
"""

from __future__ import annotations

import ctypes
import re
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any, Optional

NO_ITEM = 2**32 - 1
EVICTION = 1
INSERT, BYPASS = 0, 1


class Access(ctypes.Structure):
    _fields_ = [("item", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("slots", ctypes.c_uint64), ("next_use", ctypes.c_uint64),
                ("run", ctypes.c_uint32), ("reserved_2", ctypes.c_uint32),
                ("at", ctypes.c_int64), ("job", ctypes.c_uint32),
                ("kept_decoded", ctypes.c_uint8), ("reserved_3", ctypes.c_uint8 * 3)]


class Context(ctypes.Structure):
    _fields_ = [("instance", ctypes.c_void_p), ("seed", ctypes.c_uint64),
                ("parameters", ctypes.c_void_p), ("parameter_count", ctypes.c_uint64),
                ("items", ctypes.c_uint64), ("capacity", ctypes.c_uint64),
                ("dataset", ctypes.c_uint32), ("form", ctypes.c_uint8), ("tier", ctypes.c_uint8),
                ("reserved", ctypes.c_uint8 * 2)]


class Host(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("version_least", ctypes.c_uint32),
                ("version", ctypes.c_uint32), ("unstable", ctypes.c_uint32),
                ("struct_bytes", ctypes.c_uint32 * 32), ("grow_memory", ctypes.c_void_p),
                ("free_memory", ctypes.c_void_p),
                ("failed", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p))]


def function(result: Any, *arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(result, *arguments)


POLICY = ctypes.c_void_p  # a policy
ACCESS = ctypes.POINTER(Access)
ITEM = ctypes.c_uint32
Make = function(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Context))
End = function(None, POLICY)


class Common(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("make", Make),
                ("end", End), ("save", ctypes.c_void_p), ("restore", ctypes.c_void_p),
                ("object", ctypes.c_void_p), ("object_version", ctypes.c_uint32),
                ("reserved_2", ctypes.c_uint32)]


class Eviction(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("hit", function(None, POLICY, ACCESS)),
                ("missed", function(ctypes.c_uint32, POLICY, ACCESS)),
                ("inserted", function(None, POLICY, ACCESS)),
                ("victim", function(ctypes.c_uint32, POLICY, ACCESS)),
                ("removed", function(None, POLICY, ITEM, ctypes.c_uint32)),
                ("pinned", function(None, POLICY, ITEM)),
                ("unpinned", function(None, POLICY, ITEM)),
                ("resized", ctypes.c_void_p), ("grow", function(None, POLICY, ctypes.c_uint64)),
                ("forget", ctypes.c_void_p), ("needed", ctypes.c_void_p),
                ("scored", ctypes.c_void_p), ("epoch_began", ctypes.c_void_p)]


class PolicyTable(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("help", ctypes.c_char_p), ("flags", ctypes.c_uint32),
                ("parameter_count", ctypes.c_uint32), ("parameters", ctypes.c_void_p),
                ("user", ctypes.c_void_p), ("common", ctypes.POINTER(Common)),
                ("functions", ctypes.POINTER(Eviction)), ("unstable", ctypes.c_void_p)]


class Plugin(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("unstable", ctypes.c_uint32), ("policy_count", ctypes.c_uint32),
                ("policies", ctypes.POINTER(ctypes.POINTER(PolicyTable))),
                ("preset_count", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("presets", ctypes.c_void_p)]


class Sketch:
    """The tables of a class. They must outlive their use."""

    def __init__(self, policy_class: Any, name: str) -> None:
        self._class = policy_class
        self._host: Optional[Host] = None
        self._made: dict[int, Any] = {}
        self._sizes: dict[int, dict[int, int]] = {}
        help_text = (policy_class.__doc__ or "A policy sketched in Python.").strip()
        self._common = Common(ctypes.sizeof(Common), 0, Make(self._make), End(self._end))
        kinds = dict((field[0], field[1]) for field in Eviction._fields_)
        self._functions = Eviction(ctypes.sizeof(Eviction), 0)
        for called in ("hit", "missed", "inserted", "victim", "removed", "pinned", "unpinned",
                       "grow"):
            setattr(self._functions, called, kinds[called](getattr(self, f"_{called}")))
        self._table = PolicyTable(ctypes.sizeof(PolicyTable), EVICTION, name.encode(),
                                  help_text.encode(), 0, 0, None, None,
                                  ctypes.pointer(self._common), ctypes.pointer(self._functions))
        self._list = (ctypes.POINTER(PolicyTable) * 1)(ctypes.pointer(self._table))
        self._plugin = Plugin(ctypes.sizeof(Plugin), 1, 0, 1, self._list, 0, 0, None)

    def offer(self, host: int) -> int:
        self._host = Host.from_address(host)
        return ctypes.addressof(self._plugin)

    def _guarded(self, name: Any, otherwise: Any, call: Any) -> Any:
        try:
            return call()
        except BaseException as error:  # nothing may leave through C
            traceback.print_exc()
            if self._host is not None:
                self._host.failed(name, f"{type(error).__name__}: {error}".encode()[:400])
            return otherwise

    def _make(self, _user: Any, context: Any) -> Optional[int]:
        made = context.contents

        def build() -> int:
            key = len(self._made) + 1
            self._made[key] = (self._class(made.items, made.capacity, made.seed), made.instance)
            self._sizes[key] = {}
            return key
        made_key: Optional[int] = self._guarded(made.instance, None, build)
        return made_key

    def _end(self, policy: int) -> None:
        self._made[policy] = None

    def _call(self, policy: int, otherwise: Any, call: Any) -> Any:
        sketch, name = self._made[policy]
        return self._guarded(name, otherwise, lambda: call(sketch))

    def _hit(self, policy: int, access: Any) -> None:
        item = access.contents.item
        self._call(policy, None,
                   lambda sketch: sketch.hit(item) if hasattr(sketch, "hit") else None)

    def _missed(self, policy: int, access: Any) -> int:
        item = access.contents.item

        def ask(sketch: Any) -> int:
            return INSERT if not hasattr(sketch, "missed") or sketch.missed(item) else BYPASS
        decision: int = self._call(policy, INSERT, ask)
        return decision

    def _inserted(self, policy: int, access: Any) -> None:
        item, slots = access.contents.item, access.contents.slots
        self._sizes[policy][item] = slots
        self._call(policy, None, lambda sketch: sketch.inserted(item, slots))

    def _victim(self, policy: int, _newcomer: Any) -> int:
        def ask(sketch: Any) -> int:
            item = sketch.victim()
            return NO_ITEM if item is None else int(item)
        named: int = self._call(policy, NO_ITEM, ask)
        return named

    def _removed(self, policy: int, item: int, _why: int) -> None:
        self._call(policy, None, lambda sketch: sketch.removed(item))

    # What is pinned leaves the policy for a while, and comes back as if it were new.
    def _pinned(self, policy: int, item: int) -> None:
        self._call(policy, None, lambda sketch: sketch.removed(item))

    def _unpinned(self, policy: int, item: int) -> None:
        self._call(policy, None, lambda sketch: sketch.inserted(item, self._sizes[policy][item]))

    def _grow(self, policy: int, items: int) -> None:
        self._call(policy, None,
                   lambda sketch: sketch.grow(items) if hasattr(sketch, "grow") else None)


def main(library: str, sketch: str, words: list[str]) -> int:
    try:
        policy = runpy.run_path(sketch)["Policy"]
    except KeyError:
        print(f"batchflow-sim: plugin {sketch}: it has no class Policy", file=sys.stderr)
        return 2
    except Exception as error:
        print(f"batchflow-sim: plugin {sketch}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    name = getattr(policy, "name", re.sub("[^a-z0-9-]", "-", Path(sketch).stem.lower()))
    tables = Sketch(policy, name)
    print(f"batchflow-sim: {name} is a sketch in Python: some hundred times slower than a plugin "
          "in C++", file=sys.stderr)
    entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(tables.offer)
    # One thread: Python runs no two at once, and waits for another would cost more.
    if words[:1] == ["cache"] and not any(word.startswith("--threads") for word in words):
        words = [*words, "--threads", "1"]
    arguments = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    ended: int = ctypes.CDLL(library).batchflow_sim_main(len(words), arguments, b"python", entry)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
