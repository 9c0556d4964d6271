"""One run: what serves the jobs of a peer, its jobs, and what they saw."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

import took

HERE = Path(__file__).parent
START_S, RUN_S, LATE_S = 180.0, 420.0, 90.0


class Failed(Exception):
    """A peer did not do what it is there for; the text says what it said."""


class Hung(Failed):
    """It said nothing for too long: minutes are not spent on it again."""


class Process:
    """A consumer.py, with its words in a file of its own."""

    def __init__(self, python: str, options: dict[str, Any], log: Path):
        self._log = log
        with log.open("wb") as said:
            # A group of its own, so that what it leaves behind can be ended with it.
            self._process = subprocess.Popen(
                [python, str(HERE / "consumer.py"), json.dumps(options)], cwd=options["scratch"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
                start_new_session=True)

    def said(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout
        deadline = time.monotonic() + seconds
        if not select.select([self._process.stdout], [], [], max(0.0, seconds))[0]:
            raise Hung(f"nothing came within {seconds:.0f} s; {self.last_words()}")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(max(1.0, deadline - time.monotonic()))
            raise Failed(self.last_words())
        told: dict[str, Any] = json.loads(line)
        return told

    def last_words(self) -> str:
        lines = [line.strip() for line in
                 self._log.read_text(errors="replace").splitlines() if line.strip()]
        return " ".join(lines[-1:])[-300:] or "it said nothing"

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Jobs that wait for a line end, and what serves them."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def end(self, seconds: float) -> None:
        self.close()
        try:
            self._process.wait(seconds)
        except (subprocess.TimeoutExpired, OSError):
            pass
        for number in (15, 9):
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                break
            time.sleep(0.2)
        self._process.wait()


class Run:
    """What serves the jobs of a peer, if anything does, and its jobs; none is left behind."""

    def __init__(self, python: str, module: Any, options: dict[str, Any]):
        self._python, self._serves = python, hasattr(module, "serve")
        self._scratch = Path(tempfile.mkdtemp(prefix="batchflow-peers-", dir=options["scratch"]))
        self._options = {**options, "scratch": str(self._scratch)}
        self._processes: list[Process] = []

    def _start(self, name: str, **options: Any) -> Process:
        made = Process(self._python, {**self._options, **options}, self._scratch / f"{name}.log")
        self._processes.append(made)
        return made

    def __enter__(self) -> "Run":
        try:
            if self._serves:
                self._start("serve", role="serve").said(START_S)
        except Failed:
            self.__exit__()
            raise
        return self

    def job(self, number: int, sleep_s: float, seconds: float) -> Process:
        return self._start(f"job{number}", role="job", job=number, sleep_s=sleep_s, seconds=seconds)

    def counted(self) -> dict[str, Any]:
        """By what serves the jobs, which ends."""
        if not self._serves:
            return {}
        self._processes[0].close()
        return self._processes[0].said(30)

    def __exit__(self, *unused: Any) -> None:
        for process in reversed(self._processes):  # what serves them comes last
            is_service = self._serves and process is self._processes[0]
            process.end(30 if is_service else 1)
        took.end_orphans()
        shutil.rmtree(self._scratch, ignore_errors=True)


def run(python: str, module: Any, options: dict[str, Any], sleeps_s: list[float],
        seconds: float) -> dict[str, Any]:
    """`sleeps_s`: of each job, a batch. Raises Failed."""
    before = took.used()
    with took.Memory() as memory, Run(python, module, options) as one:
        jobs = [one.job(number, sleep_s, seconds) for number, sleep_s in enumerate(sleeps_s)]
        deadline = time.monotonic() + RUN_S
        for job in jobs:
            job.said(deadline - time.monotonic())
        for job in jobs:
            job.go()
        seen = [job.said(deadline - time.monotonic()) for job in jobs]
        counted = one.counted()
    after = took.used()
    return {**summary(seen), "cpu_s": after[0] - before[0], "read_bytes": after[1] - before[1],
            "memory_bytes": memory.taken, "shared_bytes": memory.shared, **counted}


def run_late(python: str, module: Any, options: dict[str, Any], sleep_s: float,
             after_s: float) -> dict[str, Any]:
    """How long a job that comes beside another waits for its first batch. Raises Failed."""
    with Run(python, module, options) as one:
        first = one.job(0, sleep_s, seconds=after_s + LATE_S)
        alone = first.said(RUN_S)
        first.go()
        time.sleep(after_s)
        late = one.job(1, 0, seconds=0).said(LATE_S)
    return {"alone_s": alone["first_s"], "late_s": late["first_s"]}


def summary(seen: list[dict[str, Any]]) -> dict[str, Any]:
    problem: Optional[str] = next((one["problem"] for one in seen if one["problem"]), None)
    if problem:
        raise Failed(problem)
    samples = sum(one["samples"] for one in seen)
    if not samples:
        raise Failed("no samples came")
    elapsed = max(one["end"] for one in seen) - min(one["begin"] for one in seen)
    visits = [visit for one in seen for visit in one["visits"]]
    return {"samples_per_s": samples / elapsed, "samples": samples, "elapsed_s": elapsed,
            "of_each_per_s": [one["samples"] / (one["end"] - one["begin"]) for one in seen],
            "utilisation": [one["slept_s"] / (one["end"] - one["begin"]) for one in seen],
            "wait_p50_s": max(one["wait_p50_s"] for one in seen),
            "wait_p99_s": max(one["wait_p99_s"] for one in seen),
            "epochs": len(visits),
            # Of the epoch that warms up, too, but for what there was no epoch before.
            "mean": statistics.fmean(one["pixels"]["mean"] for one in seen),
            "deviation": statistics.fmean(one["pixels"]["deviation"] for one in seen),
            "unchanged": sum(one["pixels"]["unchanged"] for one in seen) / samples,
            **{name: sum(visit[name] for visit in visits)
               for name in ("missing", "repeated", "unknown")}}


def python_path() -> str:
    return os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])


def interpreter_of(module: Any, install: Any) -> tuple[str, Optional[str]]:
    """The peer's own, and why there is none."""
    if not module.PACKAGES:
        missing = [name for name in module.MODULES if subprocess.run(
            [sys.executable, "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode]
        return sys.executable, (f"{sys.executable} has no {', '.join(missing)}" if missing
                                else None)
    name = re.sub(r"\W+", "-", module.PACKAGES[0]).strip("-")
    python, problem = install(name, module.PACKAGES, getattr(module, "WITH_SYSTEM", True))
    if problem:
        return str(python), problem
    tried = subprocess.run([str(python), "-c", "import " + ", ".join(module.MODULES) +
                            getattr(module, "TRY", "")],
                           stderr=subprocess.PIPE, text=True)
    said = (tried.stderr.strip().splitlines() or ["it says nothing"])[-1]
    return str(python), (said[:300] if tried.returncode else None)
