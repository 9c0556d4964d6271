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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Collection, Mapping, Optional, Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import library as c
from .embedded import daemon, own_folder
from .kept import GRACE_S, KeptDaemon, process_at

NAMESPACE = "batchflow"
COORDINATOR = "coordinator"  # its actor; an agent's is called after its node
_EVERY_S = 1.0  # from one look at the nodes to the next
_ANSWER_S = GRACE_S + 10  # the longest that an actor may take to answer
_AGENT_S = 60.0  # the longest that a job waits for the agent of its node


@dataclass(frozen=True)
class Settings:
    """Of the whole service. `num_cpus` of a node are an agent's."""

    datasets: tuple[str, ...]
    state: str
    num_cpus: float
    memory: Optional[str]
    coordinator_memory: str
    port: int
    options: tuple[str, ...]
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

    def stop(self) -> None:
        self._daemon.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # where another daemon of this node is there
            self._folder.parent.rmdir()


class AgentActor(_Actor):
    """Its daemon starts when the coordinator has said where it is."""

    def __init__(self, settings: Settings):
        self._coordinator: Optional[str] = None
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


class CoordinatorActor(_Actor):
    """Keeps a daemon, and brings an agent to each node that comes."""

    def __init__(self, settings: Settings):
        self._address = str(ray.util.get_node_ip_address())
        self._port = settings.port
        self._agents: dict[str, tuple[Any, Any]] = {}  # by node: its actor, and the last call
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

    def stop(self) -> None:
        self._stopping.set()
        self._reconciler.join()  # no agent is made after this
        super().stop()

    def _reconcile(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self._bring_agents()
            except Exception as problem:  # of Ray's; the next look may go better
                print(f"batchflow: {type(problem).__name__}: {problem}", flush=True)

    def _bring_agents(self) -> None:
        nodes = {node["NodeID"] for node in ray.nodes()
                 if node["Alive"] and node["Resources"].get("CPU", 0) >= self._settings.num_cpus}
        for node, actor in _agents(without=nodes):
            ray.kill(actor)  # Ray would go on looking for a node that is gone
            self._agents.pop(node, None)
        if self._port:  # its daemon has been started
            for node in nodes:
                self._tell(node)

    def _tell(self, node: str) -> None:
        actor, call = self._agents.get(node, (None, None))
        if actor is not None and not ray.wait([call], timeout=0)[0]:
            return  # it has not been placed yet, or is being started again
        try:
            if actor is not None:
                ray.get(call)
        except ray.exceptions.RayError:
            actor = None  # one that is only away is found again by its name
        if actor is None:
            actor = _agent(node, self._settings)
        self._agents[node] = actor, actor.join.remote(f"tcp://{self._address}:{self._port}")


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
          options: Sequence[str] = (), node: Optional[str] = None) -> None:
    """Starts the service of this Ray cluster, and returns when its coordinator listens. Does nothing
    if it runs already with these arguments. Agents come within seconds, and jobs wait for them.

    `state`: where the coordinator keeps what it must remember; if it is to be started again on
    another node, a path that all nodes share. `num_cpus` and `memory`: what an agent takes of its
    node. `port`: of the coordinator; 0: any. `options`: of batchflowd, for all nodes. `node`: where
    the coordinator runs as long as that node is there; by default this one.
    """
    settings = Settings(tuple(f"{name}={path}" for name, path in datasets.items()),
                        os.path.abspath(os.fspath(state)), num_cpus, memory, coordinator_memory,
                        port, tuple(options), secrets.token_hex(32))
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
    """Of each actor that answers: its node, role, socket, the processes of its daemon (None while it
    does not listen) and of itself, and how often it has started its daemon."""
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
