"""What the loss of an agent costs: the blocks that it held are prepared again, and no others. This is
counted by what workers say that they have prepared, by what the coordinator says that it has had
prepared again, and by the samples that a job has had."""

import os
import time
import unittest

from support import status
from test_cluster import JOB, Cluster, Job

BLOCK, BLOCKS = 64, 100
# It trains on when there is such a file.
HELD_JOB = JOB.replace('print("began", flush=True)',
                       'print("began", flush=True); held()').replace(
    "import batchflow\n", """import batchflow, os
def held():
    while not os.path.exists(os.environ["GO_ON"]):
        time.sleep(0.01)
""")


class LostBlocks(Cluster):
    ROWS = BLOCK * BLOCKS

    def node(self, name, *arguments, **more):
        if name == "coordinator":
            config = self.folder / "node.yaml"
            config.write_text(f"kind: node\nengine: {{block_bytes: {BLOCK * self.WIDTH * 8}, "
                              "late_after_p99: 0}\n")  # no block has a second worker
            arguments = ("--config", str(config), *arguments)
        return super().node(name, *arguments, **more)

    def counts(self):
        """Samples that workers have prepared, of the coordinator and of each agent, and the blocks
        that were prepared again."""
        now = status(self.coordinator.socket)
        prepared = {one["name"]: one["prepared_samples"] for one in now["nodes"]}
        return {"coordinator": now["prepared_samples"], **prepared}, now["remakes"]

    def settled(self):
        """Once nothing is prepared any more. Agents report every second."""
        while True:
            before = self.counts()
            time.sleep(2.5)
            if self.counts() == before:
                return before

    def lose_an_agent(self, order, seed):
        """The job's result, and how many samples were prepared again."""
        before, remade_before = self.counts()
        name = f"lost-in-{order}-{seed}"
        agent = self.agent(name)
        go_on = self.folder / f"go-on-{order}-{seed}"
        os.environ["GO_ON"] = str(go_on)
        job = Job(self.coordinator, code=HELD_JOB, order=order, shuffle_seed=seed,
                  prefetch_factor=64)  # so that the agent prepares several blocks ahead
        job.begun()
        held, remade = self.settled()
        self.assertEqual(remade, remade_before)
        agent.end()
        go_on.touch()
        result = job.result()
        self.check_epochs(result)
        self.assertEqual(self.nodes(), {})
        after, remade = self.counts()
        prepared = held[name] + after["coordinator"] - before["coordinator"]
        again = prepared - self.ROWS  # each sample of the epoch once, and these twice
        self.assertEqual(again, (remade - remade_before) * BLOCK)
        self.assertLessEqual(again, held[name])
        print(f"{order}: the agent had prepared {held[name] // BLOCK} of {BLOCKS} blocks when it was "
              f"killed; {again // BLOCK} were prepared again", flush=True)
        return result, again

    def test_only_what_a_lost_agent_held_is_prepared_again(self):
        [expected] = self.strict_results(1)
        result, lost = self.lose_an_agent("strict", seed=11)
        self.assertEqual(result, expected)  # as strict_job()
        # How many blocks an agent holds when it is lost is chance, and may be none.
        for seed in range(8):
            lost += self.lose_an_agent("relaxed", seed)[1]
            if lost > 0:
                break
        self.assertGreater(lost, 0)
        self.check_all_end()


if __name__ == "__main__":
    unittest.main()
