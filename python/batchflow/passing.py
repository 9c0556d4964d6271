"""Values that one process of a script passes to another: a pickle, and its arrays behind it.

They lie in a file of memory, which has no name and goes with the last process that has it, however
these end. The receiver maps it, so arrays are copied once. A Dataset that a script brings is written
in the same form (`served_dataset.py`).
"""

from __future__ import annotations

import array
import ctypes
import functools
import io
import os
import pickle
import socket
import struct
import sys
from typing import Any, Iterable, NamedTuple, Optional

from .arrays import buffer_at
from .crossing import hold_until_call
from .step_dataset import ALIGNMENT, HEAD, PIECE, libc, map_file, parts_of, tensor_of, view_of
from .steps import NotTakable

_APART_LEAST = 4 << 10
_MESSAGE = struct.Struct("<QB7x")  # the number of the value, and its kind
_READ_AND_WRITE = 3


def _apart(buffers: list[Any], buffer: pickle.PickleBuffer) -> bool:
    raw = buffer.raw()
    if raw.nbytes < _APART_LEAST:
        return True
    buffers.append(raw)
    return False


class ApartPickler(pickle.Pickler):
    """Large arrays stand behind the pickle, in `buffers`."""

    def __init__(self, out: Any, buffers: list[Any]):
        # A method would be a cycle, which would hold all that was pickled.
        super().__init__(out, 5, buffer_callback=functools.partial(_apart, buffers))

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                raise NotTakable(f"a tensor on {value.device} stays in this process")
            if type(value) is torch.Tensor and not value.requires_grad:
                return self._tensor(value)
        if isinstance(value, memoryview):
            return view_of, (pickle.PickleBuffer(value), value.format, value.shape)
        if isinstance(value, type) or callable(value) and hasattr(value, "__code__"):
            self.take_code(value)
        return NotImplemented

    @staticmethod
    def _tensor(value: Any) -> Any:
        # A view goes without the rest of its memory.
        compact = value if value.is_contiguous() else value.clone()
        if compact.is_contiguous():
            try:
                return tensor_of, (compact.numpy(),)
            except (RuntimeError, TypeError):
                pass  # of a type that NumPy does not have
        return NotImplemented if compact is value else compact.__reduce_ex__(5)

    def take_code(self, value: Any) -> None:
        """A class or function, which goes by its name."""
        if getattr(value, "__name__", "") == "<lambda>":
            raise NotTakable("a lambda cannot be taken to another process; write it with def")


def dumped(value: Any, buffers: list[Any]) -> bytes:
    """The pickle of a value; its arrays are added to `buffers`. Throws NotTakable."""
    out = io.BytesIO()
    try:
        ApartPickler(out, buffers).dump(value)
    except NotTakable:
        raise
    except Exception as problem:  # of many kinds, of the classes of the value
        raise cannot_be_pickled(problem) from None
    return out.getvalue()


def cannot_be_pickled(problem: Exception) -> NotTakable:
    return NotTakable(f"it cannot be pickled ({problem})")


def pieces(pickled: bytes, buffers: list[Any]) -> Iterable[Any]:
    """The content of the file; `step_dataset.parts_of` reads it."""
    head = bytearray(HEAD.pack(len(pickled), len(buffers)))
    at = HEAD.size + len(buffers) * PIECE.size + len(pickled)
    gaps = []
    for buffer in buffers:
        gaps.append(-at % ALIGNMENT)
        head += PIECE.pack(at + gaps[-1], buffer.nbytes)
        at += gaps[-1] + buffer.nbytes
    yield bytes(head) + pickled
    for gap, buffer in zip(gaps, buffers):
        yield bytes(gap)
        yield buffer


class Message(NamedTuple):
    number: int
    kind: int
    memory: memoryview  # in which the file is mapped; arrays of the value keep it

    def value(self) -> Any:
        content, buffers = parts_of(self.memory)
        return pickle.loads(content, buffers=buffers)


def send(connection: socket.socket, number: int, kind: int, value: Any) -> None:
    """Throws NotTakable before anything is sent."""
    buffers: list[Any] = []
    pickled = dumped(value, buffers)
    file = os.memfd_create("batchflow", os.MFD_CLOEXEC)
    try:
        with open(file, "wb", closefd=False) as out:
            out.writelines(pieces(pickled, buffers))
        socket.send_fds(connection, [_MESSAGE.pack(number, kind)], [file])
    finally:
        os.close(file)


def receive(connection: socket.socket, waits: bool = True) -> Optional[Message]:
    """None: the other end is closed. Raises BlockingIOError where there is nothing and it may not
    wait."""
    try:
        head, files = _received(connection, waits)
    except ConnectionError:  # is said once, also before what the other end had sent
        try:
            head, files = _received(connection, waits)
        except ConnectionError:
            return None
    if not head:
        return None
    if not files:
        raise OSError("no file came with a batch: this process has as many open files as it may "
                      "(ulimit -n)")
    try:
        number, kind = _MESSAGE.unpack(head)
        return Message(number, kind, _mapped(files[0]))
    finally:
        os.close(files[0])


def _received(connection: socket.socket, waits: bool) -> "tuple[bytes, array.array[int]]":
    """`socket.recv_fds` does not pass flags on."""
    files = array.array("i")
    flags = socket.MSG_CMSG_CLOEXEC | (0 if waits else socket.MSG_DONTWAIT)
    head, data, _, _ = connection.recvmsg(_MESSAGE.size, socket.CMSG_LEN(files.itemsize), flags)
    for level, kind, content in data:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(content)
    return head, files


def _mapped(file: int) -> memoryview:
    """It is unmapped when the last array in it is gone. `mmap.mmap` would keep a descriptor open for
    each batch that the script holds."""
    address, size = map_file(file, _READ_AND_WRITE)
    call = functools.partial(libc().munmap, ctypes.c_void_p(address), ctypes.c_size_t(size))
    return memoryview(buffer_at(address, size, hold_until_call(call))).cast("B")
