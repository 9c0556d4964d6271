"""Samples by their keys, and what is put into feeds as it comes (docs/store.md)."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Union

from . import library as c
from .arrays import choose
from .batch import Batch, FieldReader, sample_of
from .crossing import crossing
from .live import Live
from .loader import DataLoader

_RECORDS_MOST = 2**32 - 1  # of a feed, over all time
_AT_ONCE = 4096  # keys of one call of the library, which Ctrl-C does not end


# Those of this process, for its children: the thread that held a store's lock is not in a child.
_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


def _renew_locks() -> None:
    for store in list(_stores):
        store._one_at_a_time = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


def _number_of(key: Any) -> int:
    if isinstance(key, bool) or not hasattr(key, "__index__"):
        raise TypeError(f"a key should be an integer, not {type(key).__name__}; find() gives the key "
                        "of a name")
    number: int = key.__index__()
    return number


class CorruptSampleError(c.ServiceError):
    """The sample is there, and cannot be prepared."""


class Store:
    """The samples of a dataset by their keys, one or many at a time, outside any order.

        store = batchflow.Store("imagenet", pipeline="imagenet-val")
        image, label = store[7]
        several = store.get_many([7, 8, 1000])
        key = store.find("n01440764/n01440764_18.JPEG")

    A sample is a Batch of its fields, in the service's memory: a script must not write to it, unless
    the store was made with copy=True. `form`: "prepared", "decoded" (by the steps before the first
    random one) or "encoded" (as it is stored). A key that is not there is a KeyError. `credits`: how
    many samples are asked for or held in place at a time; 0: 64.

    Any thread may use a store, one at a time. After a fork and in processes that it is sent to, a
    store opens itself anew with its first sample.
    """

    def __init__(self, dataset: Union[str, "os.PathLike[str]"], form: str = "prepared",
                 pipeline: Optional[str] = None, service: Optional[str] = None,
                 output: str = "auto", timeout: float = 300, copy: bool = False,
                 credits: int = 0) -> None:
        if form not in c.FORMS:
            raise ValueError(f"form={form!r}: write 'prepared', 'decoded' or 'encoded'")
        if isinstance(credits, bool) or not isinstance(credits, int) or not 0 <= credits < 2**32:
            raise ValueError(f"credits={credits!r} should be a number of samples, or 0 for 64")
        self._arguments = (dataset, form, pipeline, service, output, timeout, copy, credits)
        self._one_at_a_time = threading.Lock()  # the library's stores are for one thread
        self._store = ctypes.c_void_p()
        self._process = 0
        _stores.add(self)
        self._open()

    def _open(self) -> ctypes.c_void_p:
        if self._store and self._process == os.getpid():
            return self._store
        if self._process == -1:
            raise ValueError("the store is closed")
        dataset, form, pipeline, service, output, timeout, copy, credits = self._arguments
        options = c.sized(c.StoreOptions)
        options.dataset = os.fsencode(dataset)
        options.pipeline = pipeline.encode() if pipeline is not None else None
        options.service = os.fsencode(service) if service is not None else None
        options.form, options.timeout_s, options.copy = c.FORMS[form], timeout, copy
        options.credits = credits
        library = c.library()
        opened = ctypes.c_void_p()
        c.check(library.bf_store_open(ctypes.byref(options), ctypes.byref(opened)))
        self._library, self._store, self._process = library, opened, os.getpid()
        info = c.sized(c.Info)
        c.check(library.bf_store_info_get(opened, ctypes.byref(info)))
        make = choose(output)[1]
        self._readers = [FieldReader(info.field[i], make, make, copy) for i in range(info.fields)]
        self._names = tuple(reader.name for reader in self._readers)
        self._samples = int(info.dataset_samples)
        return opened

    def __len__(self) -> int:
        """How many samples there are; of a feed, as many as it may ever have."""
        return self._samples

    def __getitem__(self, key: Union[int, str]) -> Batch:
        return self.get(key)

    def get(self, key: Union[int, str]) -> Batch:
        """The sample of that key, or of that name."""
        return self.get_many([self.find(key) if isinstance(key, str) else key])[0]

    def get_many(self, keys: Sequence[int]) -> list[Batch]:
        """The samples of these keys, in their order. Those that are not there are one KeyError."""
        numbers = [_number_of(key) for key in keys]
        absent = {key for key in numbers if not 0 <= key < 2**64}
        asked = [key for key in numbers if key not in absent]
        samples: list[Batch] = []
        for first in range(0, len(asked), _AT_ONCE):
            some, not_there = self._get(asked[first:first + _AT_ONCE])
            samples += some
            absent.update(not_there)
        if absent:
            raise KeyError(numbers[0] if len(numbers) == 1 else
                           [key for key in numbers if key in absent])
        return samples

    def _get(self, keys: list[int]) -> tuple[list[Batch], list[int]]:
        """The samples; or none, and which keys are not there."""
        count = len(keys)
        values = (c.Value * count)()
        with self._one_at_a_time:
            store = self._open()
            c.check(self._library.bf_store_get(store, (ctypes.c_uint64 * count)(*keys), count,
                                               values))
            readers, names = self._readers, self._names
        hold = crossing().hold
        held = [hold(value.handle) if value.handle else None for value in values]
        absent = [value.key for value in values if value.status == c.ABSENT]
        if absent:
            return [], absent
        corrupt = [value.key for value in values if value.status == c.CORRUPT]
        if corrupt:
            raise CorruptSampleError(f"samples {corrupt} cannot be prepared; the service's log says "
                                     "why, and batchflowctl verify finds all of them")
        samples = []
        for value, keeper in zip(values, held):
            sample = Batch(sample_of(reader.read(value.arrays[i], 1, keeper), 0)
                           for i, reader in enumerate(readers))
            sample.__dict__.update(names=names, samples=1)
            samples.append(sample)
        return samples, []

    def find(self, name: str) -> int:
        """The key of the sample with that name: of files, the path below the dataset's folder."""
        if len(self) == _RECORDS_MOST:
            raise KeyError(f"{name}: the records of a feed have no names; a key is a record's number")
        if "\0" in name:  # to C, the name ends there
            raise KeyError(name)
        key = ctypes.c_uint64()
        with self._one_at_a_time:
            status = self._library.bf_store_find(self._open(), os.fsencode(name), ctypes.byref(key))
        if status == c.ABSENT:
            raise KeyError(name)
        c.check(status)
        return key.value

    def close(self) -> None:
        """Samples that the script has stay as they are."""
        with self._one_at_a_time:
            if self._store:
                self._library.bf_store_close(self._store)
            self._store, self._process = ctypes.c_void_p(), -1

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_store", None):
            self.close()

    def __reduce__(self) -> Any:
        return Store, self._arguments


class Message(NamedTuple):
    """What was put into a feed: its record's number, the position behind it, and its fields."""

    number: int
    position: int
    value: Batch


_QUIET_FOR_S = 365 * 86400.0  # a feed may say nothing for longer than a script waits for a batch


def subscribe(feed: str, position: Union[str, int] = "oldest", pipeline: Optional[str] = "bytes",
              service: Optional[str] = None) -> Iterator[Message]:
    """What is put into a feed, in the order of its arrival, until the feed ends.

    A subscriber that keeps `position` of the last message that it has dealt with, and begins there
    again, has each message at least once.
    """
    loader = DataLoader(Live(feed, fill=None, begin=position), batch_size=1, pipeline=pipeline,
                        service=service, timeout=_QUIET_FOR_S, say_stalls=False)
    for batch in loader:
        number = int(batch.sample_keys[0])
        value = Batch(sample_of(field, 0) for field in batch)
        value.__dict__.update(names=batch.names, samples=1)
        yield Message(number, number + 1, value)
