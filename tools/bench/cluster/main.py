"""What a service over several nodes costs, and what the end of a node costs its jobs.

    main.py [PART...] [--quick] [--rounds N] [--rows N] [--json FILE]

All nodes are processes of this machine, so they share its processors: figures are counts, ratios
and times to recover, and rates beside what else the same machine does. Rows are of 4 KB.

- reads: jobs on one, two and three nodes, each with an order of its own, for one epoch. What all
  nodes read of the store, over the dataset: 1 is each byte once. `fetched` is what they took from
  one another.
- processors: the processor time of all nodes for two epochs of a job at the coordinator, with an
  agent that has half of the workers, over that of a service alone; in turn, round by round. For
  rows, which are only copied, and for pictures.
- recovery: how long jobs waited for their batches when a node was killed (kill -9), more than in
  the same run without that, and for a batch at most. An agent without jobs is killed for good, and
  beside it stands how many blocks it held, and how many were prepared again; an agent, and the
  coordinator, are killed and started again at once; and the coordinator of three candidates is
  killed for good, and another takes over.
- control: what one coordinator can order. Its agents are one process that says at once that
  everything is done (fleet.cpp). Blocks a second of 16 and of 256 samples with 1 to 64 agents, per
  second of the coordinator's processor time, too; and with 64 agents, how long a batch takes from
  its wish, at parts of that rate.
- simulated: hosts with links of 200 Mbit/s, each with a job that trains for two epochs in an order
  of its own on rows of 64 KB, which the memory of all hosts together keeps. How long that takes
  live, from the first job's wish to the end of the last job, and in the simulator with the same hosts, links,
  data, cache and settings; nothing is fitted.
- transfer: two hosts (network namespaces) with links of 8 Gbit/s. A job at one trains on what the
  other keeps, in rows of 256 KB. The rate beside that of iperf3 on the same link, and the processor time of both
  services for each GB; by TCP, and by TLS with certificates that are made for it.

Exit code 1: a job did not have each sample of an epoch once.
"""

from __future__ import annotations

import argparse
import atexit
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
from typing import Any, Callable, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "peers"))
import environment
import lost_blocks
import service

ROW, BATCH = 4096, 64

# Its result: the samples of each epoch in order, when it asked for the first batch, when each came,
# and how long it waited for each after the twentieth. With `go_on` it trains on from there once
# there is such a file.
JOB = """
import json, os, sys, time
import batchflow
options = json.loads(sys.argv[1])
pause, go_on = options.pop("pause", 0), options.pop("go_on", None)
asked = since = time.monotonic()
loader = batchflow.DataLoader("rows", batch_size=BATCH, **options)
epochs, times, waits = [], [], []
for epoch in range(options.get("epochs", 1)):
    keys = []
    for batch in loader:
        times.append(time.monotonic())
        if len(times) > 20:
            waits.append(times[-1] - since)
        keys += [int(key) for key in batch.sample_keys]
        if len(times) == 20:
            print("began", flush=True)
            while go_on and not os.path.exists(go_on):
                time.sleep(0.01)
        if pause:
            time.sleep(pause)
        since = time.monotonic()
    epochs.append(keys)
print(json.dumps({"epochs": epochs, "asked": asked, "times": times, "waits": waits}), flush=True)
""".replace("BATCH", str(BATCH))


class Node:
    def __init__(self, folder: Path, *arguments: str, before: list[str] | None = None):
        folder.mkdir()
        self.socket = folder / "b.sock"
        self._log = folder / "log"
        memory = [] if "--memory" in arguments else ["--memory", "1gib"]
        self._command = [*(before or []), os.environ["BATCHFLOW_DAEMON"], "--socket",
                         str(self.socket), "--state", str(folder / "state"), "--http", "-1",
                         *memory, *arguments]
        atexit.register(self.kill)
        self.start()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()

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

    def says(self, text: str) -> bool:
        return text in self._log.read_text()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        self._process.wait(60)


def write_config(folder: Path, engine: str) -> Path:
    """A node file with these settings of the engine."""
    config = folder / "node.yaml"
    config.write_text(f"kind: node\nengine: {{{engine}}}\n")
    return config


def write_token(folder: Path) -> Path:
    token = folder / "token"
    token.write_text(os.urandom(32).hex() + "\n")
    token.chmod(0o600)
    return token


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for_agents(coordinator: Node, agents: int) -> None:
    deadline = time.monotonic() + 60
    while sum(one["ready"] for one in service.status(coordinator.socket)["nodes"]) < agents:
        if time.monotonic() > deadline:
            raise RuntimeError("an agent did not join within 60 s")
        time.sleep(0.01)


class Cluster:
    """A coordinator and agents, for a `with`."""

    def __init__(self, folder: Path, rows: Path | str, agents: int, workers: int = 1,
                 engine: str = ""):
        self.folder = folder
        folder.mkdir()
        config = write_config(folder, engine)
        token, port = write_token(folder), free_port()
        shared = ["--cluster-token", str(token), "--workers", str(workers)]
        self.nodes = [Node(folder / "coordinator", "--config", str(config), "--dataset",
                           f"rows={rows}", "--tcp", f"127.0.0.1:{port}", *shared)]
        for i in range(agents):
            self.nodes.append(Node(folder / f"agent{i}", "--join", f"tcp://127.0.0.1:{port}",
                                   "--name", f"agent{i}", *shared))
        self.wait()

    def wait(self) -> None:
        wait_for_agents(self.nodes[0], len(self.nodes) - 1)

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

    def finish(self) -> None:
        out, _ = self.process.communicate(timeout=300)
        if self.process.returncode != 0:
            sys.exit("a job failed")
        result = json.loads(out.splitlines()[-1])
        for keys in result["epochs"]:
            if sorted(keys) != list(range(self.rows)):
                sys.exit("a job did not have each sample of an epoch once")
        self.asked: float = result["asked"]
        self.times: list[float] = result["times"]
        self.waits: list[float] = result["waits"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench cluster")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="one small round, to look at")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=32768, help="of 4 KB")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures, round by round")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    if arguments.quick:
        arguments.rounds, arguments.rows = 1, 4096
    if arguments.rows % BATCH:
        parser.error(f"--rows must be a multiple of {BATCH}: lost blocks are counted whole")
    return arguments


def write_rows(folder: Path, rows: int, row: int = ROW) -> None:
    import numpy
    folder.mkdir()
    numpy.save(folder / "rows.npy",
               numpy.arange(rows * row // 8, dtype=numpy.int64).reshape(rows, row // 8))


def spread(values: list[float], form: str) -> str:
    return (f"{statistics.median(values):{form}} "
            f"[{min(values):{form}}..{max(values):{form}}]")


def reads(folder: Path, data: Path, arguments: argparse.Namespace, nodes: int) -> dict[str, float]:
    with Cluster(folder, data, nodes - 1) as cluster:
        jobs = [Job(node, arguments.rows, shuffle_seed=seed, epochs=1)
                for seed, node in enumerate(cluster.nodes)]
        for job in jobs:
            job.finish()
        stored = arguments.rows * ROW
        return {"read": cluster.counted("read_bytes") / stored,
                "fetched": cluster.counted("fetched_bytes") / stored}


def processors(folder: Path, data: str, samples: int, pipeline: str = "") -> float:
    used = {}
    for agents in (0, 1):
        with Cluster(folder, data, agents, 2 - agents) as cluster:
            before = cluster.cpu_s()
            Job(cluster.nodes[0], samples, shuffle_seed=1, epochs=2,
                **({"pipeline": pipeline} if pipeline else {})).finish()
            used[agents] = cluster.cpu_s() - before
    return used[1] / used[0]


class Wait(NamedTuple):
    """Of one job, or of that of several which waited longest."""
    more_s: float  # for all batches, than in a run in which nothing was killed
    longest_s: float  # for one batch

    @staticmethod
    def of(undisturbed: list[Job], disturbed: list[Job]) -> "Wait":
        return Wait(max(sum(b.waits) - sum(a.waits) for a, b in zip(undisturbed, disturbed)),
                    max(max(job.waits) for job in disturbed))


def trained(nodes: list[Node], rows: int, strike: Callable[[], None], **options: Any) -> list[Job]:
    """A job at each of the nodes, which have had that strike while they trained."""
    jobs = [Job(node, rows, pause=0.002, **options) for node in nodes]
    for job in jobs:
        job.begun()
    strike()
    for job in jobs:
        job.finish()
    return jobs


def come_back(folder: Path, data: Path, rows: int, killed: int) -> list[Wait]:
    """The coordinator (0) or the agent (1) is killed and started again: the job at each."""
    runs = []
    for strikes in (False, True):
        with Cluster(folder, data, 1) as cluster:
            def strike() -> None:
                if strikes:
                    cluster.nodes[killed].end()
                    cluster.nodes[killed].start()

            runs.append(trained(cluster.nodes, rows, strike, epochs=2))
            cluster.wait()
    return [Wait.of([before], [after]) for before, after in zip(*runs)]


def lose_agent(folder: Path, data: Path, rows: int, seed: int) -> tuple[Wait, lost_blocks.Loss]:
    """An agent that prepares for a job at the coordinator is killed, and stays away."""
    runs = []
    for strikes in (False, True):
        # No block has a second worker, which would prepare it again.
        with Cluster(folder, data, 1,
                     engine=f"block_bytes: {BATCH * ROW}, late_after_p99: 0") as cluster:
            coordinator, go_on = cluster.nodes[0].socket, folder / "go-on"
            before = held = lost_blocks.prepared(coordinator)

            def strike() -> None:
                nonlocal held
                held = lost_blocks.settled(coordinator)
                if strikes:
                    cluster.nodes[1].end()
                go_on.touch()

            # It asks for many batches ahead, so that the agent prepares some of them, and for one
            # epoch: blocks of another would count as prepared twice.
            runs.append(trained(cluster.nodes[:1], rows, strike, shuffle_seed=seed, epochs=1,
                                prefetch_factor=64, go_on=str(go_on)))
            if strikes:
                found = lost_blocks.loss(before, held, lost_blocks.prepared(coordinator), "agent0",
                                         rows, BATCH)
    return Wait.of(*runs), found


def take_over(folder: Path, data: Path, rows: int) -> Wait:
    """The coordinator of three candidates is killed, and stays away: the jobs at the others."""
    runs = []
    for strikes in (False, True):
        folder.mkdir()
        token = write_token(folder)
        candidates = [
            Node(folder / name, "--name", name, "--dataset", f"rows={data}", "--tcp",
                 f"127.0.0.1:{free_port()}", "--cluster-token", str(token), "--cluster-log",
                 str(folder / "log"), "--workers", "1") for name in "abc"]
        deadline = time.monotonic() + 60
        first = None
        while first is None:
            if time.monotonic() > deadline:
                raise RuntimeError("no candidate coordinates")
            time.sleep(0.05)
            first = next((node for node in candidates if node.says("term 1")), None)
        others = [node for node in candidates if node is not first]
        wait_for_agents(first, 2)
        runs.append(trained(others, rows, first.end if strikes else lambda: None, epochs=2))
        for node in [*others, first]:
            node.end(signal.SIGTERM)
        shutil.rmtree(folder)
    return Wait.of(*runs)


def fleet(port: int, token: Path, agents: int, batch: int, seconds: float,
          rate: float = 0) -> dict[str, float]:
    program = Path(os.environ["BATCHFLOW_DAEMON"]).parent / "fleet"
    done = subprocess.run([str(program), str(port), str(token), str(agents), str(batch),
                           str(seconds), str(rate)], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def control(folder: Path, data: Path, agents: int, batch: int, seconds: float,
            rates: tuple[float, ...] = ()) -> dict[str, Any]:
    """What a coordinator orders for so many agents; `rates` are parts of the most that it can."""
    folder.mkdir()
    config = write_config(folder, f"block_bytes: {batch * ROW}")
    token, port = write_token(folder), free_port()

    def run(rate: float = 0) -> dict[str, float]:
        node = Node(folder / "coordinator", "--config", str(config), "--dataset", f"rows={data}",
                    "--tcp", f"127.0.0.1:{port}", "--cluster-token", str(token), "--workers", "1")
        while not node.says("tcp://127.0.0.1"):
            time.sleep(0.01)
        before = node.cpu_s()
        result = fleet(port, token, agents, batch, seconds, rate)
        result["cpu_s"] = node.cpu_s() - before
        node.end(signal.SIGTERM)
        shutil.rmtree(folder / "coordinator")
        return result

    most = run()
    blocks_s = most["blocks"] / most["seconds"]
    batches_s = most["batches"] / most["seconds"]
    # The second before the measured ones costs the coordinator as much.
    cpu_s = most["cpu_s"] * most["seconds"] / (most["seconds"] + 1)
    found: dict[str, Any] = {"blocks_s": blocks_s, "per_core": most["blocks"] / cpu_s,
                             "samples": most["samples_per_block"], "latency": []}
    for part in rates:
        found["latency"].append({"part": part, **run(part * batches_s)})
    shutil.rmtree(folder)
    return found


def write_certificate(folder: Path, address: str) -> tuple[Path, Path]:
    """A certificate for the address, which is its own authority, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", f"/CN={address}", "-addext", f"subjectAltName=IP:{address}", "-keyout",
                    key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    return certificate, key


def bytes_over_link(coordinator: Node) -> int:
    """What the agent has had from the coordinator: samples, and parts of blocks made there."""
    time.sleep(1.2)  # agents report every second
    (agent,) = service.status(coordinator.socket)["nodes"]
    return sum(link["bytes"] for link in agent["links"])


def fetch(folder: Path, hosts: Any, rows: int, by_tls: bool) -> dict[str, float]:
    """A job on host b trains on what host a keeps. It waits after its first batches, so that all is
    counted from a moment at which nothing moves."""
    folder.mkdir()
    data = folder / "rows"
    write_rows(data, rows, LARGE_ROW)
    token, port = write_token(folder), 9838
    own: dict[str, list[str]] = {name: ["--cluster-token", str(token), "--workers", "1"]
                                 for name in "ab"}
    if by_tls:
        authorities = folder / "authorities.pem"
        for name, words in own.items():
            (folder / f"of-{name}").mkdir()
            certificate, key = write_certificate(folder / f"of-{name}", hosts.address(name))
            with authorities.open("ab") as file:
                file.write(certificate.read_bytes())
            words += ["--tcp-certificate", str(certificate), "--tcp-key", str(key),
                      "--cluster-authorities", str(authorities)]
    a = Node(folder / "a", "--dataset", f"rows={data}", "--tcp", f"{hosts.address('a')}:{port}",
             "--memory", "6gib", *own["a"], before=hosts.command("a", []))
    b = Node(folder / "b", "--join", f"{'tls' if by_tls else 'tcp'}://{hosts.address('a')}:{port}",
             "--name", "b", "--memory", "512mib", *own["b"], before=hosts.command("b", []))
    wait_for_agents(a, 1)
    Job(a, rows, shuffle_seed=1, epochs=1).finish()  # all is kept from here on
    # Only what the link brings takes time: the job computes nothing.
    go_on = folder / "go-on"
    job = Job(b, rows, shuffle_seed=2, epochs=1, go_on=str(go_on))
    job.begun()
    brought = bytes_over_link(a)
    cpu_s = {node: node.cpu_s() for node in (a, b)}
    begin = time.monotonic()
    go_on.touch()
    job.finish()
    seconds = job.times[-1] - begin
    cpu_s = {node: node.cpu_s() - before for node, before in cpu_s.items()}
    brought = bytes_over_link(a) - brought
    found = {"rate": brought / seconds, "sender_cpu_s_gb": cpu_s[a] / brought * 1e9,
             "receiver_cpu_s_gb": cpu_s[b] / brought * 1e9}
    for node in (b, a):
        node.end(signal.SIGTERM)
    shutil.rmtree(folder)
    return found


def transfer(folder: Path, rows: int, ways: list[str]) -> dict[str, dict[str, float]]:
    """What iperf3 moves over a link, and what the service does, by each way on the same link."""
    from hosts import Hosts
    with Hosts(["a", "b"], "8gbit") as hosts:
        server = hosts.start("a", ["iperf3", "-s", "-1", "-J"], stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        answer = subprocess.run(hosts.command("b", ["iperf3", "-c", hosts.address("a"), "-R", "-J",
                                                    "-t", "5"]), stdout=subprocess.PIPE, check=True)
        server.wait(30)
        end = json.loads(answer.stdout)["end"]
        cpu_s = sum(end["cpu_utilization_percent"][side]
                    for side in ("host_total", "remote_total")) / 100 * 5
        found = {"iperf3": {"rate": end["sum_received"]["bits_per_second"] / 8,
                            "cpu_s_gb": cpu_s / end["sum_received"]["bytes"] * 1e9}}
        for way in ways:
            found[way] = fetch(folder, hosts, rows, way == "TLS")
        return found


Kept = Any


def measure_reads(folder: Path, data: Path, arguments: argparse.Namespace) -> Kept:
    kept = {}
    for nodes in (1, 2, 3):
        rounds = [reads(folder, data, arguments, nodes) for _ in range(arguments.rounds)]
        kept[nodes] = rounds
        print(f"{nodes} nodes, {nodes} jobs: read {spread([one['read'] for one in rounds], '.3f')} "
              f"of the dataset, fetched {spread([one['fetched'] for one in rounds], '.2f')}",
              flush=True)
    return kept


def measure_processors(folder: Path, data: Path, arguments: argparse.Namespace) -> Kept:
    import pictures
    count = 256 if arguments.quick else 2048
    made = pictures.make(environment.BUILD / "peers", count)
    kept = {}
    for name, where, samples, pipeline in (
            ("rows of 4 KB", str(data), arguments.rows, ""),
            ("pictures", f"{made},pipeline=imagenet-train", count, "")):
        ratios = [processors(folder, where, samples, pipeline) for _ in range(arguments.rounds)]
        kept[name] = ratios
        print(f"processor time with an agent, over that alone, {name}: {spread(ratios, '.2f')}",
              flush=True)
    return kept


def measure_recovery(folder: Path, data: Path, arguments: argparse.Namespace) -> Kept:
    rows, rounds = arguments.rows, range(arguments.rounds)
    lost = [lose_agent(folder, data, rows, seed) for seed in rounds]
    agent = [come_back(folder, data, rows, 1) for _ in rounds]
    coordinator = [come_back(folder, data, rows, 0) for _ in rounds]
    cases = {
        "agent killed for good: a job elsewhere": [wait for wait, _ in lost],
        "agent killed and started: its own job": [there for _, there in agent],
        "  a job elsewhere": [elsewhere for elsewhere, _ in agent],
        "coordinator killed and started: its own job": [there for there, _ in coordinator],
        "  a job at the agent": [elsewhere for _, elsewhere in coordinator],
        "coordinator killed, another takes over": [take_over(folder, data, rows) for _ in rounds]}
    environment.show([["seconds a job waited", "more than without", "for a batch at most"],
                      *([name, *(spread([one[i] for one in waits], ".2f") for i in range(2))]
                        for name, waits in cases.items())])
    blocks = [found for _, found in lost]
    print(f"blocks that the lost agent held: {spread([one.held for one in blocks], '.0f')}, and that "
          f"were prepared again: {spread([one.again for one in blocks], '.0f')}", flush=True)
    return {"waits": cases, "blocks": blocks}


def measure_control(folder: Path, data: Path, arguments: argparse.Namespace) -> Kept:
    kept: dict[str, Any] = {}
    seconds = 1.0 if arguments.quick else 4.0
    for batch in (16,) if arguments.quick else (1, 16, 256):
        for agents in (1, 64) if arguments.quick else (1, 4, 16, 64):
            with_rates = agents == 64 and batch == 16
            rates = ((0.5,) if arguments.quick else (0.1, 0.25, 0.5, 0.75, 0.9)) if with_rates else ()
            rounds = [control(folder, data, agents, batch, seconds,
                              rates if number == 0 else ()) for number in range(arguments.rounds)]
            kept[f"{batch} {agents}"] = rounds
            print(f"blocks of {rounds[0]['samples']:.0f}, {agents} agents: "
                  f"{spread([one['blocks_s'] for one in rounds], ',.0f')} a second, "
                  f"{spread([one['per_core'] for one in rounds], ',.0f')} per second of a core",
                  flush=True)
            for one in rounds[0]["latency"]:
                print(f"  at {one['part']:.0%} of that ({one['batches'] / one['seconds']:,.0f} "
                      f"batches/s): p50 {one['p50_us']:.0f} us, p99 {one['p99_us']:.0f} us, "
                      f"p99.9 {one['p999_us']:.0f} us", flush=True)
    return kept


def lived(folder: Path, nodes: int, rows: int, rate_mbit: int) -> tuple[float, dict[str, Any]]:
    """Seconds from the first wish of any job to the last batch of all, and the first node's status."""
    from hosts import Hosts
    names = [f"n{i}" for i in range(nodes)]
    folder.mkdir()
    with Hosts(names, f"{rate_mbit}mbit") as hosts:
        data = folder / "rows"
        write_rows(data, rows, WIDE_ROW)
        token, port = write_token(folder), 9838
        shared = ["--cluster-token", str(token), "--workers", "1"]
        first = hosts.address("n0")
        own = {"n0": ["--dataset", f"rows={data}", "--tcp", f"{first}:{port}"]}
        started = [Node(folder / name, "--name", name,
                        *own.get(name, ["--join", f"tcp://{first}:{port}"]), *shared,
                        before=hosts.command(name, [])) for name in names]
        wait_for_agents(started[0], nodes - 1)
        jobs = [Job(node, rows, shuffle_seed=seed, epochs=2) for seed, node in enumerate(started)]
        for job in jobs:
            job.finish()
        status = service.status(started[0].socket)
        for node in reversed(started):
            node.end(signal.SIGTERM)
    shutil.rmtree(folder)
    return max(job.times[-1] for job in jobs) - min(job.asked for job in jobs), status


def simulated(folder: Path, nodes: int, rows: int, rate_mbit: int,
              status: dict[str, Any]) -> float:
    """The makespan, with the cache and the settings of a live node."""
    folder.mkdir()
    settings = {name: status["settings"][name]
                for name in ("count_staging", "staging_bytes", "staging_sector_bytes")}
    cache = status["planned_bytes"] + int(settings["staging_bytes"])
    scenario = folder / "scenario.yaml"
    rate = rate_mbit * 125_000 * SHAPED_PART
    jobs = "\n".join(
        f"  - {{name: job-{i}, dataset: rows, pipeline: train, order: relaxed, shuffle_seed: {i}, "
        f"batch: 64, epochs: 2, nodes: [node-{i}], step: 1us, arrives_jitter: 0s}}"
        for i in range(nodes))
    scenario.write_text(f"""
cluster:
  nodes: [{{name: node, count: {nodes}, cores: 1, gpus: 1, memory: 1gib, cache: {cache},
           nic_bytes_per_s: {rate:.0f}, nic_latency: 100us}}]
  store: {{bytes_per_s: 2gb, latency: 100us, operations_ahead: 32}}
datasets: [{{name: rows, samples: {rows}, bytes: {WIDE_ROW}, format: raw}}]
pipelines: [{{name: train, steps: [{{name: copy, cost: 10us, output: 100%}}]}}]
jobs:
{jobs}
engine: {json.dumps(settings)}
""")
    done = subprocess.run([os.environ["BATCHFLOW_SIM"], "run", str(scenario), "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
    shutil.rmtree(folder)
    result: dict[str, Any] = json.loads(done.stdout)
    run = result["runs"][0] if "runs" in result else result
    return float(run["makespan_s"])


WIDE_ROW, LARGE_ROW = 65536, 262144
# Of what tbf lets through: Ethernet, IP and TCP have 66 bytes of each 1,514.
SHAPED_PART = 1448 / 1514


def measure_simulated(folder: Path, data: Path, arguments: argparse.Namespace) -> Kept:
    from hosts import Hosts
    if problem := Hosts.problem():
        print(f"simulated: left out: {problem}")
        return problem
    rows = 1024 if arguments.quick else 4096
    kept = {}
    for nodes in (2,) if arguments.quick else (2, 3, 4):
        runs = [lived(folder, nodes, rows, 200) for _ in range(arguments.rounds)]
        live = [seconds for seconds, _ in runs]
        foretold = simulated(folder, nodes, rows, 200, runs[0][1])
        kept[nodes] = {"live": live, "simulated": foretold}
        print(f"{nodes} nodes with links of 200 Mbit/s: live {spread(live, '.2f')} s, simulated "
              f"{foretold:.2f} s: {foretold / statistics.median(live) - 1:+.1%}", flush=True)
    return kept


def measure_transfer(folder: Path, data: Path, arguments: argparse.Namespace) -> Kept:
    from hosts import Hosts
    problem = Hosts.problem() or ("" if shutil.which("iperf3") else
                                  "iperf3 is not installed (apt-get install iperf3)")
    if problem:
        print(f"transfer: left out: {problem}")
        return problem
    rows = 2560 if arguments.quick else 16384
    ways = ["TCP", "TLS"]
    if not shutil.which("openssl"):
        ways.remove("TLS")
        print("transfer: TLS is left out: openssl is not installed (apt-get install openssl)")
    rounds = [transfer(folder, rows, ways) for _ in range(arguments.rounds)]
    iperf_cpu = spread([one["iperf3"]["cpu_s_gb"] for one in rounds], ".2f")
    print(f"transfer, of iperf3's rate and processor time for each GB (iperf3, both sides: "
          f"{iperf_cpu} s):")
    print(f"{'':<28}" + "".join(f"{way:>24}" for way in ways))
    for name, form, figure in (
            ("MB/s", ",.0f", lambda one, way: one[way]["rate"] / 1e6),
            ("part of iperf3's", ".2f", lambda one, way: one[way]["rate"] / one["iperf3"]["rate"]),
            ("s a GB where it is kept", ".2f", lambda one, way: one[way]["sender_cpu_s_gb"]),
            ("s a GB where it trains", ".2f",
             lambda one, way: one[way]["receiver_cpu_s_gb"])):
        print(f"{name:<28}" + "".join(
            f"{spread([figure(one, way) for one in rounds], form):>24}" for way in ways), flush=True)
    return rounds


MEASURES = {"reads": measure_reads, "processors": measure_processors, "recovery": measure_recovery,
            "control": measure_control, "simulated": measure_simulated,
            "transfer": measure_transfer}
PARTS = list(MEASURES)


def main() -> None:
    arguments = parse()
    environment.use("cluster", {"numpy": "numpy", "PIL": "pillow"})
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="batchflow-cluster-") as made:
        folder = Path(made)
        data = folder / "rows"
        write_rows(data, arguments.rows)
        print(f"{arguments.rows} rows of {ROW} bytes; {arguments.rounds} rounds; "
              "median [least..most]")
        for name in arguments.parts or PARTS:
            kept[name] = MEASURES[name](folder / "c", data, arguments)
    environment.keep(kept, arguments.json)


if __name__ == "__main__":
    main()
