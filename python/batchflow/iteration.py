"""One iteration over a DataLoader."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Callable, Generic, Optional, TypeVar

from .stalls import EpochStalls, helps_service

if TYPE_CHECKING:
    from .job import Job
    from .loader import DataLoader

_Given = TypeVar("_Given")


class Iteration(Generic[_Given]):
    """One iteration over a DataLoader, which is one epoch. `number` is that epoch's."""

    def __init__(self, loader: "DataLoader[_Given]", job: "Job", number: int):
        self._loader, self.job, self.number = loader, job, number
        self.ended = False
        self._stalls: Optional[EpochStalls] = None
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
        is_first = arguments.say_stalls and self._stalls is None
        if is_first:
            self._stalls = EpochStalls(self.job.session.times)
        batch = self.job.next(arguments.timeout_s)
        if is_first and self._stalls is not None:
            self._stalls.first_came()
        if batch is None or batch.last_of_epoch:
            if self._stalls is not None:
                self._stalls.say(self.number, lambda: helps_service(arguments.service))
            self.job.end(self)
        if batch is None:
            raise StopIteration
        given: _Given = self.job.finish(batch, arguments)
        return given
