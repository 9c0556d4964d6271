"""A batch: its fields, what is known of its samples, and the memory they lie in."""

from __future__ import annotations

import ctypes
import functools
import operator
import weakref
from typing import Any, Callable, Iterator, Sequence

from . import library as c
from .arrays import I64, TYPES, U8, MakeArray

FILLER, REPLACED, REHEARSED = 1, 2, 4
_ABOUT = ("keys", "wanted", "marks")  # as Batch asks for them


class Held:
    """A batch's memory: given back to the service when the last array that lies in it is gone.

    By any thread, and of a closed loader too: the library knows batches by handle alone. Without
    a line of Python, since an exception that a signal's handler raises there would be dropped, and
    with it a Ctrl-C.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, handle: int, release: Callable[[Any, int], None]):
        end = _End(self, _call_release)
        end.release = functools.partial(release, None, handle)
        _ends[weakref.ref(self, _ends.pop)] = end


class _End(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("release",)
    release: Callable[[], None]


_call_release = operator.methodcaller("release")
_ends: dict[Any, _End] = {}  # of those held; a weak reference calls only while it is there itself


class Ragged:
    """A field whose samples have different lengths: `values` end to end, and `offsets` in rows."""

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


class Batch(tuple[Any, ...]):
    """The fields in their order (`for images, labels in loader`), or by name: batch["image"].

    Arrays are the service's own memory: they must not be written to, unless the loader was made
    with copy=True. They stay as they are for as long as somebody has them.
    """

    names: tuple[str, ...] = ()
    samples: int = 0  # fillers included
    fillers: int = 0  # at the end: they repeat others, so that all ranks get equal counts
    epoch: int = 0
    step: int = 0  # counts the batches of this loader
    last_of_epoch: bool = False
    copied: bool = False
    repeats: int = 0
    _about: Callable[[str], Any] = staticmethod(lambda name: None)

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
        """As sample_keys, but for corrupt samples, in whose place others stand."""
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

    def __reduce__(self) -> Any:
        known = {name: value for name, value in self.__dict__.items() if name != "_about"}
        return _rebuilt, (tuple(self), known, {name: self._about(name) for name in _ABOUT})


def _rebuilt(fields: tuple[Any, ...], known: dict[str, Any], about: dict[str, Any]) -> Batch:
    batch = Batch(fields)
    batch.__dict__.update(known, _about=about.get)
    return batch


class FieldReader:
    """Makes a field's array of what the library shows."""

    def __init__(self, field: Any, make: MakeArray, make_offsets: MakeArray, writable: bool):
        self.name = field.name.decode()
        self.type = TYPES[field.type][0]
        self.shape = tuple(field.shape[i] for i in range(field.dimensions))
        self.ragged = bool(field.ragged)
        self._kind, self._make, self._writable = field.type, make, writable
        self._make_offsets = make_offsets
        self._row = self.shape[1:]
        self._row_bytes = TYPES[field.type][1]
        for size in self._row:
            self._row_bytes *= size

    def read(self, array: Any, samples: int, held: Held) -> Any:
        if not self.ragged:
            return self._make(array.values, self._kind, (samples, *self.shape), held,
                              self._writable)
        # A batch may be a slice of something longer: here offsets begin with 0.
        offsets = (ctypes.c_int64 * (samples + 1)).from_address(array.offsets)
        first, end = offsets[0], offsets[samples]
        anew = (ctypes.c_int64 * (samples + 1))(*(one - first for one in offsets))
        values = self._make((array.values or 0) + first * self._row_bytes, self._kind,
                            (end - first, *self._row), held, self._writable)
        offsets_anew = self._make_offsets(ctypes.addressof(anew), I64, (samples + 1,), anew, True)
        return Ragged(values, offsets_anew)


def make_batch(raw: c.RawBatch, readers: Sequence[FieldReader], make: MakeArray, writable: bool,
               names: tuple[str, ...]) -> Batch:
    held = Held(raw.handle, c.library().bf_batch_release)
    samples = raw.samples
    batch = Batch(reader.read(raw.arrays[i], samples, held) for i, reader in enumerate(readers))
    # Not every loop asks for keys and marks, so they become arrays when one does.
    places = {"keys": (raw.keys, I64), "wanted": (raw.wanted, I64), "marks": (raw.marks, U8)}

    def about(name: str) -> Any:
        address, kind = places[name]
        return make(address, kind, (samples,), held, writable)

    batch.__dict__.update(names=names, samples=samples, fillers=raw.fillers, epoch=raw.epoch,
                          step=raw.step, last_of_epoch=bool(raw.last_of_epoch),
                          copied=bool(raw.copied), repeats=raw.repeats, _about=about)
    return batch


def split(batch: Batch, samples: int) -> list[tuple[Any, ...]]:
    """What a collate_fn takes: the samples, one by one."""
    return [tuple(plain_sample(batch, i)) for i in range(samples)]


def plain_sample(batch: Batch, i: int) -> Batch:
    """As data sets of PyTorch's give it: a label is a plain number."""
    made = [sample_of(field, i) for field in batch]
    if "label" in batch.names:
        at = batch.names.index("label")
        if not isinstance(made[at], int) and not getattr(made[at], "shape", (1,)):
            made[at] = int(made[at])
    sample = Batch(made)
    sample.__dict__.update(batch.__dict__)
    return sample


def sample_of(field: Any, i: int) -> Any:
    if isinstance(field, memoryview) and field.ndim > 1:  # which knows no views of views
        row: Any = field[i:i + 1].cast("B")
        return row.cast(field.format, field.shape[1:] if field.shape else ())
    return field[i]
