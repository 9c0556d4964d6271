"""A torch.utils.data.IterableDataset over a DataLoader, for code that takes nothing else."""

from __future__ import annotations

from typing import Any

from .loader import DataLoader


def iterable_dataset(loader: DataLoader[Any]) -> Any:
    """Gives whole batches: `torch.utils.data.DataLoader(batchflow.iterable_dataset(loader),
    batch_size=None, collate_fn=lambda batch: batch)`. Without that collate_fn PyTorch makes plain
    lists of them. Lightning also takes the loader itself."""
    from torch.utils import data  # type: ignore[import-not-found, unused-ignore]

    class Batches(data.IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
        def __init__(self) -> None:
            self.loader = loader

        def __iter__(self) -> Any:
            about: Any = data
            if about.get_worker_info() is not None:
                raise RuntimeError("batches are prepared by the service already: write "
                                   "num_workers=0, so that they go through no other process")
            return iter(self.loader)

        def __len__(self) -> int:
            return len(self.loader)

        def set_epoch(self, epoch: int) -> None:
            self.loader.set_epoch(epoch)

        def state_dict(self) -> Any:
            return self.loader.state_dict()

        def load_state_dict(self, state: Any) -> None:
            self.loader.load_state_dict(state)

    return Batches()
