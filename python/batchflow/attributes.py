"""What PyTorch's DataLoader has as attributes: what can be asked, and what can still be set."""

from __future__ import annotations

import sys
from typing import Any

from . import arguments as args
from .dataset import Dataset, Order

FROZEN = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class Attributes:
    """Of a DataLoader, which has the arguments and the session that these come from."""

    _arguments: args.Arguments
    _given_sampler: Any
    _opened: Any
    batch_size: Any

    @property
    def dataset(self) -> Any:
        """As in PyTorch what was given; of a path or name, what is known of it."""
        folder = self._arguments.folder
        return Dataset(self, self._arguments.dataset) if folder is None else folder.dataset

    @property
    def sampler(self) -> Any:
        """The one that was given; else the loader's order, which has a length."""
        if self._given_sampler is not None:
            return self._given_sampler
        return Order(self, self._arguments.order)

    @property
    def batch_sampler(self) -> Any:
        return None if self.batch_size is None else Order(self, self._arguments.order, True)

    @property
    def collate_fn(self) -> Any:
        """As in PyTorch, its own where none was given; what makes batches here is the service."""
        data = sys.modules.get("torch.utils.data")
        return self._arguments.collate_fn or getattr(data, "default_collate", None)

    @collate_fn.setter
    def collate_fn(self, function: Any) -> None:
        self._arguments = args.changed(self._arguments, collate_fn=function)

    @property
    def pin_memory(self) -> bool:
        return self._arguments.pin_memory

    @pin_memory.setter
    def pin_memory(self, pins: bool) -> None:
        self._arguments = args.changed(self._arguments, pin_memory=bool(pins))

    @property
    def timeout(self) -> float:
        return self._arguments.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._arguments = args.changed(self._arguments, timeout=seconds)

    @property
    def classes(self) -> list[str]:
        """Their names, by label."""
        folder = self._arguments.folder
        session = self._opened()
        return session.class_names() if folder is None else folder.classes
