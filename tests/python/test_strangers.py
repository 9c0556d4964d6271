"""What a node meets that is none of its cluster, cannot be reached, or is not what it says it
is."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

from support import wait_until  # noqa: E402
from test_cluster import TOKEN, Cluster, Job  # noqa: E402
from test_partition import PROBLEM, OnHosts  # noqa: E402

HEAD = struct.Struct("=IIQ")  # of a frame: its kind, nothing, its bytes
SERVICE_VERSION = Path(__file__).resolve().parents[2] / "runtime/service/service_version.cpp"
CLOCK = os.environ.get("BATCHFLOW_JUMPING_CLOCK", "")


def frame(text):
    return HEAD.pack(1, 0, len(text)) + text


class Stranger:
    """Listens, says the same to each that connects, and hears nothing."""

    def __init__(self, says, closes=False):
        self.says, self.closes = says, closes
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp://127.0.0.1:%d" % self.listening.getsockname()[1]
        self.open = [self.listening]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one = self.listening.accept()[0]
                self.open.append(one)
                with contextlib.suppress(OSError):
                    one.sendall(self.says)
                if self.closes:
                    one.shutdown(socket.SHUT_RDWR)

    def close(self):
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class OtherAddresses(Cluster):
    """What listens at an address is no coordinator."""

    def test_an_agent_says_what_it_met_and_goes_on_to_the_next_address(self):
        strangers = {
            "does not answer as one: there is no frame of kind": Stranger(
                b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
            "there is no frame of kind 67305985": Stranger(bytes(range(1, 200))),
            "it sent nonsense": Stranger(HEAD.pack(1, 0, 1 << 62)),
            "a message that is no JSON object": Stranger(frame(b"xff[]")),
            "a message without 'type'": Stranger(frame(b"{}")),
            "a message of type 'hello'": Stranger(frame(b'{"type": "hello"}')),
            "a message without 'node'": Stranger(
                frame(b'{"type": "welcome", "cluster": "", "term": 0}')),
            "the other side has closed|Broken pipe|reset by peer": Stranger(b"", closes=True),
            "does not answer as one: the other side has sent nothing": Stranger(b""),
        }
        for one in strangers.values():
            self.addCleanup(one.close)
        addresses = [*(one.address for one in strangers.values()), f"tcp://127.0.0.1:{self.port}"]
        agent = self.member("a", "--join", ",".join(addresses))
        self.wait_for_nodes({"a"})
        self.check_epochs(Job(agent).result())
        for said, stranger in strangers.items():
            self.assertRegex(agent.text(), f"no coordinator at {stranger.address}: .*({said})")

    def test_a_coordinator_and_an_agent_send_strangers_away(self):
        agent = self.agent("a")
        port = int(self.nodes()["a"]["address"].rsplit(":", 1)[1])
        jobs = [Job(node, epochs=3, pause=0.002) for node in [self.coordinator, agent]]
        for job in jobs:
            job.begun()
        says = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(200), HEAD.pack(1, 0, 1 << 62),
                frame(b'{"type": "token"}'),
                frame(b'{"type": "token", "token": "?", "as": "agent"}'),
                frame(b'{"type": "token", "token": "?", "as": "peer"}'), b""]
        opened = []
        for one in says * 10:
            for to in (self.port, port):
                stranger = socket.create_connection(("127.0.0.1", to), 10)
                opened.append(stranger)
                with contextlib.suppress(OSError):
                    stranger.sendall(one)
        for job in jobs:
            self.check_epochs(job.result(), 3)
        for one in opened:
            one.close()
        self.assertEqual(set(self.nodes()), {"a"})


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl to make keys with")
class Authorities(Cluster):
    def setUp(self):
        self.made = {}
        super().setUp()

    def certificate(self, name):
        """A key and a certificate for 127.0.0.1, which is its own authority."""
        folder = self.folder / f"authority-{name}"
        if name not in self.made:
            folder.mkdir()
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
                            "-days", "2", "-subj", "/CN=127.0.0.1",
                            "-addext", "subjectAltName=IP:127.0.0.1",
                            "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                           check=True, stderr=subprocess.DEVNULL, timeout=60)
            self.made[name] = folder
        return ["--tcp-certificate", str(folder / "cert.pem"), "--tcp-key", str(folder / "key.pem")]

    def expired(self):
        """A key and a certificate that our authority signed, and that held until yesterday."""
        folder = self.made["expired"] = self.folder / "authority-expired"
        folder.mkdir()
        (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
        ours = self.made["ours"]
        for words in (["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1",
                       "-keyout", folder / "key.pem", "-out", folder / "asked.pem"],
                      ["x509", "-req", "-in", folder / "asked.pem", "-CA", ours / "cert.pem",
                       "-CAkey", ours / "key.pem", "-set_serial", "7", "-days", "-1", "-extfile",
                       folder / "extensions", "-out", folder / "cert.pem"]):
            subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL, timeout=60)

    def node(self, name, *arguments, **more):
        if name == "coordinator":
            arguments += (*self.certificate("ours"), "--cluster-authorities",
                          str(self.made["ours"] / "cert.pem"))
        return super().node(name, *arguments, **more)

    def agent(self, name, own="ours", trusts="ours", scheme="tls", **more):
        self.certificate(trusts)
        return self.member(name, "--join", f"{scheme}://127.0.0.1:{self.port}",
                           "--cluster-authorities", str(self.made[trusts] / "cert.pem"),
                           *self.certificate(own), **more)

    def test_a_coordinator_of_another_authority_is_not_joined(self):
        agent = self.agent("a", trusts="others")
        wait_until(lambda: "certificate verify failed" in agent.text(), 30, "the complaint")
        self.assertIn("--cluster-authorities names the authorities that are trusted", agent.text())
        self.assertEqual(self.nodes(), {})
        plain = self.agent("b", scheme="tcp", waits=False)
        self.assertEqual(plain.process.wait(30), 2)
        self.assertIn("this port speaks only TLS; write tls://HOST:PORT", plain.text())
        self.assertEqual(agent.end(signal.SIGTERM), 0)
        right = self.agent("c")
        self.wait_for_nodes({"c"})
        self.check_epochs(Job(right).result())

    def test_an_agent_of_another_authority_stays_outside_and_both_sides_say_why(self):
        """Its token lets it in; no other node could fetch from it."""
        agents = [self.agent("a"), self.agent("b", own="others")]
        said = r"this coordinator cannot reach 'b' at tls://\S+: .*certificate verify failed .*; " \
               r"--cluster-authorities names the authorities"
        for node in [self.coordinator, agents[1]]:
            wait_until(lambda: re.search(said, node.text()), 30, "the complaint")
        self.wait_for_nodes({"a"})
        for job in [Job(node) for node in [self.coordinator, agents[0]]]:
            self.check_epochs(job.result())
        self.assertEqual(set(self.nodes()), {"a"})
        self.assertEqual(agents[1].text().count("this coordinator cannot reach"), 1)
        self.come_back_with_ours(agents[1], "others")
        self.assertEqual(set(self.nodes()), {"a", "b"})

    def test_an_agent_with_an_expired_certificate_stays_outside_and_both_sides_say_why(self):
        self.expired()
        agent = self.agent("b", own="expired")
        said = r"this coordinator cannot reach 'b' at tls://\S+: .*certificate has expired"
        for node in [self.coordinator, agent]:
            wait_until(lambda: re.search(said, node.text()), 30, "the complaint")
        self.check_epochs(Job(self.coordinator).result())
        self.assertEqual(self.nodes(), {})
        self.come_back_with_ours(agent, "expired")

    def come_back_with_ours(self, agent, before):
        agent.end()
        agent.command = [word.replace(f"authority-{before}", "authority-ours")
                         for word in agent.command]
        agent.start()
        self.wait_for_nodes({"b"})
        self.check_epochs(Job(agent).result())


class TakesNothing(Cluster):
    """An agent that has joined, and reads nothing of what is sent to it."""

    def node(self, name, *arguments, **more):
        if name == "coordinator":
            config = self.folder / "node.yaml"
            config.write_text(f"kind: node\ncluster: {{token_file: {self.token}, unsent: 1mib}}\n")
            arguments = ("--config", str(config), *arguments)
        return super().node(name, *arguments, **more)

    def test_its_link_ends_and_jobs_go_on(self):
        jobs = [Job(node, epochs=3, pause=0.002) for node in [self.coordinator, self.agent("a")]]
        for job in jobs:
            job.begun()
        protocol = int(re.search(r"kNodeProtocol = (\d+);", SERVICE_VERSION.read_text())[1])
        with socket.create_connection(("127.0.0.1", self.port), 30) as stranger:
            for message in (
                    {"type": "token", "token": TOKEN, "as": "agent"},
                    {"type": "agent", "protocol": protocol, "version": "of a test",
                     "name": "stranger", "state": "of a stranger", "cores": 1, "memory": 1 << 26,
                     "address": f"tcp://127.0.0.1:{self.port}", "cluster": "", "term": 0}):
                stranger.sendall(frame(json.dumps(message).encode()))
            # Each gets an answer, which waits for the stranger.
            asked = frame(json.dumps({"type": "rank", "rank": 1, "user": os.getuid(), "shown": [],
                                      "frame": '{"type": "?"}'}).encode()) * 1000
            with contextlib.suppress(ConnectionError, TimeoutError):
                for _ in range(1000):
                    stranger.sendall(asked)
            wait_until(lambda: re.search(r"node \d+ 'stranger' is lost: it takes nothing: 1 MiB wait",
                                         self.coordinator.text()), 60, "the complaint")
        for job in jobs:
            self.check_epochs(job.result(), 3)
        self.assertEqual(set(self.nodes()), {"a"})


@unittest.skipUnless(CLOCK, "no library can be preloaded here")
class Clocks(Cluster):
    def test_clocks_that_are_years_apart_change_nothing(self):
        """Those of two nodes of three, each set again twenty times a second."""
        jumps = ("env", f"LD_PRELOAD={CLOCK}")
        years = {subprocess.run([*jumps, "date", "+%Y"], stdout=subprocess.PIPE, check=True,
                                timeout=60).stdout for _ in range(12) if not time.sleep(0.06)}
        if len(years) < 4:
            self.skipTest("no library can be preloaded here")
        self.coordinator.end()
        self.coordinator.command = [*jumps, *self.coordinator.command]
        self.coordinator.start()
        agents = [self.agent("a", before=jumps), self.agent("b")]
        options = {"order": "strict", "shuffle_seed": 3}
        expected = Job(agents[1], epochs=4, **options).result()
        jobs = [Job(node, epochs=4, pause=0.003, **options) for node in [self.coordinator, *agents]]
        for job in jobs:
            job.begun()
        for node in [self.coordinator, agents[0]]:
            node.end()
            node.start()
            self.wait_for_nodes({"a", "b"})
        for job in jobs:
            self.assertEqual(job.result(), expected)


class LessMemory(Cluster):
    """The machine of an agent gives less memory than the agent has said it may take."""

    SHORT = ("service.slab.make=fail:0.2,service.slot.fill=fail:0.02,service.items.fill=fail:0.5,"
             "service.prepare.memory=fail:0.02,seed=4")

    def test_an_agent_gets_less_memory_than_it_said(self):
        agent = self.agent("a", before=("env", f"BATCHFLOW_FAILPOINTS={self.SHORT}"))
        for order in ("relaxed", "strict"):
            options = {"order": order, "shuffle_seed": 3}
            for job in [Job(node, **options) for node in [agent, self.coordinator]]:
                self.check_epochs(job.result())
        self.assertIsNone(agent.process.poll())


@unittest.skipIf(PROBLEM, PROBLEM)
class HalfOpen(OnHosts):
    def test_two_agents_that_reach_the_coordinator_and_not_one_another(self):
        """What they had open to each other stays open, and nothing comes of it. One of them is left
        out, and comes back when there is a way."""
        quick = ["--lost-after", "0.5"]
        first = self.member("a", "--dataset", f"rows={self.data}", "--tcp",
                            f"{self.hosts.address('a')}:9838", *quick)
        for name in "bc":
            self.member(name, "--join", f"tcp://{self.hosts.address('a')}:9838", *quick)
        self.wait_for_agents(first, "bc")
        jobs = {name: Job(node, epochs=4, pause=0.003, order="relaxed", shuffle_seed=seed)
                for seed, (name, node) in enumerate(self.nodes.items())}
        for job in jobs.values():
            job.begun()
        for here, there in ("bc", "cb"):
            self.hosts.lose_way(here, there)
        said = wait_until(lambda: re.search(r"node '([bc])' cannot reach it at tcp://(\S+?):",
                                            first.text()), 30, "the complaint")
        out = "c" if said[1] == "b" else "b"
        self.assertEqual(said[2], self.hosts.address(out))
        for name in {"a", "b", "c"} - {out}:
            self.check_epochs(jobs[name].result(), 4)
        for here, there in ("bc", "cb"):
            self.hosts.find_way(here, there)
        self.wait_for_agents(first, "bc")
        self.check_epochs(jobs[out].result(), 4)


if __name__ == "__main__":
    unittest.main()
