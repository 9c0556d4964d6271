"""`batchflow-sim sweep --engine ray`: the results of one machine, whatever is lost meanwhile."""

import os
import re
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from batchflow import ray_sweep
from ray_cluster import ENVIRONMENT, RayCluster
from support import Folder, needs, wait_until

SIM = os.environ.get("BATCHFLOW_SIM", "")
SCENARIO = """
kind: scenario
name: small
cluster: {nodes: [{name: node, cores: 4, gpus: 4, memory: 1gb}], store: {bytes_per_s: 4mb}}
datasets: [{name: data, samples: 6400, bytes: 10kb}]
pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]
jobs: [{dataset: data, pipeline: train, count: 2, batch: 16, step: 20ms, step_jitter: 0.2, epochs: EPOCHS}]
grain: {items_per_block: 16}
"""
GRID = """
kind: study
scenario: ./scenario.yaml
policies: [preset=independent, preset=default]
grid: {cluster.store.bytes_per_s: [1mb, 10mb]}
seeds: 3
"""
WARM = """
kind: study
scenario: ./scenario.yaml
warm_start: {at: 1s}
grid: {engine.credits: [2, 4]}
seeds: 2
"""


def can_simulate():
    return bool(SIM) and b"libsimgrid.so" in Path(SIM).read_bytes()


def without_times(text):
    return re.sub(r'"wall_s": ?[-+.e0-9]+', '"wall_s":0', text)


def parts_of_sweeps():
    """The processes on this machine that make parts of this test's sweeps."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[0] == SIM and "sweep-part" in words:
            found.append(int(folder.name))
    return found


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


class Sweeping(Folder):
    def study(self, text, epochs=1):
        (self.folder / "scenario.yaml").write_text(SCENARIO.replace("EPOCHS", str(epochs)))
        study = self.folder / "study.yaml"
        study.write_text(text)
        return study

    def command(self, study, out, *options):
        return [SIM, "sweep", str(study), "--out", str(self.folder / f"{out}.jsonl"),
                f"--csv={self.folder / out}.csv", f"--json={self.folder / out}.json", *options]

    def sweep(self, study, out, *options, **environment):
        return subprocess.run(self.command(study, out, *options), stderr=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE, timeout=300,
                              env={**os.environ, **environment})

    def check_same(self, a, b):
        for kind in ("jsonl", "csv", "json"):
            texts = [without_times((self.folder / f"{one}.{kind}").read_text()) for one in (a, b)]
            self.assertEqual(*texts)


class OnRay(RayCluster, Sweeping):
    def setUp(self):
        super().setUp()
        os.environ["RAY_ADDRESS"] = self.cluster.address
        # `python3` is the interpreter that has Ray.
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@unittest.skipUnless(can_simulate(), "batchflow-sim was built without SimGrid")
@needs("ray")
class Sweeps(OnRay):
    def test_results_are_those_of_one_machine(self):
        for text in (GRID, WARM):
            with self.subTest(text=text):
                study = self.study(text)
                for out, options in (("here", []), ("there", ["--engine", "ray"])):
                    made = self.sweep(study, out, *options)
                    self.assertEqual(made.returncode, 0, made.stderr)
                self.check_same("here", "there")
                for file in self.folder.glob("*here.*"):
                    file.unlink()

    def wait_for_half(self):
        """Until there are results, and both nodes make more: each has three CPUs."""
        log = self.folder / "there.jsonl"
        wait_until(lambda: len(parts_of_sweeps()) > 3 and log.read_text().count("\n") > 1, 240,
                   "a result")

    def test_a_worker_and_a_node_are_lost(self):
        study = self.study(GRID, epochs=100)
        made = []
        sweep = threading.Thread(target=lambda: made.append(
            self.sweep(study, "there", "--engine", "ray")))
        sweep.start()
        self.addCleanup(sweep.join)
        self.wait_for_half()
        # What workers of a lost node still finish counts, so a worker is killed, too.
        os.kill(parent(parent(parts_of_sweeps()[0])), signal.SIGKILL)
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)
        sweep.join()
        self.assertEqual(made[0].returncode, 0, made[0].stderr)
        self.assertRegex(made[0].stderr, "runs are made again")
        self.assertEqual(self.sweep(study, "here").returncode, 0)
        self.check_same("here", "there")

    def test_an_interrupt_ends_all(self):
        study = self.study(GRID, epochs=100)
        sweep = subprocess.Popen(self.command(study, "there", "--engine", "ray"),
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(sweep.kill)
        self.wait_for_half()
        sweep.send_signal(signal.SIGINT)
        err = sweep.communicate(timeout=60)[1]
        self.assertEqual(sweep.returncode, 130, err)
        self.assertIn("--resume makes the rest", err)
        wait_until(lambda: not parts_of_sweeps(), 15, "the end of all runs")
        rest = self.sweep(study, "there", "--engine", "ray", "--resume")
        self.assertEqual(rest.returncode, 0, rest.stderr)
        self.assertEqual(self.sweep(study, "here").returncode, 0)
        self.check_same("here", "there")

    def test_bad_input_is_said_once(self):
        refused = self.sweep(self.study(WARM.replace("1s", "10h")), "there", "--engine", "ray")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("all jobs are done before", refused.stderr)


@unittest.skipUnless(can_simulate(), "batchflow-sim was built without SimGrid")
@needs("ray")
class OtherVersions(OnRay):
    def add_node(self):
        other = self.folder / "other-sim"
        other.write_text("#!/bin/sh\necho batchflow-sim 0.0.1\n")
        other.chmod(0o755)
        return super().add_node(env_vars={"BATCHFLOW_SIM": str(other)})

    def test_a_node_with_another_version_is_named(self):
        refused = self.sweep(self.study(GRID), "there", "--engine", "ray")
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stderr, "node 127.* has batchflow-sim 0.0.1, and this sweep was "
                         "begun by batchflow-sim [1-9.]*")
        logs = Path(self.cluster.head_node.get_logs_dir_path())
        self.assertTrue(any("has batchflow-sim 0.0.1" in log.read_text(errors="replace")
                            for log in logs.glob("worker-*.err")))


@unittest.skipUnless(can_simulate(), "batchflow-sim was built without SimGrid")
class Alone(Sweeping):
    def test_without_ray(self):
        python = self.folder / "python3"
        python.write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")
        python.chmod(0o755)
        refused = self.sweep(self.study(GRID), "there", "--engine", "ray",
                             PATH=f"{self.folder}:{os.environ['PATH']}",
                             PYTHONPATH=ENVIRONMENT["PYTHONPATH"])
        self.assertEqual(refused.returncode, 2)
        self.assertIn("pip install 'batchflow-data[ray]'", refused.stderr)

    @needs("ray")
    def test_without_a_cluster(self):
        refused = self.sweep(self.study(GRID), "there", "--engine", "ray", RAY_ADDRESS="",
                             RAY_TMPDIR=str(self.folder),
                             PYTHONPATH=ENVIRONMENT["PYTHONPATH"],
                             PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("no Ray cluster is reached", refused.stderr)

    def test_parts_have_whole_units(self):
        units = [[i, i + 100] for i in range(100)]
        parts = ray_sweep.parts_of(units, 3)
        self.assertEqual([run for part in parts for run in part.runs], sum(units, []))
        self.assertGreaterEqual(len(parts), 12)
        self.assertEqual({len(part.runs) % 2 for part in parts}, {0})
        self.assertEqual(len(ray_sweep.parts_of([[0]], 64)), 1)
        self.assertEqual(len(ray_sweep.parts_of([[i] for i in range(100_000)], 1)[0].runs), 64)


if __name__ == "__main__":
    unittest.main()
