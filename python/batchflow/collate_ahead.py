"""Where a loader's collate_fn runs: in processes of its own, ahead of the loop, or in the loop.

The processes run it where `num_workers` says how many there are, and where it can be taken to them.
They get batches in the order of the epoch, and the loop gets what they made in the same order.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Optional

from .arguments import say
from .batch import Batch
from .collate_workers import Collate, CollateWorkers, Setup, base_seed, opened
from .passing import dumped
from .steps import NotTakable

_AHEAD = 2  # batches for each worker, as in PyTorch
# What waits for a worker is a message in a socket, and a file; both are bounded by the kernel.
_AHEAD_MOST = 8
_LOOK_EVERY_S = 0.005  # for a batch of the service, while a result is waited for
_WAIT_S = 1.0


@dataclasses.dataclass
class _Item:
    number: int  # by which its worker knows it
    about: Any
    batch: Optional[Batch]  # until its worker has it


class CollatedAhead:
    """One iteration. `take` gives a batch and what belongs to it, and None behind the last one.
    `is_there` says whether it would do so at once. An error of these comes behind the batches that
    were taken before it."""

    def __init__(self, workers: CollateWorkers, most: int, is_there: Callable[[], bool],
                 take: Callable[[], Optional[tuple[Batch, Any]]]):
        self._workers, self._most, self._is_there, self._take = workers, most, is_there, take
        self._items: Deque[_Item] = deque()
        self._has_all = False
        self._problem: Optional[Exception] = None  # of what comes behind the items
        self.is_over = False
        self.waited_s = 0.0  # in all, for workers

    def next(self, timeout_s: float) -> Optional[tuple[Any, Callable[[], Any]]]:
        """What belongs to the next batch, and a function that gives its result, or raises what
        collate_fn raised; None behind the last batch. `timeout_s`: of a wait for a worker; 0: none."""
        # One is taken for each that is given, and more of them while the loop waits.
        self._take_one(not self._items)
        if not self._items:
            if self._problem is not None:
                try:
                    raise self._problem
                finally:  # the next call asks again
                    self._problem = None
            self.is_over = True
            return None
        oldest = self._items[0]
        begin = time.monotonic()
        wait_s = 0.0
        while (message := self._answer(oldest.number, wait_s)) is None:
            if 0 < timeout_s < time.monotonic() - begin:
                raise RuntimeError(f"DataLoader timed out after {timeout_s:g} seconds: collate_fn has "
                                   "not ended, and timeout= allows more")
            self._take_one(False)
            wait_s = _LOOK_EVERY_S if self._has_room() else _WAIT_S
            if timeout_s > 0:
                wait_s = min(wait_s, timeout_s)
        self._items.popleft()
        return oldest.about, lambda: opened(message)

    def _answer(self, number: int, wait_s: float) -> Any:
        begin = time.monotonic()
        message = self._workers.answer(number, wait_s)
        self.waited_s += time.monotonic() - begin
        return message

    def _has_room(self) -> bool:
        return not self._has_all and self._problem is None and len(self._items) < self._most

    def _take_one(self, waits: bool) -> None:
        try:
            if self._has_room() and (waits or self._is_there()):
                taken = self._take()
                if taken is None:
                    self._has_all = True
                else:
                    # A Ctrl-C behind this line drops no batch.
                    self._items.append(_Item(self._workers.next_number(), taken[1], taken[0]))
        except Exception as problem:
            self._problem = problem
        for item in self._items:
            if item.batch is not None:
                self._workers.send(item.number, item.batch)
                item.batch = None


class Collating:
    """Of one loader: which of its iterations have workers."""

    def __init__(self) -> None:
        self._judged: Optional[tuple[Any, Any, str]] = None  # what was judged, and why it stays
        self._kept: Optional[tuple[Collate, CollateWorkers]] = None  # from epoch to epoch
        self._kept_for: Callable[[], Optional[CollatedAhead]] = lambda: None  # which iteration
        self._all: "list[weakref.ref[CollateWorkers]]" = []
        self._choosing = threading.Lock()  # two threads may begin to iterate at once

    def ahead(self, loader: Any, collate: Callable[[], Collate], epoch: int,
              is_there: Callable[[], bool], take: Callable[[], Optional[tuple[Batch, Any]]],
              part: int = 0) -> Optional[CollatedAhead]:
        """For an iteration that begins, or the part of an epoch with this number; None: collate_fn, if there is one, runs in the loop."""
        if loader._arguments.collate_fn is None or loader.num_workers == 0:
            return None
        if self._stays(loader):
            return None
        factor = _AHEAD if loader.prefetch_factor is None else loader.prefetch_factor
        most = max(1, loader.num_workers * min(factor, _AHEAD_MOST))
        with self._choosing:
            workers = self._workers(loader, collate(), epoch, part)
            made = CollatedAhead(workers, most, is_there, take)
            if self._kept is not None and self._kept[1] is workers:
                self._kept_for = weakref.ref(made)
        return made

    def close(self) -> None:
        for reference in self._all:
            workers = reference()
            if workers is not None:
                workers.close()

    def _stays(self, loader: Any) -> bool:
        function, init = loader._arguments.collate_fn, loader.worker_init_fn
        if self._judged is None or self._judged[0] is not function or self._judged[1] is not init:
            why = _why_it_stays(loader, function, init)
            self._judged = function, init, why
            if why:
                say(f"collate_fn runs in the training process, and not in {loader.num_workers} "
                    f"workers: {why}")
        return bool(self._judged[2])

    def _workers(self, loader: Any, collate: Collate, epoch: int, part: int) -> CollateWorkers:
        if self._kept is not None:
            kept, workers = self._kept
            running = self._kept_for()
            is_free = running is None or running.is_over
            if is_free and workers.is_open and kept.function is collate.function:
                workers.forget()
                return workers
        arguments = loader._arguments
        own = arguments.folder or arguments.brought
        made = CollateWorkers(Setup(
            collate, loader.num_workers, base_seed(arguments.generator, epoch, part),
            loader.worker_init_fn, None if own is None else own.dataset,
            loader.multiprocessing_context))
        self._all = [*(one for one in self._all if one() is not None), weakref.ref(made)]
        self._kept = (collate, made) if loader.persistent_workers else None
        return made


def _why_it_stays(loader: Any, function: Any, init: Any) -> str:
    options = loader._arguments.order_options
    for name, given in (("rehearsal", options.buffer), ("mixture", options.sources)):
        if given:
            return f"{name}= tells the loop of the batch in hand"
    if multiprocessing.current_process().daemon:
        return "this process is a daemon of multiprocessing, which may start none"
    try:
        dumped((function, init), [])
    except NotTakable as problem:
        return str(problem)
    return ""
