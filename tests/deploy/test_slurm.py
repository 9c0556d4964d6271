"""tools/packaging/batchflow.sbatch on three nodes that are folders, with real services and jobs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from manifests import ROOT
from support import CTL, DAEMON, Folder, wait_until, write_rows
from test_cluster import ROWS, WIDTH, free_port

SCRIPT = ROOT / "tools" / "packaging" / "batchflow.sbatch"
FAKE = Path(__file__).with_name("fake_slurm.py")
NODES = ("node-1", "node-2", "node-3")

# A rank of a training over all nodes; it leaves a file with the keys that it has had.
TRAINING = """
import json, os, sys, time
import batchflow
rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
folder, pause, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
loader = batchflow.DataLoader("rows", batch_size=16, epochs=2, job_name=os.environ["SLURM_JOB_ID"],
                              rank=rank, world_size=ranks)
keys = []
for epoch in range(2):
    keys.append([])
    for batch in loader:
        keys[-1] += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
        open(f"{folder}/began-{rank}", "w").close()
        time.sleep(pause)
json.dump(keys, open(f"{folder}/keys-{rank}", "w"))
sys.exit(code)
"""


def mounts_are_private():
    return shutil.which("unshare") is not None and subprocess.run(
        ["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, timeout=60).returncode == 0


@unittest.skipUnless(mounts_are_private(), "no mount namespace may be made here")
class Slurm(Folder):
    def setUp(self):
        super().setUp()
        data = self.folder / "rows"
        data.mkdir()
        write_rows(data / "rows.npy", ROWS, WIDTH)
        for name in ("local", "bin", "out", "fake/steps", *(f"fake/nodes/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        for name in ("srun", "scancel"):
            program = self.folder / "bin" / name
            program.write_text(f"#!{sys.executable}\n" + FAKE.read_text())
            program.chmod(0o755)
        for program in (DAEMON, CTL):
            (self.folder / "bin" / Path(program).name).symlink_to(program)
        self.environment = {
            **os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "FAKE_SLURM": str(self.folder / "fake"), "SLURM_JOB_ID": "42",
            "SLURM_JOB_NUM_NODES": str(len(NODES)), "SLURMD_NODENAME": NODES[0],
            "BATCHFLOW_LOCAL": str(self.folder / "local"), "BATCHFLOW_DATASET": f"rows={data}",
            "BATCHFLOW_ADDRESS": "127.0.0.1", "BATCHFLOW_PORT": str(free_port()),
            "BATCHFLOW_MEMORY": "384mib", "BATCHFLOW_WORKERS": "1"}

    def start(self, *words):
        """The batch script runs on the first node."""
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            job = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$BATCHFLOW_LOCAL" && exec "$@"',
                 self.folder / "fake" / "nodes" / NODES[0], "bash", SCRIPT, *words],
                env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        if job.poll() is None:
            job.kill()
            job.wait(60)
        for step in (self.folder / "fake" / "steps").iterdir():
            try:
                os.killpg(int(step.name), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def train(self, pause=0.0, code=0, tasks=2):
        return self.start(f"--ntasks-per-node={tasks}", sys.executable, "-c", TRAINING,
                          str(self.folder / "out"), str(pause), str(code))

    def assert_all_is_gone(self):
        self.assertEqual(list((self.folder / "fake" / "steps").iterdir()), [], self.log.read_text())
        for node in NODES:
            self.assertEqual(list((self.folder / "fake" / "nodes" / node).iterdir()), [])
        # A service that had outlived its step would still have its socket's path in its words.
        left = [path for path in Path("/proc").glob("[0-9]*/cmdline")
                if str(self.folder).encode() in self.words(path)]
        self.assertEqual(left, [])

    def words(self, path):
        try:
            return path.read_bytes()
        except OSError:  # it has ended
            return b""

    def test_ranks_on_all_nodes_get_each_sample_once(self):
        job = self.train()
        self.assertEqual(job.wait(120), 0, self.log.read_text())
        ranks = [json.loads(path.read_text()) for path in (self.folder / "out").glob("keys-*")]
        self.assertEqual(len(ranks), 2 * len(NODES))
        for epoch in range(2):
            self.assertEqual(sorted(key for rank in ranks for key in rank[epoch]), list(range(ROWS)))
        self.assert_all_is_gone()

    def test_it_ends_with_the_code_of_the_training(self):
        self.assertEqual(self.train(code=3, tasks=1).wait(120), 3, self.log.read_text())
        self.assert_all_is_gone()

    def test_its_time_is_over(self):
        job = self.train(pause=0.2, tasks=1)
        wait_until(lambda: len(list((self.folder / "out").glob("began-*"))) == len(NODES), 60,
                   "the training")
        for node in NODES:
            token = self.folder / "fake" / "nodes" / node / "batchflow-42" / "token"
            self.assertEqual((token.stat().st_mode & 0o777, token.parent.stat().st_mode & 0o777),
                             (0o600, 0o700))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(60), 143, self.log.read_text())
        self.assert_all_is_gone()

    def test_a_folder_that_is_there_already_is_not_used(self):
        (self.folder / "fake" / "nodes" / NODES[1] / "batchflow-42").mkdir()
        self.assertEqual(self.train().wait(60), 1, self.log.read_text())
        self.assertIn("File exists", self.log.read_text())
        self.assertIn("the service has ended", self.log.read_text())
        self.assertEqual(list((self.folder / "fake" / "steps").iterdir()), [])

    def test_it_says_what_it_misses(self):
        del self.environment["BATCHFLOW_DATASET"]
        self.assertNotEqual(self.train().wait(60), 0)
        self.assertIn("BATCHFLOW_DATASET: write NAME=PATH", self.log.read_text())


if __name__ == "__main__":
    unittest.main()
