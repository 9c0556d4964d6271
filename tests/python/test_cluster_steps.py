"""Steps of users in a cluster: each node that prepares sets them up, and a job may be anywhere."""

import os
import unittest
from pathlib import Path

from support import HERE, needs, status, wait_until
from test_cluster import Cluster, Job

try:
    from pictures import write_pictures
except ImportError:
    write_pictures = None

ROWS = 300  # of datasets_of_ours
PLUGIN = os.path.join(os.environ.get("BATCHFLOW_TEST_PLUGINS", ""), "..", "steps", "crop.so")

FINDS_OURS = f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
JOB = FINDS_OURS + """
import json, sys
import batchflow
from steps_of_ours import shifted
epochs, options = int(sys.argv[1]), json.loads(sys.argv[3])
loader = batchflow.DataLoader("rows", batch_size=16, epochs=epochs, pipeline=[shifted],
                              output="numpy", **options)
all_keys, wrong = [], 0
for epoch in range(epochs):
    keys = []
    for batch in loader:
        if not all_keys and not keys:
            print("began", flush=True)
        for key, row in zip(batch.sample_keys, batch[0]):
            keys.append(int(key))
            wrong += int(row[0] != int(key) * 7 * 2 + 5)
    all_keys.append(keys)
print(json.dumps({"keys": all_keys, "wrong": wrong}), flush=True)
"""


OWN_DATASET = FINDS_OURS + """
import json, sys, warnings
import batchflow
from datasets_of_ours import Rows
warnings.simplefilter("error", batchflow.LocalLoadingWarning)
dataset = Rows(factor=3)
loader = batchflow.DataLoader(dataset, batch_size=16, shuffle=True)
keys, wrong = [], 0
for rows, labels in loader:
    for row, label in zip(rows.tolist(), labels.tolist()):
        index = int(row[0] / 3) // 1024
        keys.append(index)
        wrong += int(row != (dataset.rows[index] * 3).tolist() or label != index % 7)
print(json.dumps({"keys": [keys], "wrong": wrong}), flush=True)
"""


@needs("numpy")
class Steps(Cluster):
    ROWS = 2000
    STEPS = "{kind: node, brought_kept: 2s, steps: {timeout: 20s, memory: 48mib}}"

    @property
    def COORDINATOR(self):
        config = self.folder / "node.yaml"
        config.write_text(self.STEPS)
        return ("--config", str(config), "--open-datasets")

    def agent(self, name, *arguments, **more):
        return super().agent(name, "--config", str(self.folder / "node.yaml"), *arguments,
                             memory="640mib", **more)

    def prepared(self):
        return {name: one["prepared_samples"] for name, one in self.nodes().items()}

    def test_a_job_at_an_agent_brings_a_function(self):
        agents = [self.agent("a"), self.agent("b")]
        jobs = [Job(node, 2, code=JOB, order="relaxed", shuffle_seed=3) for node in agents]
        for job in jobs:
            result = job.result()
            self.check_epochs(result, 2)
            self.assertEqual(result["wrong"], 0)

    def test_all_nodes_run_it_and_give_its_memory_back(self):
        node = self.agent("a")
        before = self.nodes()["a"]["memory"]  # 15/16 of what is for data
        job = Job(node, 3, code=JOB)
        job.begun()
        wait_until(lambda: self.nodes()["a"]["memory"] == before - (45 << 20), 30,
                   "memory set apart")
        self.check_epochs(job.result(), 3)
        wait_until(lambda: self.prepared()["a"] > 0, 10, "samples made at the agent")
        wait_until(lambda: self.nodes()["a"]["memory"] == before, 30, "memory given back")

    def test_an_agent_that_comes_later_sets_it_up_first(self):
        job = Job(self.coordinator, 3, 0.002, code=JOB)
        job.begun()
        late = self.agent("late")
        self.check_epochs(Job(late, 1, code=JOB).result())
        self.check_epochs(job.result(), 3)

    def test_a_dataset_of_a_job_at_an_agent_is_served(self):
        node = self.agent("a")
        for result in [job.result() for job in [Job(node, code=OWN_DATASET) for _ in range(2)]]:
            self.assertEqual(sorted(result["keys"][0]), list(range(ROWS)))
            self.assertEqual(result["wrong"], 0)
        status_now = status(self.coordinator.socket)
        self.assertIn("Rows", [one["step"] for one in status_now["plugins"]])
        self.assertGreaterEqual(status_now["samples"], 2 * ROWS)

    def test_an_agent_without_memory_for_it_is_named(self):
        config = self.folder / "much.yaml"
        config.write_text("{kind: node, steps: {timeout: 20s, memory: 600mib}}")
        super().agent("much", "--config", str(config), memory="256mib")
        with self.assertRaisesRegex(AssertionError, "node 'much': its steps' processes may take"):
            Job(self.coordinator, 1, code=JOB).result()


PICTURES = """
import hashlib, json, sys
import batchflow
loader = batchflow.DataLoader("rows", batch_size=16, epochs=1, pipeline="cropped", order="strict",
                              shuffle_seed=5, output="numpy")
content = hashlib.sha256()
keys = []
for batch in loader:
    keys += batch.sample_keys.tolist()
    content.update(batch[0].tobytes())
print(json.dumps({"keys": [keys], "content": content.hexdigest()}), flush=True)
"""


@unittest.skipUnless(Path(PLUGIN).is_file(), "the plugins of tests are not built")
@needs("numpy")
@needs("PIL")
class Plugins(Cluster):
    """A plugin of a pipeline of the service's."""

    ROWS = 60

    def make_data(self):
        write_pictures(self.data, self.ROWS, ("a", "b"))

    @property
    def COORDINATOR(self):
        pipeline = self.folder / "cropped.yaml"
        pipeline.write_text(f"{{kind: pipeline, name: cropped, steps: [{{step: decode}}, "
                            f"{{plugin: {PLUGIN}, size: 9}}]}}")
        config = self.folder / "node.yaml"
        config.write_text(f"{{kind: node, pipelines: [{pipeline}]}}")
        return ("--config", str(config))

    def test_it_gives_the_same_bytes_at_an_agent(self):
        expected = Job(self.coordinator, code=PICTURES).result()
        self.assertEqual(sorted(expected["keys"][0]), list(range(self.ROWS)))
        node = self.agent("a", memory="640mib")
        self.assertEqual(Job(node, code=PICTURES).result(), expected)
        here = status(self.coordinator.socket)["prepared_samples"]

        def counted():
            now = status(self.coordinator.socket)
            (step,) = now["plugins"]
            return now["prepared_samples"] == here and step["samples"] > here and step["starts"] == 2
        wait_until(counted, 10, "the step at both nodes in the coordinator's status")


if __name__ == "__main__":
    unittest.main()
