"""Receipts: what a loader handed to its script, step by step, as a chain of hashes in a file.

A job has a folder, and each of its ranks a file there: rank-0.jsonl, rank-1.jsonl. A line is a JSON
object. Its last key, `link`, is a hash of the line and of the link before it, so a line that is
altered, left out, doubled or moved breaks the chain behind it. docs/python.md describes the lines,
and tools/verify_receipts.py reads them. That program shares no code with this package.

A line is written before the script gets the batch. So the file has all that the script had, however
the script ends. It is on the drive at the end of each epoch and after each state_dict(), so that it
has all that a checkpoint builds on, should the machine lose power.
"""

from __future__ import annotations

import binascii
import ctypes
import fcntl
import hashlib
import json
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import library as c
    from .arguments import Arguments
    from .batch import Batch
    from .session import Session

FORM = 1  # of the lines
_LINK_BYTES = 32
_TAIL = 1 << 16  # of a file, in which the last line is looked for first
_BOOLEANS = (b"false", b"true")


class Chain:
    """A file of lines, each with the hash of those before it. One loader at a time has it."""

    def __init__(self, file: Path):
        self._name, self._process = str(file), os.getpid()
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._lock()
            link, count, end = self._last()
        except BaseException:
            os.close(self._file)
            raise
        # A signal handler may raise between any two lines of Python. So what a line changes is one
        # assignment, and a line that was not written is written before the next one, where it belongs.
        self._at = (link, count, end, b"")  # behind the last line, and that line
        self._written = self._synced = end
        self._is_open = True

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"receipts: another DataLoader writes to {self._name}; give each job a "
                             "folder of its own") from None

    def _last(self) -> tuple[bytes, int, int]:
        """The last link, how many lines there are, and where they end. A line without an end was
        being written when the machine stopped; no script was given its batch."""
        size, window = os.fstat(self._file).st_size, _TAIL
        while True:
            lines = os.pread(self._file, window, max(0, size - window)).split(b"\n")
            if len(lines) > 2 or window >= size:
                break
            window *= 2
        if lines[-1]:
            size -= len(lines[-1])
            os.ftruncate(self._file, size)
        if size == 0:
            return b"", 0, 0
        try:
            last = json.loads(lines[-2])
            return last["link"].encode(), int(last["n"]) + 1, size
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"receipts: the last line of {self._name} is no receipt; name another "
                             "folder") from None

    @property
    def link(self) -> str:
        return self._at[0].decode()

    def append(self, content: bytes) -> None:
        """`content`: of a JSON object, without its braces. The line outlives this process as soon as
        this returns."""
        self._write_last()
        link, count, end, _ = self._at
        body = b'{"n":%d,%b' % (count, content)
        link = hashlib.blake2b(link + b"\n" + body, digest_size=_LINK_BYTES).hexdigest().encode()
        line = b'%b,"link":"%b"}\n' % (body, link)
        self._at = (link, count + 1, end + len(line), line)
        self._write_last()

    def _write_last(self) -> None:
        _, _, end, line = self._at
        while self._written != end:
            rest = line[len(line) - (end - self._written):]
            self._written += os.pwrite(self._file, rest, self._written)

    def sync(self) -> None:
        if self._is_open and self._synced != self._written:
            os.fsync(self._file)
            self._synced = self._written

    def end(self) -> None:
        """Says that no line was lost behind this one. Not in a child of fork(), which has the file,
        too."""
        if not self._is_open or self._process != os.getpid():
            return
        if self._at[3]:
            self.append(b'"kind":"end"')
        self.sync()
        self._is_open = False
        os.close(self._file)


class Receipts:
    """The receipts of one rank. The chain ends with this object, or with the process."""

    def __init__(self, folder: str, rank: int):
        made = Path(folder)
        made.mkdir(parents=True, exist_ok=True)
        self._chain = Chain(made / f"rank-{rank}.jsonl")
        self.close = weakref.finalize(self, self._chain.end)
        self.sync = self._chain.sync
        # Whether the next job is the script's own next epoch, and not a state that was loaded.
        self.goes_on = False
        self._begin = b""  # of a job of which no batch has come yet
        self._is_first = True  # the next step is the first of an epoch, or of a job
        self._id_bytes = 8
        self._sources = 0  # of a mixture of which the weights may change

    @property
    def link(self) -> str:
        return self._chain.link

    def begin(self, session: "Session", arguments: "Arguments") -> None:
        """A job was opened. That becomes a line with its first batch: a loader may open a job to ask
        how long an epoch is, and then begin at another epoch."""
        rank, world_size = arguments.ranks()
        options = arguments.order_options
        self._id_bytes = max(1, (int(session.info.dataset_samples - 1).bit_length() + 7) // 8)
        self._begin = b'"kind":"begin",' + _inner({
            "form": FORM, "rank": rank, "world_size": world_size,
            "batch_size": arguments.batch_size or 1, "drop_last": arguments.drop_last,
            "drawing": options.drawing, "node_local": options.node_local, "runs": options.runs,
            "rehearsed": options.rehearsed, "id_bytes": self._id_bytes, "goes_on": self.goes_on,
            "position": session.state(), **({"sources": list(options.sources)} if options.sources
                                             else {})})
        changes = options.weights_change or options.weights_policy is not None
        self._sources = len(options.sources) if changes else 0
        self._is_first = True

    def line(self, session: "Session", batch: "Batch", raw: "c.RawBatch") -> bytes:
        """The line of a step that the session has just given; `add` it before the script gets its
        batch."""
        size = 8 * batch.samples
        wanted, given = ctypes.string_at(raw.wanted, size), ctypes.string_at(raw.keys, size)
        last = batch.last_of_epoch
        line = (b'"kind":"step","epoch":%d,"step":%d,"samples":%d,"fillers":%d,"rehearsed":%d,'
                b'"had":%d,"last":%b,"ids":"%b"' %
                (batch.epoch, batch.step, batch.samples, batch.fillers, batch.rehearsed,
                 session.refresh().samples_in_epoch, _BOOLEANS[last],
                 binascii.b2a_base64(_narrowed(wanted, self._id_bytes), newline=False)))
        if wanted != given:
            keys = memoryview(given).cast("Q")
            line += b"," + _inner({"replaced": [
                [i, keys[i]] for i, key in enumerate(memoryview(wanted).cast("Q")) if key != keys[i]]})
        if self._sources and (changes := session.next_changes(self._sources)):
            line += b"," + _inner({"weights": changes})
        if self._is_first or last:
            line += b"," + _inner({"position": _position(session)})
        if last:
            line += b',"reconnects":%d' % session.times()["reconnects"]
        self._is_first = last
        return line

    def add(self, line: bytes, is_last: bool) -> None:
        if self._begin:
            self._chain.append(self._begin)
            self._begin, self.goes_on = b"", True
        self._chain.append(line)
        if is_last:
            self._chain.sync()


def _inner(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"))[1:-1].encode()


def _narrowed(ids: bytes, width: int) -> bytearray:
    """The first bytes of each number of 64 bits, the lowest first."""
    made = bytearray(len(ids) // 8 * width)
    for i in range(width):
        made[i::width] = ids[i::8]
    return made


def _position(session: "Session") -> Any:
    try:
        return session.state()
    except ValueError:  # of so many ranks that a batch cannot describe the step of all
        return None
