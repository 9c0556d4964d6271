"""What dies, and what must not grow."""

import signal
import unittest

import batchflow
from support import Served, result, start_job, wait_until


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
        loader = batchflow.DataLoader("rows", 20, True, timeout=2)
        iteration = iter(loader)
        next(iteration)
        self.daemon.kill()
        with self.assertRaisesRegex(RuntimeError, "DataLoader timed out after 2 seconds"):
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
        job.communicate()
        wait_until(lambda: not self.daemon.status()["jobs"], 10, "the job's end")
        self.assert_whole([key for batch in batchflow.DataLoader("rows", 64, True)
                           for key in self.own_keys(batch)])

    def test_no_service_is_said_at_once(self):
        self.daemon.kill()
        with self.assertRaisesRegex(batchflow.NoServiceError, "no service answers .*start batchflowd"):
            next(iter(batchflow.DataLoader("rows")))
        self.daemon.start()


class Steady(Served):
    def test_memory_is_flat_over_ten_thousand_batches(self):
        for options in ({}, {"output": "numpy"}):
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
