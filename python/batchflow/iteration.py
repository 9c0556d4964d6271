"""One iteration over a DataLoader, and pinning of batches."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import arguments as args
from .batch import Batch

if TYPE_CHECKING:
    from .loader import DataLoader

_Given = TypeVar("_Given")


class Epoch(Generic[_Given]):
    """One iteration over a DataLoader, which is one epoch."""

    def __init__(self, loader: "DataLoader[_Given]"):
        self.loader = loader
        self._ended = False
        profiler = sys.modules.get("torch.autograd.profiler")
        # PyTorch uses the same name, so profilers show it likewise.
        name = f"enumerate(DataLoader)#{type(loader).__name__}Iter.__next__"
        self._record = (lambda: profiler.record_function(name)) if profiler else nullcontext

    def goes_on(self) -> bool:
        return not self._ended and self.loader._session is not None

    def __iter__(self) -> "Epoch[_Given]":
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> _Given:
        if self._ended:
            raise StopIteration
        if self.loader._running() is not self:
            raise RuntimeError("this DataLoader was set to another state since this iteration "
                               "began, which ended it; iterate over it again")
        with self._record():
            batch = self.loader._next()
        self._ended = batch is None or not self.loader._left_early
        if self._ended and self.loader._is_apart and self.loader._session is not None:
            self.loader._session.close()  # its length can still be asked
        if batch is None:
            raise StopIteration
        return batch


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
