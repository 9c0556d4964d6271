"""PyTorch's DataLoader where there is no PyTorch: batches of a Dataset, made in this process."""

from __future__ import annotations

import random
from typing import Any, Callable, Iterator, Mapping, Optional

from .arguments import say_once
from .checks import check_batch_size, check_collate_fn

_FROZEN = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class PlainLoader:
    """`seed` and `epoch` decide the order of shuffled samples."""

    def __init__(self, dataset: Any, batch_size: Optional[int] = 1, shuffle: Optional[bool] = None,
                 sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
                 collate_fn: Optional[Callable[[Any], Any]] = None, drop_last: bool = False,
                 seed: Optional[int] = None, **others: Any):
        self.by_index = hasattr(dataset, "__getitem__")
        if not self.by_index and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("an iterable Dataset has an order of its own: leave shuffle, sampler "
                             "and batch_sampler out")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or
                                          drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, "
                             "sampler, and drop_last")
        if batch_size is not None:
            check_batch_size(batch_size)
        check_collate_fn(collate_fn)
        self.dataset, self.drop_last = dataset, drop_last
        self.batch_size = None if batch_sampler is not None else batch_size
        self.sampler = sampler
        if sampler is None and self.by_index:
            self.sampler = _Indices(self, bool(shuffle))
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (collate if batch_size is not None else lambda one: one)
        self.num_workers, self.pin_memory, self.timeout = num_workers, False, 0
        self.generator, self.persistent_workers, self.in_order = None, False, True
        self.worker_init_fn = self.multiprocessing_context = self.prefetch_factor = None
        self.pin_memory_device = ""
        self.seed = random.getrandbits(63) if seed is None else seed
        self.epoch = 0
        without = [name for name, value in {"num_workers": num_workers, **others}.items() if value]
        if without:
            say_once(f"without PyTorch, {', '.join(without)}",
                     "change nothing: a Dataset is loaded in this process")
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FROZEN and "_is_made" in self.__dict__:
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        samples = len(self.sampler if self.by_index else self.dataset)
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is not None:
            return (self._made(indices) for indices in iter(self.batch_sampler))
        every = iter(self.sampler if self.by_index else self.dataset)
        if self.batch_size is None:
            return (self.collate_fn(self.dataset[one] if self.by_index else one) for one in every)
        return map(self._made, self._cut(every, self.batch_size))

    def _cut(self, every: Iterator[Any], size: int) -> Iterator[list[Any]]:
        part: list[Any] = []
        for one in every:
            part.append(one)
            if len(part) == size:
                yield part
                part = []
        if part and not self.drop_last:
            yield part

    def _made(self, part: list[Any]) -> Any:
        if not self.by_index:
            return self.collate_fn(part)
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(part))
        return self.collate_fn([self.dataset[index] for index in part])


class _Indices:
    """All indices, in their order or shuffled anew for each epoch."""

    def __init__(self, loader: PlainLoader, shuffles: bool):
        self._loader, self._shuffles = loader, shuffles

    def __len__(self) -> int:
        return len(self._loader.dataset)

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self)))
        if self._shuffles:
            random.Random(f"{self._loader.seed}/{self._loader.epoch}").shuffle(indices)
        return iter(indices)


def collate(samples: list[Any]) -> Any:
    """Samples as one batch, as PyTorch's default_collate does it, with NumPy's arrays."""
    import numpy
    first = samples[0]
    if isinstance(first, (numpy.ndarray, numpy.generic)):
        return numpy.stack(samples)
    if isinstance(first, (bool, int, float)):
        return numpy.array(samples)
    if isinstance(first, (str, bytes)):
        return samples
    if isinstance(first, Mapping):
        return {key: collate([one[key] for one in samples]) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(one) != len(first) for one in samples):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(list(part)) for part in zip(*samples)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise TypeError("a batch can have arrays, numbers, texts, dicts and lists; a Dataset gave a "
                    f"{type(first).__name__}: write collate_fn=")
