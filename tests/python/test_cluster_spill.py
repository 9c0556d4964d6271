"""A service over several nodes. Their memory holds a part of the data, and their drives hold the
rest (--spill)."""

import shutil
import signal
import time
import unittest

from support import status, wait_until
from test_cluster import JOB, WIDTH, Cluster, Job
from test_full_drive import SmallDrive, mounts_are_private


class Drives(Cluster):
    ROWS, WIDTH = 2400, 8192  # of 64 KiB
    STORED = ROWS * WIDTH * 8
    # It divides memory by the jobs that there are, not by what it measures: what leaves memory
    # because another share is given more is not copied to the drive.
    COORDINATOR = ("--policy", "allocation=equal")

    def node(self, name, *arguments, spill=True, **more):
        """Each has a drive of its own."""
        more.setdefault("memory", "192mib")
        if spill:
            arguments = (*arguments, "--spill", f"{self.folder / name}.drive,256mib")
        return super().node(name, *arguments, **more)

    def job(self, node, epochs=3, **options):
        code = JOB.replace(f"+ {WIDTH} - 1", f"+ {self.WIDTH} - 1")
        return Job(node, epochs, code=code, **options)

    def drives(self):
        """The coordinator, and each agent."""
        now = status(self.coordinator.socket)
        return [now, *now["nodes"]]

    def wait_for_drive(self, what, holds=lambda value: value > 0):
        """Agents report every second."""
        wait_until(lambda: holds(self.drives()[1][what]), 10, f"{what} of the agent")


class Spilled(Drives):
    def test_the_store_is_read_once_where_memory_and_drives_hold_the_data(self):
        nodes = [self.coordinator, self.agent("a")]
        # What leaves memory faster than a drive takes it is read again from the store.
        for job in [self.job(node, order="relaxed", shuffle_seed=seed, pause=0.01)
                    for seed, node in enumerate(nodes)]:
            self.check_epochs(job.result(), 3)
        self.check_read_once(self.STORED)
        for one in self.drives():
            self.assertGreater(one["spill_written_bytes"], 0, one.get("name"))
            self.assertGreater(one["spill_read_bytes"], 0, one.get("name"))
            self.assertEqual(one["spill_missed"], 0, one.get("name"))

    def test_a_strict_order_has_the_same_bytes_out_of_drives(self):
        alone = self.node("alone", "--dataset", f"rows={self.data}", spill=False, memory="384mib")
        options = {"order": "strict", "shuffle_seed": 11}
        expected = self.job(alone, 2, **options).result()
        for node in [self.coordinator, self.agent("a")]:
            self.assertEqual(self.job(node, 2, **options).result(), expected)
        self.wait_for_drive("spill_written_bytes")

    def test_an_agents_drive_that_gives_other_bytes_is_given_up(self):
        agent = self.agent("a", before=("env", "BATCHFLOW_FAILPOINTS=service.spill.checksum=fail"))
        options = {"order": "strict", "shuffle_seed": 11}
        results = [self.job(node, **options).result() for node in [self.coordinator, agent]]
        self.check_epochs(results[0], 3)
        self.assertEqual(*results)
        self.assertIn("the tier is given up", agent.text())
        self.wait_for_drive("drive", lambda size: size == 0)

    def test_agents_drives_that_fail_now_and_then_cost_reads_alone(self):
        faults = "storage.spill.read=fail:0.01,storage.spill.write=fail:0.01"
        agent = self.agent("a", before=("env", f"BATCHFLOW_FAILPOINTS={faults}"))
        for job in [self.job(node, shuffle_seed=seed)
                    for seed, node in enumerate([self.coordinator, agent])]:
            self.check_epochs(job.result(), 3)
        self.wait_for_drive("spill_read_bytes")

    @unittest.skipUnless(mounts_are_private(), "no mount namespace may be made here")
    def test_an_agents_drive_that_is_full_is_as_large_as_it_is(self):
        drive = SmallDrive(self.folder / "small", 24 << 10)
        self.addCleanup(drive.close)
        before = (*drive.before, "env", "BATCHFLOW_FAILPOINTS=service.spill.reserve=fail")
        agent = self.agent("a", "--spill", f"{self.folder / 'small'},256mib", spill=False,
                           before=before)
        for job in [self.job(node, order="relaxed", shuffle_seed=seed)
                    for seed, node in enumerate([self.coordinator, agent])]:
            self.check_epochs(job.result(), 3)
        self.assertIn("the tier shrinks to", agent.text())
        self.wait_for_drive("drive", lambda size: 0 < size < 25 << 20)


class Gone(Drives):
    ROWS, STORED = 100, 100 * Drives.WIDTH * 8

    def agent_at(self, place):
        return self.agent("a", "--spill", f"{place},64mib", spill=False, joins=False, waits=False)

    def test_a_place_that_is_none_ends_an_agent_at_its_start(self):
        agent = self.agent_at("/dev/null/drive")
        self.assertEqual(agent.process.wait(60), 2)
        self.assertIn("spill: /dev/null/drive", agent.text())

    def test_a_drive_that_is_gone_when_the_coordinator_is_back_is_done_without(self):
        place = self.folder / "drives"
        place.mkdir()
        agent = self.agent_at(place / "a")
        self.wait_for_nodes({"a"})
        self.wait_for_drive("drive")
        self.coordinator.end()
        shutil.rmtree(place)
        place.write_text("no folder any more")
        self.coordinator.start()
        self.wait_for_nodes({"a"})
        self.assertIn("this agent goes on without", agent.text())
        self.wait_for_drive("drive", lambda size: size == 0)
        self.check_epochs(self.job(agent, 1).result())


class Back(Drives):
    def test_what_an_agent_has_outlives_the_coordinator(self):
        nodes = [self.coordinator, self.agent("a")]
        for job in [self.job(node, 2, shuffle_seed=seed) for seed, node in enumerate(nodes)]:
            self.check_epochs(job.result(), 2)
        self.check_read_once(self.STORED)
        own = self.drives()[0]
        lost = own["item_bytes"] + own["spill_bytes"]
        self.coordinator.end()
        self.coordinator.start()
        self.wait_for_nodes({"a"})
        for job in [self.job(node, 2, shuffle_seed=5 + seed) for seed, node in enumerate(nodes)]:
            self.check_epochs(job.result(), 2)
        time.sleep(1.5)  # agents report every second
        now = self.drives()
        self.assertLess(sum(one["read_bytes"] for one in now), lost + 0.02 * self.STORED)
        self.assertGreater(now[1]["spill_read_bytes"], 0)
        self.assertEqual(now[1]["spill_missed"], 0)


class Ends(Drives):
    ROWS = 4000  # of which the memory of two agents and the coordinator holds a part
    STORED = ROWS * Drives.WIDTH * 8

    def test_an_agent_that_is_told_to_end_hands_its_drive_over(self):
        agents = [self.agent("a"), self.agent("b")]
        self.check_epochs(self.job(self.coordinator, 2, shuffle_seed=1).result(), 2)
        time.sleep(1.5)  # agents report every second
        before = self.drives()
        self.assertGreater(before[1]["spill_written_bytes"], 0)
        job = self.job(self.coordinator, 2, pause=0.01, shuffle_seed=2)
        job.begun()
        self.assertEqual(agents[0].end(signal.SIGTERM), 0)
        self.assertIn("all is handed over", agents[0].text())
        self.check_epochs(job.result(), 2)
        time.sleep(1.5)
        now = self.drives()
        read = sum(one["read_bytes"] for one in before if one.get("name") != "a")
        self.assertLess(sum(one["read_bytes"] for one in now) - read, 0.02 * self.STORED)


if __name__ == "__main__":
    unittest.main()
