"""`batchflowctl whatif` on a service that runs: what is foretold, applied, and compared later."""

import json
import os
import subprocess
import unittest
from pathlib import Path

from support import CTL, Daemon, Folder, wait_until

SIM = os.environ.get("BATCHFLOW_SIM", str(Path(CTL).parent / "batchflow-sim"))
SCENARIO = """
kind: scenario
name: heavy
cluster: {nodes: [{name: node, cores: 2, gpus: 2, memory: 1gb, cache: 256mb}]}
datasets: [{name: rows, samples: 256, bytes: 400kb}]
pipelines: [{name: bytes, steps: [{name: copy, cost: 100us}]}]
jobs: [{name: job, count: 2, dataset: rows, pipeline: bytes, batch: 16, step: 100us, epochs: 20000}]
"""


def can_simulate():
    return subprocess.run([SIM, "run", "toy-jobs"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=120).returncode == 0


class WhatIf(Folder):
    def setUp(self):
        super().setUp()
        node = self.folder / "node.yaml"
        node.write_text("kind: node\nengine: {preset: independent}\n")
        self.daemon = Daemon(self.folder, "--config", str(node), "--open-datasets", "--workers", "2")
        self.addCleanup(self.daemon.kill)

    def ctl(self, *words, code=0):
        done = subprocess.run([CTL, "--service", self.daemon.socket, *words], timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def start_jobs(self):
        scenario = self.folder / "heavy.yaml"
        scenario.write_text(SCENARIO)
        jobs = subprocess.Popen(
            [CTL, "--service", self.daemon.socket, "run", str(scenario), "--make-data",
             str(self.folder / "data")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(jobs.wait)
        self.addCleanup(jobs.kill)
        wait_until(lambda: len(self.jobs_with_steps(256)) == 2, 120, "two jobs that train")

    def jobs_with_steps(self, least):
        return [job for job in self.daemon.status()["jobs"]
                if job["running"] and job["steps"] >= least]

    def test_without_jobs_nothing_is_foretold(self):
        self.assertIn("no job runs", self.ctl("whatif", code=2))
        self.assertIn("nothing was applied", self.ctl("whatif", "--past"))

    def test_what_is_surely_better_is_set_and_compared_later(self):
        if not can_simulate():
            self.skipTest("batchflow-sim cannot simulate here")
        self.start_jobs()
        asked = ("whatif", "--policy", "preset=coordl,independent", "--hours", "0.002", "--seeds", "2")
        # Two jobs that hardly compute and prepare alone make all twice; if they share, they wait less.
        foretold = json.loads(self.ctl(*asked, "--json"))
        self.assertEqual(foretold["best"], "preset=coordl")
        self.assertIsNone(foretold["applied"])
        self.assertEqual(self.daemon.status()["preset"], "independent")
        self.assertIn("all jobs begin an epoch with cold caches", " ".join(foretold["left_out"]))

        shown = self.ctl(*asked, "--apply", "--measure", "0.5")
        self.assertIn("applied: preset=coordl", shown)
        self.assertEqual(self.daemon.status()["preset"], "coordl")

        before = self.daemon.status()["samples"]
        wait_until(lambda: self.daemon.status()["samples"] > before + 1000, 60, "samples")
        past = json.loads(self.ctl("whatif", "--past", "--json"))["applied"]
        self.assertEqual(len(past), 1)
        self.assertEqual(past[0]["policies"], ["preset=coordl"])
        self.assertGreater(past[0]["expected"]["gain_low"], 0)
        self.assertGreater(past[0]["before"]["samples_per_s"], 0)
        self.assertGreater(past[0]["since"]["samples_per_s"], 0)
        self.assertIn("gain that came", self.ctl("whatif", "--past"))

        self.assertIn("no candidate is surely better",
                      self.ctl("whatif", "--policy", "preset=independent", "--hours", "0.002"))
        self.daemon.kill()
        self.daemon.start()
        self.assertIn("the service has begun anew", self.ctl("whatif", "--past"))

    def test_what_cannot_be_applied_is_refused_before_anything_runs(self):
        self.assertIn("--apply sets policies alone",
                      self.ctl("whatif", "--apply", "--set", "cluster.nodes.0.cache=1gb", code=2))
        self.assertIn("needs an interval", self.ctl("whatif", "--apply", "--seeds", "1", code=2))
        other = self.folder / "other.yaml"
        cores = self.daemon.status()["cores"] + 1
        other.write_text(f"kind: cluster\nnodes: [{{name: n, cores: {cores}, memory: 1gb}}]\n")
        self.assertIn("measured on another machine", self.ctl("whatif", "--cluster", str(other), code=2))


if __name__ == "__main__":
    unittest.main()
