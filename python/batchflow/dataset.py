"""A loader's `dataset` and `sampler` where the script gave no objects of PyTorch. They have what a
service knows; for everything else, the error says what to write."""

from __future__ import annotations

from typing import Any, Iterator


class Dataset:
    """The dataset of a loader: its path or name and, as in PyTorch, its number of samples."""

    def __init__(self, loader: Any, name: str):
        self._loader, self._name = loader, name

    def __len__(self) -> int:
        samples: int = self._loader.dataset_samples
        return samples

    def __bool__(self) -> bool:
        return True  # the service is not asked

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("samples of a service come in batches; iterate over the "
                                  "DataLoader; its batch.sample_keys say which they are")

    @property
    def classes(self) -> list[str]:
        classes: list[str] = self._loader.classes
        return classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: label for label, name in enumerate(self.classes)}

    def __str__(self) -> str:
        return self._name

    __fspath__ = __str__

    def __repr__(self) -> str:
        return f"<batchflow dataset {self._name!r}>"

    def __eq__(self, other: object) -> bool:
        return self._name == (other._name if isinstance(other, Dataset) else other)

    def __hash__(self) -> int:
        return hash(self._name)


class Order:
    """Stands for PyTorch's Sampler or BatchSampler: it has the number of samples, or batches."""

    def __init__(self, loader: Any, order: str, of_batches: bool = False):
        self._loader, self._order, self._of_batches = loader, order, of_batches

    @property
    def batch_size(self) -> Any:
        return self._loader.batch_size

    @property
    def drop_last(self) -> Any:
        return self._loader.drop_last

    @property
    def sampler(self) -> Any:
        return self._loader.sampler

    def __len__(self) -> int:
        if self._of_batches:
            return len(self._loader)
        ranks: int = self._loader._arguments.ranks().world_size
        samples = self._loader._arguments.order_options.draws or int(self._loader.dataset_samples)
        return -(-samples // ranks)  # of this rank, with fillers

    def __iter__(self) -> Iterator[Any]:
        if self._order != "sequential" or self._loader._arguments.ranks().world_size > 1:
            raise TypeError("the service draws the order, and the script sees it with the batches: "
                            "batch.sample_keys; for an order of your own use PyTorch's DataLoader")
        indices = range(self._loader.dataset_samples)
        if not self._of_batches:
            return iter(indices)
        return (list(indices[i * self.batch_size:(i + 1) * self.batch_size])
                for i in range(len(self)))

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __repr__(self) -> str:
        return f"<batchflow order {self._order!r}>"
