"""One open loader of the C library. Ctrl-C works while it waits, and it is closed when dropped.

The library waits in C code, where Python sees no signal. So a wait for a batch returns to Python
every tenth of a second. A wait for a service or for other ranks cannot be cut into such pieces, so
another thread does it.

The library allows one thread at a time to use a loader. So each call is made under a lock, which is
free between two looks.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import threading
import time
import weakref
from array import array
from typing import Any, Callable, Optional, Sequence

from . import library as c
from . import mixture as mixtures
from .alone import alone
from .crossing import crossing
from .image_folder import Sums
from .orders import Scores
from .rehearsal import Exemplars

_log = logging.getLogger("batchflow")

LOOK_EVERY_S = 0.1
_BETWEEN_LOOKS_S = 0.001  # a lock that is taken again at once is seldom got by another thread
CLOSED = "this DataLoader is closed; make another one"


class _Beside(threading.Thread):
    """A call in a thread of its own. The calling thread waits for it, and sees signals."""

    def __init__(self, call: Callable[[], int]):
        super().__init__(name="batchflow wait", daemon=True)
        self._call = call
        self.value = -1
        self._error: Optional[BaseException] = None
        self.start()

    def run(self) -> None:
        try:
            self.value = self._call()
        except BaseException as error:  # wait() raises it again
            self._error = error

    def wait(self, meanwhile: Callable[[], None]) -> int:
        while self.is_alive():
            self.join(LOOK_EVERY_S)
            meanwhile()
        if self._error is not None:
            raise self._error
        return self.value


def _open(options: Any) -> int:
    loader = ctypes.c_void_p()
    c.check(c.library().bf_loader_open(ctypes.byref(options), ctypes.byref(loader)))
    return loader.value or 0


def _close_later(opening: _Beside) -> None:
    opening.join()
    if opening.value > 0:
        c.library().bf_loader_close(opening.value)


def _open_beside(options: Any) -> int:
    opening = _Beside(lambda: _open(options))
    try:
        return opening.wait(lambda: None)
    except BaseException:
        threading.Thread(target=_close_later, args=(opening,), daemon=True).start()
        raise


def _sayer(notes: Callable[[str], None]) -> Any:
    def say(context: Any, about: int, text: bytes) -> None:
        del context
        words = text.decode(errors="replace")
        if about == c.SAID_OF_WAIT:
            # It goes to the script's logging; without any, Python writes it to stderr.
            _log.warning("batchflow: %s", words)
        else:
            notes(words)
    return c.SAY(say)


class Session:
    """`while_away` is called again and again while the service is away; it may start another.
    `notes` gets the service's notes on the data."""

    def __init__(self, options: Any, while_away: Callable[[], None],
                 notes: Callable[[str], None]):
        self._library = c.library()
        self._say = _sayer(notes)  # as long as the library may call it
        options.say = self._say
        self.process = os.getpid()
        self._while_away = while_away
        self._lock = threading.RLock()  # a signal handler may come in, too
        self._ended_by = ""  # why it was closed
        self._open_loader = _open_beside(options)
        self._close = weakref.finalize(self, self._library.bf_loader_close, self._open_loader)
        self._close.atexit = False  # the service also notices the end of the process
        self._raw = c.sized(c.RawBatch)
        self._raw.address = ctypes.addressof(self._raw)
        self._look_once = crossing().look
        self._taken = 0  # the handle of the batch that was given last
        self.info = c.sized(c.Info)
        c.check(self._library.bf_loader_info_get(self._loader, ctypes.byref(self.info)))

    def close(self, why: str = CLOSED) -> None:
        """`why` is the error of each later use, and of a thread that waits for a batch."""
        self._ended_by = self._ended_by or why
        if self.process != os.getpid():
            self._close()  # no other thread came into this process
            return
        with self._lock:
            self._close()

    def check_process(self) -> None:
        if self.process != os.getpid():
            raise RuntimeError(
                f"this DataLoader was opened by process {self.process} and is used in process "
                f"{os.getpid()}, which fork() made of it; make a DataLoader in each process, or "
                "start processes with multiprocessing's 'spawn'")

    @property
    def _loader(self) -> int:
        """The library's loader, for a method that is alone."""
        if self._ended_by:
            raise RuntimeError(self._ended_by)
        return self._open_loader

    def next(self, timeout_s: float) -> Optional[c.RawBatch]:
        """The next batch, valid until the next call; None after the last one of the job."""
        raw: c.RawBatch = self._raw
        # A batch that came at the moment of a Ctrl-C was not given yet.
        if raw.handle == self._taken:
            begin = time.monotonic()
            status = self._look()
            if status != c.OK:
                self._go_on_asking(status, begin, timeout_s)
        handle: int = raw.handle
        if handle == self._taken:
            return None
        self._taken = handle
        return raw

    def _go_on_asking(self, status: int, begin: float, timeout_s: float) -> None:
        deadline = begin + timeout_s
        while status in (c.TIMEOUT, c.INTERRUPTED) and time.monotonic() < deadline:
            time.sleep(_BETWEEN_LOOKS_S)
            status = self._look() if self._is_connected() else self._rejoin(deadline)
        if status in (c.TIMEOUT, c.INTERRUPTED):
            why = ("no batch came; 'batchflowctl doctor' says what holds it up"
                   if self._is_connected() else
                   "the service is away; start it, and ask for the next batch again")
            raise RuntimeError(  # the first words are PyTorch's
                f"DataLoader timed out after {timeout_s:g} seconds: {why}, and timeout= allows "
                "more")
        if status not in (c.OK, c.END):
            self._taken = self._raw.handle
            c.check(status)

    @alone
    def _is_connected(self) -> bool:
        return bool(self._library.bf_loader_is_connected(self._loader))

    def is_there(self) -> bool:
        """Whether `next` need not wait."""
        return self._raw.handle != self._taken or self._look(0) not in (c.TIMEOUT, c.INTERRUPTED)

    def check_open(self) -> None:
        self.check_process()
        if self._ended_by:
            raise RuntimeError(self._ended_by)

    def _look(self, seconds: float = LOOK_EVERY_S) -> int:
        # As with @alone and _loader, but written out, since this is done for each batch.
        if self.process != os.getpid():
            self.check_process()
        with self._lock:
            if self._ended_by:
                raise RuntimeError(self._ended_by)
            return self._look_once(self._open_loader, self._raw.address, seconds)

    @alone
    def _rejoin(self, deadline: float) -> int:
        """Waits for the next service, joins it, and waits for a batch."""
        loader = self._loader

        def ask() -> int:
            status: int = self._library.bf_loader_next(loader, ctypes.byref(self._raw))
            if status not in (c.END, c.TIMEOUT, c.INTERRUPTED):
                c.check(status)  # here, since each thread has its own last error
            return status

        def meanwhile() -> None:
            self._while_away()
            if time.monotonic() >= deadline or self._ended_by:
                raise TimeoutError

        waiting = _Beside(ask)
        try:
            return waiting.wait(meanwhile)
        except BaseException as error:
            self._library.bf_loader_interrupt(loader)
            waiting.join()
            if not isinstance(error, TimeoutError):
                raise
        return waiting.wait(lambda: None)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.state_text())
        return state

    @alone
    def state_text(self) -> bytes:
        text = ctypes.c_char_p()
        c.check(self._library.bf_loader_state(self._loader, ctypes.byref(text)))
        assert text.value is not None
        return text.value

    @alone
    def refresh(self) -> Any:
        c.check(self._library.bf_loader_info_get(self._loader, ctypes.byref(self.info)))
        return self.info

    def steps_per_epoch(self) -> int:
        """Of the epoch under way. What it rehearses is known from its first batch on."""
        if not self._ended_by and self.process == os.getpid():
            self.refresh()
        return int(self.info.steps_per_epoch)

    @alone
    def times(self) -> dict[str, float]:
        times = c.sized(c.Times)
        c.check(self._library.bf_loader_times_get(self._loader, ctypes.byref(times)))
        return {field[0]: getattr(times, field[0]) for field in c.Times._fields_[1:]}

    @alone
    def report_scores(self, keys: Sequence[int], scores: Sequence[float]) -> None:
        if len(keys) != len(scores):
            raise ValueError(f"{len(keys)} keys and {len(scores)} scores; write a score for each")
        try:
            all_keys, all_scores = array("Q", keys), array("f", scores)
        except OverflowError:
            raise ValueError(f"one of the keys {min(keys)} to {max(keys)} has no sample; keys are "
                             f"0 to {self.info.dataset_samples - 1}") from None
        count = len(all_keys)
        c.check(self._library.bf_loader_report_scores(
            self._loader, (ctypes.c_uint64 * count).from_buffer(all_keys) if count else None,
            (ctypes.c_float * count).from_buffer(all_scores) if count else None, count))

    @alone
    def report_exemplars(self, keys: "array[int]") -> None:
        count = len(keys)
        c.check(self._library.bf_loader_report_exemplars(
            self._loader, (ctypes.c_uint64 * count).from_buffer(keys) if count else None, count))
        self.refresh()  # an epoch has another number of steps

    @alone
    def report_features(self, keys: Sequence[int], values: "array[float]", features: int,
                        classes: Optional["array[int]"]) -> None:
        all_keys = array("Q", keys)
        count = len(all_keys)
        c.check(self._library.bf_loader_report_features(
            self._loader, (ctypes.c_uint64 * count).from_buffer(all_keys) if count else None, count,
            (ctypes.c_float * len(values)).from_buffer(values) if values else None, features,
            (ctypes.c_uint32 * count).from_buffer(classes) if classes else None))

    @alone
    def exemplars(self) -> Exemplars:
        keys, weights = ctypes.POINTER(ctypes.c_uint64)(), ctypes.POINTER(ctypes.c_uint32)()
        count = ctypes.c_size_t()
        c.check(self._library.bf_loader_exemplars(self._loader, ctypes.byref(keys),
                                                  ctypes.byref(weights), ctypes.byref(count)))
        return Exemplars(keys[:count.value], weights[:count.value])

    @alone
    def set_weights(self, weights: Sequence[float], at: int) -> None:
        count = len(weights)
        c.check(self._library.bf_loader_set_weights(
            self._loader, (ctypes.c_double * count)(*weights), count, at))

    @alone
    def report_losses(self, losses: Sequence[float]) -> None:
        count = len(losses)
        c.check(self._library.bf_loader_report_losses(
            self._loader, (ctypes.c_double * count)(*losses), count))

    @alone
    def mixture(self, names: Sequence[str]) -> mixtures.Mixture:
        raw = c.sized(c.RawMixture)
        c.check(self._library.bf_loader_mixture(self._loader, ctypes.byref(raw)))
        return mixtures.described(raw, names)

    @alone
    def next_changes(self, sources: int) -> "list[list[Any]]":
        """The changes of the weights that were heard of and not given yet: from which sample on they
        count, and the parts of 2**32 of so many sources, which are exact."""
        changes: list[list[Any]] = []
        at, weights = ctypes.c_uint64(), ctypes.POINTER(ctypes.c_double)()
        while (status := self._library.bf_loader_next_change(
                self._loader, ctypes.byref(at), ctypes.byref(weights))) == c.OK:
            changes.append([at.value, [int(one * 2**32) for one in weights[:sources]]])
        if status != c.END:
            c.check(status)
        return changes

    @alone
    def scores(self) -> Scores:
        keys, scores = ctypes.POINTER(ctypes.c_uint64)(), ctypes.POINTER(ctypes.c_float)()
        count = ctypes.c_size_t()
        c.check(self._library.bf_loader_scores(self._loader, ctypes.byref(keys),
                                               ctypes.byref(scores), ctypes.byref(count)))
        all_keys, all_scores = array("Q"), array("f")
        if count.value:
            all_keys.frombytes(ctypes.string_at(keys, all_keys.itemsize * count.value))
            all_scores.frombytes(ctypes.string_at(scores, all_scores.itemsize * count.value))
        return all_keys, all_scores

    def sample_name(self, key: int) -> str:
        if not 0 <= key < self.info.dataset_samples:
            raise IndexError(f"there is no sample {key}; keys are 0 to "
                             f"{self.info.dataset_samples - 1}")
        return self._name(self._library.bf_loader_sample_name, key)

    @alone
    def samples_sum(self, first: int, count: int) -> Sums:
        made = c.sized(c.SamplesSum)
        c.check(self._library.bf_loader_samples_sum(self._loader, first, count,
                                                    ctypes.byref(made)))
        return Sums(made.names, made.labels, made.pairs)

    def class_names(self) -> list[str]:
        return [self._name(self._library.bf_loader_class_name, i)
                for i in range(self.info.classes)]

    @alone
    def _name(self, function: Any, number: int) -> str:
        text = ctypes.c_char_p()
        c.check(function(self._loader, number, ctypes.byref(text)))
        return (text.value or b"").decode(errors="surrogateescape")
