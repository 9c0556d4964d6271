"""The memory of a batch as tensors of PyTorch, arrays of NumPy, or memoryviews, without a copy.

Every array keeps the batch's memory through its buffer. When the last array is gone, the batch goes
back to the service.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import sys
from array import array
from types import ModuleType
from typing import Any, Callable, Optional, Sequence

from .crossing import extension

# By bf_type: the name, bytes of an element, and memoryview's code. memoryview does not know two of
# the types.
TYPES = [("uint8", 1, "B"), ("int8", 1, "b"), ("uint16", 2, "H"), ("int16", 2, "h"),
         ("int32", 4, "i"), ("int64", 8, "q"), ("float16", 2, "e"), ("bfloat16", 2, "H"),
         ("float32", 4, "f"), ("float64", 8, "d")]
U8, U16, I64, BF16 = 0, 2, 5, 7
DLPACK_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}

# (address, bf_type, shape, the object that keeps the memory, whether it may be written to)
MakeArray = Callable[[int, int, tuple[int, ...], Any, bool], Any]


def buffer_at(address: int, count: int, keeper: Any) -> Any:
    buffer: Any = (ctypes.c_char * count).from_address(address)
    buffer.keeper = keeper
    return buffer


def _form(kind: int, shape: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
    """As DLPack describes an array."""
    name, size, _ = TYPES[kind]
    return DLPACK_CODES[name.rstrip("0123456789")], 8 * size, shape


def _is_by_dlpack(kind: int, shape: tuple[int, ...]) -> bool:
    """Not all versions of PyTorch that have uint16 take it by DLPack."""
    return kind != U16 and 0 not in shape


def torch_arrays(torch: ModuleType) -> MakeArray:
    types = [getattr(torch, name, None) for name, _, _ in TYPES]
    # A capsule of the extension costs a third of what a buffer by ctypes does.
    fast = extension()
    held = None if fast is None else fast.Held
    from_dlpack = torch._C._from_dlpack

    def make(address: int, kind: int, shape: tuple[int, ...], keeper: Any, writable: bool) -> Any:
        # PyTorch has no read-only tensors: writing to this memory ends the process.
        del writable
        if fast is not None and type(keeper) is held and _is_by_dlpack(kind, shape):
            return from_dlpack(fast.capsule(keeper, address, _form(kind, shape)))
        count = math.prod(shape)
        dtype = types[kind]
        if count == 0:
            return torch.empty(shape, dtype=dtype or torch.int32)
        buffer = buffer_at(address, count * TYPES[kind][1], keeper)
        if dtype is not None:
            return torch.frombuffer(buffer, dtype=dtype).reshape(shape)
        # uint16 before PyTorch 2.3 is the only type that is converted, and so copied.
        signed = torch.frombuffer(buffer, dtype=torch.int16).reshape(shape)
        return signed.to(torch.int32).bitwise_and_(0xFFFF)

    return make


def numpy_arrays(numpy: ModuleType) -> MakeArray:
    types = [getattr(numpy, name, None) for name, _, _ in TYPES]
    try:
        types[BF16] = importlib.import_module("ml_dtypes").bfloat16
    except ImportError:
        types[BF16] = numpy.uint16  # shows the bits

    def make(address: int, kind: int, shape: tuple[int, ...], keeper: Any, writable: bool) -> Any:
        count = math.prod(shape)
        if count == 0:
            return numpy.empty(shape, dtype=types[kind])
        array = numpy.frombuffer(buffer_at(address, count * TYPES[kind][1], keeper), types[kind])
        array.flags.writeable = writable
        return array.reshape(shape)

    return make


def plain_arrays() -> MakeArray:
    def make(address: int, kind: int, shape: tuple[int, ...], keeper: Any, writable: bool) -> Any:
        count = math.prod(shape)
        _, size, code = TYPES[kind]
        if count == 0:
            return memoryview(array(code))
        view: Any = memoryview(buffer_at(address, count * size, keeper)).cast("B")
        view = view.cast(code, shape)
        return view if writable else view.toreadonly()

    return make


def all_at_once(output: str, fields: Sequence[tuple[int, tuple[int, ...], bool]],
                ) -> Optional[Callable[[Any, int], list[Any]]]:
    """A function that makes the arrays of all fields, given the object that keeps a batch's memory
    and the batch's address; None: there is none for these fields. A field is its bf_type, the shape
    of a sample, and whether it is ragged."""
    fast = extension()
    if (fast is None or output != "torch" or
            not all(_is_by_dlpack(kind, shape) and not ragged for kind, shape, ragged in fields)):
        return None
    forms = tuple(_form(kind, shape) for kind, shape, _ in fields)
    return functools.partial(fast.arrays, sys.modules["torch"]._C._from_dlpack, forms)


def numbers_beside(output: str, make: MakeArray) -> MakeArray:
    """Makes arrays of keys, marks and offsets, which Python code reads, too."""
    if output != "dlpack":
        return make
    if not importlib.util.find_spec("numpy"):
        return plain_arrays()
    shown = numpy_arrays(importlib.import_module("numpy"))
    # They are copies, since NumPy does not export read-only arrays.
    return lambda *array: shown(*array).copy()


def check_output(output: Any) -> None:
    if output not in ("auto", "torch", "numpy", "dlpack", "memoryview"):
        raise ValueError(f"output={output!r}: write auto, torch, numpy, dlpack or memoryview")


def choose(output: str) -> tuple[str, MakeArray]:
    """`auto`: PyTorch if the script uses it, else NumPy if it is installed, else memoryview."""
    if output == "auto":
        if sys.modules.get("torch") is not None:
            output = "torch"
        else:
            output = "numpy" if importlib.util.find_spec("numpy") else "memoryview"
    if output == "torch":
        return output, torch_arrays(importlib.import_module("torch"))
    if output == "numpy":
        return output, numpy_arrays(importlib.import_module("numpy"))
    if output == "memoryview":
        return output, plain_arrays()
    from .dlpack import dlpack_arrays
    return output, dlpack_arrays()
