"""What runs use of the machine: memory while they run; processors and storage of all processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_BLOCK = 512  # of ru_inblock


def adopt_orphans() -> None:
    """Makes orphans of ended processes children of this one, which counts and ends them."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _children() -> list[int]:
    return [int(child) for file in Path("/proc/self/task").glob("*/children")
            for child in file.read_text().split()]


def end_orphans(seconds: float = 10) -> None:
    """Ends processes that a run has left behind. Each of them may leave others."""
    deadline = time.monotonic() + seconds
    while (left := _children()) and time.monotonic() < deadline:
        for child in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def used() -> tuple[float, int]:
    """Seconds of processors, and bytes from storage, of all processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime, ended.ru_inblock * _BLOCK


def _memory() -> tuple[int, int]:
    """Bytes that are available, and bytes of shared memory. The page cache is available."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available, shared = (int(fields[name].split()[0]) * 1024 for name in ("MemAvailable", "Shmem"))
    return available, shared


class Memory:
    """The most memory of the machine that was in use while this is entered."""

    def __enter__(self) -> "Memory":
        self._available, self._shared = _memory()
        self.taken = self.shared = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.1):
            available, shared = _memory()
            self.taken = max(self.taken, self._available - available)
            self.shared = max(self.shared, shared - self._shared)

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join()
        # Memory in use before may have been freed meanwhile.
        available, shared = _memory()
        self.taken += max(0, available - self._available)
        self.shared += max(0, self._shared - shared)
