"""BatchFlow on a Ray cluster: an agent on each node, and a coordinator (docs/ray.md).

    import batchflow.ray
    batchflow.ray.start({"imagenet": "/data/imagenet/train"}, state="/shared/batchflow")

Each daemon belongs to an actor. All actors are named and detached. So they outlive the script that
started them, and Ray starts them again. They keep nothing: what a service must remember is in the
coordinator's `state`, and what an actor must know is in the arguments of its constructor, which Ray
keeps.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Collection, Mapping, Optional, Sequence

import ray  # type: ignore[import-not-found, unused-ignore]
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found, unused-ignore]
    NodeAffinitySchedulingStrategy)

from . import library as c
from .embedded import daemon, own_folder
from .kept import GRACE_S, KeptDaemon, process_at
from .ray_scaling import RESOURCE, CpuAgents

NAMESPACE = "batchflow"
COORDINATOR = "coordinator"  # its actor; an agent's is called after its node
_EVERY_S = 1.0  # from one look at the nodes to the next
_ANSWER_S = GRACE_S + 10  # the longest that an actor may take to answer
_AGENT_S = 60.0  # the longest that a job waits for the agent of its node
_HAND_OVER_S = 35.0  # for an agent to hand over what it keeps: `drain` of batchflowd, and some more
_LEAVE_S = _HAND_OVER_S + 5  # an agent begins to leave so long before its node goes


@dataclass(frozen=True)
class Settings:
    """The settings of the whole service. An agent takes `num_cpus` of its node."""

    datasets: tuple[str, ...]
    state: str
    num_cpus: float
    memory: Optional[str]
    coordinator_memory: str
    port: int
    options: tuple[str, ...]
    cpu_agents: Optional[tuple[int, int]]
    token: str = field(repr=False, compare=False)


def folder_of(node: str) -> Path:
    """Where the daemons of a node have their sockets. Nodes may share a machine, and a Ray cluster's
    processes on one node have one user. The path must fit into the 107 bytes of a socket's."""
    base = own_folder(Path(f"/tmp/batchflow-ray-{os.geteuid()}"), "let Ray run as another user")
    return base / node[:20]


def _this_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


class _Actor:
    """What both kinds have: a daemon with a folder of its own on this node."""

    def __init__(self, role: str, settings: Settings, options: Callable[[], list[str]]):
        self._settings = settings
        self._role = role
        self._folder = folder_of(_this_node()) / role
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        token = self._folder / "token"
        with open(token, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(settings.token + "\n")
        usual = ["--socket", str(self._folder / "b.sock"), "--http", "-1", "--cluster-token",
                 str(token), "--log-file", str(self._folder / "daemon.log")]
        self._daemon = KeptDaemon(lambda: [daemon(), *usual, *options(), *settings.options],
                                  self._folder / "problems.log")

    def status(self) -> dict[str, Any]:
        path = self._folder / "b.sock"
        return {"node": _this_node(), "role": self._role, "socket": str(path),
                "daemon": process_at(path), "starts": self._daemon.starts,
                "actor": os.getpid()}

    def stop(self, grace_s: Optional[float] = None) -> None:
        self._daemon.stop(grace_s)
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # where another daemon of this node is there
            self._folder.parent.rmdir()


class AgentActor(_Actor):
    """Its daemon starts when the coordinator has said where it is."""

    def __init__(self, settings: Settings):
        self._coordinator: Optional[str] = None
        self._leaving: Optional[threading.Thread] = None
        super().__init__("agent", settings, self._options)

    def _options(self) -> list[str]:
        assert self._coordinator is not None
        memory = ["--memory", self._settings.memory] if self._settings.memory else []
        return ["--join", self._coordinator, "--name", f"ray-{_this_node()[:20]}", "--state",
                str(self._folder / "state"), "--workers", str(max(1, int(self._settings.num_cpus))),
                *memory]

    def join(self, coordinator: str) -> None:
        """Is called again and again."""
        moved = self._coordinator not in (None, coordinator)
        self._coordinator = coordinator
        self._daemon.start()
        if moved:
            self._daemon.restart()

    def leave(self, seconds: float) -> bool:
        """Its node will be gone in so many seconds, so the daemon hands over what it keeps, and ends.
        True when it has ended. Is called again and again."""
        if self._leaving is None:
            seconds = max(1.0, min(_HAND_OVER_S, seconds - (_LEAVE_S - _HAND_OVER_S)))
            self._leaving = threading.Thread(target=self.stop, args=(seconds,), daemon=True)
            self._leaving.start()
        return not self._leaving.is_alive()


class CoordinatorActor(_Actor):
    """Keeps a daemon, and brings an agent to each node that comes."""

    def __init__(self, settings: Settings):
        self._address = str(ray.util.get_node_ip_address())
        self._port = settings.port
        self._agents: dict[str, tuple[Any, Any]] = {}  # by node: its actor, and the last call
        self._leaving: dict[str, Any] = {}  # by node: the last call of an agent that is to leave
        self._cpu_agents = CpuAgents(*settings.cpu_agents) if settings.cpu_agents else None
        self._stopping = threading.Event()
        super().__init__(COORDINATOR, settings, self._options)
        self._daemon.start()
        self._reconciler = threading.Thread(target=self._reconcile, name="reconciler", daemon=True)
        self._reconciler.start()

    def _options(self) -> list[str]:
        # The port stays while it can, so that agents find the next daemon by themselves.
        self._port = _free(self._address, self._port) or _free(self._address, 0)
        datasets = [part for one in self._settings.datasets for part in ("--dataset", one)]
        return ["--tcp", f"{self._address}:{self._port}", "--state", self._settings.state,
                "--memory", self._settings.coordinator_memory, "--workers", "1", *datasets]

    def settings(self) -> Settings:
        return self._settings

    def stop(self, grace_s: Optional[float] = None) -> None:
        self._stopping.set()
        self._reconciler.join()  # no agent is made after this
        if self._cpu_agents:
            self._cpu_agents.end()
        super().stop(grace_s)

    def _reconcile(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self._bring_agents()
            except Exception as problem:  # of Ray's; the next look may go better
                print(f"batchflow: {type(problem).__name__}: {problem}", flush=True)

    def _bring_agents(self) -> None:
        nodes = {node["NodeID"]: node["Resources"] for node in ray.nodes()
                 if node["Alive"] and node["Resources"].get("CPU", 0) >= self._settings.num_cpus}
        agents = dict(_agents())
        for node in agents.keys() - nodes.keys():
            self._forget(node, agents[node])  # Ray would go on looking for a node that is gone
        if not self._port:
            return  # its daemon has not been started
        leaving = self._leaving_nodes(nodes, agents)
        for node, resources in nodes.items():
            if node not in leaving:
                self._tell(node, resources)
            elif node in agents:
                self._send_off(node, agents[node], leaving[node])

    def _leaving_nodes(self, nodes: Mapping[str, Any], agents: Collection[str]) -> dict[str, float]:
        """The nodes of which the agents are to leave now, and how many seconds there are for it."""
        self._leaving = {node: call for node, call in self._leaving.items() if node in agents}
        leaving = {node: _LEAVE_S for node in self._leaving}  # what has begun is not taken back
        if self._cpu_agents:
            self._cpu_agents.look(self._folder / "b.sock")
            there = {node for node in nodes if nodes[node].get(RESOURCE)}
            leaving.update((node, _LEAVE_S) for node in self._cpu_agents.too_many(there, agents))
        leaving.update((node, left) for node, left in _draining().items() if left <= _LEAVE_S)
        return leaving

    def _send_off(self, node: str, actor: Any, seconds: float) -> None:
        call = self._leaving.get(node)
        if call is not None and not ray.wait([call], timeout=0)[0]:
            return
        try:
            if call is not None and ray.get(call):
                self._forget(node, actor)
                return
        except ray.exceptions.RayError:
            pass  # an actor that is started again has no daemon
        self._leaving[node] = actor.leave.remote(seconds)

    def _forget(self, node: str, actor: Any) -> None:
        ray.kill(actor)
        self._agents.pop(node, None)
        self._leaving.pop(node, None)

    def _tell(self, node: str, resources: Mapping[str, float]) -> None:
        actor, call = self._agents.get(node, (None, None))
        if actor is not None and not ray.wait([call], timeout=0)[0]:
            return  # it has not been placed yet, or is being started again
        try:
            if actor is not None:
                ray.get(call)
        except ray.exceptions.RayError:
            actor = None  # one that is only away is found again by its name
        if actor is None:
            # A node that is there for an agent is all the agent's.
            cpus = resources["CPU"] if resources.get(RESOURCE) else self._settings.num_cpus
            actor = _agent(node, replace(self._settings, num_cpus=cpus))
        self._agents[node] = actor, actor.join.remote(f"tcp://{self._address}:{self._port}")


def _draining() -> dict[str, float]:
    """The nodes that Ray will take away, and in how many seconds. Ray has no public call for it."""
    try:
        ends = ray._private.state.state.get_draining_nodes()
    except AttributeError:  # of another version
        return {}
    return {node: end / 1000 - time.time() if end else _LEAVE_S for node, end in ends.items()}


def _free(address: str, port: int) -> int:
    """The port, or any if it is 0; 0 where it is taken."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])


def _make(kind: type, name: str, settings: Settings, num_cpus: float, node: str,
          soft: bool) -> Any:
    return ray.remote(kind).options(
        name=name, namespace=NAMESPACE, get_if_exists=True, lifetime="detached", max_restarts=-1,
        num_cpus=num_cpus,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=soft)).remote(settings)


def _agent(node: str, settings: Settings) -> Any:
    return _make(AgentActor, node, settings, settings.num_cpus, node, False)


def _coordinator() -> Any:
    try:
        return ray.get_actor(COORDINATOR, namespace=NAMESPACE)
    except ValueError:
        return None


def _agents(without: Collection[str] = ()) -> list[tuple[str, Any]]:
    """Node and actor of each agent, without those of some nodes."""
    found = []
    for one in ray.util.list_named_actors(all_namespaces=True):
        if one["namespace"] == NAMESPACE and one["name"] not in (COORDINATOR, *without):
            with suppress(ValueError):  # it has ended since
                found.append((one["name"], ray.get_actor(one["name"], namespace=NAMESPACE)))
    return found


def start(datasets: Mapping[str, Any], state: Any, *, num_cpus: float = 1,
          memory: Optional[str] = None, coordinator_memory: str = "1gib", port: int = 0,
          options: Sequence[str] = (), cpu_agents: Optional[tuple[int, int]] = None,
          node: Optional[str] = None) -> None:
    """Starts the service of this Ray cluster, and returns when its coordinator listens. Does nothing
    if it runs already with these arguments. Agents come within seconds, and jobs wait for them.

    `state`: where the coordinator keeps what it must remember; if it is to be started again on
    another node, a path that all nodes share. `num_cpus` and `memory`: what an agent takes of its
    node. `port`: of the coordinator; 0: any. `options`: of batchflowd, for all nodes. `cpu_agents`:
    at least and at most so many nodes with the resource `batchflow_agent` have an agent, and are
    asked for. `node`: where the coordinator runs as long as that node is there; by default this one.
    """
    settings = Settings(tuple(f"{name}={path}" for name, path in datasets.items()),
                        os.path.abspath(os.fspath(state)), num_cpus, memory, coordinator_memory,
                        port, tuple(options),
                        (cpu_agents[0], cpu_agents[1]) if cpu_agents else None,
                        secrets.token_hex(32))
    coordinator = _make(CoordinatorActor, COORDINATOR, settings, 0, node or _this_node(), True)
    there = ray.get(coordinator.settings.remote(), timeout=_AGENT_S)
    if there != settings:
        raise RuntimeError(f"a service runs on this Ray cluster already, with {there}; stop it "
                           "first: batchflow.ray.stop(), or batchflow-ray down")
    deadline = time.monotonic() + _AGENT_S
    while (now := ray.get(coordinator.status.remote()))["daemon"] is None:
        if time.monotonic() > deadline:
            raise c.NoServiceError(f"the coordinator does not start; see the logs beside "
                                   f"{now['socket']} on node {now['node']}")
        time.sleep(0.1)


def status() -> list[dict[str, Any]]:
    """For each actor that answers: its node, role, socket, the processes of its daemon (None while
    it does not listen) and of itself, and how often it has started its daemon."""
    coordinator = _coordinator()
    actors = [actor for _, actor in _agents()]
    calls = [one.status.remote() for one in ([coordinator] if coordinator else []) + actors]
    return [answer for call in calls if (answer := _answer(call)) is not None]


def _answer(call: Any) -> Any:
    try:
        return ray.get(call, timeout=_EVERY_S * 5)
    except ray.exceptions.RayError:
        return None


def stop() -> None:
    """Ends all daemons and then their actors; the coordinator's `state` stays."""
    coordinator = _coordinator()
    if coordinator is not None:
        _end([coordinator], False)  # its actor goes last, so that a stop that was cut off can be repeated
    _end([actor for _, actor in _agents()], True)
    if coordinator is not None:
        ray.kill(coordinator)


def _end(actors: list[Any], kill: bool) -> None:
    """An actor that does not answer is killed, and the keeper of its daemon ends that."""
    calls = [actor.stop.remote() for actor in actors]
    if calls:
        ray.wait(calls, num_returns=len(calls), timeout=_ANSWER_S)
    for actor in actors if kill else []:
        ray.kill(actor)


def beside_an_agent(function: Any, *arguments: Any) -> Any:
    """Calls the function and returns its answer: here or, if this node has no agent but others do,
    in a task on one of those. The head of many clusters has no CPUs, and so no agent."""
    nodes = [node for node, _ in _agents()]
    if not nodes or _this_node() in nodes:
        return function(*arguments)
    task = ray.remote(function).options(
        num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(nodes[0], soft=False))
    return ray.get(task.remote(*arguments))


def find_service(timeout_s: float) -> Optional[str]:
    """The socket of this node's agent, or of the coordinator where that is all there is. None if no
    service was started on this Ray cluster. Waits for a service that is being started."""
    if _coordinator() is None:
        return None
    folder = folder_of(_this_node())
    deadline = time.monotonic() + min(timeout_s, _AGENT_S)
    while time.monotonic() < deadline:
        for role in ("agent", COORDINATOR):
            if process_at(folder / role / "b.sock") is not None:
                return str(folder / role / "b.sock")
        time.sleep(0.05)
    raise c.NoServiceError(f"no agent listens in {folder}: 'batchflow-ray status' shows where agents "
                           "are; a node gets one if as many of its CPUs are free as agents take")
