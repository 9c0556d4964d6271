"""DLPack (version 0.8) over a batch's memory, of the host or of a GPU, for torch.from_dlpack(x),
jax.dlpack.from_dlpack(x) and others.

The protocol cannot say that memory is read-only, so the code that takes a tensor must not write.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections import deque
from ctypes import (POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64,
                    c_void_p)
from typing import Any, Callable, Optional

from .arrays import DLPACK_CODES, TYPES, MakeArray

_CPU = 1
_DEFAULT_STREAM, _NO_STREAM = 1, -1  # as DLPack numbers CUDA's legacy default stream, and none
_NAME = b"dltensor"


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(Structure):
    pass


_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]

_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(
    ("PyCapsule_New", _api))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(
    ("PyCapsule_IsValid", _api))

# What consumers hold, by the address of the struct with which they call the deleter.
_alive: dict[int, tuple[Any, ...]] = {}
# No line of Python may run where an exception, such as for a Ctrl-C, would be dropped (crossing.hold).
# So the deleter is C code, and capsules that were never consumed are found at the next export.
_delete = ctypes.CFUNCTYPE(None, c_void_p)(_alive.pop)
_exported: deque[tuple[Any, int]] = deque()
_looking = threading.Lock()


def _references(export: tuple[Any, int]) -> int:
    capsule = export[0]
    return sys.getrefcount(capsule)


_ALONE = _references((_new_capsule(1, _NAME, None), 0))


def _drop_unconsumed() -> None:
    with _looking:
        for _ in range(len(_exported)):
            export = _exported.popleft()
            if not _is_capsule(export[0], _NAME):  # a consumer renamed it, and will delete it
                continue
            if _references(export) > _ALONE:
                _exported.append(export)
            else:
                _alive.pop(export[1])


class DLTensor:
    """Memory of a batch, for libraries that use DLPack. `device` is its kind and index;
    `before` is called with the stream on which the memory will be read."""

    def __init__(self, address: int, kind: int, shape: tuple[int, ...], keeper: Any,
                 device: tuple[int, int] = (_CPU, 0),
                 before: Optional[Callable[[int], None]] = None):
        self.shape = shape
        self.dtype = TYPES[kind][0]
        self._address, self._bits, self._keeper = address, 8 * TYPES[kind][1], keeper
        self._device, self._before = device, before

    def __reduce__(self) -> Any:
        raise TypeError("memory for DLPack is neither pickled nor deep-copied; write "
                        "output='numpy' or 'torch', or make an array of it first")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: Any = None, **unused: Any) -> Any:
        if self._before is not None and stream != _NO_STREAM:
            self._before(_DEFAULT_STREAM if stream is None else int(stream))
        managed = _Managed()
        shape = (c_int64 * max(1, len(self.shape)))(*self.shape)
        tensor = managed.tensor
        tensor.data = self._address if math.prod(self.shape) else None
        tensor.device_type, tensor.device_id = self._device
        tensor.ndim = len(self.shape)
        tensor.code = DLPACK_CODES[self.dtype.rstrip("0123456789")]
        tensor.bits, tensor.lanes, tensor.shape = self._bits, 1, shape
        managed.deleter = ctypes.cast(_delete, c_void_p)
        address = ctypes.addressof(managed)
        _drop_unconsumed()
        _alive[address] = (managed, shape, self._keeper)
        capsule = _new_capsule(address, _NAME, None)
        _exported.append((capsule, address))
        return capsule


def device_tensor(address: int, kind: int, shape: tuple[int, ...], device: tuple[int, int],
                  keeper: Any, before: Optional[Callable[[int], None]] = None) -> DLTensor:
    """Memory of a device. It is released with the keeper, which the last tensor of it keeps."""
    return DLTensor(address, kind, shape, keeper, device, before)


def dlpack_arrays() -> MakeArray:
    def make(address: int, kind: int, shape: tuple[int, ...], keeper: Any, writable: bool) -> Any:
        del writable
        return DLTensor(address, kind, shape, keeper)

    return make
