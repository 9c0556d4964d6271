"""Runs a step as the service does: in the same program, with the same confinement and messages."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import select
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

from . import embedded
from .brought_folder import brought_folder
from .library import NoServiceError
from .step_dataset import SHOWN_BYTES, memory_bytes
from .step_worker import CALL, DECLARED, DONE, REPLY, SETUP, TYPES

_PROTOCOL = 1
_PAGE = 4096
_DATA_BYTES = 16 << 30
FOLDER_MIB = 16  # of the temporary folder that is the service's usual one
_START_S, _SAMPLE_S = 60.0, 10.0
_SAID_MOST = 64 << 10
_INPUT = (TYPES.index("int64"), 1, [2] + [0] * 7)  # index and seed


class Failed(Exception):
    """The step could not be run, or a sample not be made; the text says why."""


class Probe:
    """One process, which shows what a Dataset gives. A context manager: the process ends with it."""

    def __init__(self, step: dict[str, Any]):
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        areas = os.memfd_create("batchflow-probe")
        bundle = os.memfd_create("batchflow-probe")
        self._process: Optional[int] = None
        self._says = -1  # what it prints
        try:
            os.truncate(areas, _PAGE + SHOWN_BYTES)
            self._areas = mmap.mmap(areas, _PAGE + SHOWN_BYTES)
            os.write(bundle, step["python"].encode())
            self._start(step, theirs.fileno(), areas, bundle)
            self._ours.send(self._setup(step))
        except BaseException:
            self.__exit__()
            raise
        finally:
            theirs.close()
            os.close(areas)
            os.close(bundle)
        self._calls = 0

    def wait(self) -> None:
        """Waits until it has begun, or says why it has not."""
        declared = DECLARED.unpack(self._receive(DECLARED.size, _START_S))
        if declared[0] != DONE:
            raise Failed(declared[-1].split(b"\0")[0].decode())

    def _start(self, step: dict[str, Any], theirs: int, areas: int, bundle: int) -> None:
        try:
            worker = Path(embedded.daemon()).resolve().parent / "batchflow-step-worker"
        except NoServiceError as problem:
            raise Failed(str(problem)) from None
        given = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ",
                                                     "LD_LIBRARY_PATH") if name in os.environ}
        temporary = brought_folder().parent / "temporary"  # its own is there; this one stays empty
        with suppress(OSError):
            temporary.mkdir(mode=0o700, exist_ok=True)
        self._says, says = os.pipe()
        # Above the numbers that they are moved to.
        moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 16)
                 for one in (theirs, areas, bundle, says)]
        try:
            # In the folder in which a service begins: a relative path would lead elsewhere there.
            self._process = os.posix_spawn(
                "/bin/sh", ["sh", "-c", 'cd / && exec "$@"', "sh", str(worker), step["at"],
                            step["interpreter"]],
                {**given, "PYTHONPATH": step["package"], "PYTHONDONTWRITEBYTECODE": "1",
                 "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(temporary),
                 "BATCHFLOW_STEP_TIMEOUT_S": str(_SAMPLE_S)},
                setpgroup=0, file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, moved[3], 1), (os.POSIX_SPAWN_DUP2, moved[3], 2),
                    *((os.POSIX_SPAWN_DUP2, moved[i], 3 + i) for i in range(3))])
        except OSError as problem:
            raise Failed(f"{worker} cannot be started: {problem}") from None
        finally:
            for one in (*moved, says):
                os.close(one)

    @staticmethod
    def _setup(step: dict[str, Any]) -> bytes:
        kind, dimensions, shape = _INPUT
        head = SETUP.pack(_PROTOCOL, 1, os.getpid(), FOLDER_MIB, _DATA_BYTES, _PAGE, SHOWN_BYTES,
                          kind, dimensions, *shape, 0, b"index")
        return head + b"places\0" + str(step["places"]).encode() + b"\0"

    def show(self, index: int, seed: int) -> dict[str, Any]:
        self._calls += 1
        self._areas[:16] = struct.pack("<qq", index, seed)
        try:
            self._ours.send(CALL.pack(self._calls, 16, 2, *[0] * 7, 0, SHOWN_BYTES, seed))
        except OSError:
            raise Failed(self._end()) from None
        reply = REPLY.unpack(self._receive(REPLY.size, _SAMPLE_S))
        if reply[1] != DONE:
            problem = reply[-1].split(b"\0")[0].decode()
            raise Failed(f"sample {index}: {problem}")
        text = bytes(self._areas[_PAGE:_PAGE + SHOWN_BYTES]).rstrip(b"\0")
        shown: dict[str, Any] = json.loads(text)
        return shown

    def memory(self) -> int:
        """What it has taken of the bound: memory of its own that can be written to."""
        assert self._process is not None
        return memory_bytes(self._process)

    def _receive(self, size: int, within_s: float) -> bytes:
        if not select.select([self._ours], [], [], within_s)[0]:
            raise Failed(f"it took more than {within_s:g} s")
        try:
            message = self._ours.recv(size)
        except ConnectionError:
            message = b""
        if len(message) != size:
            raise Failed(self._end())
        return message

    def _end(self) -> str:
        """How the process ended."""
        if not select.select([self._says], [], [], _SAMPLE_S)[0]:
            return "it answers no more"
        said = b""
        while len(said) < _SAID_MOST and (more := os.read(self._says, 4096)):
            said += more
        code = os.waitstatus_to_exitcode(self._wait())
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        how = f"it crashed (signal {-code})" if code < 0 else f"it ended with exit code {code}"
        return f"{how}{', and last wrote ' + repr(last[0]) if last else ''}"

    def _wait(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        return os.waitpid(process, 0)[1]

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *unused: Any) -> None:
        self._ours.close()
        if self._process is not None:
            os.kill(self._process, signal.SIGKILL)
            self._wait()
        if self._says >= 0:
            os.close(self._says)
            self._says = -1
