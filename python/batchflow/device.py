"""Memory of a GPU that another process has filled, by libbatchflow_device.so: mapped read-only here,
and shown to PyTorch and others by DLPack, without a copy.

    memory = Device(0).map(descriptor, bytes)     # a descriptor of the process that made it
    images = torch.from_dlpack(memory.tensor(0, "uint8", (256, 3, 224, 224), released=..., slot=7))

Tensors cannot be marked read-only. A kernel that writes to one is ended by the GPU, and the process
can use the GPU no more.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional

from .arrays import TYPES
from .crossing import hold_until
from .dlpack import DLTensor, device_tensor

ABI_VERSION = 1
HOST = -1  # in place of a GPU
OK, NO_MEMORY, BAD_ARGUMENT = 0, 2, 4

# Called with a context and the slot, by a thread of the library, once the device no longer reads it.
RELEASED = ctypes.CFUNCTYPE(None, c_void_p, c_uint64)
_KINDS = {name: kind for kind, (name, _, _) in enumerate(TYPES)}


class DeviceError(RuntimeError):
    """A GPU, or its driver, refuses something, or is lost."""


class _Info(Structure):
    _fields_ = [("struct_size", c_size_t), ("address", c_void_p), ("bytes", c_uint64),
                ("is_read_only", c_int32), ("dlpack_kind", c_int32), ("dlpack_index", c_int32)]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "bf_device_abi_version": (c_uint32, []),
    "bf_device_last_error": (c_char_p, []),
    "bf_device_found": (c_char_p, []),
    "bf_device_open": (c_int, [c_int, POINTER(c_void_p)]),
    "bf_device_map": (c_int, [c_void_p, c_int, c_uint64, POINTER(c_void_p)]),
    "bf_device_make": (c_int, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "bf_device_export": (c_int, [c_void_p, POINTER(c_int)]),
    "bf_device_memory_get": (c_int, [c_void_p, POINTER(_Info)]),
    "bf_device_write": (c_int, [c_void_p, c_uint64, c_void_p, c_uint64]),
    "bf_device_read": (c_int, [c_void_p, c_uint64, c_void_p, c_uint64]),
    "bf_device_unmap": (None, [c_void_p]),
    "bf_device_hold": (c_int, [c_void_p, c_void_p, c_void_p, c_uint64, POINTER(c_uint64)]),
    "bf_device_note_stream": (None, [c_uint64, c_void_p]),
    "bf_device_release": (None, [c_void_p, c_uint64]),
    "bf_device_held_count": (c_uint64, []),
    "bf_device_waiting_count": (c_uint64, []),
    "bf_device_fence_make": (c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "bf_device_order_after": (c_int, [c_void_p, c_void_p]),
    "bf_device_fence_drop": (None, [c_void_p]),
}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    name = "libbatchflow_device.so.1"
    beside = Path(__file__).parent / "lib" / name
    path = os.environ.get("BATCHFLOW_DEVICE_LIBRARY") or (str(beside) if beside.exists() else name)
    try:
        loaded = ctypes.CDLL(path)
        for function, (result, arguments) in _SIGNATURES.items():
            getattr(loaded, function).restype = result
            getattr(loaded, function).argtypes = arguments
    except (OSError, AttributeError) as error:
        raise ImportError(f"libbatchflow_device.so cannot be used ({error}); install this package "
                          "and BatchFlow together, or name it by BATCHFLOW_DEVICE_LIBRARY") from None
    if loaded.bf_device_abi_version() != ABI_VERSION:
        raise ImportError(f"{path} has ABI {loaded.bf_device_abi_version()}, not {ABI_VERSION}")
    return loaded


def _check(status: int) -> None:
    if status == OK:
        return
    text = library().bf_device_last_error().decode(errors="replace")
    raise {NO_MEMORY: MemoryError, BAD_ARGUMENT: ValueError}.get(status, DeviceError)(text)


def found() -> str:
    """A sentence about the GPUs that are there, or why there are none."""
    return str(library().bf_device_found().decode(errors="replace"))


class Device:
    """A GPU by its number, or HOST."""

    def __init__(self, index: int):
        self._handle = c_void_p()
        _check(library().bf_device_open(index, ctypes.byref(self._handle)))

    def map(self, descriptor: int, size: int) -> "Memory":
        """Memory of another process. The descriptor belongs to the library from then on."""
        made = c_void_p()
        _check(library().bf_device_map(self._handle, descriptor, size, ctypes.byref(made)))
        return Memory(made)

    def make(self, size: int) -> "Memory":
        """New memory, which this process may write to."""
        made = c_void_p()
        _check(library().bf_device_make(self._handle, size, ctypes.byref(made)))
        return Memory(made)

    def fence(self, stream: int = 1) -> "Fence":
        """A fence behind everything that this process has given to the device so far."""
        made = c_void_p()
        _check(library().bf_device_fence_make(self._handle, stream, ctypes.byref(made)))
        return Fence(made)


class Fence:
    def __init__(self, handle: c_void_p):
        self._handle, self._drop = handle, library().bf_device_fence_drop

    def order(self, stream: int) -> None:
        """Work that is given to the stream from now on begins after the fence."""
        _check(library().bf_device_order_after(stream, self._handle))

    def __del__(self) -> None:
        self._drop(self._handle)


class Memory:
    """It stays mapped for as long as this object, or a tensor of it, is there."""

    def __init__(self, handle: c_void_p):
        self._handle, self._unmap = handle, library().bf_device_unmap
        info = _Info(struct_size=ctypes.sizeof(_Info))
        _check(library().bf_device_memory_get(handle, ctypes.byref(info)))
        self.address, self.bytes = int(info.address), int(info.bytes)
        self.is_read_only = bool(info.is_read_only)
        self.device = (int(info.dlpack_kind), int(info.dlpack_index))  # as DLPack numbers it

    def __del__(self) -> None:
        self._unmap(self._handle)

    def export(self) -> int:
        """A descriptor for another process, of the same user."""
        number = c_int(-1)
        _check(library().bf_device_export(self._handle, ctypes.byref(number)))
        return number.value

    def write(self, offset: int, data: bytes) -> None:
        _check(library().bf_device_write(self._handle, offset, data, len(data)))

    def read(self, offset: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        _check(library().bf_device_read(self._handle, offset, data, size))
        return data.raw

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...], released: Any = None,
               slot: int = 0, ready: Optional[Fence] = None) -> DLTensor:
        """A part of the memory, for DLPack. `released` (a RELEASED, or another function of C) is
        called with None and the slot, once all tensors of it are gone and the device has done
        everything that it was given before. What reads the tensor begins after `ready`."""
        kind = _KINDS[dtype]
        size = math.prod(shape) * TYPES[kind][1]
        if offset < 0 or offset + size > self.bytes:
            raise ValueError(f"bytes {offset} to {offset + size} of {self.bytes}")
        handle = c_uint64()
        function = None if released is None else ctypes.cast(released, c_void_p)
        _check(library().bf_device_hold(self._handle, function, None, slot, ctypes.byref(handle)))
        keeper = hold_until(handle.value, library().bf_device_release)

        def before(stream: int) -> None:
            library().bf_device_note_stream(handle.value, stream)
            if ready is not None:
                ready.order(stream)

        return device_tensor(self.address + offset, kind, shape, self.device, keeper, before)
