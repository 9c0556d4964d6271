"""One iteration over a DataLoader, and pinning of batches."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from . import arguments as args
from .batch import Batch

if TYPE_CHECKING:
    from .job import Job
    from .loader import DataLoader

_Given = TypeVar("_Given")


class Epoch(Generic[_Given]):
    """One iteration over a DataLoader, which is one epoch. `number` is that epoch's."""

    def __init__(self, loader: "DataLoader[_Given]", job: "Job", number: int):
        self._loader, self.job, self.number = loader, job, number
        self.ended = False
        self._turn = threading.RLock()  # a Ctrl-C may come while it is being taken
        # PyTorch uses the same name, so profilers show it likewise.
        self._shown_as = f"enumerate(DataLoader)#{type(loader).__name__}Iter.__next__"
        # To record costs more than the rest of a small batch, so it is done only where it is seen.
        self._profiles: Callable[[], bool] = getattr(sys.modules.get("torch.autograd"),
                                                     "_profiler_enabled", bool)

    def __iter__(self) -> "Epoch[_Given]":
        return self

    def __len__(self) -> int:
        return int(self.job.session.info.steps_per_epoch)

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
        batch = self.job.next(arguments.timeout_s)
        if batch is None or batch.last_of_epoch:
            self.job.end(self)
        if batch is None:
            raise StopIteration
        given: _Given = self.job.finished(batch, arguments)
        return given


def show_where_it_crashes() -> None:
    """PyTorch has no read-only tensors. So a script that writes to a batch ends; this prints the
    line."""
    if (os.environ.get("BATCHFLOW_FAULTHANDLER", "1") != "0" and not faulthandler.is_enabled() and
            signal.getsignal(signal.SIGSEGV) == signal.SIG_DFL):
        faulthandler.enable(2)


def pin(batch: Any) -> Any:
    torch = sys.modules["torch"]
    if not torch.cuda.is_available():
        args.say_once("pin_memory", "is set, and there is no accelerator to pin memory for")
        return batch
    if isinstance(batch, Batch):
        return batch.pin_memory()
    return torch.utils.data._utils.pin_memory.pin_memory(batch)
