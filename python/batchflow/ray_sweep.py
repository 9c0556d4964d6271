"""Runs of a sweep on the nodes of a Ray cluster: `batchflow-sim sweep --engine ray` (docs/ray.md).

batchflow-sim starts this program and says in a line of JSON what to make. The answers are lines of
JSON: progress, notes, results as they come, or the problem that ended it. When its standard input
ends, this program ends, and all runs with it.

Each task of Ray makes some runs, by `batchflow-sim sweep-part` on its node, and hands on its lines.
What came before a node was lost counts; what is missing then is made again elsewhere.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator

_KEEPER = "keeper.py"
_KILL_S = 2.0  # from SIGTERM to SIGKILL, once a task is to end
_TRIES = 5  # of a run that loses its nodes or workers
_PART_UNITS_MOST = 64
_PARTS_PER_CPU = 4  # so that the last ones end at about one time
_SHOW_S = 0.5
_WAIT_S = 0.2


class Refused(Exception):
    """Another try would end as this one did."""


@dataclass
class _Part:
    """Runs that a task makes."""

    runs: list[int]
    tries: int = 0
    done: float = 0.0  # of this try
    missing: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.missing = set(self.runs)


# -- on a node ---------------------------------------------------------------------------------


def _program(same: str) -> str:
    """The program of this node: the one that its environment names, or the path on the machine
    where the sweep was begun, or the one in PATH."""
    named = os.environ.get("BATCHFLOW_SIM")
    for program in [named] if named else [same, "batchflow-sim"]:
        if found := shutil.which(program):
            return found
    raise Refused(f"node {_node()} has no batchflow-sim{' at ' + named if named else ''}; install "
                  "it, or name it by BATCHFLOW_SIM where Ray is started")


@functools.lru_cache
def _version(program: str) -> str:
    return subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True,
                          text=True).stdout.strip()


def _node() -> str:
    import ray  # type: ignore[import-not-found, unused-ignore]
    return f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:20]})"


def _checked_program(same: str, version: str) -> str:
    program = _program(same)
    if _version(program) != version:
        raise Refused(f"node {_node()} has {_version(program)}, and this sweep was begun by "
                      f"{version}; install the same on all nodes")
    return program


def make(request: dict[str, Any], runs: list[int]) -> Iterator[str]:
    """The lines of batchflow-sim, as they come."""
    try:
        program = _checked_program(request["program"], request["version"])
    except Refused as problem:
        print(f"batchflow: {problem}", file=sys.stderr, flush=True)  # in the log of this node, too
        raise
    command = [program, *(f"--plugin={file}" for file in request["plugins"]), "sweep-part",
               "--fingerprint", request["fingerprint"], request["study"], *map(str, runs)]
    # The keeper ends it with this worker, however that ends.
    kept = [sys.executable, "-I", str(Path(__file__).parent / _KEEPER), str(_KILL_S), *command]
    with tempfile.TemporaryFile("w+") as said:
        making = subprocess.Popen(kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                                  text=True, start_new_session=True)
        assert making.stdin and making.stdout
        try:
            for line in making.stdout:
                yield line
        finally:
            making.stdin.close()
            code = making.wait()
        said.seek(0)
        words = said.read().strip()
    if code == 2:
        raise Refused(f"node {_node()}: {words}")
    if code != 0:
        raise OSError(f"batchflow-sim ended with code {code}: {words}")


# -- where the sweep was begun -----------------------------------------------------------------


def parts_of(units: list[list[int]], at_once: int) -> list[_Part]:
    """Each part has whole units, and there are several parts for each that runs at a time."""
    size = max(1, min(_PART_UNITS_MOST, len(units) // (_PARTS_PER_CPU * at_once)))
    return [_Part([run for unit in units[i:i + size] for run in unit])
            for i in range(0, len(units), size)]


class Sweep:
    """`tell` takes what is said to batchflow-sim. `start` starts a part: its lines come from what it
    returns, by `ray.wait` and `next`."""

    def __init__(self, request: dict[str, Any], start: Callable[[_Part], Any],
                 tell: Callable[[dict[str, Any]], None], hand_on: Callable[[str], None],
                 cpus: int):
        self._at_once = request["at_once"] or cpus
        # Ray's queue has some more, so that no node waits, and an autoscaler sees what is wanted.
        self._started_most = request["at_once"] or 2 * cpus + 8
        self._waiting = parts_of(request["units"], self._at_once)
        self._total = sum(len(part.runs) for part in self._waiting)
        self._over = 0
        self._running: dict[Any, _Part] = {}
        self._start, self._tell, self._hand_on = start, tell, hand_on
        self._simulated_s = 0.0

    def run(self, ended: threading.Event) -> None:
        """Until all is made, or `ended`."""
        import ray
        shown = 0.0
        while (self._waiting or self._running) and not ended.is_set():
            while self._waiting and len(self._running) < self._started_most:
                part = self._waiting.pop(0)
                self._running[self._start(part)] = part
            ready, _ = ray.wait(list(self._running), num_returns=1, timeout=_WAIT_S)
            for lines in ready:
                self._take(lines)
            if time.monotonic() > shown + _SHOW_S:
                shown = time.monotonic()
                self._show()

    def stop(self) -> None:
        import ray
        for lines in self._running:
            ray.cancel(lines, force=True)

    def _take(self, lines: Any) -> None:
        import ray
        part = self._running[lines]
        try:
            self._hear(part, ray.get(next(lines)))
        except StopIteration:  # the runs that are missing crashed, and would again
            del self._running[lines]
            self._over += len(part.runs)
        except ray.exceptions.RayTaskError as problem:
            if isinstance(problem.cause, Refused):
                raise Refused(str(problem.cause)) from None
            self._lost(lines, str(problem.cause))
        except ray.exceptions.RayError as problem:
            self._lost(lines, str(problem).strip().splitlines()[0])

    def _hear(self, part: _Part, line: str) -> None:
        if line.startswith('{"run":'):  # results are large, and batchflow-sim reads them
            part.missing.discard(int(line[7:line.index(",")]))
            self._hand_on(line)
            return
        said = json.loads(line)
        part.done = said["done"]
        self._simulated_s = max(self._simulated_s, said["simulated_s"])

    def _lost(self, lines: Any, why: str) -> None:
        part = self._running.pop(lines)
        self._over += len(part.runs) - len(part.missing)
        if not part.missing:
            return
        again = _Part(sorted(part.missing), part.tries + 1)
        if again.tries < _TRIES:
            self._tell({"note": f"{why}; {len(again.runs)} runs are made again"})
            self._waiting.insert(0, again)
        else:
            self._tell({"note": f"{why}; {len(again.runs)} runs are given up after {_TRIES} tries"})
            self._over += len(again.runs)

    def _show(self) -> None:
        made = self._over + sum(part.done * len(part.runs) for part in self._running.values())
        self._tell({"done": round(made / self._total, 4), "simulated_s": self._simulated_s})


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _tell(said: dict[str, Any]) -> None:
    _write(json.dumps(said) + "\n")


def _connect() -> Any:
    try:
        import ray
        from ray import init  # a folder called ray is a module, too, where Ray is not installed
    except ImportError as problem:
        raise Refused(f"--engine ray: {problem} for {sys.executable}; "
                      "pip install 'batchflow-data[ray]'") from None
    try:
        init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    except Exception as problem:  # Ray has many kinds
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise Refused(f"--engine ray: no Ray cluster is reached: {reason}; start one (ray start "
                      "--head), or name its address by RAY_ADDRESS") from None
    return ray


def _wait_for_end(ended: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    ended.set()


def main() -> int:
    request = json.loads(sys.stdin.readline())
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    sweep = None
    try:
        ray = _connect()
        request["version"] = _version(request["program"])
        task = ray.remote(make).options(num_cpus=1, max_retries=0, num_returns="streaming")
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        sweep = Sweep(request, lambda part: task.remote(request_of_node(request), part.runs),
                      _tell, _write, cpus)
        sweep.run(ended)
    except Refused as problem:
        _tell({"problem": str(problem)})
    finally:
        if sweep is not None:
            sweep.stop()
            ray.shutdown()
    return 0


def request_of_node(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "units"}


if __name__ == "__main__":
    # Nodes import `make` by its name, and __main__ is another module there.
    from batchflow import ray_sweep
    sys.exit(ray_sweep.main())
