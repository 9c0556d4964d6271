"""Processes of a script that run its collate_fn, as those of PyTorch's DataLoader do.

They are not the service's: a batch is one job's, and a collate_fn may use all that the script has.
What they take and what they give passes through files of memory (`passing.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import socket
import sys
import time
import weakref
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined, unused-ignore]
from typing import Any, Callable, NamedTuple, NoReturn, Optional

from .batch import Batch, split
from .brought_batches import BroughtBatches
from .generator import Generator, seed_of
from .mixing import draw_key
from .passing import Message, dumped, receive, send
from .step_dataset import seed_all
from .steps import NotTakable

_TASK, _RESULT, _ERROR = range(3)  # kinds of messages
_GRACE_S = 5.0  # from the end of an iteration to SIGTERM, and from that to SIGKILL
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


class CollateWorkers:
    """They take batches in turn, by number: batch n is made by worker n modulo their number."""

    def __init__(self, setup: Setup):
        context = setup.context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self._workers: list[_Worker] = []
        self._number = 0  # of the next batch
        self._ended_by, self._process = "", os.getpid()
        # Its list of workers grows while they start, which may fail.
        self._close = weakref.finalize(self, _end, self._workers, self._process)
        forks = context.get_start_method() == "fork"
        for worker in range(setup.workers):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                inherited = [ours, *(one.connection for one in self._workers)] if forks else []
                process = context.Process(
                    target=_work, name=f"batchflow collate {worker}", daemon=True,
                    args=(theirs, inherited, worker, setup._replace(context=None),
                          "torch" in sys.modules))
                process.start()
            self._workers.append(_Worker(process, ours))

    @property
    def is_open(self) -> bool:
        return self._close.alive and self._process == os.getpid()

    def close(self, why: str = "this DataLoader is closed; make another one") -> None:
        self._ended_by = self._ended_by or why
        self._close()

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


def _end(workers: list[_Worker], process: int) -> None:
    if os.getpid() != process:  # a child of fork(), which has no part in them
        for _, connection in workers:
            connection.close()
        return
    for _, connection in workers:
        try:
            connection.shutdown(socket.SHUT_RDWR)  # also where a child of fork() has it, too
        except OSError:
            pass  # the worker has ended
        connection.close()
    for end in ("", "terminate", "kill"):
        left = [worker.process for worker in workers if worker.process.is_alive()]
        deadline = time.monotonic() + _GRACE_S
        if end:
            for one in left:
                getattr(one, end)()
        for one in left:
            one.join(max(0.0, deadline - time.monotonic()))


# ------------------------------------------------------------------------------- in the worker --

def _work(connection: socket.socket, inherited: list[socket.socket], worker: int, setup: Setup,
          uses_torch: bool) -> None:
    for one in inherited:  # so that the script's end closes with the script
        one.close()
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
