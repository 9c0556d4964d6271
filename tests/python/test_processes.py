"""A loader beside signals, other ranks, forks and spawned processes."""

import gc
import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import batchflow
from batchflow.crossing import crossing
from support import Served, interrupt_and, rest_of, result, start_job

try:
    import torch
except ImportError:
    torch = None


class Pipes(unittest.TestCase):
    def test_lines_that_were_read_ahead_are_not_lost(self):
        said = "import sys; print('first\\nsecond'); print('third', file=sys.stderr)"
        child = subprocess.Popen([sys.executable, "-c", said], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "first\n")
        self.assertEqual(rest_of(child), ("second\n", "third\n"))
        self.assertEqual(child.returncode, 0)


class Waiting(Served):
    """A rank waits for another that does not join, or does not go on."""

    def options(self, rank):
        return {"batch_size": 10, "shuffle": True, "rank": rank, "world_size": 2, "job_name": "w"}

    def interrupted(self, job):
        self.assertEqual(job.stdout.readline(), b"begun\n")
        time.sleep(1)
        self.assertIsNone(job.poll())
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        self.assertEqual(result(job, 30), "interrupted")
        self.assertLess(time.monotonic() - begin, 5)

    def test_ctrl_c_ends_the_wait_for_other_ranks(self):
        self.interrupted(start_job("wait_for_other_rank", "rows", self.options(0)))

    def test_ctrl_c_ends_the_wait_for_a_batch(self):
        job = start_job("wait_for_other_rank", "rows", self.options(0))
        other = batchflow.DataLoader("rows", **self.options(1))
        next(iter(other))  # and no more: it holds the other one up
        self.interrupted(job)

    def test_a_wait_ends_with_pytorchs_words(self):
        job = start_job("wait_for_other_rank", "rows", self.options(0))
        self.addCleanup(rest_of, job)
        self.addCleanup(job.kill)
        loader = batchflow.DataLoader("rows", timeout=2, **self.options(1))
        with self.assertRaisesRegex(RuntimeError, "DataLoader timed out after 2 seconds"):
            iteration = iter(loader)
            job.send_signal(signal.SIGSTOP)
            for _ in iteration:
                pass


class CtrlC(Served):
    """Python drops exceptions that are raised while an object is destroyed, so no line of Python
    may run then."""

    def setUp(self):
        super().setUp()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def test_one_that_comes_while_a_batch_goes_is_raised(self):
        for output, module in (("memoryview", "sys"), ("numpy", "numpy"), ("torch", "torch"),
                               ("dlpack", "torch")):
            if not importlib.util.find_spec(module):
                continue
            batch = next(iter(batchflow.DataLoader("rows", 64, output=output)))
            held = [torch.from_dlpack(batch[0]) if output == "dlpack" else batch]
            del batch
            gc.collect()
            self.assertEqual(crossing().held_count(), 1)
            with self.assertRaises(KeyboardInterrupt):
                interrupt_and(held.clear)
            self.assertEqual(crossing().held_count(), 0)

    def test_none_of_many_is_lost(self):
        loader = batchflow.DataLoader("rows", 10, output="memoryview")
        ready, raised, seed = threading.Event(), 0, random.randrange(2**32)
        chance = random.Random(seed)
        ended = threading.Event()

        def interrupt():
            while ready.wait(20) and not ended.is_set():
                ready.clear()
                time.sleep(chance.uniform(0, 0.002))
                os.kill(os.getpid(), signal.SIGINT)
            ended.set()

        sender = threading.Thread(target=interrupt)
        sender.start()
        iteration = iter(loader)
        while raised < 300:
            try:
                ready.set()
                while not ended.is_set():
                    for _ in iteration:
                        pass
                    iteration = iter(loader)
                self.fail(f"number {raised} was lost (seed {seed})")
            except KeyboardInterrupt:
                raised += 1
        ended.set()
        ready.set()
        sender.join()


class Processes(Served):
    def test_a_forked_process_is_told_and_makes_its_own(self):
        loader = batchflow.DataLoader("rows", 64, True)
        iteration = iter(loader)
        keys = self.own_keys(next(iteration))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = "nothing"
            try:
                next(iteration)
            except RuntimeError as error:
                said = str(error)
            own = [key for batch in batchflow.DataLoader("rows", 64, True)
                   for key in batch.sample_keys.tolist()[:batch.samples - batch.fillers]]
            os.write(write, f"{len(set(own))} {len(own)} {said}".encode())
            del loader, iteration
            gc.collect()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            said = answer.read()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertRegex(said, "^2000 2000 .*which fork\\(\\) made of it; make a DataLoader")
        for batch in iteration:
            keys += self.own_keys(batch)
        self.assert_whole(keys)

    def test_a_loader_not_yet_used_can_be_used_by_each_fork(self):
        loader = batchflow.DataLoader("rows", 64, True)
        child = os.fork()
        if child == 0:
            keys = [key for batch in loader for key in self.own_keys(batch)]
            os._exit(0 if sorted(keys) == list(range(self.ROWS)) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assert_whole([key for batch in loader for key in self.own_keys(batch)])

    def test_a_spawned_process_gets_the_arguments(self):
        import multiprocessing
        from jobs import spawned_keys
        context = multiprocessing.get_context("spawn")
        out = context.Queue()
        loader = batchflow.DataLoader("rows", 64, True, shuffle_seed=3)
        next(iter(loader))  # the job that begins here stays in this process
        child = context.Process(target=spawned_keys, args=(loader, out))
        child.start()
        keys = out.get(timeout=60)
        child.join(60)
        self.assert_whole(keys)


if __name__ == "__main__":
    unittest.main()
