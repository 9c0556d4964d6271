"""The folder of what scripts bring: states of Datasets, and what trials have shown."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

from . import embedded
from .steps import NotTakable

_LOCK = "lock"
_KEPT_S = 30 * 24 * 3600.0
_FRESH_S = 24 * 3600.0


def write_whole(file: Path, pieces: Iterable[Any]) -> None:
    """All of the file, or nothing."""
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as out:
        try:
            for piece in pieces:
                out.write(piece)
            out.flush()
            os.replace(out.name, file)
        except BaseException:
            os.unlink(out.name)
            raise


def brought_folder() -> Path:
    """Where the service's processes find what is brought; other users cannot read it."""
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if base.startswith("/") else Path(os.path.expanduser("~/.local/state"))
    folder = home / "batchflow" / "brought"
    try:
        embedded.own_folder(folder, "set XDG_STATE_HOME to one that is")
    except (OSError, RuntimeError) as problem:
        raise NotTakable(f"{folder} cannot be written ({problem})") from None
    now = time.time()
    for one in folder.iterdir():
        try:
            age = now - one.stat().st_mtime
        except FileNotFoundError:  # another script has removed it
            continue
        if one.name.endswith(HELD):
            if age > _FRESH_S:
                _unlink_unless_held(one)
        elif one.name != _LOCK and age > _KEPT_S:
            one.unlink(missing_ok=True)
    return folder


HELD = "-held.npy"


class HeldFile:
    """A file that stays as long as a process holds it; its name ends with HELD. Jobs that want the
    same file hold it together."""

    def __init__(self, file: Path, pieces: Callable[[], Iterable[Any]]):
        self.file = file
        with alone_in(file.parent):
            if not file.exists():
                write_whole(file, pieces())
            self._held = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._held, fcntl.LOCK_SH)

    def release(self) -> None:
        with alone_in(self.file.parent):
            os.close(self._held)
            _unlink_unless_held(self.file)


def _unlink_unless_held(file: Path) -> None:
    try:
        looking = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(looking, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.unlink(missing_ok=True)
    except BlockingIOError:
        pass
    finally:
        os.close(looking)


def keep_longer(file: Path) -> None:
    """Notes that the file is in use. A fresh file stays as it is: to the service, a dataset with
    another time is another one, and ranks of a job that begin together must find the same."""
    if file.stat().st_mtime < time.time() - _FRESH_S:
        os.utime(file)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Of jobs that begin at the same moment, one packs and tries, and the others find its
    results."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
