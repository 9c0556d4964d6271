"""A Dataset of a script as the first step of a pipeline: its sample is an index, and what it makes of
it is `dataset[index]`.

Its state is in a file of its own, which every process maps: a pickle, and behind it the arrays of
it. step_worker.py imports this, in a sandbox, and nothing else of this package.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import io
import json
import os
import pickle
import random
import struct
import sys
import zlib
from typing import Any, Callable, Optional, Union

FORM = 1  # of states and layouts; a change of these needs another number
HEAD = struct.Struct("<QQ")  # bytes of the pickle, arrays behind it
PIECE = struct.Struct("<QQ")  # of each array: where it begins, its bytes
ALIGNMENT = 64
SHOWN_BYTES = 16 << 10  # of what a probe says of a sample
_PARTS_SHOWN = 64
_NUMBERS = {bool: "bool", int: "int64", float: "float64"}


class Dataset:
    """Stands for PyTorch's, from which a class derives that may need nothing else of PyTorch."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("the Dataset has no __getitem__")


class Unpackable(Exception):
    """What a Dataset gave has a part that is no array and no number."""


def tensor_of(array: Any) -> Any:
    import torch  # type: ignore[import-not-found, unused-ignore]
    return torch.from_numpy(array)


def view_of(buffer: Any, form: str, shape: Any) -> Any:
    flat: Any = memoryview(buffer).cast("B")
    return flat.cast(form) if 0 in shape else flat.cast(form, shape)  # no other view can be empty


@functools.lru_cache(maxsize=None)
def libc() -> ctypes.CDLL:
    """The C library. Each load of it would leave types behind that only the garbage collector finds."""
    loaded = ctypes.CDLL(None, use_errno=True)
    loaded.mmap.restype = ctypes.c_void_p
    loaded.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                            ctypes.c_long]
    return loaded


def map_file(file: int, protection: int) -> tuple[int, int]:
    """The address and the size of a file's memory. `mmap.mmap` would duplicate the descriptor, which
    the sandbox forbids."""
    size = os.fstat(file).st_size
    address = libc().mmap(None, size, protection, 1, file, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), f"a file of {size} bytes cannot be mapped")
    return address, size


def mapped(path: str) -> Any:
    """The bytes of a file, read only: memory that may be written counts for what a process may
    take."""
    import numpy
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        address, size = map_file(file, 1)
    finally:
        os.close(file)
    memory: Any = (ctypes.c_ubyte * size).from_address(address)
    array = numpy.frombuffer(memory, numpy.uint8)
    array.flags.writeable = False
    return array


class _Unpickler(pickle.Unpickler):
    """`names`: of the script's own classes and functions, which no module has here."""

    def __init__(self, content: bytes, buffers: Any, names: dict[str, Any]):
        super().__init__(io.BytesIO(content), buffers=buffers)
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            return self._names[name]
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


def parts_of(everything: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle in what `passing.pieces` wrote, and the arrays behind it."""
    whole = memoryview(everything)
    size, count = HEAD.unpack_from(whole)
    places = [PIECE.unpack_from(whole, HEAD.size + i * PIECE.size) for i in range(count)]
    begin = HEAD.size + count * PIECE.size
    return bytes(whole[begin:begin + size]), [whole[at:at + length] for at, length in places]


def load_state(path: str, names: dict[str, Any]) -> Any:
    content, buffers = parts_of(mapped(path))
    return _Unpickler(content, buffers, names).load()


# ------------------------------------------------------------------------------------- samples --

def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_of(value: Any) -> Any:
    import numpy
    if is_tensor(value):
        return value.detach().cpu().numpy()
    return numpy.asarray(value)


def kind_of(value: Any) -> str:
    import numpy
    if is_tensor(value):
        return "tensor"
    if isinstance(value, numpy.ndarray):
        return "array"
    if isinstance(value, numpy.generic):
        return "scalar"
    if type(value) in _NUMBERS:
        return "number"
    raise Unpackable(f"a {type(value).__name__}")


def taken_apart(sample: Any, leaves: list[Any]) -> Any:
    """The shape of a sample: the number of a leaf, or a tuple, list or dict of such shapes."""
    if type(sample) in (tuple, list):
        return [type(sample).__name__, [taken_apart(one, leaves) for one in sample]]
    if type(sample) is dict and all(type(key) is str for key in sample):
        return ["dict", [[key, taken_apart(one, leaves)] for key, one in sample.items()]]
    leaves.append(sample)
    return len(leaves) - 1


def put_together(tree: Any, leaves: Any, tuples: type = tuple) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    kind, inner = tree
    if kind == "dict":
        return {key: put_together(one, leaves, tuples) for key, one in inner}
    made = [put_together(one, leaves, tuples) for one in inner]
    return tuples(made) if kind == "tuple" else made


def layout_of(sample: Any) -> dict[str, Any]:
    """Which parts a sample has, and where each of them stands in its bytes."""
    values: list[Any] = []
    tree = taken_apart(sample, values)
    parts, at = [], 0
    for value in values:
        kind = kind_of(value)
        array = array_of(value)
        if array.dtype.kind not in "biufc":
            raise Unpackable(f"an array of {array.dtype}")
        if not array.size:
            raise Unpackable("an array without elements")
        parts.append({"kind": kind, "type": array.dtype.name, "shape": list(array.shape), "at": at})
        at += -(-array.nbytes // 8) * 8
    if not parts:
        raise Unpackable("an empty tuple")
    return {"tree": tree, "parts": parts, "bytes": at}


def is_plain(layout: dict[str, Any], types: Any) -> bool:
    """Whether a sample is one array as a field can be, so that nothing has to be put together."""
    if is_open(layout):
        return False
    first = layout["parts"][0]
    return bool(layout["tree"] == 0 and first["shape"] and first["type"] in types)


def shown_of(sample: Any) -> dict[str, Any]:
    """What tells two samples apart: their parts, and what stands in these. `layout`: None for a
    sample that has no layout which others could share."""
    try:
        row = open_row(sample)
    except Unpackable as problem:
        return {"problem": str(problem)}
    head, begin = _open_head(row)
    said = {"open": _head_shown(head), "open_bytes": len(row)}
    try:
        layout = layout_of(sample)
    except Unpackable:
        layout = None
    if layout is None or len(json.dumps(layout)) > SHOWN_BYTES // 2:
        raw = numpy_bytes(row)
        return {**said, "layout": None, "digest": hashlib.sha256(row).hexdigest(), "parts": [
            _summed(raw[at:at + size], {"type": kind})
            for at, size, kind in _open_places(head, begin)][:_PARTS_SHOWN]}
    joined = Joiner(layout)(sample)
    ends = [part["at"] for part in layout["parts"][1:]] + [layout["bytes"]]
    return {**said, "layout": layout, "digest": hashlib.sha256(joined.tobytes()).hexdigest(),
            "parts": [_summed(joined[part["at"]:end], part)
                      for part, end in zip(layout["parts"], ends)][:_PARTS_SHOWN]}


def _summed(raw: Any, part: dict[str, Any]) -> list[float]:
    """A checksum, and for floats also sums that show whether others are almost the same."""
    import numpy
    made: list[float] = [zlib.crc32(raw)]
    kind = numpy.dtype(part["type"])
    if kind.kind == "f":
        values = numpy.nan_to_num(raw.view(kind).astype(numpy.float64), posinf=0, neginf=0)
        ramp = numpy.linspace(1, 2, len(values))
        made += [float(values @ ramp), float(numpy.abs(values).sum())]
    return made


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two samples that are shown are the same, but for how floats are rounded."""
    if one["layout"] != other["layout"] or one["open"] != other["open"]:
        return False
    return all(mine[0] == its[0] or len(mine) > 1 and abs(mine[1] - its[1]) <= 1e-4 * mine[2]
               for mine, its in zip(one["parts"], other["parts"]))


def words(part: dict[str, Any]) -> str:
    return f"{part['type']} {tuple(part['shape'])}"


# --------------------------------------------------------------------------- samples that differ --
#
# Where samples differ in their parts, or in the lengths of these, each says its own: a row begins
# with its length and with its parts, as JSON, and zeros fill it up.

_OPEN = struct.Struct("<II")  # bytes of the JSON, and of all


def is_open(layout: dict[str, Any]) -> bool:
    return "open" in layout


def open_layout(room: int, varies: Optional[list[int]]) -> dict[str, Any]:
    """`room`: what a sample may take. `varies`: the leaves that differ from sample to sample; None:
    samples are of different parts."""
    return {"open": True, "bytes": room, "varies": varies, "tree": None, "parts": []}


def open_row(sample: Any) -> bytes:
    parts: list[list[Any]] = []
    pieces: list[bytes] = []
    tree = _opened(sample, parts, pieces)
    head = json.dumps([tree, parts], separators=(",", ":")).encode()
    row = bytearray(_OPEN.pack(len(head), 0) + head)
    for piece in pieces:
        row += bytes(-len(row) % 8) + piece
    _OPEN.pack_into(row, 0, len(head), len(row))
    return bytes(row)


def _opened(sample: Any, parts: list[list[Any]], pieces: list[bytes]) -> Any:
    import numpy
    kind, made = type(sample), None
    if kind in (tuple, list):
        numbers = set(map(type, sample))
        if numbers == {int} or numbers == {float}:  # as tokens are: one leaf, not hundreds
            made = [kind.__name__, _array_of_numbers(sample)]
        else:
            return [kind.__name__, [_opened(one, parts, pieces) for one in sample]]
    elif kind is dict and all(type(key) is str for key in sample):
        return ["dict", [[key, _opened(one, parts, pieces)] for key, one in sample.items()]]
    elif sample is None:
        made = ["none", numpy.empty(0, numpy.uint8)]
    elif kind is str:
        made = ["text", numpy.frombuffer(sample.encode("utf-8", "surrogatepass"), numpy.uint8)]
    elif kind is bytes:
        made = ["bytes", numpy.frombuffer(sample, numpy.uint8)]
    else:
        made = [kind_of(sample), array_of(sample)]
    if made[1].dtype.kind not in "biufc":
        raise Unpackable(f"an array of {made[1].dtype}")
    parts.append([made[0], made[1].dtype.name, list(made[1].shape)])
    pieces.append(numpy.ascontiguousarray(made[1]).tobytes())
    return len(parts) - 1


def _array_of_numbers(numbers: Any) -> Any:
    import numpy
    try:
        return numpy.array(numbers, "int64" if type(numbers[0]) is int else "float64")
    except OverflowError:
        raise Unpackable("a number of more than 64 bits") from None


def _open_head(row: Any) -> tuple[Any, int]:
    size, _ = _OPEN.unpack_from(row)
    return json.loads(bytes(row[_OPEN.size:_OPEN.size + size])), _OPEN.size + size


def _head_shown(head: Any) -> Any:
    """The head, or for a sample of very many parts a hash that tells it from others."""
    text = json.dumps(head)
    return head if len(text) < SHOWN_BYTES // 4 else hashlib.sha256(text.encode()).hexdigest()


def _open_places(head: Any, at: int) -> list[tuple[int, int, str]]:
    """For each part: where it begins, its bytes and its type."""
    import numpy
    made = []
    for _, name, shape in head[1]:
        size = numpy.dtype(name).itemsize
        for side in shape:
            size *= side
        at += -at % 8
        made.append((at, size, name))
        at += size
    return made


def numpy_bytes(row: bytes) -> Any:
    import numpy
    return numpy.frombuffer(row, numpy.uint8)


def opened(row: Any, tensor: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    """The shape of a sample, and its leaves as they were before; `tensor` makes one of an array."""
    import numpy
    head, begin = _open_head(row)
    leaves: list[Any] = []
    for (kind, name, shape), (at, size, _) in zip(head[1], _open_places(head, begin)):
        # A copy, since the row is the service's memory.
        value: Any = numpy.array(row[at:at + size]).view(numpy.dtype(name)).reshape(shape)
        if kind == "none":
            value = None
        elif kind in ("text", "bytes"):
            value = value.tobytes()
            value = value.decode("utf-8", "surrogatepass") if kind == "text" else value
        elif kind in ("list", "tuple"):
            value = value.tolist() if kind == "list" else tuple(value.tolist())
        elif kind == "number":
            value = value.item()
        elif kind == "scalar":
            value = value[()]
        elif kind == "tensor":
            value = tensor(value)
        leaves.append(value)
    return head[0], leaves


class OpenJoiner:
    """Puts samples that differ into rows of one size."""

    def __init__(self, layout: dict[str, Any]):
        import numpy
        self._row = numpy.zeros(layout["bytes"], numpy.uint8)

    def __call__(self, sample: Any) -> Any:
        made = open_row(sample)
        if len(made) > len(self._row):
            raise ValueError(
                f"it takes {len(made)} bytes, and samples of this Dataset have room for "
                f"{len(self._row)}; write @batchflow.step(random=..., output=('uint8', ({len(made)},))) "
                "before __getitem__, with what the longest one takes")
        self._row[:len(made)] = numpy_bytes(made)
        self._row[len(made):] = 0
        return self._row


class Joiner:
    """Puts samples of one layout into bytes. The bytes are those of the last sample alone."""

    def __init__(self, layout: dict[str, Any]):
        import numpy
        self._tree = tree = layout["tree"]
        # Most samples are flat, and need no second look at their shape.
        self._flat: Any = None
        if tree != 0 and tree[0] != "dict" and tree[1] == list(range(len(tree[1]))):
            self._flat = tuple if tree[0] == "tuple" else list
        self._row = numpy.zeros(layout["bytes"], numpy.uint8)
        self._parts: list[Any] = []
        for part in layout["parts"]:
            kind, shape = numpy.dtype(part["type"]), tuple(part["shape"])
            size = kind.itemsize
            for side in shape:
                size *= side
            view = self._row[part["at"]:part["at"] + size].view(kind).reshape(shape)
            self._parts.append((view, kind, shape))

    def __call__(self, sample: Any) -> Any:
        values = sample
        if type(sample) is not self._flat or len(sample) != len(self._parts):
            values = []
            if taken_apart(sample, values) != self._tree:
                raise ValueError("its parts differ from those of other samples; samples that differ "
                                 "are for local=True")
        for value, part in zip(values, self._parts):
            part[0][...] = self._checked(value, part)
        return self._row

    def plain(self, sample: Any) -> Any:
        return self._checked(sample, self._parts[0])

    @staticmethod
    def _checked(value: Any, part: Any) -> Any:
        _, kind, shape = part
        array = array_of(value)
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"it has {array.dtype.name} {array.shape}, where others have "
                             f"{kind.name} {shape}; samples that differ are for local=True")
        return array


# --------------------------------------------------------------------------------------- steps --

def seed_all(seed: int) -> None:
    """Seeds what a __getitem__ or a collate_fn may draw from."""
    random.seed(seed)
    try:
        import numpy
        numpy.random.seed(seed % 2**32)
    except ImportError:
        pass  # a collate_fn needs none
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed % 2**63)


def _seeded(dataset: Any, index: int, seed: int) -> Any:
    """A sample, with all generators seeded before; PyTorch's, too, if the sample loads PyTorch."""
    has_torch = "torch" in sys.modules
    seed_all(seed)
    value = dataset[index]
    if has_torch or "torch" not in sys.modules:
        return value
    seed_all(seed)
    return dataset[index]


def _drawn_from() -> list[bytes]:
    import numpy
    states = [pickle.dumps(random.getstate()), pickle.dumps(numpy.random.get_state())]
    torch = sys.modules.get("torch")
    if torch is not None:
        states.append(bytes(torch.get_rng_state().numpy()))
    return states


def memory_bytes(process: Union[int, str] = "self") -> int:
    """The memory of a process that its bound counts."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


def make_step(given: dict[str, Any], names: dict[str, Any], is_random: bool,
              types: Any) -> Callable[[Any, int], Any]:
    """The function of the step, of an index and a seed."""
    dataset = load_state(given["state"], names)
    layout: Optional[dict[str, Any]] = given["layout"]
    join: Optional[Callable[[Any], Any]] = None
    if layout is not None and is_open(layout):
        join = OpenJoiner(layout)
    elif layout is not None:
        joiner = Joiner(layout)
        join = joiner.plain if is_plain(layout, types) else joiner

    def sample(array: Any, seed: int) -> Any:
        assert join is not None
        if is_random:
            return join(_seeded(dataset, array.item(0), seed))
        return join(dataset[array.item(0)])

    def shown(array: Any, seed: int) -> Any:
        """What a probe wants to know about a sample, as JSON."""
        import numpy
        values = array.reshape(-1).tolist()
        value = _seeded(dataset, values[0], values[1])
        after = _drawn_from()
        seed_all(values[1])
        said = {**shown_of(value), "drew": after != _drawn_from()}
        text = json.dumps({**said, "memory": memory_bytes()}).encode()
        out = numpy.zeros(SHOWN_BYTES, numpy.uint8)
        out[:len(text)] = numpy.frombuffer(text, numpy.uint8)
        return out

    return shown if layout is None else sample
