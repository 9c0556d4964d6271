"""The folder of what scripts bring: states of Datasets, and what trials have shown."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator

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
    limit = time.time() - _KEPT_S
    for one in folder.iterdir():
        if one.name != _LOCK and one.stat().st_mtime < limit:
            one.unlink(missing_ok=True)
    return folder


def keep_longer(file: Path) -> None:
    """The file was named now. One that is fresh stays as it is: to the service, a dataset with
    another time is another one, and ranks of a job that begin together must find the same."""
    if file.stat().st_mtime < time.time() - _FRESH_S:
        os.utime(file)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Of jobs that begin at the same moment, one packs and tries, and the others find that."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
