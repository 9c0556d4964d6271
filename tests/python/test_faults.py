"""Services and jobs that die, and memory that must not grow."""

import json
import signal
import unittest
from importlib.util import find_spec

import batchflow
from support import Served, rest_of, result, start_job, wait_until, write_rows


class Held(Served):
    ARGUMENTS = ("--open-datasets",)

    def test_a_job_ends_with_its_loader_whatever_is_held(self):
        data = self.folder / "mine"
        data.mkdir()
        write_rows(data / "rows.npy", 1000)
        with batchflow.DataLoader(str(data), 20) as loader:
            held = next(iter(loader))
        self.assertEqual([job["left"] for job in self.daemon.status()["jobs"]], [True])
        # The job that has left reads no more, so a new job gets the dataset as it is now.
        write_rows(data / "rows.npy", 1500)
        keys = [key for batch in batchflow.DataLoader(str(data), 20, True)
                for key in self.check_content(batch)]
        self.assert_whole(keys, 1500)
        # The service does not wait for the job that has left, and the held batch stays as it was.
        self.assertEqual(self.daemon.kill(signal.SIGTERM), 0)
        self.assertIn("drained: no job is left", self.daemon.log.read_text())
        self.check_content(held)


class Killed(Served):
    def test_a_service_killed_in_mid_epoch_loses_and_repeats_nothing(self):
        for order in ("relaxed", "strict"):
            loader = batchflow.DataLoader("rows", 20, order=order)
            for epoch in range(2):
                keys = []
                for i, batch in enumerate(loader):
                    keys += self.check_content(batch)
                    if i in (10, 60):
                        self.daemon.kill()
                        self.daemon.start()
                self.assert_whole(keys)
            self.assertGreaterEqual(loader.times()["reconnects"], 2)

    def test_a_service_that_does_not_come_back_is_an_error_within_the_timeout(self):
        loader = batchflow.DataLoader("rows", 20, True, timeout=5)
        iteration = iter(loader)
        next(iteration)
        self.daemon.kill()
        with self.assertRaisesRegex(RuntimeError, "DataLoader timed out after 5 seconds: the "
                                                  "service is away"):
            for _ in iteration:
                pass
        # The loader was not ended by that: it goes on with the next service.
        self.daemon.start()
        self.assertGreater(len(list(iteration)), 0)

    def test_a_job_killed_leaves_nothing_behind(self):
        job = start_job("until_killed", "rows")
        self.assertEqual(job.stdout.readline(), b"begun\n")
        self.assertEqual(len(self.daemon.status()["jobs"]), 1)
        job.send_signal(signal.SIGKILL)
        rest_of(job)
        wait_until(lambda: not self.daemon.status()["jobs"], 10, "the job's end")
        self.assert_whole([key for batch in batchflow.DataLoader("rows", 64, True)
                           for key in self.own_keys(batch)])

    def test_ranks_whose_service_is_killed_meet_at_the_next(self):
        ranks = [start_job("rank_of", "rows", {"batch_size": 20, "shuffle": True, "rank": rank,
                                               "world_size": 3, "job_name": "three"}, {}, None,
                           None, 0.05) for rank in range(3)]
        wait_until(lambda: any(job["samples"] > 600 for job in self.daemon.status()["jobs"]), 60,
                   "the middle of the epoch")
        self.daemon.kill()
        self.daemon.start()
        made = [result(rank) for rank in ranks]
        self.assertEqual([one["counts"] for one in made], [made[0]["counts"]] * 3)
        self.assert_whole([key for one in made for key in one["keys"]])

    def test_a_rank_that_dies_is_an_error_of_the_others_in_bounded_time(self):
        ranks = {"batch_size": 20, "shuffle": True, "world_size": 2, "job_name": "two"}
        other = start_job("until_killed", "rows", {**ranks, "rank": 1})
        loader = batchflow.DataLoader("rows", rank=0, timeout=3, **ranks)
        with self.assertRaisesRegex(RuntimeError, "DataLoader timed out|a rank ended"):
            for batch in loader.epochs():
                if batch.step == 30:
                    other.kill()
                    rest_of(other)
        loader.close()
        del batch  # until then the job holds it
        wait_until(lambda: not self.daemon.status()["jobs"], 10, "the job's end")

    def test_a_job_killed_in_mid_epoch_goes_on_from_what_it_saved(self):
        for order in ("relaxed", "strict"):
            options = {"batch_size": 25, "order": order}
            file = self.folder / "checkpoints"
            job = start_job("checkpointing", "rows", options, str(file))
            wait_until(lambda: file.exists() and file.read_text().count("\n") > 20, 60,
                       "20 batches")
            job.send_signal(signal.SIGKILL)
            rest_of(job)
            lines = [json.loads(line) for line in file.read_text().splitlines(True)
                     if line.endswith("\n")]
            file.unlink()
            self.assertLess(len(lines), self.ROWS // 25)
            loader = batchflow.DataLoader("rows", 32, order=order)
            loader.load_state_dict(lines[-1][1])
            keys = [key for line in lines for key in line[0]]
            self.assert_whole(keys + [key for batch in loader for key in self.own_keys(batch)])

    def test_no_service_is_said_at_once(self):
        self.daemon.kill()
        with self.assertRaisesRegex(batchflow.NoServiceError, "no service answers .*start"):
            next(iter(batchflow.DataLoader("rows")))
        self.daemon.start()


class Steady(Served):
    def test_memory_is_flat_over_ten_thousand_batches(self):
        outputs = [name for name, module in (("torch", "torch"), ("numpy", "numpy"),
                                             ("memoryview", "sys")) if find_spec(module)]
        for options in ({"output": output} for output in outputs):
            job = start_job("memory_over", "rows", {"batch_size": 20, "shuffle": True, **options},
                            10_000)
            made = result(job, 300)
            self.assertEqual(made["times"]["copied"], 0)
            (resident, mapped, files), (resident_end, mapped_end, files_end) = made["sizes"]
            self.assertLess(resident_end - resident, 4096, made)  # KiB
            self.assertLess(mapped_end - mapped, 65536, made)
            self.assertLessEqual(files_end, files + 2, made)


if __name__ == "__main__":
    unittest.main()
