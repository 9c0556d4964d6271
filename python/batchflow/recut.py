"""Batches of other sizes than a job's, for a batch_sampler that says the size at each step."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

from .batch import Batch, Ragged


class Recut:
    """`next_batch`: the job's; None behind its last one."""

    def __init__(self, next_batch: Callable[[], Optional[Batch]]):
        self._next = next_batch
        self._batch: Optional[Batch] = None
        self._at = 0  # in it

    @property
    def has_some(self) -> bool:
        """Whether there are samples that were not taken."""
        return self._batch is not None

    def take(self, size: int) -> Batch:
        """The next samples of the job. What lies in one of its batches is not copied."""
        pieces: list[Batch] = []
        while size > 0:
            if self._batch is None:
                self._batch, self._at = self._next(), 0
                if self._batch is None:
                    raise RuntimeError("the service ended the order before its end")
            whole = self._batch
            end = min(whole.samples, self._at + size)
            pieces.append(whole if end - self._at == whole.samples else _slice(whole, self._at, end))
            size -= end - self._at
            self._at = end
            if end == whole.samples:
                self._batch = None
        return pieces[0] if len(pieces) == 1 else _joined(pieces)


def _slice(batch: Batch, first: int, end: int) -> Batch:
    made = batch.map(lambda field: _cut(field, first, end))
    about = batch._about
    made.__dict__.update(samples=end - first, _about=lambda name: about(name)[first:end])
    return made


def _joined(pieces: Sequence[Batch]) -> Batch:
    made = Batch(_together(fields) for fields in zip(*pieces))
    made.__dict__.update(pieces[-1].__dict__, samples=sum(piece.samples for piece in pieces),
                         copied=True, _handle=None,
                         _about=lambda name: _together([piece._about(name) for piece in pieces]))
    return made


def _cut(field: Any, first: int, end: int) -> Any:
    if not isinstance(field, Ragged):
        return field[first:end]
    offsets = field.offsets[first:end + 1]
    return Ragged(field.values[int(offsets[0]):int(offsets[-1])], offsets - offsets[0])


def _together(arrays: Sequence[Any]) -> Any:
    if isinstance(arrays[0], Ragged):
        values = _together([one.values for one in arrays])
        ends, offsets = 0, []
        for one in arrays:
            offsets.append(one.offsets[:-1] + ends)
            ends += int(one.offsets[-1])
        last = arrays[-1].offsets[-1:] * 0 + ends
        return Ragged(values, _together([*offsets, last]))
    if hasattr(arrays[0], "numpy"):
        import torch  # type: ignore[import-not-found, unused-ignore]
        return torch.cat(list(arrays))
    import numpy
    return numpy.concatenate(arrays)
