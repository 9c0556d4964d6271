"""A buffer of a job with ranks on several nodes: one for all, drawn from alike wherever exemplars are
kept."""

import json
import os
import subprocess
import sys
import unittest
from collections import Counter

from support import rest_of, write_rows
from test_cluster import Cluster
from test_orders import hash_of
from test_rehearsal import number_of

ROWS, BATCH, REHEARSED, EXEMPLARS, EPOCHS = 600, 12, 4, 50, 5

# One rank. Per epoch it tells the new keys and the rehearsed ones.
RANK = """
import json, sys, time
import batchflow
rank, batch_size, rehearsed, exemplars, epochs = map(int, sys.argv[1:])
loader = batchflow.DataLoader(
    "rows", batch_size, True, order="strict", shuffle_seed=1, rank=rank, world_size=2, job_name="wide",
    output="dlpack", epochs=epochs,
    rehearsal={"policy": "reservoir", "samples": exemplars, "rehearsed": rehearsed, "name": "wide"})
epochs_had = []
for epoch in range(epochs):
    new, old = [], []
    for batch in loader:
        keys = batch.sample_keys.tolist()
        own = batch.samples - batch.fillers - batch.rehearsed
        new += keys[:own]
        old += keys[own + batch.fillers:]
        if epoch == 2 and not old[rehearsed:]:
            print("began", flush=True)
        time.sleep(0.01 if epoch == 2 else 0)
    epochs_had.append({"new": new, "old": old, "buffer": loader.exemplars().keys})
print(json.dumps({"epochs": epochs_had, "dataset": loader.state_dict()["dataset"]}), flush=True)
"""


class OverNodes(Cluster):
    def make_data(self):
        write_rows(self.data / "rows.npy", ROWS)

    def ranks(self):
        jobs = []
        for rank, name in enumerate("ab"):
            node = self.agent(name)
            job = subprocess.Popen(
                [sys.executable, "-c", RANK,
                 *map(str, (rank, BATCH, REHEARSED, EXEMPLARS, EPOCHS))],
                env={**os.environ, "BATCHFLOW_SERVICE": node.socket}, stdout=subprocess.PIPE,
                text=True)
            self.addCleanup(job.kill)
            jobs.append(job)
        return jobs

    def check(self, jobs):
        results = [json.loads(rest_of(job)[0].splitlines()[-1]) for job in jobs]
        dataset, number = int(results[0]["dataset"], 16), number_of("wide", os.getuid())
        kept = sorted(sorted(range(ROWS), key=lambda key: hash_of(13, dataset, number, key))
                      [:EXEMPLARS])
        for epoch in range(EPOCHS):
            one, other = (result["epochs"][epoch] for result in results)
            self.assertEqual(sorted(one["new"] + other["new"]), list(range(ROWS)))
            self.assertEqual(one["buffer"], other["buffer"])
            self.assertEqual(one["buffer"], kept if epoch else [])
            counts = Counter(one["old"] + other["old"])
            if epoch:
                self.assertEqual(sorted(counts), kept)
                self.assertLessEqual(max(counts.values()) - min(counts.values()), 1)

    def test_all_ranks_draw_alike_from_one_buffer(self):
        self.check(self.ranks())

    def test_a_coordinator_that_is_killed_changes_nothing(self):
        jobs = self.ranks()
        self.assertEqual(jobs[0].stdout.readline(), "began\n")
        self.coordinator.end()
        self.coordinator.start()
        self.check(jobs)


if __name__ == "__main__":
    unittest.main()
