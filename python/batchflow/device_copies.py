"""Copies of batches to a GPU that nothing waits for, straight out of the service's memory.

The GPU reads that memory while the script goes on, so a batch is kept until its copy is over.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque

from . import arguments as args
from . import library as c


class DeviceCopies:
    """Of one job. `device` is what the script gave; `torch` is PyTorch."""

    def __init__(self, device: str, torch: Any):
        self._torch, self._device = torch, torch.device(device)
        self._stream: Any = None
        self._pins = self._device.type == "cuda" and torch.cuda.is_available()
        self._under_way: Deque[tuple[Any, Any]] = deque()

    def settle(self) -> None:
        """Lets go of the batches that have been copied."""
        while self._under_way and self._under_way[0][0].query():
            self._under_way.popleft()

    def finish(self) -> None:
        """Waits for all copies."""
        while self._under_way:
            self._under_way.popleft()[0].synchronize()

    def __del__(self) -> None:
        self.finish()

    def copy(self, batch: Any) -> Any:
        """The batch on the device."""
        if not self._pins or batch._handle is None or not self._pinned(batch._handle):
            return batch.to(self._device, non_blocking=True)
        cuda = self._torch.cuda
        if self._stream is None:
            self._stream = cuda.Stream(self._device)
        current = cuda.current_stream(self._device)
        with cuda.stream(self._stream):
            copied = batch.to(self._device, non_blocking=True)
            over = cuda.Event()
            over.record(self._stream)
        current.wait_event(over)
        copied.record_stream(current)
        self._under_way.append((over, batch))
        return copied

    def _pinned(self, handle: int) -> bool:
        index = self._device.index
        device = self._torch.cuda.current_device() if index is None else index
        if c.library().bf_batch_pin(None, handle, device) == c.OK:
            return True
        problem = c.library().bf_last_error().decode(errors="replace")
        if "is a copy" not in problem:
            self._pins = False
            args.say_once("device", f"batches are copied more slowly, since their memory cannot be "
                                    f"pinned: {problem}")
        return False
