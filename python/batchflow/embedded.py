"""The service that a script starts when none is there: one for all scripts of this user.

It listens at the usual socket, so the next script finds it. It ends when no job has been connected
for a while. A lock file keeps scripts that begin at the same moment from starting two.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from . import library as c
from .arguments import Arguments, say_once
from .session import Session

_START_S = 60.0  # until it listens; a machine that swaps may need most of it
_TRIES = 3
_LOOK_EVERY_S = 0.5
_LOG_MOST = 1 << 20


def open_session(arguments: Arguments, options: Any) -> Session:
    """Joins the service that runs or, for a path, starts one and joins it."""
    is_named = arguments.service is not None or bool(os.environ.get("BATCHFLOW_SERVICE"))
    if not is_named and (found := _of_ray(arguments.timeout_s)) is not None:
        options.service, is_named = os.fsencode(found), True
    may_start = (not is_named and arguments.is_path and
                 os.environ.get("BATCHFLOW_EMBEDDED", "1") != "0")
    notes: list[str] = []
    try:
        return _opened(arguments, options, notes.append, may_start)
    finally:
        for note in notes:  # by this thread, so that the warning names the user's line
            say_once(f"dataset {arguments.dataset}:", note)


def _opened(arguments: Arguments, options: Any, notes: Callable[[str], None],
            may_start: bool) -> Session:
    if not may_start:
        try:
            session = Session(options, lambda: None, notes)
        except (c.NoServiceError, c.RefusedError) as problem:
            raise _explained(problem, arguments) from None
        _say_that_service_decided(arguments)
        return session
    deadline = time.monotonic() + options.timeout_s
    for left in reversed(range(_TRIES)):
        try:
            session = Session(options, _Watch(arguments), notes)
        except c.NoServiceError as problem:
            # A service that was ending when it was asked is followed by another.
            if left == 0 or time.monotonic() >= deadline:
                raise _explained(problem, arguments) from None
            _check_ranks(arguments)
            options.service = os.fsencode(ensure(arguments))
        else:
            if options.service is None:
                _say_that_service_decided(arguments)
            return session
    raise AssertionError("unreachable")


def _of_ray(timeout_s: float) -> Optional[str]:
    """The socket of this node's agent, in a process of a Ray cluster that has them (docs/ray.md)."""
    ray = sys.modules.get("ray")
    if ray is None or not hasattr(ray, "is_initialized") or not ray.is_initialized():
        return None
    from .ray import find_service
    return find_service(timeout_s)


def _say_that_service_decided(arguments: Arguments) -> None:
    if arguments.cache_limit or arguments.target_workers:
        say_once("cache_limit and target_workers", "have no effect: they were decided when the "
                 "service was started")


def _explained(problem: c.ServiceError, arguments: Arguments) -> c.ServiceError:
    """The problem, with what the service cannot know: that other ranks are missing, or that there
    is a file of that name here."""
    world_size = arguments.ranks().world_size
    if world_size > 1 and "the request to join" in str(problem):
        return type(problem)(f"{problem}; a job begins when all of its {world_size} ranks have "
                             "joined, so look at the messages of the other ranks")
    name = arguments.dataset
    unknown = isinstance(problem, c.NoServiceError) or f"no dataset is called '{name}'" in str(problem)
    if arguments.is_path or not unknown or not os.path.exists(name):
        return problem
    return type(problem)(f"{problem}; '{name}' is a name at the service; for the file or folder "
                         f"here write './{name}'")


def _check_ranks(arguments: Arguments) -> None:
    world_size = arguments.ranks().world_size
    here = os.environ.get("LOCAL_WORLD_SIZE")
    if here is not None and here.isdigit() and int(here) < world_size:
        raise c.NoServiceError(
            f"{here} of {world_size} ranks are on this machine, and all ranks need one service: "
            "start batchflowd --tcp on one machine, and name it by "
            "BATCHFLOW_SERVICE=tcp://HOST:PORT (docs/operations.md)")


class _Watch:
    """Starts a new service when the old one has died while a loader waits for it."""

    def __init__(self, arguments: Arguments):
        self._arguments = arguments
        self._next = 0.0

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LOOK_EVERY_S
        try:
            ensure(self._arguments)
        except RuntimeError:
            pass  # the loader goes on looking, and its error says that there was no service


def _from_environment(variable: str) -> Optional[Path]:
    """The folder in a variable. Relative paths are ignored, as the XDG specification demands and
    the service does."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else None


def runtime_folder() -> Path:
    """The folder of this user's service, where no other user can write."""
    base = _from_environment("XDG_RUNTIME_DIR")
    return own_folder(base / "batchflow" if base else Path(f"/tmp/batchflow-{os.geteuid()}"),
                      "set XDG_RUNTIME_DIR to one that is")


def own_folder(folder: Path, otherwise: str) -> Path:
    """Makes the folder, unless it is there and this user's alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise c.NoServiceError(f"{folder} is not this user's own folder; remove it, or {otherwise}")
    return folder


def _state_folder(runtime: Path) -> Path:
    """The folder of dataset indices, which outlive the service. Two services must not share it."""
    base = _from_environment("XDG_STATE_HOME") or Path(os.path.expanduser("~/.local/state"))
    folder = base / "batchflow" / f"embedded-{zlib.crc32(os.fsencode(runtime)):08x}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return runtime / "state"
    return folder if os.access(folder, os.W_OK) else runtime / "state"


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + 2 * _START_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise c.NoServiceError(f"another process holds {path} and starts no service; "
                                           "end it") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def ensure(arguments: Optional[Arguments] = None) -> str:
    """The socket of this user's service, which is started if it does not run."""
    with _folder_problems():
        folder = runtime_folder()
        path = folder / "batchflow.sock"
        with _lock(folder / "embedded.lock"):
            if not listens(path):
                _start(folder, path, arguments)
            elif arguments:
                _say_that_service_decided(arguments)
    return str(path)


@contextmanager
def _folder_problems() -> Iterator[None]:
    try:
        yield
    except c.NoServiceError:
        raise
    except OSError as problem:
        raise c.NoServiceError(
            f"no service runs, and none can be started here: {problem}; set XDG_RUNTIME_DIR to a "
            "folder that this user can write to, or name a service by BATCHFLOW_SERVICE") from None


def daemon() -> str:
    named = os.environ.get("BATCHFLOW_DAEMON")
    library = os.environ.get("BATCHFLOW_LIBRARY")
    beside = [Path(__file__).parent] + ([Path(library).parent.parent] if library else [])
    usual = [*(str(folder / "bin" / "batchflowd") for folder in beside), "batchflowd"]
    for program in [named] if named else usual:
        if found := shutil.which(program):
            return os.path.abspath(found)  # the service is started in another folder
    raise c.NoServiceError(
        f"no service runs, and there is no batchflowd to start{' at ' + named if named else ''}; "
        "install it, name it by BATCHFLOW_DAEMON, or name a service by BATCHFLOW_SERVICE")


@contextmanager
def _on_all_processors() -> Iterator[None]:
    """The service is for all scripts, so it may use all processors, not only this script's."""
    own = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _start(folder: Path, path: Path, arguments: Optional[Arguments]) -> None:
    command = [daemon(), "--open-datasets", "--http", os.environ.get("BATCHFLOW_HTTP", "0"),
               "--socket", str(path), "--state", str(_state_folder(folder)), "--exit-when-idle",
               os.environ.get("BATCHFLOW_IDLE_S", "30"), "--log-file", str(folder / "embedded.log"),
               "--corrupt-ratio-allowed", "100%"]
    if arguments and arguments.cache_limit:
        command += ["--memory", str(arguments.cache_limit)]
    if arguments and arguments.target_workers:
        command += ["--workers", str(arguments.target_workers)]
    log = folder / "embedded.log"
    if log.exists() and log.stat().st_size > _LOG_MOST:
        log.unlink()
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output, _on_all_processors():
        # It gets a session of its own, so that Ctrl-C and the end of this script do not end it.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True, cwd="/",
                                   env={"BATCHFLOW_PYTHON": sys.executable, **os.environ})
    deadline = time.monotonic() + _START_S
    while not listens(path):
        if process.poll() is not None or time.monotonic() > deadline:
            with log.open("rb") as written:
                written.seek(begin)
                reason = written.read(4096).decode(errors="replace").strip()
            if process.returncode is None:
                process.kill()
                process.wait()
            raise c.NoServiceError(f"{command[0]} did not start: {reason or 'it gives no reason'}; "
                                   f"see {log}")
        time.sleep(0.01)
    # Otherwise it would be a zombie until this script ends.
    threading.Thread(target=process.wait, name="batchflowd's end", daemon=True).start()
