"""Nodes of a cluster are restarted and upgraded one after the other, while jobs run at all of
them."""

import contextlib
import json
import re
import signal
import socket
import struct
import subprocess
import threading
import unittest

from support import CTL, DAEMON, status, wait_until
from test_cluster import Cluster, Job
from test_takeover import Candidates, term


class Restarted(Candidates):
    """Each node is told to end and started again, the coordinator of the moment last."""

    def setUp(self):
        super().setUp()
        addresses = ",".join(f"tcp://127.0.0.1:{node.port}" for node in self.candidates)
        self.agents = [self.member(name, "--join", addresses) for name in "de"]
        self.wait_for_agents(self.first, 4)

    def all_are_there(self):
        """As the newest coordinator says, which may change at any time."""
        newest = max(self.candidates, key=term)
        with contextlib.suppress(subprocess.CalledProcessError):
            return sum(one["ready"] for one in status(newest.socket)["nodes"]) == 4
        return False

    def restart(self, node):
        """As a service manager does it; the next node follows when this one serves again."""
        self.assertEqual(node.end(signal.SIGTERM), 0, node.text())
        node.start()
        wait_until(self.all_are_there, 60, "all nodes")

    def restart_all(self):
        coordinator = max(self.candidates, key=term)
        for node in [*self.agents, *self.others(coordinator), coordinator]:
            self.restart(node)

    def test_every_node_is_restarted_and_each_job_has_each_sample_once(self):
        jobs = [Job(node, epochs=6, pause=0.003) for node in [*self.candidates, *self.agents]]
        for job in jobs:
            job.begun()
        self.restart_all()
        for job in jobs:
            self.assertIsNone(job.process.poll())  # it has seen all of it
        self.assertGreater(max(map(term, self.candidates)), 1)
        for job in jobs:
            self.check_epochs(job.result(), 6)
        for node in self.agents:
            self.assertIn("all is handed over", node.text())

    def test_a_strict_order_is_that_of_one_node(self):
        options = {"order": "strict", "shuffle_seed": 5}
        expected = Job(self.first, epochs=6, **options).result()
        jobs = [Job(node, epochs=6, pause=0.003, **options)
                for node in [self.first, self.others(self.first)[0], self.agents[0]]]
        for job in jobs:
            job.begun()
        self.restart_all()
        for job in jobs:
            self.assertEqual(job.result(), expected)


class Between:
    """Stands between an agent and its coordinator, and changes messages that one sends the other:
    `changes` has fields for each type of message. So a node says that it is of another version."""

    HEAD = struct.Struct("=IIQ")  # kind, nothing, bytes

    def __init__(self, port, changes):
        self.to, self.changes = port, changes
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.ends = [self.listening]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                agent = self.listening.accept()[0]
                self.ends.append(agent)
                try:
                    coordinator = socket.create_connection(("127.0.0.1", self.to), 10)
                except OSError:
                    agent.close()
                    continue
                coordinator.settimeout(None)
                self.ends.append(coordinator)
                for a, b in [(agent, coordinator), (coordinator, agent)]:
                    threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        with contextlib.suppress(OSError, EOFError), a.makefile("rb") as frames:
            while True:
                kind, _, size = self.HEAD.unpack(self.take(frames, self.HEAD.size))
                body = self.changed(kind, self.take(frames, size))
                b.sendall(self.HEAD.pack(kind, 0, len(body)) + body)
        for end in (a, b):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def take(frames, size):
        some = frames.read(size)
        if len(some) < size:
            raise EOFError
        return some

    def changed(self, kind, body):
        if kind != 1 or not body:  # only text has messages
            return body
        message = json.loads(body)
        changes = self.changes.get(message["type"])
        return json.dumps({**message, **changes}).encode() if changes else body

    def close(self):
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Versions(Cluster):
    OWN = subprocess.run([DAEMON, "--version"], check=True, stdout=subprocess.PIPE, text=True,
                         timeout=60).stdout.split()[1]
    MAJOR, MINOR, _ = map(int, OWN.split("."))
    OLDER, NEWER = f"{MAJOR}.{MINOR - 1}.0", f"{MAJOR}.{MINOR + 1}.0"

    def agent_over(self, name, changes, **more):
        between = Between(self.port, changes)
        self.addCleanup(between.close)
        return self.member(name, "--join", f"tcp://127.0.0.1:{between.port}", **more)

    def test_an_agent_and_a_coordinator_one_minor_version_apart_work_together(self):
        options = {"order": "strict", "shuffle_seed": 7}
        expected = Job(self.coordinator, epochs=2, **options).result()
        nodes = {version: self.agent_over(name, {"agent": {"version": version},
                                                 "welcome": {"version": version}})
                 for name, version in [("older", self.OLDER), ("newer", self.NEWER)]}
        same = self.agent("same")
        self.wait_for_nodes({"older", "newer", "same"})
        for job in [Job(node, epochs=2, **options) for node in [*nodes.values(), same]]:
            self.assertEqual(job.result(), expected)
        said = r"it is version {}, and this node is version {}; both speak version \d+ of"
        for name, version in [("older", self.OLDER), ("newer", self.NEWER)]:
            note = said.format(re.escape(version), re.escape(self.OWN))
            self.assertRegex(self.coordinator.text(), rf"node \d+ '{name}': {note}")
            self.assertRegex(nodes[version].text(), r"the coordinator at \S+: " + note)
            self.assertEqual(self.nodes()[name]["version"], version)
        self.assertNotIn("'same': it is version", self.coordinator.text())
        self.assertNotIn("it is version", same.text())
        table = subprocess.run([CTL, "--service", self.coordinator.socket, "nodes"], check=True,
                               stdout=subprocess.PIPE, text=True, timeout=60).stdout
        for version in [self.OLDER, self.NEWER, self.OWN]:
            self.assertIn(f" {version} ", table)

    def test_an_agent_that_speaks_another_protocol_is_refused_and_both_sides_say_why(self):
        job = Job(self.coordinator, epochs=3, pause=0.002)
        job.begun()
        for number in [1, 99]:
            version = f"0.{number}.9"
            node = self.agent_over(f"of-{number}", waits=False, changes={
                "agent": {"version": version, "protocol": number, "name": None, "more": [{}]}})
            self.assertEqual(node.process.wait(30), 2)
            said = (rf"the coordinator {re.escape(self.OWN)} speaks version \d+ of the nodes' "
                    rf"protocol, and the agent {re.escape(version)} speaks version {number}; install "
                    "the same version on both")
            self.assertRegex(node.text(), "refuses this agent: " + said)
            wait_until(lambda: re.search("was refused: " + said, self.coordinator.text()), 20,
                       "the coordinator's line")
        self.check_epochs(job.result(), 3)
        self.assertEqual(self.nodes(), {})

    def test_agents_are_upgraded_one_after_the_other_while_jobs_run(self):
        """The new version comes with the agent, and the coordinator's last."""
        old = {"agent": {"version": self.OLDER}, "welcome": {"version": self.OWN}}
        agents = [self.agent_over(name, old) for name in "ab"]
        self.wait_for_nodes({"a", "b"})
        jobs = [Job(node, epochs=5, pause=0.003) for node in [self.coordinator, *agents]]
        for job in jobs:
            job.begun()
        for agent, name in zip(agents, "ab"):
            self.assertEqual(agent.end(signal.SIGTERM), 0)
            agent.command[agent.command.index("--join") + 1] = f"tcp://127.0.0.1:{self.port}"
            agent.start()
            self.wait_for_nodes({"a", "b"})
            self.assertEqual(self.nodes()[name]["version"], self.OWN)
        self.assertEqual(self.coordinator.end(signal.SIGTERM), 0)
        self.coordinator.start()
        self.wait_for_nodes({"a", "b"})
        for job in jobs:
            self.check_epochs(job.result(), 5)


if __name__ == "__main__":
    unittest.main()
