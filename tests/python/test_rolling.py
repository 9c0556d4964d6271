"""Nodes of a cluster are restarted and upgraded one after the other, while jobs run at all of
them."""

import contextlib
import os
import re
import signal
import subprocess
import unittest

from support import CTL, DAEMON, status, wait_until
from test_cluster import JOB, Cluster, Job, say_recovery
from test_takeover import Candidates, term

# It begins its last epoch once there is such a file.
PATIENT_JOB = JOB.replace("import hashlib,", "import hashlib, os,").replace(
    "for epoch in range(epochs):\n", """for epoch in range(epochs):
    while epoch == epochs - 1 and not os.path.exists(os.environ["GO_ON"]):
        time.sleep(0.01)
""")


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
        say_recovery(jobs, "each node is restarted")
        self.check_all_end()

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


NEXT_MINOR = os.environ.get("BATCHFLOW_NEXT_MINOR", "")
NEXT_PROTOCOL = os.environ.get("BATCHFLOW_NEXT_PROTOCOL", "")


def version_of(program):
    said = subprocess.run([program, "--version"], check=True, stdout=subprocess.PIPE, text=True,
                          timeout=60).stdout
    return said.split()[1]


@unittest.skipUnless(NEXT_MINOR, "the service is built without clusters")
class Versions(Cluster):
    """Nodes of this version, and of the next minor one: programs of their own."""

    def setUp(self):
        super().setUp()
        self.own, self.next = version_of(DAEMON), version_of(NEXT_MINOR)
        major, minor, _ = map(int, self.own.split("."))
        self.assertEqual(self.next, f"{major}.{minor + 1}.0")

    def change(self, node, program):
        """Ends a node, and starts it as another program."""
        self.assertEqual(node.end(signal.SIGTERM), 0)
        node.command[0] = program
        node.start()

    def test_nodes_one_minor_version_apart_work_together(self):
        [expected] = self.strict_results(2)
        said = r"it is version {}, and this node is version {}; both speak version \d+ of"
        for ours, theirs in [(DAEMON, NEXT_MINOR), (NEXT_MINOR, DAEMON)]:
            self.change(self.coordinator, ours)
            name = f"other-than-{version_of(ours)}"
            other = self.agent(name, program=theirs)
            same = self.agent(f"as-{version_of(ours)}", program=ours)
            for job in [self.strict_job(node, 2) for node in [self.coordinator, other, same]]:
                self.assertEqual(job.result(), expected)
            a, b = re.escape(version_of(ours)), re.escape(version_of(theirs))
            self.assertRegex(self.coordinator.text(), rf"'{name}': {said.format(b, a)}")
            self.assertRegex(other.text(), r"the coordinator at \S+: " + said.format(a, b))
            self.assertEqual({one["name"]: one["version"] for one in self.nodes().values()},
                             {name: version_of(theirs), same.folder.name: version_of(ours)})
            self.assertNotIn(f"'{same.folder.name}': it is version", self.coordinator.text())
            self.assertNotIn("it is version", same.text())
            table = subprocess.run([CTL, "--service", self.coordinator.socket, "nodes"], check=True,
                                   stdout=subprocess.PIPE, text=True, timeout=60).stdout
            for version in (self.own, self.next):
                self.assertIn(f" {version} ", table)
            for agent in (other, same):
                self.assertEqual(agent.end(signal.SIGTERM), 0)
        self.check_all_end()

    def check_refused(self, node, ours, theirs):
        """The numbers of the protocols of the coordinator and of the agent, as they were said."""
        self.assertEqual(node.process.wait(30), 2)
        said = (rf"the coordinator {re.escape(ours)} speaks version (\d+) of the nodes' protocol, "
                rf"and the agent {re.escape(theirs)} speaks version (\d+); install the same version "
                "on both")
        self.assertRegex(node.text(), "refuses this agent: " + said)
        found = wait_until(lambda: re.findall("was refused: " + said, self.coordinator.text()), 20,
                           "the coordinator's line")
        return [int(number) for number in found[-1]]

    def test_a_node_of_the_next_protocol_is_refused_by_both_and_both_sides_say_why(self):
        for ours, theirs in [(DAEMON, NEXT_PROTOCOL), (NEXT_PROTOCOL, DAEMON)]:
            self.change(self.coordinator, ours)
            job = Job(self.coordinator, epochs=2, pause=0.002)
            job.begun()
            node = self.agent(f"of-{version_of(theirs)}", program=theirs, joins=False, waits=False)
            a, b = self.check_refused(node, version_of(ours), version_of(theirs))
            self.assertEqual(b - a, 1 if theirs == NEXT_PROTOCOL else -1)
            self.check_epochs(job.result(), 2)
            self.assertEqual(self.nodes(), {})
        self.check_all_end()

    def test_an_agent_of_which_the_protocol_alone_is_known_is_refused(self):
        """The other fields of its greeting are another protocol's."""
        for number in [1, 99]:
            version = f"0.{number}.9"
            greeting = {"version": version, "protocol": number, "name": None, "more": [{}]}
            node = self.agent_over({"changes": {"agent": greeting}}, f"of-{number}", waits=False)
            self.assertEqual(self.check_refused(node, self.own, version)[1], number)
        self.assertEqual(self.nodes(), {})

    def test_nodes_are_upgraded_one_after_the_other_while_jobs_run(self):
        """And back again, as after an upgrade that was a mistake. The coordinator comes last."""
        [expected] = self.strict_results(10)
        agents = [self.agent(name) for name in "ab"]
        nodes = [self.coordinator, *agents]
        go_on = self.folder / "go-on"
        os.environ["GO_ON"] = str(go_on)
        jobs = [Job(node, 10, 0.003, PATIENT_JOB) for node in nodes]
        strict = [self.strict_job(node, 10, pause=0.003, code=PATIENT_JOB) for node in nodes[:2]]
        for job in jobs + strict:
            job.begun()
        for program in (NEXT_MINOR, DAEMON):
            for node in [*agents, self.coordinator]:
                self.change(node, program)
                self.wait_for_nodes({"a", "b"})
            self.assertEqual([one["version"] for one in self.nodes().values()],
                             [version_of(program)] * 2)
        for job in jobs + strict:
            self.assertIsNone(job.process.poll())
        go_on.touch()
        for job in jobs:
            self.check_epochs(job.result(), 10)
        for job in strict:
            self.assertEqual(job.result(), expected)
        say_recovery(jobs + strict, "all nodes are upgraded, and back again")
        self.check_all_end()


if __name__ == "__main__":
    unittest.main()
