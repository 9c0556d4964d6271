"""Feeds: records that producers send while jobs train on them (docs/live.md)."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
from typing import Any, Optional, Union

from . import library as c
from .alone import alone

FILLS_MOST = 10**9


@dataclasses.dataclass(frozen=True)
class Live:
    """A feed as the dataset of a DataLoader: `DataLoader(Live("clicks"), batch_size=256)`.

    A batch for which too few records have come waits for `wait` seconds. Then it is filled with
    records that the job has had, of the last `window`: fill="rehearse". Or it is short: fill="short".
    With fill=None it waits for as long as it takes.

    With `DataLoader(Live("clicks"), 256, rehearsed=64)`, 64 of each batch are such records, however
    many have come. With `rehearsal={"policy": "reservoir", "samples": 4096, "rehearsed": 64}` they
    come from 4096 of all records that the job has had, instead of the last `window`.
    """

    name: str  # at the service
    wait: float = 0.2
    fill: Optional[str] = "rehearse"
    window: Optional[int] = None  # 4096, unless rehearsal= says from what batches are filled
    # "oldest": that the feed still has; "newest": the next one that comes; or the number of a record
    begin: Union[str, int] = "oldest"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name.startswith(("/", ".")):
            raise ValueError(f"Live({self.name!r}): write the name by which the service has the feed; "
                             "a feed takes records as long as its service is up, so it is not opened "
                             "by its path (--dataset NAME=FOLDER)")
        if isinstance(self.wait, bool) or not isinstance(self.wait, (int, float)) or \
                not 0 <= self.wait <= 3600:
            raise ValueError(f"wait={self.wait!r} should be 0 to 3600 seconds")
        if self.fill not in ("rehearse", "short", None):
            raise ValueError(f"fill={self.fill!r}: write 'rehearse', 'short' or None")
        if self.window is not None and (isinstance(self.window, bool) or not isinstance(self.window, int)
                                        or not 0 < self.window <= FILLS_MOST):
            raise ValueError(f"window={self.window!r} should be 1 to {FILLS_MOST} records")
        is_number = isinstance(self.begin, int) and not isinstance(self.begin, bool)
        if not (is_number and 0 <= int(self.begin) < 2**32) and \
                self.begin not in ("oldest", "newest"):
            raise ValueError(f"begin={self.begin!r}: write 'oldest', 'newest' or a record's number")


def take_apart(given: dict[str, Any]) -> None:
    """Replaces a dataset that is a Live by its name, and adds the Live beside it."""
    live = given["dataset"]
    if not isinstance(live, Live):
        return
    for name, none in (("shuffle", (None, False)), ("sampler", (None,)), ("batch_sampler", (None,)),
                       ("order", (None, "live")), ("epochs", (None,)), ("receipts", (None,)),
                       ("mixture", (None,)), ("split", (None,))):
        if given[name] not in none:
            raise ValueError(f"{name}={given[name]!r} is for datasets that do not grow; a live one has "
                             "records in the order in which they come; leave it out")
    if given["exemplars"] is not None:  # it may be an array
        raise ValueError("exemplars= is for datasets that do not grow; a live job rehearses records that "
                         "it has had: write Live(NAME, fill='rehearse', window=RECORDS), and "
                         "rehearsed= beside it")
    for name in ("rehearsal", "rehearsed"):
        if given[name] and live.fill != "rehearse":
            raise ValueError(f"{name}={given[name]!r} with fill={live.fill!r}: a live job rehearses what "
                             f"fills its batches; write fill='rehearse', or leave {name} out")
    if given["rehearsal"] is not None and live.window is not None:
        raise ValueError(f"rehearsal= with window={live.window}: batches are filled from the exemplars "
                         "that rehearsal= has, or from the window; leave one of them out")
    given["dataset"], given["live"], given["order"] = live.name, live, "live"


def fill(options: Any, live: Live, has_exemplars: bool) -> None:
    """`has_exemplars`: batches are filled from these, and from no window."""
    options.fills_after_s = 0 if live.fill is None else live.wait
    options.fills_from = 0 if live.fill is None or has_exemplars else live.window or 4096
    options.fills_cut = live.fill == "short"
    options.from_newest = live.begin == "newest"
    if isinstance(live.begin, int):
        options.has_begin_at, options.begin_at = True, live.begin


# --------------------------------------------------------------------------------- producers --

def is_remote(feed: Union[str, "os.PathLike[str]"]) -> bool:
    """Whether it is the address of a feed on another machine, and no folder."""
    return isinstance(feed, str) and feed.startswith(("tcp://", "tls://"))


class Feed:
    """Sends records to a feed, in a folder of this machine or at a service of another.

        with Feed("/data/clicks", producer="web-1") as feed:
            feed.put(record)

        with Feed("tcp://10.0.0.1:9838/clicks", producer="web-1") as feed:
            feed.put(record)  # with the token of BATCHFLOW_TOKEN_FILE

    A record that is acknowledged is on the feed's drive, and `flush()` waits for that. Any other is
    sent again when the service goes away, and is taken once. A producer of the same name goes on
    behind `acknowledged`.

    A feed belongs to the process that opened it. In a child of fork(), such as a worker of PyTorch's
    loader, open another one, under a name of its own.
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"], producer: str, schema: str = "bytes",
                 can_wait: bool = True, timeout: float = 60) -> None:
        self._feed = ctypes.c_void_p()
        # The library's feeds are for one thread. A handler of a signal may run within a call.
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._library = c.library()
        options = c.sized(c.FeedOptions)
        options.folder = os.fsencode(folder if is_remote(folder) else
                                     os.path.abspath(os.path.expanduser(folder)))
        options.producer, options.schema = producer.encode(), schema.encode()
        options.cannot_wait, options.timeout_s = not can_wait, timeout
        c.check(self._library.bf_feed_open(ctypes.byref(options), ctypes.byref(self._feed)))
        self._name = os.fsdecode(options.folder)
        self._record_bytes_most = int(self._info().record_bytes_most)
        self._record = c.sized(c.Record)

    @alone
    def put(self, record: Any, key: int = 0, label: Optional[int] = None, time_ns: int = 0) -> None:
        """Takes bytes, or anything with a buffer, such as an array. It waits where the feed says so."""
        view = memoryview(record)
        if view.nbytes > self._record_bytes_most:  # before it is copied
            raise ValueError(f"a record of {view.nbytes} bytes; the feed {self._name} takes "
                             f"records of at most {self._record_bytes_most}")
        data = record if isinstance(record, bytes) else view.tobytes()
        if label is not None and not 0 <= label < 2**31:
            raise ValueError(f"label={label!r}: classes are numbers from 0 to 2147483647")
        self._record.bytes, self._record.count = data, len(data)
        self._record.key, self._record.time_ns = key, time_ns
        self._record.has_label, self._record.label = label is not None, label or 0
        c.check(self._library.bf_feed_put(self._open(), ctypes.byref(self._record)))

    @alone
    def flush(self, timeout: float = 60) -> None:
        """Waits until all records are acknowledged."""
        c.check(self._library.bf_feed_flush(self._open(), timeout))

    @alone
    def end(self) -> None:
        """No record will follow, from any producer: jobs end when they have had all."""
        c.check(self._library.bf_feed_end(self._open()))

    @property
    def sequence(self) -> int:
        """How many records the producer has put, in all of its lives."""
        return int(self._info().sequence)

    @property
    def acknowledged(self) -> int:
        """The records up to this one are durable, or were counted as left out."""
        return int(self._info().acknowledged)

    @property
    def is_told_to_wait(self) -> bool:
        return bool(self._info().waits)

    @alone
    def _info(self) -> Any:
        info = c.sized(c.FeedInfo)
        c.check(self._library.bf_feed_info_get(self._open(), ctypes.byref(info)))
        return info

    def check_process(self) -> None:
        if self._process != os.getpid():
            raise ValueError(f"the feed {self._name} was opened in process {self._process}, and this is "
                             f"process {os.getpid()}, which fork() made of it; open a feed in each "
                             "process, under a producer's name of its own")

    def __reduce__(self) -> Any:
        raise TypeError(f"the feed {self._name} belongs to this process, and cannot be sent to another; "
                        "open a feed there, under a producer's name of its own")

    def _open(self) -> ctypes.c_void_p:
        if not self._feed:
            raise ValueError("the feed is closed")
        return self._feed

    def close(self) -> None:
        """Records that are not acknowledged may be lost: flush() first."""
        if self._process != os.getpid():  # the parent's feed, which another thread of it may have used
            self._feed = ctypes.c_void_p()
            return
        with self._lock:  # another thread may be putting a record
            if self._feed:
                self._library.bf_feed_close(self._feed)
            self._feed = ctypes.c_void_p()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def __del__(self) -> None:
        if getattr(self, "_feed", None):
            self.close()
