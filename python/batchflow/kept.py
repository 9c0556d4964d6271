"""A daemon that runs as long as this process wants, and no longer than this process lives."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Callable, Optional

GRACE_S = 10.0  # from SIGTERM to SIGKILL
_AGAIN_S = 0.5  # from the end of a daemon to its next start
_LOG_MOST = 1 << 20
_KEEPER = Path(__file__).parent / "keeper.py"


def process_at(path: Path) -> Optional[int]:
    """The process that listens at a socket."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(os.fspath(path))
        except OSError:
            return None
        peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", peer)[0])


class KeptDaemon:
    """Started by `start`, and again whenever it ends, until `stop`. `command` gives its command line,
    anew for each start.

    It is the child of a keeper (`keeper.py`) in a session of its own, so that no signal to this
    process's group reaches it. A pipe from this process to the keeper says when to end.
    """

    def __init__(self, command: Callable[[], list[str]], log: Path):
        self._command = command
        self._log = log
        self._lock = threading.Lock()  # of the two below
        self._keeper: Optional["subprocess.Popen[bytes]"] = None
        self._pipe: Optional[int] = None  # its end of the pipe; None once the daemon has to end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batchflowd", daemon=True)
        self.starts = 0

    def start(self) -> None:
        """Does nothing if it was called before."""
        if self._thread.ident is None:
            self._thread.start()

    def restart(self) -> None:
        with self._lock:
            self._close_pipe()

    def stop(self, grace_s: Optional[float] = None) -> None:
        """SIGTERM, a bounded wait, SIGKILL; back when the daemon has ended."""
        grace_s = GRACE_S if grace_s is None else grace_s
        self._stopped.set()
        with self._lock:
            if self._pipe is not None:
                with suppress(BrokenPipeError):  # the keeper has just ended
                    os.write(self._pipe, b"%f\n" % grace_s)
            self._close_pipe()
        if self._thread.ident is None:
            return
        self._thread.join(grace_s + 5)
        if self._thread.is_alive() and self._keeper:  # the keeper itself hangs
            os.killpg(self._keeper.pid, signal.SIGKILL)
            self._thread.join()

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _run(self) -> None:
        while not self._stopped.is_set():
            keeper = self._started()
            if keeper is not None:
                keeper.wait()
            self.restart()
            self._stopped.wait(_AGAIN_S)

    def _started(self) -> Optional["subprocess.Popen[bytes]"]:
        with self._lock:
            if self._stopped.is_set():
                return None
            reading, self._pipe = os.pipe()
            try:
                if self._log.exists() and self._log.stat().st_size > _LOG_MOST:
                    self._log.unlink()
                with self._log.open("ab") as log:
                    self._keeper = subprocess.Popen(
                        [sys.executable, "-I", str(_KEEPER), str(GRACE_S), *self._command()],
                        stdin=reading, stdout=log, stderr=log, start_new_session=True, cwd="/")
            except OSError as problem:  # the next try may go better
                print(f"{self._log}: {problem}", file=sys.stderr)
                return None
            finally:
                os.close(reading)
            self.starts += 1
            return self._keeper
