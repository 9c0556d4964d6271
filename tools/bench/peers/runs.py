"""One run: what serves the jobs of a peer, its jobs, and what they saw."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).parent
START_S, RUN_S = 180.0, 420.0


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

    def line(self, seconds: float) -> str:
        assert self._process.stdout
        deadline = time.monotonic() + seconds
        if not select.select([self._process.stdout], [], [], max(0.0, seconds))[0]:
            raise Hung(f"nothing came within {seconds:.0f} s; {self.last_words()}")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(max(1.0, deadline - time.monotonic()))
            raise Failed(self.last_words())
        return line

    def last_words(self) -> str:
        lines = [line.strip() for line in
                 self._log.read_text(errors="replace").splitlines() if line.strip()]
        return " ".join(lines[-1:])[-300:] or "it said nothing"

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def end(self, seconds: float) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.close()
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


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(python: str, module: Any, options: dict[str, Any], sleeps_s: list[float]) -> dict[str, Any]:
    """`sleeps_s`: of each job, a batch. Raises Failed."""
    scratch = Path(tempfile.mkdtemp(prefix="batchflow-peers-", dir=options["scratch"]))
    options = {**options, "scratch": str(scratch)}
    processes: list[Process] = []
    before = _cpu_s()
    try:
        if hasattr(module, "serve"):
            processes.append(Process(python, {**options, "role": "serve"}, scratch / "serve.log"))
            processes[0].line(START_S)
        jobs = [Process(python, {**options, "role": "job", "job": number, "sleep_s": sleep_s},
                        scratch / f"job{number}.log") for number, sleep_s in enumerate(sleeps_s)]
        processes = jobs + processes
        deadline = time.monotonic() + RUN_S
        for job in jobs:
            job.line(deadline - time.monotonic())
        for job in jobs:
            job.go()
        seen = [json.loads(job.line(deadline - time.monotonic())) for job in jobs]
    finally:
        for process in processes:
            process.end(30 if process is processes[-1] and hasattr(module, "serve") else 5)
        shutil.rmtree(scratch, ignore_errors=True)
    return summary(seen, _cpu_s() - before)


def summary(seen: list[dict[str, Any]], cpu_s: float) -> dict[str, Any]:
    problem: Optional[str] = next((one["problem"] for one in seen if one["problem"]), None)
    if problem:
        raise Failed(problem)
    samples = sum(one["samples"] for one in seen)
    if not samples:
        raise Failed("no samples came")
    elapsed = max(one["end"] for one in seen) - min(one["begin"] for one in seen)
    visits = [visit for one in seen for visit in one["visits"]]
    return {"samples_per_s": samples / elapsed, "samples": samples, "elapsed_s": elapsed,
            "cpu_s": cpu_s,
            "of_each_per_s": [one["samples"] / (one["end"] - one["begin"]) for one in seen],
            "utilisation": [one["slept_s"] / (one["end"] - one["begin"]) for one in seen],
            "wait_p50_s": max(one["wait_p50_s"] for one in seen),
            "wait_p99_s": max(one["wait_p99_s"] for one in seen),
            "epochs": len(visits),
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
