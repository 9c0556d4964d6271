"""One run: the server of the jobs of a peer, its jobs, and what they saw."""

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
    """A peer failed; the text is its last message."""


class Hung(Failed):
    """It answered nothing for too long: it is not tried again."""


class Process:
    """A consumer.py, with its error output in a file of its own."""

    def __init__(self, python: str, options: dict[str, Any], log: Path):
        self._log = log
        with log.open("wb") as errors:
            # A group of its own, so that processes it leaves behind can be ended with it.
            self._process = subprocess.Popen(
                [python, str(HERE / "consumer.py"), json.dumps(options)], cwd=options["scratch"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True)

    def answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout
        deadline = time.monotonic() + seconds
        if not select.select([self._process.stdout], [], [], max(0.0, seconds))[0]:
            raise Hung(f"nothing came within {seconds:.0f} s; {self.last_message()}")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(max(1.0, deadline - time.monotonic()))
            raise Failed(self.last_message())
        result: dict[str, Any] = json.loads(line)
        return result

    def last_message(self) -> str:
        lines = [line.strip() for line in
                 self._log.read_text(errors="replace").splitlines() if line.strip()]
        return " ".join(lines[-1:])[-300:] or "it printed nothing"

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """A job that waits for a line ends, and so does a server."""
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
    """The server of the jobs of a peer, if it has one, and its jobs; no process is left behind."""

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
                self._start("serve", role="serve").answer(START_S)
        except Failed:
            self.__exit__()
            raise
        return self

    def job(self, number: int, sleep_s: float, seconds: float) -> Process:
        return self._start(f"job{number}", role="job", job=number, sleep_s=sleep_s, seconds=seconds)

    def counted(self) -> dict[str, Any]:
        """What the server counted; it ends then."""
        if not self._serves:
            return {}
        self._processes[0].close()
        return self._processes[0].answer(30)

    def __exit__(self, *unused: Any) -> None:
        for process in reversed(self._processes):  # the server comes last
            is_service = self._serves and process is self._processes[0]
            process.end(30 if is_service else 1)
        took.end_orphans()
        shutil.rmtree(self._scratch, ignore_errors=True)


def run(python: str, module: Any, options: dict[str, Any], sleeps_s: list[float],
        seconds: float) -> dict[str, Any]:
    """`sleeps_s`: the sleep of each job after a batch. Raises Failed."""
    before = took.used()
    with took.Memory() as memory, Run(python, module, options) as running:
        jobs = [running.job(number, sleep_s, seconds) for number, sleep_s in enumerate(sleeps_s)]
        together(jobs, START_S)  # all have imported what they need
        deadline = time.monotonic() + RUN_S
        starts = together(jobs, deadline - time.monotonic(), go=True)
        seen = together(jobs, deadline - time.monotonic(), go=True)
        counted = running.counted()
    after = took.used()
    return {**summary(seen), **started(starts), "cpu_s": after[0] - before[0],
            "read_bytes": after[1] - before[1], "memory_bytes": memory.taken,
            "shared_bytes": memory.shared, **counted}


def together(jobs: list[Process], seconds: float, go: bool = False) -> list[dict[str, Any]]:
    """What all jobs answer within these seconds, once they are told to go."""
    deadline = time.monotonic() + seconds
    for job in jobs if go else []:
        job.go()
    return [job.answer(deadline - time.monotonic()) for job in jobs]


def started(starts: list[dict[str, Any]]) -> dict[str, Any]:
    """The longest wait for a first batch, and the rate of all jobs over their first epochs."""
    began = min(start["began"] for start in starts)

    def rate(epochs: int) -> float:
        samples = sum(start["samples"][epochs - 1] for start in starts)
        seconds: float = max(start["ends"][epochs - 1] for start in starts) - began
        return samples / seconds
    return {"first_s": max(start["first_s"] for start in starts),
            "start_per_s": [rate(epochs + 1) for epochs in range(len(starts[0]["ends"]))]}


def convert(python: str, module: Any, options: dict[str, Any]) -> Optional[float]:
    """Writes the dataset in the peer's own format, once, if it has one: the seconds this took.
    Raises Failed."""
    if not hasattr(module, "convert"):
        return None
    with tempfile.TemporaryDirectory(dir=options["scratch"]) as scratch:
        process = Process(python, {**options, "role": "convert", "scratch": scratch},
                          Path(scratch) / "convert.log")
        try:
            seconds: float = process.answer(RUN_S)["seconds"]
        finally:
            process.end(1)
            took.end_orphans()
    return seconds


def run_late(python: str, module: Any, options: dict[str, Any], sleep_s: float,
             after_s: float) -> dict[str, Any]:
    """How long a job that comes beside another waits for its first batch. Raises Failed."""
    with Run(python, module, options) as running:
        first = running.job(0, sleep_s, seconds=after_s + LATE_S)
        together([first], START_S)
        (alone,) = together([first], RUN_S, go=True)
        first.go()
        time.sleep(after_s)
        second = running.job(1, 0, seconds=0)
        together([second], LATE_S)
        (late,) = together([second], LATE_S, go=True)
    return {"alone_s": alone["first_s"], "late_s": late["first_s"]}


def summary(seen: list[dict[str, Any]]) -> dict[str, Any]:
    problem: Optional[str] = next((job["problem"] for job in seen if job["problem"]), None)
    if problem:
        raise Failed(problem)
    samples = sum(job["samples"] for job in seen)
    if not samples:
        raise Failed("no samples came")
    elapsed = max(job["end"] for job in seen) - min(job["begin"] for job in seen)
    visits = [visit for job in seen for visit in job["visits"]]
    return {"samples_per_s": samples / elapsed, "samples": samples, "elapsed_s": elapsed,
            "of_each_per_s": [job["samples"] / (job["end"] - job["begin"]) for job in seen],
            "utilisation": [job["slept_s"] / (job["end"] - job["begin"]) for job in seen],
            "wait_p50_s": max(job["wait_p50_s"] for job in seen),
            "wait_p99_s": max(job["wait_p99_s"] for job in seen),
            "epochs": len(visits),
            # These count the first epochs, too, where they need no epoch before it.
            "mean": statistics.fmean(job["pixels"]["mean"] for job in seen),
            "deviation": statistics.fmean(job["pixels"]["deviation"] for job in seen),
            "unchanged": sum(job["pixels"]["unchanged"] for job in seen) / samples,
            **{name: sum(visit[name] for visit in visits)
               for name in ("missing", "repeated", "unknown")}}


def python_path() -> str:
    return os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])


def interpreter_of(module: Any, install: Any) -> tuple[str, Optional[str]]:
    """The interpreter for a peer, and why it cannot run."""
    if not module.PACKAGES:
        missing = [name for name in module.MODULES if subprocess.run(
            [sys.executable, "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode]
        return sys.executable, (f"{sys.executable} has no {', '.join(missing)}" if missing
                                else None)
    absent = absent_system_packages(getattr(module, "BUILT_WITH", {}))
    if absent:
        return sys.executable, ("it is built from source, which needs the system's packages "
                                f"{', '.join(absent)}")
    without_dependencies = getattr(module, "WITHOUT_DEPENDENCIES", [])
    name = re.sub(r"\W+", "-", [*without_dependencies, *module.PACKAGES][0]).strip("-")
    python, problem = install(name, module.PACKAGES, getattr(module, "WITH_SYSTEM", True),
                              without_dependencies=without_dependencies)
    if problem:
        return str(python), problem
    tried = subprocess.run([str(python), "-c", "import " + ", ".join(module.MODULES) +
                            getattr(module, "TRY", "")],
                           stderr=subprocess.PIPE, text=True)
    output = (tried.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    return str(python), (output[:300] if tried.returncode else None)


def absent_system_packages(built_with: dict[str, str]) -> list[str]:
    """Those that are not installed, of the packages (by the library's name in pkg-config)."""
    if not built_with:
        return []
    if not shutil.which("pkg-config"):
        return ["pkg-config", *built_with.values()]
    return [package for library, package in built_with.items()
            if subprocess.run(["pkg-config", "--exists", library]).returncode]
