"""consumer.py OPTIONS: one job of a peer, in a process of its own; or what serves its jobs.

A job takes an epoch to warm up, says "ready", waits for a line, takes the epochs that are measured,
and prints what it saw as one line of JSON. What serves them says "ready" and runs until its
standard input ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections import Counter
from typing import Any, Iterable, Iterator

SIDE = 224


class Job:
    def __init__(self, options: dict[str, Any]):
        self._options = options
        self._seen: Counter[int] = Counter()
        self._problem = ""
        self.samples = 0
        self.batches = 0
        self.slept_s = 0.0
        self.waits_s: list[float] = []

    def take(self, ids: Iterable[int], images: Any) -> None:
        """Each batch is of the type and shape that was asked for, and each picture is looked at."""
        ids = [int(one) for one in ids]
        wanted = (len(ids), 3, SIDE, SIDE)
        kind = "float32" if self._options["float"] else "uint8"
        if tuple(images.shape) != wanted or not str(images.dtype).endswith(kind):
            self._problem = f"a batch is {images.dtype} {tuple(images.shape)}, not {kind} {wanted}"
        float(images[:, 1, SIDE // 2, SIDE // 2].sum())
        self._seen.update(ids)
        self.samples += len(ids)
        self.batches += 1
        if self._options["sleep_s"]:
            time.sleep(self._options["sleep_s"])
            self.slept_s += self._options["sleep_s"]

    def epoch(self, epoch: Iterator[Any], until: float) -> bool:
        """False: the time is over."""
        self._seen.clear()
        asked = time.monotonic()
        for ids, images in epoch:
            self.waits_s.append(time.monotonic() - asked)
            self.take(ids, images)
            asked = time.monotonic()
            if asked > until:
                return False
        return True

    def visited(self) -> dict[str, int]:
        """Of the last epoch, by ids: how often each sample came."""
        count = self._options["pictures"]
        return {"missing": sum(self._seen[number] == 0 for number in range(count)),
                "repeated": sum(times - 1 for times in self._seen.values() if times > 1),
                "unknown": sum(number not in range(count) for number in self._seen)}

    def run(self, epochs: Iterator[Iterator[Any]]) -> dict[str, Any]:
        self.epoch(next(epochs), float("inf"))
        print("ready", flush=True)
        sys.stdin.readline()
        self.samples = self.batches = 0
        self.slept_s, self.waits_s = 0.0, []
        begin = time.monotonic()
        until = begin + self._options["seconds"] if self._options["seconds"] else float("inf")
        visits = []
        while self._options["seconds"] or len(visits) < self._options["epochs"]:
            if not self.epoch(next(epochs), until):
                break
            visits.append(self.visited())
        waits = sorted(self.waits_s) or [0.0]
        return {"begin": begin, "end": time.monotonic(), "samples": self.samples,
                "slept_s": self.slept_s, "visits": visits, "problem": self._problem,
                "wait_p50_s": waits[len(waits) // 2], "wait_p99_s": waits[len(waits) * 99 // 100]}


def main() -> None:
    options = json.loads(sys.argv[1])
    # What libraries print is not what is answered.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = importlib.import_module("peers." + options["peer"])
    sys.stdout = answers
    if options["role"] == "serve":
        with peer.serve(options):
            print("ready", flush=True)
            sys.stdin.read()
        os._exit(0)
    result = Job(options).run(iter(peer.epochs(options)))
    print(json.dumps(result), flush=True)
    # Ends at once: some keep processes and threads that do not end by themselves.
    with contextlib.suppress(Exception):
        getattr(peer, "end", lambda: None)()
    os._exit(0)


if __name__ == "__main__":
    main()
