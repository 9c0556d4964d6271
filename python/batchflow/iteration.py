"""One iteration over a DataLoader."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar

from .batch import Batch
from .collate_ahead import CollatedAhead
from .stalls import EpochStalls, helps_collate, helps_service

if TYPE_CHECKING:
    from .job import Job, Taken
    from .loader import DataLoader

_Given = TypeVar("_Given")


class Iteration(Generic[_Given]):
    """One iteration over a DataLoader, which is one epoch. `number` is that epoch's."""

    def __init__(self, loader: "DataLoader[_Given]", job: "Job", number: int):
        self._loader, self.job, self.number = loader, job, number
        self.ended = False
        self._stalls: Optional[EpochStalls] = None
        self._has_begun = False
        self._ahead: Optional[CollatedAhead] = None  # where collate_fn runs in other processes
        self._turn = threading.RLock()  # a Ctrl-C may come while it is being taken
        # PyTorch uses the same name, so profilers show it likewise.
        self._shown_as = f"enumerate(DataLoader)#{type(loader).__name__}Iter.__next__"
        # To record costs more than the rest of a small batch, so it is done only where it is seen.
        self._profiles: Callable[[], bool] = getattr(sys.modules.get("torch.autograd"),
                                                     "_profiler_enabled", bool)

    def __iter__(self) -> "Iteration[_Given]":
        return self

    def __len__(self) -> int:
        return self.job.session.steps_per_epoch()

    def __next__(self) -> _Given:
        if not self._turn.acquire(blocking=False):
            raise RuntimeError("another thread is asking this iteration for a batch; let each "
                               "thread iterate over the DataLoader itself")
        try:
            if self.ended:
                raise StopIteration
            if not self._profiles():
                return self._next()
            with sys.modules["torch.autograd.profiler"].record_function(self._shown_as):
                return self._next()
        finally:
            self._turn.release()

    def _next(self) -> _Given:
        arguments = self._loader._arguments
        is_first = not self._has_begun
        if is_first:
            self._begin()
        result: Optional[Callable[[], Any]] = None  # what collate_fn made in another process
        if self._ahead is None:
            batch = self.job.next(arguments.timeout_s)
        else:
            batch, result = self._next_ahead(self._ahead, arguments.timeout)
        if is_first and self._stalls is not None:
            self._stalls.first_came()
        if batch is None or batch.last_of_epoch:
            if self._stalls is not None:
                self._stalls.say(self.number, self._what_helps)
            self.job.end(self)
            self._ahead = None  # its processes end, unless the loader keeps them
        if batch is None:
            raise StopIteration
        given: _Given = (self.job.finish(batch, arguments) if result is None else
                         self.job.finish_result(result(), batch, arguments))
        return given

    def _begin(self) -> None:
        if self._loader._arguments.say_stalls:
            self._stalls = EpochStalls(self.job.times)
        source = _Source(self._loader, self.job)
        self._ahead = self._loader._collating.ahead(
            self._loader, lambda: self.job.collate(self._loader._arguments), self.number,
            source.is_there, source.take)
        self._has_begun = True

    def _next_ahead(self, ahead: CollatedAhead, timeout_s: float,
                    ) -> "tuple[Optional[Batch], Optional[Callable[[], Any]]]":
        self.job.session.check_open()
        waited_s = ahead.waited_s
        found = ahead.next(timeout_s)
        self.job.waited_ahead_s += ahead.waited_s - waited_s
        taken, result = (None, None) if found is None else found
        self.job.give(taken)
        return None if taken is None else taken.batch, result

    def _what_helps(self) -> str:
        if self._ahead is not None and self._stalls is not None:
            share, whole = self._stalls.share()
            if 2 * self._ahead.waited_s > share * whole:
                return helps_collate(self._loader.num_workers)
        return helps_service(self._loader._arguments.service)


class _Source:
    """The batches of an iteration, for CollatedAhead. It does not keep the iteration, which ends its
    processes when it is dropped."""

    def __init__(self, loader: "DataLoader[Any]", job: "Job"):
        self._loader, self._job, self._had_last = loader, job, False

    def is_there(self) -> bool:
        return self._had_last or self._job.session.is_there()

    def take(self) -> "Optional[tuple[Batch, Taken]]":
        if self._had_last:
            return None
        taken = self._job.take_ahead(self._loader._arguments.timeout_s)
        self._had_last = taken is None or taken.batch.last_of_epoch
        if taken is None:
            return None
        return taken.batch, taken._replace(batch=self._job.without_fields(taken.batch))
