"""What a service over several nodes costs, and what the end of a node costs its jobs.

    main.py [--quick] [--rounds N] [--rows N] [--json FILE]

All nodes are processes of this machine, on loopback, so they share its processors: figures are
counts, ratios and times to recover, not rates of a network. Rows are of 4 KB.

- reads: jobs on one, two and three nodes, each with an order of its own, for one epoch. What all
  nodes read of the store, over the dataset: 1 is each byte once. `fetched` is what they took from
  one another.
- processors: the processor time of all nodes for one epoch of a job at the coordinator, with an
  agent that has half of the workers, over that of a service alone; in turn, round by round.
- recovery: the longest pause between two batches of a job when a node is killed and started again
  at once: of the agent, for a job there and one elsewhere; of the coordinator, for both. Beside it
  the longest pause of the same jobs without that.

Exit code 1: a job did not have each sample of an epoch once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import environment
import service

ROW = 4096

# Its result: the samples of each epoch in order, and when each batch came.
JOB = """
import json, sys, time
import batchflow
options = json.loads(sys.argv[1])
pause = options.pop("pause", 0)
loader = batchflow.DataLoader("rows", batch_size=64, **options)
epochs, times = [], []
for epoch in range(options.get("epochs", 1)):
    keys = []
    for batch in loader:
        times.append(time.monotonic())
        keys += [int(key) for key in batch.sample_keys]
        if len(times) == 20:
            print("began", flush=True)
        if pause:
            time.sleep(pause)
    epochs.append(keys)
print(json.dumps({"epochs": epochs, "times": times}), flush=True)
"""


class Node:
    def __init__(self, folder: Path, *arguments: str):
        folder.mkdir()
        self.socket = folder / "b.sock"
        self._log = folder / "log"
        self._command = [os.environ["BATCHFLOW_DAEMON"], "--socket", str(self.socket), "--state",
                         str(folder / "state"), "--memory", "1gib", "--http", "-1", *arguments]
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            with socket.socket(socket.AF_UNIX) as asking:
                if asking.connect_ex(str(self.socket)) == 0:
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"batchflowd did not start: {self._log.read_text()}")
            time.sleep(0.005)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        self._process.wait(60)


class Cluster:
    """A coordinator and agents, for a `with`."""

    def __init__(self, folder: Path, rows: Path, agents: int, workers: int = 1):
        self.folder = folder
        folder.mkdir()
        token = folder / "token"
        token.write_text(os.urandom(32).hex() + "\n")
        token.chmod(0o600)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = ["--cluster-token", str(token), "--workers", str(workers)]
        self.nodes = [Node(folder / "coordinator", "--dataset", f"rows={rows}", "--tcp",
                           f"127.0.0.1:{port}", *shared)]
        for i in range(agents):
            self.nodes.append(Node(folder / f"agent{i}", "--join", f"tcp://127.0.0.1:{port}",
                                   "--name", f"agent{i}", *shared))
        self.wait()

    def wait(self) -> None:
        deadline = time.monotonic() + 60
        while sum(one["ready"] for one in service.status(self.nodes[0].socket)["nodes"]) + 1 < len(self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError("an agent did not join within 60 s")
            time.sleep(0.01)

    def counted(self, name: str) -> int:
        time.sleep(1.2)  # agents report every second
        now = service.status(self.nodes[0].socket)
        return now[name] + sum(one[name] for one in now["nodes"])

    def cpu_s(self) -> float:
        return sum(node.cpu_s() for node in self.nodes)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *unused: Any) -> None:
        for node in reversed(self.nodes):
            node.end(signal.SIGTERM)
        shutil.rmtree(self.folder)


class Job:
    def __init__(self, node: Node, rows: int, **options: Any):
        self.rows = rows
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOB, json.dumps({"order": "relaxed", **options})],
            env={**os.environ, "BATCHFLOW_SERVICE": str(node.socket)}, stdout=subprocess.PIPE,
            text=True)

    def begun(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def longest_pause_s(self) -> float:
        out, _ = self.process.communicate(timeout=300)
        if self.process.returncode != 0:
            sys.exit("a job failed")
        result = json.loads(out.splitlines()[-1])
        for keys in result["epochs"]:
            if sorted(keys) != list(range(self.rows)):
                sys.exit("a job did not have each sample of an epoch once")
        times = result["times"]
        return max(b - a for a, b in zip(times, times[1:]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench cluster")
    parser.add_argument("--quick", action="store_true", help="one small round, to look at")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=32768, help="of 4 KB")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures, round by round")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.rows = 1, 4096
    return arguments


def write_rows(folder: Path, rows: int) -> None:
    import numpy
    folder.mkdir()
    numpy.save(folder / "rows.npy",
               numpy.arange(rows * ROW // 8, dtype=numpy.int64).reshape(rows, ROW // 8))


def spread(values: list[float], form: str) -> str:
    return (f"{statistics.median(values):{form}} "
            f"[{min(values):{form}}..{max(values):{form}}]")


def reads(folder: Path, data: Path, arguments: argparse.Namespace, nodes: int) -> dict[str, float]:
    with Cluster(folder, data, nodes - 1) as cluster:
        jobs = [Job(node, arguments.rows, shuffle_seed=seed, epochs=1)
                for seed, node in enumerate(cluster.nodes)]
        for job in jobs:
            job.longest_pause_s()
        stored = arguments.rows * ROW
        return {"read": cluster.counted("read_bytes") / stored,
                "fetched": cluster.counted("fetched_bytes") / stored}


def processors(folder: Path, data: Path, arguments: argparse.Namespace) -> float:
    used = {}
    for agents in (0, 1):
        with Cluster(folder, data, agents, 2 - agents) as cluster:
            before = cluster.cpu_s()
            Job(cluster.nodes[0], arguments.rows, shuffle_seed=1, epochs=2).longest_pause_s()
            used[agents] = cluster.cpu_s() - before
    return used[1] / used[0]


def recovery(folder: Path, data: Path, arguments: argparse.Namespace,
             killed: int) -> dict[str, float]:
    pauses = {}
    for strikes in (False, True):
        with Cluster(folder, data, 1) as cluster:
            jobs = [Job(node, arguments.rows, epochs=2, pause=0.002) for node in cluster.nodes]
            for job in jobs:
                job.begun()
            if strikes:
                cluster.nodes[killed].end()
                cluster.nodes[killed].start()
            for where, job in zip(("coordinator", "agent"), jobs):
                pauses[where + (" killed" if strikes else "")] = job.longest_pause_s()
            if strikes:
                cluster.wait()
    return pauses


def main() -> None:
    arguments = parse()
    environment.use("cluster", {"numpy": "numpy"})
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="batchflow-cluster-") as made:
        folder = Path(made)
        data = folder / "rows"
        write_rows(data, arguments.rows)
        print(f"{arguments.rows} rows of {ROW} bytes; {arguments.rounds} rounds; "
              "median [least..most]")
        for nodes in (1, 2, 3):
            rounds = [reads(folder / "c", data, arguments, nodes) for _ in range(arguments.rounds)]
            kept[f"reads {nodes}"] = rounds
            print(f"{nodes} nodes, {nodes} jobs: read {spread([one['read'] for one in rounds], '.3f')} "
                  f"of the dataset, fetched {spread([one['fetched'] for one in rounds], '.2f')}",
                  flush=True)
        ratios = [processors(folder / "c", data, arguments) for _ in range(arguments.rounds)]
        kept["processors"] = ratios
        print(f"processor time with an agent, over that alone: {spread(ratios, '.2f')}", flush=True)
        for killed, name in ((1, "agent"), (0, "coordinator")):
            rounds = [recovery(folder / "c", data, arguments, killed)
                      for _ in range(arguments.rounds)]
            kept[f"recovery {name}"] = rounds
            for where in ("coordinator", "agent"):
                print(f"the {name} killed: longest pause of the job at the {where} "
                      f"{spread([one[where + ' killed'] for one in rounds], '.2f')} s; without "
                      f"{spread([one[where] for one in rounds], '.2f')} s", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
