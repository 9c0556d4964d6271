"""Processes of a script that run its collate_fn, as those of PyTorch's DataLoader do.

They are not the service's: a batch is one job's, and a collate_fn may use all that the script has.
What they take and what they give passes through files of memory (`passing.py`).
"""

from __future__ import annotations

import _socket
import functools
import multiprocessing
import operator
import os
import pickle
import random
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined, unused-ignore]
from typing import Any, Callable, NamedTuple, NoReturn, Optional

from .batch import Batch, split
from .brought_batches import BroughtBatches
from .crossing import hold_until_call
from .generator import Generator, seed_of
from .mixing import draw_key
from .passing import Message, dumped, receive, send
from .step_dataset import seed_all
from .steps import NotTakable

_TASK, _RESULT, _ERROR = range(3)  # kinds of messages
_GRACE_S = 5.0  # from the end of a loader to SIGTERM, and from that to SIGKILL
_LOOK_EVERY_S = 5.0  # how often a worker looks whether the script is still there


class Collate:
    """What becomes of a batch. `brought`: where the samples are those of a script's Dataset."""

    def __init__(self, function: Callable[[Any], Any], one_by_one: bool,
                 brought: Optional[BroughtBatches]):
        self.function, self._one_by_one, self._brought = function, one_by_one, brought

    def __call__(self, batch: Batch) -> Any:
        samples = (split(batch, batch.samples) if self._brought is None else
                   self._brought.samples(batch))
        return self.function(samples[0] if self._one_by_one else samples)


class Setup(NamedTuple):
    """`base_seed`: a worker's seed is this and its number. `dataset`: what get_worker_info() shows,
    where the script has a Dataset."""

    collate: Collate
    workers: int
    base_seed: int
    init: Optional[Callable[[int], Any]]
    dataset: Any
    context: Any  # a method of multiprocessing or its name


def base_seed(generator: Optional[Generator], epoch: int, part: int = 0) -> int:
    """`part`: of an epoch in several, of which each has workers. PyTorch draws it. Here it follows from what it would be drawn from, so that a script draws the
    same numbers whether workers run or not."""
    torch = sys.modules.get("torch")
    if generator is not None:
        seed = generator.seed
    elif torch is not None:
        seed = seed_of(torch.default_generator)
    else:
        seed = random.Random(repr(random.getstate())).getrandbits(64)
    return draw_key(seed, epoch, [part] if part else []) >> 1


class _Worker(NamedTuple):
    process: Any
    connection: socket.socket


# Of all workers of this process, with the calls that tell each to end.
_connections: dict[socket.socket, list[Callable[[], Any]]] = {}


def _leave_to_parent() -> None:
    """A child of fork() has no part in the workers. New workers are such children, too, so that their
    connections close with the script."""
    for connection, calls in _connections.items():
        calls.clear()
        connection.close()
    _connections.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _keeper_of(connection: socket.socket) -> Any:
    """An object. When it ends, so does the worker, behind the batch that it has in hand. All that is
    called then is C (Crossing.hold)."""
    calls: list[Callable[[], Any]] = [
        functools.partial(connection.shutdown, socket.SHUT_RDWR),  # a child may have it, too
        functools.partial(_socket.socket.close, connection),
        functools.partial(_connections.pop, connection)]
    _connections[connection] = calls
    return hold_until_call(functools.partial(
        deque, map(operator.methodcaller("__call__"), calls), 0))


class CollateWorkers:
    """They take batches in turn, by number: batch n is made by worker n modulo their number. They end
    when this is closed or dropped."""

    def __init__(self, setup: Setup):
        context = setup.context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self._workers: list[_Worker] = []
        self._number = 0  # of the next batch
        self._ended_by, self._process = "", os.getpid()
        self._keepers: list[Any] = []
        self._closed = False
        for worker in range(setup.workers):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._keepers.append(_keeper_of(ours))
            with theirs:
                process = context.Process(
                    target=_work, name=f"batchflow collate {worker}", daemon=True,
                    args=(theirs, worker, setup._replace(context=None), "torch" in sys.modules))
                process.start()
            self._workers.append(_Worker(process, ours))

    @property
    def is_open(self) -> bool:
        return not self._closed and self._process == os.getpid()

    def close(self, why: str = "this DataLoader is closed; make another one") -> None:
        """Waits until they have ended. A drop does not wait, since Python would drop a Ctrl-C then.
        A worker that still runs when the script ends is ended by multiprocessing."""
        self._ended_by = self._ended_by or why
        self._closed = True
        self._keepers.clear()
        if self._process == os.getpid():
            _wait_for([worker.process for worker in self._workers])

    def next_number(self) -> int:
        """For a batch that is sent next. It goes on from iteration to iteration, where workers do."""
        self._number += 1
        return self._number - 1

    def forget(self) -> None:
        """Drops what was made for iterations that were left, which would fill the sockets."""
        for _, connection in self._workers:
            with suppress(OSError):
                while receive(connection, False) is not None:
                    pass

    def _of(self, number: int) -> tuple[int, _Worker]:
        if not self.is_open:
            raise RuntimeError(self._ended_by or "the processes that run collate_fn are those of another "
                               "process; iterate over a DataLoader that this one makes")
        worker = number % len(self._workers)
        return worker, self._workers[worker]

    def send(self, number: int, batch: Batch) -> None:
        _, there = self._of(number)
        with suppress(ConnectionError):  # `answer` says so, behind what was made before
            send(there.connection, number, _TASK, batch)

    def answer(self, number: int, seconds: float) -> Optional[Message]:
        """What its worker made of a batch, for `opened`; None if that does not come in time."""
        worker, there = self._of(number)
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            message = None
            try:
                if not wait([there.connection, there.process.sentinel], left):
                    return None
                message = receive(there.connection, False)
            except BlockingIOError:
                pass  # it has ended
            except (OSError, ValueError):
                if self.is_open:
                    raise
                raise RuntimeError(self._ended_by) from None  # by another thread
            if message is None:
                self._died(worker)
            if message.number == number:  # else of an iteration that was left
                return message

    def _died(self, worker: int) -> NoReturn:
        process = self._workers[worker].process
        process.join(_GRACE_S)
        code = process.exitcode
        how = (f"was killed by signal {signal.Signals(-code).name}" if code is not None and code < 0
               else "exited unexpectedly" + ("" if code is None else f", with {code}"))
        self.close(f"DataLoader worker (pid {process.pid}), which ran collate_fn, {how}. num_workers=0 "
                   "runs it in this process, where its error can be seen; where memory is short, "
                   "fewer workers or a smaller prefetch_factor take less")
        raise RuntimeError(self._ended_by)


def opened(message: Message) -> Any:
    """What collate_fn gave; raises what it raised."""
    if message.kind == _ERROR:
        raise message.value()
    return message.value()


def _wait_for(processes: list[Any]) -> None:
    for end in ("", "terminate", "kill"):
        left = [process for process in processes if process.is_alive()]
        deadline = time.monotonic() + _GRACE_S
        if end:
            for one in left:
                getattr(one, end)()
        for one in left:
            one.join(max(0.0, deadline - time.monotonic()))


# ------------------------------------------------------------------------------- in the worker --

def _work(connection: socket.socket, worker: int, setup: Setup, uses_torch: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the script decides what a Ctrl-C ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    problem: Optional[Exception] = None
    try:
        _begin(worker, setup, uses_torch)
    except Exception as error:
        problem = error
    with suppress(ConnectionError):  # the iteration was left
        for message in _messages(connection):
            try:
                if problem is not None:
                    raise problem
                kind, value = _RESULT, setup.collate(message.value())
            except Exception as error:
                kind, value = _ERROR, _passable(error)
            _give(connection, message.number, kind, value)


def _begin(worker: int, setup: Setup, uses_torch: bool) -> None:
    if uses_torch:
        import torch  # type: ignore[import-not-found, unused-ignore]
        import torch.utils.data  # type: ignore[import-not-found, unused-ignore]
        torch.set_num_threads(1)
        shown = torch.utils.data._utils.worker
        shown._worker_info = shown.WorkerInfo(id=worker, num_workers=setup.workers,
                                              seed=setup.base_seed + worker, dataset=setup.dataset)
    seed_all(setup.base_seed + worker)
    if setup.init is not None:
        setup.init(worker)


def _messages(connection: socket.socket) -> Any:
    """Those of the script, as long as it lives."""
    parent = os.getppid()
    while os.getppid() == parent:
        if wait([connection], _LOOK_EVERY_S):
            message = receive(connection)
            if message is None:
                return
            yield message


def _give(connection: socket.socket, number: int, kind: int, value: Any) -> None:
    try:
        send(connection, number, kind, value)
    except (NotTakable, OSError) as problem:
        send(connection, number, _ERROR, RuntimeError(
            f"what collate_fn gave cannot be taken to the training process: {problem}; num_workers=0 "
            "runs it there"))


def _passable(error: Exception) -> Any:
    """The error, with the worker's traceback as its cause."""
    trace = error.__traceback__
    try:
        pickle.loads(dumped(error, []))
    except Exception:  # of many kinds, of the class of the error
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return ExceptionWithTraceback(error, trace)
