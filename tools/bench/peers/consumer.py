"""consumer.py OPTIONS: one job of a peer, or the server of its jobs, in a process of its own.

A job reports that it has imported what it needs, and waits for a line; takes the first epochs and
reports when they ended and when it had its first batch; waits for a line; takes whole epochs until
its time is over, at least one, or sleeps for each batch until then; and reports what it saw. The
server reports that it is ready, runs until its standard input ends, and reports what it counted. A
peer with a format of its own converts the dataset in a process before all others. All reports are
lines of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections import Counter
from typing import Any, Callable, Iterable, Iterator, Optional

import numpy as np

SIDE = 224
LOOK_AT = slice(SIDE // 32, None, SIDE // 14)  # of each row and column


class Pixels:
    """Mean and deviation of pictures, and how many look as in the epoch before, by some of their
    pixels."""

    def __init__(self, pictures: int):
        self._weights = np.random.default_rng(1).random(3 * 14 * 14)
        self._last = np.full(pictures, np.nan)
        self.count, self.sum, self.squares, self.unchanged = 0, 0.0, 0.0, 0

    def look(self, ids: list[int], images: Any) -> None:
        chosen = images[:, :, LOOK_AT, LOOK_AT].reshape(len(ids), -1).astype(np.float64)
        self.count += chosen.size
        self.sum += float(chosen.sum())
        self.squares += float((chosen * chosen).sum())
        prints = chosen @ self._weights
        known = [number for number, key in enumerate(ids) if 0 <= key < len(self._last)]
        indices = np.asarray(ids)[known]
        self.unchanged += int((self._last[indices] == prints[known]).sum())
        self._last[indices] = prints[known]

    def values(self) -> dict[str, float]:
        mean = self.sum / max(1, self.count)
        return {"mean": mean, "deviation": max(0.0, self.squares / max(1, self.count) - mean**2)**.5,
                "unchanged": self.unchanged}


class Job:
    def __init__(self, options: dict[str, Any]):
        self._options = options
        self._seen: Counter[int] = Counter()
        self._problem = ""
        kind = np.float32 if options["float"] else np.uint8
        # The memory of a model, as on a GPU: each batch is moved there as a whole.
        self._target = np.zeros((options["batch"], 3, SIDE, SIDE), kind)
        self._pixels = Pixels(options["pictures"])
        self.samples = 0
        self.batches = 0
        self.slept_s = 0.0
        self.waits_s: list[float] = []
        self.first_at: Optional[float] = None

    def accept(self, batch: Any) -> None:
        self.take(*batch)

    def take(self, ids: Iterable[int], images: Any) -> None:
        """Checks the type and shape of a batch, copies it, and looks at it."""
        ids = [int(key) for key in ids]
        wanted = (len(ids), 3, SIDE, SIDE)
        kind = "float32" if self._options["float"] else "uint8"
        if tuple(images.shape) != wanted or not str(images.dtype).endswith(kind):
            self._problem = f"a batch is {images.dtype} {tuple(images.shape)}, not {kind} {wanted}"
            return
        target = self._target[:len(ids)]
        np.copyto(target, np.asarray(images))
        self._pixels.look(ids, target)
        self._seen.update(ids)
        self.samples += len(ids)
        self.batches += 1

    def forget(self) -> None:
        """Which samples came: an epoch begins."""
        self._seen.clear()

    def epoch(self, epoch: Iterator[Any], sleep_s: float = 0, until: float = float("inf")) -> bool:
        """False: the time is over."""
        self.forget()
        asked = time.monotonic()
        for batch in epoch:
            came = time.monotonic()
            self.waits_s.append(came - asked)
            self.first_at = self.first_at or came
            self.accept(batch)
            if sleep_s:
                time.sleep(sleep_s)
                self.slept_s += sleep_s
            asked = time.monotonic()
            if asked > until:
                return False
        return True

    def pixels(self) -> dict[str, float]:
        return self._pixels.values()

    def visited(self) -> dict[str, int]:
        """How often each sample came in the last epoch, by ids."""
        count = self._options["pictures"]
        return {"missing": sum(self._seen[number] == 0 for number in range(count)),
                "repeated": sum(times - 1 for times in self._seen.values() if times > 1),
                "unknown": sum(number not in range(count) for number in self._seen)}

    def start(self, epochs: Iterator[Iterator[Any]]) -> dict[str, Any]:
        """The first epochs: all that a new user sees of some datasets."""
        began = time.monotonic()
        ends, samples = [], []
        for _ in range(self._options["start_epochs"]):
            self.epoch(next(epochs))
            ends.append(time.monotonic())
            samples.append(self.samples)
        if self.first_at is None:
            raise RuntimeError("the first epoch had no batch")
        return {"first_s": self.first_at - began, "began": began, "ends": ends,
                "samples": samples}

    def run(self, make_epochs: Callable[[], Iterator[Iterator[Any]]],
            answer: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        answer({})
        sys.stdin.readline()
        epochs = make_epochs()
        answer(self.start(epochs))
        sys.stdin.readline()
        self.samples = self.batches = 0
        self.waits_s = []
        sleep_s, begin = self._options["sleep_s"], time.monotonic()
        over = begin + self._options["seconds"]
        visits = []
        # Epochs of jobs that sleep are cut short; those of all others are whole.
        while self.epoch(next(epochs), sleep_s, over if sleep_s else float("inf")):
            visits.append(self.visited())
            if time.monotonic() >= over:
                break
        waits = sorted(self.waits_s) or [0.0]
        return {"begin": begin, "end": time.monotonic(), "samples": self.samples,
                "slept_s": self.slept_s, "visits": visits, "problem": self._problem,
                "pixels": self.pixels(),
                "wait_p50_s": waits[len(waits) // 2], "wait_p99_s": waits[len(waits) * 99 // 100]}


class RowsJob(Job):
    """Takes rows, which say themselves which they are. It does little, since they are small."""

    def __init__(self, options: dict[str, Any]):
        super().__init__({**options, "float": False, "pictures": 0, "batch": 0})
        self._options = options
        self._width = options["row_bytes"] // 4
        self._target = np.zeros((options["batch"], self._width), np.float32)
        # Room for two epochs, so that rows that come twice are seen.
        self._numbers = np.zeros(2 * options["rows"], np.int64)
        self._taken = 0

    def forget(self) -> None:
        self._taken = 0

    def accept(self, batch: Any) -> None:
        count = len(batch)
        if batch.dtype != np.float32 or batch.shape != (count, self._width):
            self._problem = (f"a batch is {batch.dtype} {tuple(batch.shape)}, not float32 "
                             f"{(count, self._width)}")
            return
        np.copyto(self._target[:count], batch)
        end = self._taken + count
        if end <= len(self._numbers):
            self._numbers[self._taken:end] = self._target[:count, 0]
        self._taken = end
        self.samples += count
        self.batches += 1

    def visited(self) -> dict[str, int]:
        known = self._numbers[:self._taken]
        is_row = (known >= 0) & (known < self._options["rows"])
        times = np.bincount(known[is_row], minlength=self._options["rows"])
        return {"missing": int((times == 0).sum()), "repeated": int((times - 1).clip(0).sum()),
                "unknown": int((~is_row).sum()) + max(0, self._taken - len(self._numbers))}

    def pixels(self) -> dict[str, float]:
        return {"mean": 0.0, "deviation": 0.0, "unchanged": 0}


def main() -> None:
    options = json.loads(sys.argv[1])
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(result: dict[str, Any]) -> None:
        print(json.dumps(result), file=answers, flush=True)
    peer = importlib.import_module("peers." + options["peer"])
    if hasattr(peer, "prepare"):
        peer.prepare(options)
    if options["role"] == "serve":
        with peer.serve(options) as served:
            answer({})
            sys.stdin.read()
            answer(peer.counted(served) if hasattr(peer, "counted") else {})
        os._exit(0)
    if options["role"] == "convert":
        answer({"seconds": peer.convert(options)})
        os._exit(0)
    for module in peer.MODULES:  # imported first, so that a job does not wait for it
        importlib.import_module(module)
    if options["rows"]:
        answer(RowsJob(options).run(lambda: peer.rows(options), answer))
    else:
        answer(Job(options).run(lambda: peer.epochs(options), answer))
    # Ends at once: some libraries keep processes and threads that do not end by themselves.
    with contextlib.suppress(Exception):
        getattr(peer, "end", lambda: None)()
    os._exit(0)


if __name__ == "__main__":
    main()
