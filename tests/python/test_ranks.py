"""Ranks of one job under torch.distributed (gloo): equal counts, together each sample once."""

import time
import unittest

import batchflow
from support import Served, needs, result, start_job, wait_until


class Ranks(Served):
    def launched(self, world, options, number, gloo=None):
        jobs = [start_job("rank_of", "rows", {**options, "ranks": "auto"}, {}, None, gloo and f"{gloo}/{number}",
                          RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(29500 + number)) for rank in range(world)]
        return [result(job) for job in jobs]

    def check(self, ranks, size, world):
        steps = -(-self.ROWS // (size * world))
        for rank in ranks:
            self.assertEqual(len(rank["counts"]), steps)
            self.assertEqual(rank["counts"], ranks[0]["counts"])
            self.assertEqual(rank["length"], steps)
            self.assertTrue(rank["keys"])
        self.assert_whole([key for rank in ranks for key in rank["keys"]])

    @needs("torch")
    def test_under_gloo(self):
        for number, order in enumerate(("relaxed", "strict")):
            ranks = self.launched(3, {"batch_size": 17, "order": order}, number, self.folder)
            self.check(ranks, 17, 3)

    def test_by_the_launchers_environment_alone(self):
        self.check(self.launched(2, {"batch_size": 33, "shuffle": True}, 10), 33, 2)

    def test_ranks_that_say_nothing_get_everything(self):
        jobs = [start_job("rank_of", "rows", {"batch_size": 33, "shuffle": rank == 1,
                                              "job_name": "all"}, {}, None, None,
                          RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
        for rank in map(result, jobs):
            self.assert_whole(rank["keys"])

    def test_a_rank_says_for_whom_it_waits(self):
        options = {"batch_size": 20, "shuffle": True, "world_size": 3, "job_name": "w", "prefetch_factor": 2}
        jobs = [start_job("slow_rank", "rows", {**options, "rank": rank}, 0 if rank < 2 else 8, 12)
                for rank in range(2)]
        wait_until(lambda: any(job["ranks_here"] == 2 for job in self.daemon.status()["jobs"]))
        time.sleep(6)  # the others must report this wait
        jobs.append(start_job("slow_rank", "rows", {**options, "rank": 2}, 8, 12))
        said = [job.communicate(timeout=120)[1].decode() for job in jobs]
        for rank in range(2):
            self.assertRegex(said[rank], f"batchflow: rank {rank} has waited for \\d+ s for rank 2 of "
                             "3 to join job 'w'")
            self.assertRegex(said[rank], f"batchflow: rank {rank} has waited for \\d+ s for rank 2 "
                             rf"\(process {jobs[2].pid}\) of job 'w', which is at step \d+ where "
                             r"this one is at \d+")
        self.assertNotIn("has waited", said[2])
        self.assertEqual([job.returncode for job in jobs], [0, 0, 0])

    def test_two_ranks_of_one_number_are_refused_with_both_processes(self):
        first = batchflow.DataLoader("rows", 10, True, job_name="same")
        next(iter(first))
        second = batchflow.DataLoader("rows", 10, True, job_name="same")
        with self.assertRaisesRegex(batchflow.RefusedError, "process \\d+ is rank 0 of job 'same' "
                                    "already, so process \\d+ cannot be"):
            next(iter(second))

    def test_ranks_that_leave_an_epoch_early_meet_again(self):
        ranks = [start_job("two_epochs", "rows", {"batch_size": 20, "shuffle": True, "rank": rank,
                                                  "world_size": 2, "job_name": "early"})
                 for rank in range(2)]
        made = [result(rank) for rank in ranks]
        self.assertEqual(made[0]["epochs"], [0, 1])
        self.assertEqual(made[1]["epochs"], [0, 1])
        self.assert_whole(made[0]["keys"] + made[1]["keys"])


if __name__ == "__main__":
    unittest.main()
