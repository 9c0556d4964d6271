"""A service over several nodes: a coordinator and its agents, each a process with memory, workers
and a socket of its own, on loopback."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
import urllib.request

from links import Link
from support import (CTL, DAEMON, Folder, free_port, listens, processes_in, rest_of, status,
                     wait_until, write_rows)

TOKEN = "0123456789abcdef" * 4
ROWS = 6000
WIDTH = 32

# Trains on `rows` for some epochs. Its first line goes out after the first batch; its last has, for
# each epoch, the samples as they came, one sum over all bytes of all batches, and how long it waited
# for a batch at most, after the first.
JOB = """
import hashlib, json, sys, time
import batchflow
epochs, pause, options = int(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])
loader = batchflow.DataLoader("rows", batch_size=16, epochs=epochs, **options)
content, all_keys, asked, longest = hashlib.sha256(), [], None, 0.0
for epoch in range(epochs):
    keys = []
    for batch in loader:
        if asked is None:
            print("began", flush=True)
        else:
            longest = max(longest, time.monotonic() - asked)
        rows = batch[0]
        for key, row in zip(batch.sample_keys, rows):
            keys.append(int(key))
            assert int(row[0]) == int(key) * 7 and int(row[-1]) == (int(key) + WIDTH - 1) * 7
            content.update(row.tobytes())
        if pause:
            time.sleep(pause)
        asked = time.monotonic()
    all_keys.append(keys)
print(json.dumps({"keys": all_keys, "content": content.hexdigest(), "longest_wait_s": longest}),
      flush=True)
""".replace("WIDTH", str(WIDTH))


class Node:
    def __init__(self, folder, *arguments, memory="384mib", http=-1, waits=True, before=(),
                 program=DAEMON):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.socket = str(folder / "b.sock")
        self.log = folder / "log"
        self.command = [*before, program, "--socket", self.socket, "--state", str(folder / "state"),
                        "--memory", memory, "--workers", "1", "--http", str(http), *arguments]
        self.start(waits)

    def start(self, waits=True):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        if waits:
            wait_until(lambda: listens(self.socket), 60, "batchflowd")

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def text(self):
        return self.log.read_text()


class Job:
    def __init__(self, node, epochs=1, pause=0.0, code=JOB, **options):
        env = dict(os.environ, BATCHFLOW_SERVICE=node.socket)
        if sanitizer := os.environ.get("BATCHFLOW_SANITIZER"):
            env["LD_PRELOAD"] = sanitizer  # which the client library was built with
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(epochs), str(pause), json.dumps(options)], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begun(self):
        line = self.process.stdout.readline()
        assert line == "began\n", line + self.process.stderr.read()

    def result(self, seconds=120):
        out, problem = rest_of(self.process, seconds)
        assert self.process.returncode == 0, problem
        result = json.loads(out.splitlines()[-1])
        if isinstance(result, dict):  # of JOB
            self.longest_wait_s = result.pop("longest_wait_s", 0.0)
        return result


def say_recovery(jobs, fault):
    """Once the jobs have ended. How long that may be is for no test to judge."""
    longest = max(job.longest_wait_s for job in jobs)
    print(f"{fault}: a job waited {longest:.2f} s for a batch at most", flush=True)


class ClusterFolder(Folder):
    """What the nodes of a cluster share: `rows`, and the token."""

    ROWS, WIDTH = ROWS, WIDTH

    def setUp(self):
        super().setUp()
        self.started = []
        self.data = self.folder / "rows"
        self.data.mkdir()
        self.make_data()
        self.token = self.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)

    def make_data(self):
        write_rows(self.data / "rows.npy", self.ROWS, self.WIDTH)

    def node(self, name, *arguments, **more):
        node = Node(self.folder / name, *arguments, **more)
        self.addCleanup(node.end)
        self.started.append(node)
        return node

    def member(self, name, *arguments, **more):
        """A node that knows the token and its own name."""
        return self.node(name, "--cluster-token", str(self.token), "--name", name, *arguments,
                         **more)

    def strict_job(self, node, epochs, **options):
        """Whatever happens, it must have the bytes that it has alone on one node."""
        return Job(node, epochs=epochs, order="strict", shuffle_seed=11, **options)

    def strict_results(self, epochs, ranks=1, **options):
        """What each rank of a strict job has on a service that it has for itself."""
        alone = self.node("alone", "--dataset", f"rows={self.data}")
        jobs = [self.strict_job(alone, epochs, rank=rank, world_size=ranks, **options)
                for rank in range(ranks)]
        results = [job.result() for job in jobs]
        self.assertEqual(alone.end(signal.SIGTERM), 0)
        return results

    def check_epochs(self, result, epochs=1):
        self.assertEqual(len(result["keys"]), epochs)
        for keys in result["keys"]:
            self.assertEqual(sorted(keys), list(range(self.ROWS)))

    def check_all_end(self):
        """Once their jobs have ended, nodes end when they are told to, and nothing of them stays."""
        running = [node for node in self.started if node.process.poll() is None]
        for node in running:
            node.process.send_signal(signal.SIGTERM)
        for node in running:
            self.assertEqual(node.process.wait(60), 0, node.text()[-2000:])
        wait_until(lambda: not processes_in(self.folder), 10, "the end of all processes")
        # A node that was killed, and not started again, could not remove its own.
        killed = {node.socket for node in self.started if node.process.returncode == -signal.SIGKILL}
        sockets = {str(one) for one in self.folder.rglob("*") if one.is_socket()}
        self.assertEqual(sockets - killed, set())


class Cluster(ClusterFolder):
    """`rows` at a coordinator, and agents on demand."""

    COORDINATOR = ()

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.coordinator_page = free_port()
        self.coordinator = self.node("coordinator", "--dataset", f"rows={self.data}", "--tcp",
                                     f"127.0.0.1:{self.port}", "--cluster-token", str(self.token),
                                     *self.COORDINATOR, http=self.coordinator_page)

    def agent(self, name, *arguments, joins=True, **more):
        node = self.member(name, "--join", f"tcp://127.0.0.1:{self.port}", *arguments, **more)
        if joins:
            self.wait_for_nodes({name})
        return node

    def agent_over(self, link, name, *arguments, **more):
        """An agent that has `link` for all its connections: what Link takes, by name."""
        made = Link(self.port, **link)
        self.addCleanup(made.close)
        node = self.member(name, "--join", f"tcp://127.0.0.1:{made.port}", *arguments, **more)
        node.link = made
        return node

    def nodes(self):
        return {one["name"]: one for one in status(self.coordinator.socket)["nodes"]}

    def wait_for_nodes(self, names):
        wait_until(lambda: names <= {name for name, one in self.nodes().items() if one["ready"]}, 30,
                   f"agents {names}")

    def check_read_once(self, stored):
        time.sleep(1.5)  # agents report every second
        now = status(self.coordinator.socket)
        read = now["read_bytes"] + sum(one["read_bytes"] for one in now["nodes"])
        fetched = now["fetched_bytes"] + sum(one["fetched_bytes"] for one in now["nodes"])
        self.assertGreaterEqual(read, stored)
        self.assertLessEqual(read, 1.02 * stored)
        self.assertGreater(fetched, 0)


class Served(Cluster):
    def test_each_epoch_has_every_sample_once_on_every_node(self):
        nodes = [self.coordinator, self.agent("a"), self.agent("b")]
        jobs = [Job(node, epochs=2) for node in nodes]
        for job in jobs:
            self.check_epochs(job.result(), 2)
        self.assertEqual(status(self.coordinator.socket)["samples"], len(jobs) * 2 * ROWS)

    def test_a_strict_order_has_the_same_bytes_on_every_node_and_alone(self):
        [expected] = self.strict_results(2)
        nodes = [self.coordinator, self.agent("a"), self.agent("b")]
        for node in nodes:
            self.assertEqual(self.strict_job(node, 2).result(), expected)

    def test_the_store_is_read_once_for_all_nodes_and_seeds(self):
        nodes = [self.coordinator, self.agent("a"), self.agent("b")]
        for job in [Job(node, epochs=2, order="relaxed", shuffle_seed=seed)
                    for seed, node in enumerate(nodes)]:
            self.check_epochs(job.result(), 2)
        self.check_read_once(ROWS * WIDTH * 8)

    def test_a_job_has_ranks_on_several_nodes(self):
        nodes = [self.agent("a"), self.agent("b")]
        jobs = [Job(node, epochs=2, job_name="wide", rank=rank, world_size=2)
                for rank, node in enumerate(nodes)]
        results = [job.result() for job in jobs]
        for epoch in range(2):
            both = sorted(key for result in results for key in result["keys"][epoch])
            self.assertEqual(both, list(range(ROWS)))

    def test_an_agent_may_come_in_the_middle_of_an_epoch(self):
        job = Job(self.coordinator, epochs=2, pause=0.002)
        job.begun()
        late = Job(self.agent("late"), epochs=1)
        self.check_epochs(late.result())
        self.check_epochs(job.result(), 2)

    def test_the_nodes_are_shown(self):
        self.agent("a")
        answer = subprocess.run([CTL, "--service", self.coordinator.socket, "nodes"], check=True,
                                stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertIn("(this one)", answer.stdout)
        self.assertRegex(answer.stdout, r"\n1 +a +1 ")


class Files(Cluster):
    """A folder of files, each a sample."""

    FILES = 400
    BYTES = 5000

    def make_data(self):
        for label in "ab":
            (self.data / label).mkdir()
            for i in range(self.FILES // 2):
                (self.data / label / f"{i:04}.bin").write_bytes(os.urandom(self.BYTES))

    def test_the_store_is_read_once_for_all_nodes(self):
        nodes = [self.coordinator, self.agent("a"), self.agent("b")]
        code = JOB.replace("assert ", "assert True or ")
        for _ in range(2):
            for job in [Job(node, order="relaxed", shuffle_seed=seed, pipeline="bytes", code=code)
                        for seed, node in enumerate(nodes)]:
                self.assertEqual(sorted(job.result()["keys"][0]), list(range(self.FILES)))
        self.check_read_once(self.FILES * self.BYTES)


class Lost(Cluster):
    def jobs_through(self, fault, jobs_at=3):
        """Jobs on the coordinator, `a` and `b`, and strict ones on the first two, or on the first of
        these alone, go through a fault."""
        epochs = 3
        [expected] = self.strict_results(epochs)
        nodes = [self.coordinator, self.agent("a"), self.agent("b")][:jobs_at]
        jobs = [Job(node, epochs=epochs, pause=0.002) for node in nodes]
        strict = [self.strict_job(node, epochs, pause=0.002) for node in nodes[:2]]
        for job in jobs + strict:
            job.begun()
        fault()
        self.wait_for_nodes({"a", "b"})
        for job in jobs:
            self.check_epochs(job.result(), epochs)
        for job in strict:
            self.assertEqual(job.result(), expected)
        say_recovery(jobs + strict, self.id().rsplit(".", 1)[1])
        self.check_all_end()

    def kill_and_start(self, *names):
        nodes = [node for node in self.started if node.folder.name in names]
        for node in nodes:
            node.end()
        time.sleep(0.3)
        for node in nodes:
            node.start()

    def test_an_agent_is_killed_and_comes_back(self):
        self.jobs_through(lambda: self.kill_and_start("a"))

    def test_the_coordinator_is_killed_and_comes_back(self):
        self.jobs_through(lambda: self.kill_and_start("coordinator"))

    def test_the_coordinator_and_an_agent_are_killed_and_come_back(self):
        self.jobs_through(lambda: self.kill_and_start("coordinator", "a"))

    def test_all_are_killed_and_come_back(self):
        self.jobs_through(lambda: self.kill_and_start("coordinator", "a", "b"))

    def stop_and_go_on(self, name):
        [node] = [node for node in self.started if node.folder.name == name]
        node.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: name not in self.nodes(), 20, "the loss of the agent")
        node.process.send_signal(signal.SIGCONT)

    def test_an_agent_that_stands_still_is_lost_and_comes_back(self):
        self.jobs_through(lambda: self.stop_and_go_on("a"), jobs_at=1)

    def test_agents_end_when_they_are_told_to(self):
        agent = self.agent("a")
        job = Job(self.coordinator, epochs=2, pause=0.002)
        job.begun()
        self.assertEqual(agent.end(signal.SIGTERM), 0)
        self.check_epochs(job.result(), 2)
        self.assertEqual(self.nodes(), {})


    def test_an_agent_that_is_told_to_end_hands_over_what_it_keeps(self):
        stored = ROWS * WIDTH * 8
        agents = [self.agent("a"), self.agent("b")]
        self.check_epochs(Job(self.coordinator, order="relaxed", shuffle_seed=1).result())
        time.sleep(1.5)  # agents report every second
        before = status(self.coordinator.socket)
        read = before["read_bytes"] + sum(one["read_bytes"] for one in before["nodes"])
        self.assertLessEqual(read, 1.02 * stored)
        job = Job(self.coordinator, epochs=2, pause=0.003, order="relaxed", shuffle_seed=2)
        job.begun()
        self.assertEqual(agents[0].end(signal.SIGTERM), 0)
        self.assertIn("all is handed over", agents[0].text())
        self.check_epochs(job.result(), 2)
        time.sleep(1.5)
        now = status(self.coordinator.socket)
        # What the agent that has ended had read is gone from the sum.
        gone = next(one["read_bytes"] for one in before["nodes"] if one["name"] == "a")
        read_since = now["read_bytes"] + sum(one["read_bytes"] for one in now["nodes"]) + gone - read
        self.assertLess(read_since, 0.02 * stored)

    def spread_job(self, nodes, epochs, **options):
        return [Job(node, epochs=epochs, pause=0.002, job_name="wide", rank=rank,
                    world_size=len(nodes), **options)
                for rank, node in enumerate(nodes)]

    def check_spread(self, jobs, epochs):
        results = [job.result(240) for job in jobs]
        for epoch in range(epochs):
            both = sorted(key for result in results for key in result["keys"][epoch])
            self.assertEqual(both, list(range(ROWS)))
        return results

    def test_ranks_on_several_nodes_outlive_the_coordinator(self):
        expected = self.strict_results(4, ranks=3, job_name="wide")
        agents = [self.agent("a"), self.agent("b")]
        for order in ["relaxed", "strict"]:
            jobs = self.spread_job([self.coordinator, *agents], 4, order=order, shuffle_seed=11)
            for job in jobs:
                job.begun()
            for _ in range(4):
                self.coordinator.end()
                self.coordinator.start()
                self.wait_for_nodes({"a", "b"})
                time.sleep(0.3)
            results = self.check_spread(jobs, 4)
            if order == "strict":
                self.assertEqual(results, expected)

    def test_ranks_on_several_nodes_outlive_an_agent(self):
        agents = [self.agent("a"), self.agent("b")]
        jobs = self.spread_job([self.coordinator, *agents], 4)
        for job in jobs:
            job.begun()
        for agent in agents * 2:
            agent.end()
            agent.start()
            self.wait_for_nodes({"a", "b"})
            time.sleep(0.3)
        self.check_spread(jobs, 4)

    def test_agents_end_with_their_coordinator_if_all_are_told_to(self):
        for _ in range(5):
            agents = [self.agent("a"), self.agent("b")]
            for one in [self.coordinator, *agents]:
                one.process.send_signal(signal.SIGTERM)
            for one in [self.coordinator, *agents]:
                self.assertEqual(one.process.wait(20), 0)
            self.coordinator.start()


class Pages(Cluster):
    def page(self, port, path=""):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            return answer.read().decode()

    def test_an_agent_shows_its_node_and_where_the_coordinators_page_is(self):
        port = free_port()
        agent = self.agent("a", http=port)
        self.check_epochs(Job(agent).result())
        metrics = self.page(port, "metrics")
        self.assertIn('batchflow_node_ready{node="a"} 1\n', metrics)
        self.assertIn("batchflow_agent_has_coordinator 1\n", metrics)
        read = re.search(r'batchflow_node_storage_read_bytes_total\{node="a"\} (\d+)', metrics)
        self.assertGreater(int(read.group(1)), 0)
        self.assertIn(f'<a href="http://127.0.0.1:{self.coordinator_page}/">', self.page(port))
        status = json.loads(self.page(port, "status.json"))
        self.assertEqual(status["coordinator"], f"tcp://127.0.0.1:{self.port}")
        self.assertEqual([one["name"] for one in status["nodes"]], ["a"])
        self.coordinator.end()
        wait_until(lambda: "agent_has_coordinator 0" in self.page_or_nothing(port, "metrics"), 30,
                   "a page")

    def test_an_agent_shows_how_fast_it_was_in_the_last_minutes(self):
        port = free_port()
        job = Job(self.agent("a", http=port), epochs=2, pause=0.01)
        job.begun()
        for what in ("delivered to this node's ranks", "prepared on this node"):
            wait_until(lambda: re.search(f"samples/s {what}, at most [1-9]", self.page_or_nothing(port)), 60,
                       what)
        self.check_epochs(job.result(), 2)

    def test_the_coordinator_shows_an_agent_and_a_job_there(self):
        job = Job(self.agent("a"), epochs=6, pause=0.005, job_name="there")
        job.begun()
        wait_until(lambda: self.nodes()["a"]["prepared_samples"] > 0, 30, "the agent's report")
        metrics = self.page(self.coordinator_page, "metrics")
        self.assertIn('batchflow_node_ready{node="a"} 1\n', metrics)
        self.assertIn('batchflow_node_ranks{node="a"} 1\n', metrics)
        page = self.page(self.coordinator_page)
        self.assertIn('<td data-column="node"><div>a</div></td>'
                      '<td data-column="ranks"><div>1</div></td>', page)
        self.assertIn("<div>there</div>", page)
        shown = {words[0]: subprocess.run(
            [CTL, "--service", self.coordinator.socket, *words], check=True, text=True,
            stdout=subprocess.PIPE, timeout=60).stdout for words in (["top", "1"], ["jobs"])}
        self.assertRegex(shown["top"], r"\n1 +a +1 ")
        for text in shown.values():
            self.assertRegex(text, r"(?m)^there +rows ")
        self.check_epochs(job.result(), 6)

    def page_or_nothing(self, port, path=""):
        try:
            return self.page(port, path)
        except OSError:
            return ""  # between two sessions, or under load

    def test_an_agent_goes_on_without_a_page_where_its_port_is_taken(self):
        # Else the agent may be the first to listen there, as a service has its socket before its page.
        wait_until(lambda: self.page_or_nothing(self.coordinator_page, "metrics"), 30, "the page")
        agent = self.agent("a", http=self.coordinator_page)
        self.check_epochs(Job(agent).result())
        self.assertIn("no page and no metrics can be served there", agent.text())


class Quotas(Cluster):
    def limit(self, limit):
        subprocess.run([CTL, "--service", self.coordinator.socket, "quota", "set",
                        str(os.getuid()), limit], check=True, stdout=subprocess.PIPE, timeout=60)

    def connect(self, node):
        made = socket.socket(socket.AF_UNIX)
        self.addCleanup(made.close)
        made.settimeout(30)
        made.connect(node.socket)
        return made

    def test_the_coordinators_limit_of_connections_holds_at_agents(self):
        agent = self.agent("a")
        self.limit("connections=3")
        for node in [agent, self.agent("late")]:
            first = [self.connect(node) for _ in range(3)]
            wait_until(lambda: self.is_refused(self.connect(node)), 30, "the limit")
            self.assertFalse(any(map(self.is_refused, first)))
            first.pop().close()
            wait_until(lambda: not self.is_refused(self.connect(node)), 30, "room again")

    def is_refused(self, connection):
        connection.settimeout(0.2)
        try:
            answer = connection.recv(1000)
        except socket.timeout:
            return False
        self.assertIn(b"all the connections that the quota allows", answer)
        connection.close()
        return True

    def test_the_coordinators_limit_of_unfinished_messages_holds_at_an_agent(self):
        agent = self.agent("a")
        self.limit("frame_bytes=1mib")
        wait_until(lambda: self.unfinished(agent, 2), 30, "the limit")
        self.assertFalse(self.unfinished(agent, 1))

    def unfinished(self, node, messages):
        """Whether one of these messages that are not whole is refused."""
        connections = [self.connect(node) for _ in range(messages)]
        for connection in connections:
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(struct.pack("<I", 900_000) + bytes(800_000))
        refused = select.select(connections, [], [], 0.2)[0]
        for one in refused:
            self.assertIn(b"unfinished messages take too much memory", one.recv(1000))
        for one in connections:
            one.close()
        return bool(refused)


STRANGER = 54321  # a user that the machine does not know
JOB_OF_A_STRANGER = f"""
import os
from batchflow.library import library
library()  # the user may perhaps not read its folder
os.setgroups([])
os.setgid({STRANGER})
os.setuid({STRANGER})
""" + JOB


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
class OtherUsers(Cluster):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)

    def test_a_user_reads_at_an_agent_what_the_user_may_read_on_its_machine(self):
        agent = self.agent("a")
        self.check_epochs(Job(agent).result())
        for _ in range(2):
            self.data.chmod(0o700)
            job = Job(agent, code=JOB_OF_A_STRANGER)
            out, problem = rest_of(job.process, 60)
            self.assertNotEqual(job.process.returncode, 0, out)
            self.assertEqual(out, "")
            self.assertIn("RefusedError: the dataset rows lies in "
                          f"{self.data}, which cannot be opened: Permission denied", problem)
            self.data.chmod(0o755)
            self.check_epochs(Job(agent, code=JOB_OF_A_STRANGER).result())


class Refused(Cluster):
    def refused(self, folder="refused", port=None, token=None):
        node = self.node(folder, "--join", f"tcp://127.0.0.1:{port or self.port}",
                         "--cluster-token", str(token or self.token), "--name", "a", waits=False)
        self.assertEqual(node.process.wait(30), 2)
        return node.text()

    def test_a_wrong_token(self):
        wrong = self.folder / "wrong"
        wrong.write_text("f" * 64 + "\n")
        wrong.chmod(0o600)
        for _ in range(2):
            self.assertIn("does not know the node's token", self.refused(token=wrong))
        # The coordinator says it, too: once for each problem.
        said = "an agent at 127.0.0.1 was refused: this service does not know the node's token"
        wait_until(lambda: said in self.coordinator.text(), 10, "the coordinator's line")
        self.assertEqual(self.coordinator.text().count(said), 1)

    def test_a_name_that_is_taken(self):
        self.agent("a")
        self.assertIn("an agent called 'a' has joined already", self.refused())
        said = "an agent at 127.0.0.1 was refused: .*called 'a' has joined already"
        wait_until(lambda: re.search(said, self.coordinator.text()), 10, "the coordinator's line")

    def test_other_data_under_the_same_path(self):
        # The coordinator has indexed it, and then it changes.
        Job(self.coordinator).result()
        write_rows(self.data / "rows.npy", ROWS + 1, WIDTH)
        self.assertIn("is another one there", self.refused())

    def test_what_answers_is_no_coordinator(self):
        alone = self.node("alone", "--dataset", f"rows={self.data}", "--tcp", "127.0.0.1:0",
                          "--tcp-token", str(self.token))
        wait_until(lambda: "tcp://127.0.0.1:" in alone.text(), 20, "the port")
        port = alone.text().split("tcp://127.0.0.1:")[1].split()[0]
        self.assertIn("does not know the node's token", self.refused(port=port))

    def test_nothing_answers_and_then_a_coordinator_does(self):
        self.coordinator.end(signal.SIGTERM)
        node = self.agent("a", joins=False)
        wait_until(lambda: "no coordinator at" in node.text(), 20, "the complaint")
        self.coordinator.start()
        self.wait_for_nodes({"a"})


if __name__ == "__main__":
    unittest.main()
