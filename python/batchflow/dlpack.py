"""DLPack (version 0.8) over a batch's memory, for jax.dlpack.from_dlpack(x) and others.

The protocol has no word for read-only memory, so what takes such a tensor must not write to it.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import (POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64,
                    c_void_p)
from typing import Any, Sequence

from .arrays import TYPES, MakeArray

_CPU = 1
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
_NAME = b"dltensor"


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter)]
_Destructor = ctypes.CFUNCTYPE(None, c_void_p)

_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, _Destructor)(
    ("PyCapsule_New", _api))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_of_capsule = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))

# What consumers have: by the address of the struct they call the deleter with.
_alive: dict[int, tuple[Any, ...]] = {}


@_Deleter  # type: ignore[untyped-decorator, unused-ignore]
def _delete(managed: Any) -> None:
    _alive.pop(ctypes.addressof(managed.contents), None)


@_Destructor  # type: ignore[untyped-decorator, unused-ignore]
def _destroy(capsule: int) -> None:
    # One that was consumed has another name, and its consumer deletes.
    if _is_capsule(capsule, _NAME):
        _alive.pop(_of_capsule(capsule, _NAME), None)


class DLTensor:
    """Memory of a batch, for whoever speaks DLPack."""

    def __init__(self, address: int, kind: int, shape: Sequence[int], keeper: Any):
        self.shape = tuple(shape)
        self.dtype = TYPES[kind][0]
        self._address, self._bits, self._keeper = address, 8 * TYPES[kind][1], keeper

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)

    def __dlpack__(self, *, stream: Any = None, **unused: Any) -> Any:
        managed = _Managed()
        shape = (c_int64 * max(1, len(self.shape)))(*self.shape)
        tensor = managed.tensor
        tensor.data = self._address if math.prod(self.shape) else None
        tensor.device_type, tensor.device_id, tensor.ndim = _CPU, 0, len(self.shape)
        tensor.code = _CODES[self.dtype.rstrip("0123456789")]
        tensor.bits, tensor.lanes, tensor.shape = self._bits, 1, shape
        managed.deleter = _delete
        address = ctypes.addressof(managed)
        _alive[address] = (managed, shape, self._keeper)
        return _new_capsule(address, _NAME, _destroy)


def dlpack_arrays() -> MakeArray:
    def make(address: int, kind: int, shape: Sequence[int], keeper: Any, writable: bool) -> Any:
        del writable
        return DLTensor(address, kind, shape, keeper)

    return make
