"""The attributes that PyTorch's DataLoader has, to read and to set."""

from __future__ import annotations

import sys
from typing import Any

from . import arguments as args
from .alone import alone
from .dataset import Dataset, Order

FROZEN = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class Attributes:
    """The attributes of a DataLoader, from its arguments and its session."""

    _arguments: args.Arguments
    _given_sampler: Any
    _given_batch_sampler: Any
    _opened: Any
    batch_size: Any

    @property
    def dataset(self) -> Any:
        """What was given, as in PyTorch; for a path or a name, an object that knows about it."""
        own = self._arguments.folder or self._arguments.brought
        known = None if own is None else own.dataset
        return Dataset(self, self._arguments.dataset) if known is None else known

    @property
    def sampler(self) -> Any:
        """The sampler that was given; else the loader's order, which has a length."""
        if self._given_sampler is not None:
            return self._given_sampler
        return Order(self, self._arguments.order)

    @property
    def batch_sampler(self) -> Any:
        """As `sampler`."""
        if self._given_batch_sampler is not None:
            return self._given_batch_sampler
        return None if self.batch_size is None else Order(self, self._arguments.order, True)

    @property
    def collate_fn(self) -> Any:
        """The function that was given, else PyTorch's default. Here the service makes batches."""
        data = sys.modules.get("torch.utils.data")
        return self._arguments.collate_fn or getattr(data, "default_collate", None)

    @collate_fn.setter
    @alone
    def collate_fn(self, function: Any) -> None:
        self._arguments = args.changed(self._arguments, collate_fn=function)

    @property
    def pin_memory(self) -> bool:
        return self._arguments.pin_memory

    @pin_memory.setter
    @alone
    def pin_memory(self, pins: bool) -> None:
        self._arguments = args.changed(self._arguments, pin_memory=bool(pins))

    @property
    def timeout(self) -> float:
        return self._arguments.timeout

    @timeout.setter
    @alone
    def timeout(self, seconds: float) -> None:
        self._arguments = args.changed(self._arguments, timeout=seconds)

    @property
    @alone
    def classes(self) -> list[str]:
        """The names of the classes, by label."""
        folder, brought = self._arguments.folder, self._arguments.brought
        job = self._opened()
        if brought is not None and hasattr(brought.dataset, "classes"):
            return list(brought.dataset.classes)
        return job.session.class_names() if folder is None else folder.classes
