"""A batch: its fields, its keys and marks, and its memory."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, Iterator, Optional, Sequence

from . import library as c
from .arrays import I64, TYPES, U8, MakeArray, all_at_once
from .crossing import crossing

FILLER, REPLACED, REHEARSED = 1, 2, 4
_ABOUT = ("keys", "wanted", "marks")


class Ragged:
    """A field in which samples have different numbers of rows. `values` has all rows, and
    `offsets` the index of each sample's first row."""

    def __init__(self, values: Any, offsets: Any):
        self.values = values
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        i %= len(self)
        return self.values[int(self.offsets[i]):int(self.offsets[i + 1])]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def to(self, *args: Any, **kwargs: Any) -> "Ragged":
        return Ragged(self.values.to(*args, **kwargs), self.offsets.to(*args, **kwargs))

    def pin_memory(self, *args: Any) -> "Ragged":
        return Ragged(self.values.pin_memory(*args), self.offsets.pin_memory(*args))

    def record_stream(self, stream: Any) -> None:
        self.values.record_stream(stream)
        self.offsets.record_stream(stream)


class Batch(tuple[Any, ...]):
    """The fields in their order (`for images, labels in loader`), or by name: batch["image"].

    Arrays are the service's own memory. A script must not write to them, unless the loader was made
    with copy=True. They stay as they are for as long as the script keeps them.
    """

    names: tuple[str, ...] = ()
    samples: int = 0  # fillers included
    fillers: int = 0  # behind the epoch's samples; they repeat some, so that ranks get equal counts
    rehearsed: int = 0  # behind those, at the end: from the buffer
    epoch: int = 0
    step: int = 0  # counts the batches of this loader
    last_of_epoch: bool = False
    copied: bool = False
    repeats: int = 0
    again: int = 0  # how many times it was given before (ideal=True); only the first time counts
    _handle: Optional[int] = None  # by which the library knows its memory
    _about: Callable[[str], Any] = staticmethod(lambda name: None)
    _receipt: bytes = b""  # its line

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        if key not in self.names:
            raise KeyError(f"no field {key!r}; there are {', '.join(self.names)}")
        return tuple.__getitem__(self, self.names.index(key))

    @property
    def sample_keys(self) -> Any:
        """Which samples these are: indices in the dataset, int64."""
        return self._about("keys")

    @property
    def wanted_keys(self) -> Any:
        """The same as sample_keys, but with the keys of corrupt samples that were replaced."""
        return self._about("wanted")

    @property
    def marks(self) -> Any:
        """uint8: FILLER, REPLACED and REHEARSED, added up."""
        return self._about("marks")

    def map(self, function: Callable[[Any], Any]) -> "Batch":
        """The same batch with other arrays."""
        made = Batch(function(field) for field in self)
        made.__dict__.update(self.__dict__)
        return made

    def to(self, *args: Any, **kwargs: Any) -> "Batch":
        return self.map(lambda field: field.to(*args, **kwargs))

    def pin_memory(self, *args: Any) -> "Batch":
        return self.map(lambda field: field.pin_memory(*args))

    def record_stream(self, stream: Any) -> None:
        """For tensors of a GPU, as PyTorch's: another stream uses them, too."""
        for field in self:
            field.record_stream(stream)

    def __reduce__(self) -> Any:
        left_out = ("_about", "_handle", "_receipt")
        known = {name: value for name, value in self.__dict__.items() if name not in left_out}
        return _rebuilt, (tuple(self), known, {name: self._about(name) for name in _ABOUT})


def _rebuilt(fields: tuple[Any, ...], known: dict[str, Any], about: dict[str, Any]) -> Batch:
    batch = Batch(fields)
    batch.__dict__.update(known, _about=about.get)
    return batch


class FieldReader:
    """Makes the array of a field from the library's address."""

    def __init__(self, field: Any, make: MakeArray, make_offsets: MakeArray, writable: bool):
        self.name = field.name.decode()
        self.type = TYPES[field.type][0]
        self.shape = tuple(field.shape[i] for i in range(field.dimensions))
        self.ragged = bool(field.ragged)
        self.kind, self._make, self._writable = field.type, make, writable
        self._make_offsets = make_offsets
        self._row = self.shape[1:]
        self._row_bytes = TYPES[field.type][1]
        for size in self._row:
            self._row_bytes *= size

    def read(self, array: Any, samples: int, held: Any) -> Any:
        if not self.ragged:
            return self._make(array.values, self.kind, (samples, *self.shape), held,
                              self._writable)
        # A batch may be a slice of a block: its offsets are made to begin with 0.
        offsets = (ctypes.c_int64 * (samples + 1)).from_address(array.offsets)
        first, end = offsets[0], offsets[samples]
        moved = (ctypes.c_int64 * (samples + 1))(*(offset - first for offset in offsets))
        values = self._make((array.values or 0) + first * self._row_bytes, self.kind,
                            (end - first, *self._row), held, self._writable)
        return Ragged(values, self._make_offsets(ctypes.addressof(moved), I64, (samples + 1,),
                                                 moved, True))


class BatchMaker:
    """Makes batches of what the library gives. `fields`: bf_field of the C interface."""

    def __init__(self, fields: Sequence[Any], output: str, make: MakeArray, make_numbers: MakeArray,
                 writable: bool):
        self.readers = [FieldReader(field, make, make_numbers, writable) for field in fields]
        self._names = tuple(reader.name for reader in self.readers)
        self._make_numbers, self._writable = make_numbers, writable
        self._all_at_once = all_at_once(output, [(reader.kind, reader.shape, reader.ragged)
                                                 for reader in self.readers])
        self._crossing = crossing()

    def make(self, raw: c.RawBatch) -> Batch:
        held = self._crossing.hold(raw.handle)
        samples = raw.samples
        if self._all_at_once is not None:
            batch = Batch(self._all_at_once(held, raw.address))
        else:
            arrays = raw.arrays
            batch = Batch([reader.read(arrays[i], samples, held)
                           for i, reader in enumerate(self.readers)])
        known = batch.__dict__
        known["names"], known["_handle"] = self._names, raw.handle
        self._crossing.add_facts(known, raw.address)
        # Not every loop reads keys and marks, so they become arrays when a loop does.
        known["_about"] = functools.partial(_array_about, self._make_numbers, self._writable, held,
                                            samples, raw.keys, raw.wanted, raw.marks)
        return batch


def _array_about(make: MakeArray, writable: bool, held: Any, samples: int, keys: int, wanted: int,
                 marks: int, name: str) -> Any:
    address, kind = {"keys": (keys, I64), "wanted": (wanted, I64), "marks": (marks, U8)}[name]
    return make(address, kind, (samples,), held, writable)


def split(batch: Batch, samples: int) -> list[tuple[Any, ...]]:
    """The samples of a batch, as a collate_fn takes them."""
    return [tuple(plain_sample(batch, i)) for i in range(samples)]


def plain_sample(batch: Batch, i: int) -> Batch:
    """A sample in the form that PyTorch's datasets give: a label is a plain number."""
    made = [sample_of(field, i) for field in batch]
    if "label" in batch.names:
        at = batch.names.index("label")
        if not isinstance(made[at], int) and not getattr(made[at], "shape", (1,)):
            made[at] = int(made[at])
    sample = Batch(made)
    sample.__dict__.update(batch.__dict__)
    return sample


def sample_of(field: Any, i: int) -> Any:
    if isinstance(field, memoryview) and field.ndim > 1:  # it has no views of parts
        row: Any = field[i:i + 1].cast("B")
        return row.cast(field.format, field.shape[1:] if field.shape else ())
    return field[i]
