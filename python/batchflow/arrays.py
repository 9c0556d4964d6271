"""Memory of a batch as tensors, without copying it: PyTorch's, NumPy's, or plain memoryviews.

Every array keeps what it was made of alive through its buffer; when the last one dies, the batch
goes back to the service.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import sys
from array import array
from types import ModuleType
from typing import Any, Callable, Sequence

# By bf_type: the name, bytes an element, and how memoryview calls it (two types it does not know).
TYPES = [("uint8", 1, "B"), ("int8", 1, "b"), ("uint16", 2, "H"), ("int16", 2, "h"),
         ("int32", 4, "i"), ("int64", 8, "q"), ("float16", 2, "e"), ("bfloat16", 2, "H"),
         ("float32", 4, "f"), ("float64", 8, "d")]
U8, U16, I64, BF16 = 0, 2, 5, 7

# (address, bf_type, shape, what keeps the memory, whether it may be written to)
MakeArray = Callable[[int, int, Sequence[int], Any, bool], Any]


def buffer_at(address: int, count: int, keeper: Any) -> Any:
    buffer: Any = (ctypes.c_char * count).from_address(address)
    buffer.keeper = keeper
    return buffer


def torch_arrays(torch: ModuleType) -> MakeArray:
    types = [getattr(torch, name, None) for name, _, _ in TYPES]

    def make(address: int, kind: int, shape: Sequence[int], keeper: Any, writable: bool) -> Any:
        # PyTorch has no read-only tensors: writing to one in place ends the process.
        del writable
        count = math.prod(shape)
        dtype = types[kind]
        if count == 0:
            return torch.empty(tuple(shape), dtype=dtype or torch.int32)
        buffer = buffer_at(address, count * TYPES[kind][1], keeper)
        if dtype is not None:
            return torch.frombuffer(buffer, dtype=dtype).reshape(tuple(shape))
        # uint16 before PyTorch 2.3: the one type that is converted, hence copied.
        signed = torch.frombuffer(buffer, dtype=torch.int16).reshape(tuple(shape))
        return signed.to(torch.int32).bitwise_and_(0xFFFF)

    return make


def numpy_arrays(numpy: ModuleType) -> MakeArray:
    types = [getattr(numpy, name, None) for name, _, _ in TYPES]
    try:
        types[BF16] = importlib.import_module("ml_dtypes").bfloat16
    except ImportError:
        types[BF16] = numpy.uint16  # the bits

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
    """Of keys, marks and offsets, which are there to be looked at in Python, too."""
    if output != "dlpack":
        return make
    if not importlib.util.find_spec("numpy"):
        return plain_arrays()
    shown = numpy_arrays(importlib.import_module("numpy"))
    # Copies, since NumPy gives nothing that is read-only to others.
    return lambda *array: shown(*array).copy()


def check_output(output: Any) -> None:
    if output not in ("auto", "torch", "numpy", "dlpack", "memoryview"):
        raise ValueError(f"output={output!r}: write auto, torch, numpy, dlpack or memoryview")


def choose(output: str) -> tuple[str, MakeArray]:
    """`auto`: PyTorch where the script uses it, else NumPy where it is, else memoryview."""
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
