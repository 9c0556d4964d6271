"""A dataset of Ray Data, with rows that BatchFlow reads and prepares (docs/ray.md).

    rows = ray.data.read_datasource(batchflow.ray_data.BatchFlowDatasource("imagenet"))
"""

from __future__ import annotations

import functools
from typing import Any, Iterator, Optional

import numpy as np
from ray.data.block import (  # type: ignore[import-not-found, unused-ignore]
    BlockAccessor, BlockMetadata)
from ray.data.datasource import (  # type: ignore[import-not-found, unused-ignore]
    Datasource, ReadTask)

from . import state as states
from .batch import Batch, Ragged
from .loader import DataLoader
from .ray import beside_an_agent


class BatchFlowDatasource(Datasource):  # type: ignore[misc, unused-ignore]
    """Each row is a sample, with its fields and its `sample_key`. `options` are those of DataLoader
    that say what a sample is: `pipeline`, `split`, `tokens`, `service`.

    Each read task is a job of its own over adjacent samples, so tasks need not run at one time, and
    one that is repeated gives the same rows again.
    """

    def __init__(self, dataset: Any, batch_size: int = 256, **options: Any):
        super().__init__()
        self._make = functools.partial(DataLoader, dataset, batch_size, output="numpy", epochs=1,
                                       **options)
        self._samples, self._row_bytes = beside_an_agent(_size, self._make)

    def estimate_inmemory_data_size(self) -> Optional[int]:
        size: int = self._samples * self._row_bytes
        return size

    def get_read_tasks(self, parallelism: int, per_task_row_limit: Optional[int] = None,
                       data_context: Any = None) -> list[ReadTask]:
        del data_context
        tasks = max(1, min(parallelism, self._samples))
        bounds = [self._samples * i // tasks for i in range(tasks + 1)]
        return [ReadTask(functools.partial(_read, self._make, first, end),
                         BlockMetadata(num_rows=end - first, input_files=None, exec_stats=None,
                                       size_bytes=(end - first) * self._row_bytes),
                         per_task_row_limit=per_task_row_limit)
                for first, end in zip(bounds, bounds[1:])]


def _size(make: Any) -> tuple[int, int]:
    """Samples, and bytes of one."""
    with make() as loader:
        return loader.dataset_samples, sum(_bytes(*field) for field in loader.fields.values())


def _bytes(kind: str, shape: tuple[int, ...]) -> int:
    """The bytes of a field of one sample, roughly: the length of a ragged field is not known."""
    size = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
    return size * int(np.prod([max(1, length) for length in shape]))


def _read(make: Any, first: int, end: int) -> Iterator[Any]:
    with make() as loader:
        loader.load_state_dict(states.imported("Ray Data", 0, first))
        for batch in loader:
            count = min(end - first, batch.samples - batch.fillers)
            yield _block(batch, count)
            first += count
            if first == end:
                return


def _block(batch: Batch, count: int) -> Any:
    columns = {name: _column(field, count) for name, field in zip(batch.names, batch)}
    return BlockAccessor.batch_to_block({"sample_key": batch.sample_keys[:count], **columns})


def _column(field: Any, count: int) -> Any:
    if not isinstance(field, Ragged):
        return field[:count]
    column = np.empty(count, object)
    for i in range(count):
        column[i] = field[i]
    return column
