"""What the loss of an agent costs: the blocks that it held are prepared again, and no others, as
tools/bench/cluster/lost_blocks.py counts them."""

import os
import sys
import unittest

from support import HERE
from test_cluster import JOB, Cluster, Job

BENCH = HERE.parent.parent / "tools" / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "cluster")]

from lost_blocks import Loss, Prepared, loss, prepared, settled  # noqa: E402

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

    def lose_an_agent(self, order, seed):
        """The job's result, and how many blocks were prepared again."""
        coordinator = self.coordinator.socket
        before = prepared(coordinator)
        name = f"lost-in-{order}-{seed}"
        agent = self.agent(name)
        go_on = self.folder / f"go-on-{order}-{seed}"
        os.environ["GO_ON"] = str(go_on)
        job = Job(self.coordinator, code=HELD_JOB, order=order, shuffle_seed=seed,
                  prefetch_factor=64)  # so that the agent prepares several blocks ahead
        job.begun()
        held = settled(coordinator)
        agent.end()
        go_on.touch()
        result = job.result()
        self.check_epochs(result)
        self.assertEqual(self.nodes(), {})
        lost = loss(before, held, prepared(coordinator), name, self.ROWS, BLOCK)
        self.assertLessEqual(lost.again, lost.held)
        print(f"{order}: the agent had prepared {lost.held} of {BLOCKS} blocks when it was killed; "
              f"{lost.again} were prepared again", flush=True)
        return result, lost.again

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


class Counted(unittest.TestCase):
    """Of 100 blocks the agent had 30 when it was killed, and 10 of these were taken already."""
    BEFORE = Prepared(here=64, by_agent={}, again=2)
    HELD = Prepared(here=64 + 5 * 64, by_agent={"a": 30 * 64}, again=2)
    AFTER = Prepared(here=64 + 90 * 64, by_agent={}, again=22)

    def loss(self, before=BEFORE, held=HELD, after=AFTER):
        return loss(before, held, after, "a", 100 * 64, 64)

    def test_what_was_held_and_prepared_again(self):
        self.assertEqual(self.loss(), Loss(held=30, again=20))

    def test_counts_that_say_different_things(self):
        for other in ({"before": self.BEFORE._replace(again=1)},
                      {"after": self.AFTER._replace(here=self.AFTER.here + 64)},
                      {"after": self.AFTER._replace(again=21)},
                      {"held": self.HELD._replace(by_agent={"a": 15 * 64})}):
            with self.assertRaises(AssertionError):
                self.loss(**other)

    def test_more_than_was_held(self):
        more = self.AFTER._replace(here=self.AFTER.here + 11 * 64, again=33)
        with self.assertRaises(AssertionError):
            self.loss(after=more)


if __name__ == "__main__":
    unittest.main()
