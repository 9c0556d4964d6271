"""The training scripts of tests/python/scripts with their one changed line, beside themselves as they
are: how long they take, and how much of that they wait for data.

    main.py [--quick] [--rounds N] [--scale N] [--scripts NAME,...] [--json FILE]

Each script runs in a process of its own, as it is and with `from batchflow import DataLoader`, in turn,
round by round, over data `scale` times as large as in the tests. A service is started for each run with
the changed line, with one worker a core. A run's time begins when the script makes its first loader, and
ends when the script does; imports do not count. What it waits is the time within the loaders: to make
them (trying a Dataset takes a second or more, once for each; it stands in a column of its own, too), to
begin an epoch, and for each batch.

A ratio is the time with the changed line over the time of the script as it is, in the same round: the
middle one, and in brackets the least and the most. Behind it stands what is promised of it: where the
script as it is waits for more than 5 % of its time, that it waits less; where it does not, that it is at
most 2 % slower.

Exit code 1: a script failed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import runpy
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[2] / "tests" / "python"
sys.path[:0] = [str(HERE.parent), str(TESTS)]
LINES = {"theirs": "from torch.utils.data import DataLoader\n",
         "ours": "from batchflow import DataLoader\n"}
WAITS = 0.05  # of its time, from which on a script waits
SLOWER = 1.02


# -------------------------------------------------------------------- in a process of its own ----

class Clock:
    """The time within loaders, of which one may call another."""

    def __init__(self) -> None:
        self.begin = self.waited = self.made = 0.0
        self._inside = False

    def time(self, kind: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(kind, name)

        @functools.wraps(function)
        def timed(*positional: Any, **named: Any) -> Any:
            if self._inside:
                return function(*positional, **named)
            self._inside, began = True, time.perf_counter()
            self.begin = self.begin or began
            try:
                return function(*positional, **named)
            finally:
                self._inside = False
                took = time.perf_counter() - began
                self.waited += took
                self.made += took if name == "__init__" else 0
        setattr(kind, name, timed)


def run_script(work: dict[str, Any]) -> None:
    import torch.utils.data
    from torch.utils.data import dataloader
    torch.set_num_threads(1)
    file = TESTS / "scripts" / work["script"]
    text = file.read_text()
    clock = Clock()
    for kind in (dataloader.DataLoader, dataloader._SingleProcessDataLoaderIter,
                 dataloader._MultiProcessingDataLoaderIter):
        for name in ("__init__", "__iter__", "__next__"):
            if kind is dataloader.DataLoader and name == "__next__" or (
                    kind is not dataloader.DataLoader and name == "__iter__"):
                continue
            clock.time(kind, name)
    if work["loop"] == "ours":
        import batchflow
        from batchflow import iteration, local, own_order
        clock.time(batchflow.DataLoader, "__init__")
        clock.time(batchflow.DataLoader, "__iter__")
        clock.time(iteration.Iteration, "__next__")
        for kind in (local.LocalDataLoader, own_order.OwnOrderDataLoader):
            clock.time(kind, "__iter__")
        clock.time(local.LocalIteration, "__next__")
        text = text.replace(LINES["theirs"], LINES["ours"])
    # A Dataset of the script is taken by its source, which must be that of the main module.
    script = Path(work["root"]).parent / f"{work['loop']}.py"
    script.write_text(text)
    sys.argv = [str(script), work["root"]]
    runpy.run_path(str(script), run_name="__main__")
    print(json.dumps({"all_s": time.perf_counter() - clock.begin, "wait_s": clock.waited,
                      "make_s": clock.made}), flush=True)


# ----------------------------------------------------------------------------------- the table ----

def free_port() -> int:
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])


def one_run(script: str, loop: str, root: Path) -> dict[str, Any]:
    work = json.dumps({"script": script, "loop": loop, "root": str(root)})
    env = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
               MASTER_PORT=str(free_port()), GLOO_SOCKET_IFNAME="lo", PYTHONWARNINGS="ignore")
    done = subprocess.run([sys.executable, __file__, "--one", work], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=1800)
    if done.returncode != 0:
        sys.exit(f"{script} ({loop}) failed: {done.stderr[-2000:]}")
    *said, times = done.stdout.splitlines()
    return {**json.loads(times), "loaders": json.loads(said[-1])["loaders"]}


def runs_of(script: str, data: Callable[..., Any], rounds: int,
            scale: int) -> dict[str, list[dict[str, Any]]]:
    from service import Service
    runs: dict[str, list[dict[str, Any]]] = {loop: [] for loop in LINES}
    with tempfile.TemporaryDirectory(prefix="batchflow-") as name:
        root = Path(name) / "data"
        root.mkdir()
        data(root, scale)
        for number in range(rounds):
            for loop in LINES:
                folder = Path(name) / f"{loop}-{number}"
                folder.mkdir()
                os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
                if loop == "theirs":
                    os.environ.pop("BATCHFLOW_SERVICE", None)
                    runs[loop].append(one_run(script, loop, root))
                    continue
                cores = str(len(os.sched_getaffinity(0)))
                with Service(folder, "--memory", "2gib", "--workers", cores):
                    runs[loop].append(one_run(script, loop, root))
    return runs


def line(script: str, runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    import environment

    def middle(loop: str, name: str) -> float:
        return statistics.median(float(one[name]) for one in runs[loop])

    ratios = [ours["all_s"] / theirs["all_s"] for theirs, ours in zip(runs["theirs"], runs["ours"])]
    waits = middle("theirs", "wait_s") / middle("theirs", "all_s")
    if waits > WAITS:
        kept = middle("ours", "wait_s") < middle("theirs", "wait_s")
        promise = "waits less" if kept else "waits more"
    else:
        promise = "as fast" if statistics.median(ratios) <= SLOWER else "slower"
    kinds = "/".join(dict.fromkeys(runs["ours"][0]["loaders"]))
    return [script.removesuffix(".py"), {"DataLoader": "service", "OwnOrderDataLoader": "service, its order",
                                         "LocalDataLoader": "script"}.get(kinds, kinds),
            f"{middle('theirs', 'all_s'):.2f}", f"{middle('theirs', 'wait_s'):.2f}",
            f"{middle('ours', 'all_s'):.2f}", f"{middle('ours', 'wait_s'):.2f}",
            f"{middle('ours', 'make_s'):.2f}",
            environment.spread(ratios, ".2f"), promise]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench scripts")
    parser.add_argument("--quick", action="store_true", help="one round of two scripts, to look at")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, turn by turn")
    parser.add_argument("--scale", type=int, default=40, help="times the data of the tests")
    parser.add_argument("--scripts", help="their names, with commas")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures, run by run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_script(json.loads(arguments.one))
        return
    import environment
    environment.use("scripts", {"numpy": "numpy", "torch": "torch", "torchvision": "torchvision",
                                "PIL": "pillow"})
    from script_data import OF_SCRIPT
    if arguments.quick:
        arguments.rounds, arguments.scale = 1, 1
        arguments.scripts = arguments.scripts or "kfold,text_dynamic_padding"
    wanted = [f"{name}.py" for name in arguments.scripts.split(",")] if arguments.scripts else list(OF_SCRIPT)
    unknown = [name for name in wanted if name not in OF_SCRIPT]
    if unknown:
        sys.exit(f"no script {', '.join(unknown)}; there are {', '.join(OF_SCRIPT)}")
    if importlib.util.find_spec("batchflow") is None:
        sys.exit("the package batchflow is not to be found: run this by ./dev bench scripts")
    table = [["script", "loaded by", "as it is: s", "waits", "changed line: s", "waits", "to make loaders",
              "ratio", ""]]
    kept = []
    for script in wanted:
        runs = runs_of(script, OF_SCRIPT[script], arguments.rounds, arguments.scale)
        table.append(line(script, runs))
        kept.append({"script": script, "scale": arguments.scale, **runs})
        print(" | ".join(table[-1]), file=sys.stderr, flush=True)
    environment.report(table, kept, arguments.json)


if __name__ == "__main__":
    main()
