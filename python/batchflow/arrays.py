"""The memory of a batch as tensors of PyTorch, arrays of NumPy, or memoryviews, without a copy.

Every array keeps the batch's memory through its buffer. When the last array is gone, the batch goes
back to the service.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import sys
from array import array
from types import ModuleType
from typing import Any, Callable, Sequence

# By bf_type: the name, bytes of an element, and memoryview's code. memoryview does not know two of
# the types.
TYPES = [("uint8", 1, "B"), ("int8", 1, "b"), ("uint16", 2, "H"), ("int16", 2, "h"),
         ("int32", 4, "i"), ("int64", 8, "q"), ("float16", 2, "e"), ("bfloat16", 2, "H"),
         ("float32", 4, "f"), ("float64", 8, "d")]
U8, U16, I64, BF16 = 0, 2, 5, 7

# (address, bf_type, shape, the object that keeps the memory, whether it may be written to)
MakeArray = Callable[[int, int, Sequence[int], Any, bool], Any]


def buffer_at(address: int, count: int, keeper: Any) -> Any:
    buffer: Any = (ctypes.c_char * count).from_address(address)
    buffer.keeper = keeper
    return buffer


def torch_arrays(torch: ModuleType) -> MakeArray:
    types = [getattr(torch, name, None) for name, _, _ in TYPES]

    def make(address: int, kind: int, shape: Sequence[int], keeper: Any, writable: bool) -> Any:
        # PyTorch has no read-only tensors: writing to this memory ends the process.
        del writable
        count = math.prod(shape)
        dtype = types[kind]
        if count == 0:
            return torch.empty(tuple(shape), dtype=dtype or torch.int32)
        buffer = buffer_at(address, count * TYPES[kind][1], keeper)
        if dtype is not None:
            return torch.frombuffer(buffer, dtype=dtype).reshape(tuple(shape))
        # uint16 before PyTorch 2.3 is the only type that is converted, and so copied.
        signed = torch.frombuffer(buffer, dtype=torch.int16).reshape(tuple(shape))
        return signed.to(torch.int32).bitwise_and_(0xFFFF)

    return make


def numpy_arrays(numpy: ModuleType) -> MakeArray:
    types = [getattr(numpy, name, None) for name, _, _ in TYPES]
    try:
        types[BF16] = importlib.import_module("ml_dtypes").bfloat16
    except ImportError:
        types[BF16] = numpy.uint16  # shows the bits

    def make(address: int, kind: int, shape: Sequence[int], keeper: Any, writable: bool) -> Any:
        count = math.prod(shape)
        if count == 0:
            return numpy.empty(tuple(shape), dtype=types[kind])
        array = numpy.frombuffer(buffer_at(address, count * TYPES[kind][1], keeper), types[kind])
        array.flags.writeable = writable
        return array.reshape(tuple(shape))

    return make


def plain_arrays() -> MakeArray:
    def make(address: int, kind: int, shape: Sequence[int], keeper: Any, writable: bool) -> Any:
        count = math.prod(shape)
        _, size, code = TYPES[kind]
        if count == 0:
            return memoryview(array(code))
        view: Any = memoryview(buffer_at(address, count * size, keeper)).cast("B")
        view = view.cast(code, tuple(shape))
        return view if writable else view.toreadonly()

    return make


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
