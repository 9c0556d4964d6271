"""Mixtures of jobs with ranks on several nodes of a cluster."""

import json
import os
import subprocess
import sys
import unittest

from support import rest_of, wait_until, write_rows
from test_cluster import Cluster
from test_mixture import AT, DRAWS, SIZES, Rule

# One rank. The last rank asks for other weights after its first batch.
RANK = """
import json, sys
import batchflow
rank, world, at, draws = map(int, sys.argv[1:])
weights = {"web": 0.6, "code": 0.3, "math": 0.1}
loader = batchflow.DataLoader("rows", 240 // world, mixture=weights, shuffle=True, draws=draws, rank=rank,
                              world_size=world, job_name="wide", weights_change=True, output="dlpack")
keys = []
for batch in loader:
    if not keys and rank == world - 1:
        loader.set_weights({"web": 0, "code": 1, "math": 1}, at=at)
    if not keys:
        print("began", flush=True)
    keys.append(batch.sample_keys.tolist())
state = loader.state_dict()
print(json.dumps({"keys": keys, "state": state}), flush=True)
"""


class Mixtures(Cluster):
    def make_data(self):
        for name, rows in SIZES.items():
            (self.data / name).mkdir()
            write_rows(self.data / name / "rows.npy", rows)

    def rank(self, node, rank, world):
        job = subprocess.Popen([sys.executable, "-c", RANK, *map(str, (rank, world, AT, DRAWS))],
                               env={**os.environ, "BATCHFLOW_SERVICE": node.socket},
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.kill)
        return job

    def check(self, ranks):
        results = [json.loads(rest_of(rank)[0].splitlines()[-1]) for rank in ranks]
        self.assertEqual(len({str(result["state"]) for result in results}), 1)
        state = results[0]["state"]
        rule = Rule(state["dataset"], state["seed"], {"web": 0.6, "code": 0.3, "math": 0.1})
        rule.change(AT, {"web": 0, "code": 1, "math": 1})
        for step in range(DRAWS // 240):
            given = sum((result["keys"][step] for result in results), [])
            self.assertEqual(given, [next(rule) for _ in given], step)

    def test_ranks_on_two_nodes_follow_the_rule(self):
        nodes = [self.agent("a"), self.agent("b")]
        self.check([self.rank(node, rank, 2) for rank, node in enumerate(nodes)])

    def test_a_coordinator_that_is_killed_changes_nothing(self):
        nodes = [self.agent("a"), self.agent("b")]
        ranks = [self.rank(node, rank, 2) for rank, node in enumerate(nodes)]
        self.assertEqual(ranks[0].stdout.readline(), "began\n")
        self.coordinator.end()
        self.coordinator.start()
        self.check(ranks)


if __name__ == "__main__":
    unittest.main()
