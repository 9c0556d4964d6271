"""`batchflowctl doctor --ideal`: a job that allows it is given one batch again, and is as fast as with
a perfect loader. Nothing else of the job changes."""

import itertools
import json
import os
import queue
import subprocess
import threading
import time
import unittest

import batchflow
from support import CTL, Daemon, Served, free_port, needs, wait_until, write_rows
from test_cluster import TOKEN, Cluster
from test_receipts import verify

BATCH = 8
COMPUTE_S = 0.02


def first_columns(batch):
    return [[int(batch[0][i, column]) for column in range(3)] for i in range(batch.samples)]


class Job(threading.Thread):
    """A loop that computes for a known time. What it was given, as (time, batch)."""

    def __init__(self, compute_s=COMPUTE_S, after=lambda job, batch: None, meet=None, **options):
        super().__init__(daemon=True)
        self.loader = batchflow.DataLoader("rows", BATCH, True, **{"ideal": True, **options})
        self.given, self.compute_s, self.after, self.problem = [], compute_s, after, None
        self.meet, self.stopped = meet, False
        self.start()

    def run(self):
        try:
            for batch in self.loader:
                self.given.append(self.train(batch))
                if self.meet:
                    self.meet.wait(60)
                if self.stopped:
                    break
        except BaseException as problem:
            self.problem = problem
            raise

    def train(self, batch):
        """What a step of the loop does with its batch."""
        now = time.monotonic()
        facts = {name: getattr(batch, name) for name in ("again", "step", "fillers")}
        given = {**facts, "keys": batch.sample_keys.tolist(), "rows": first_columns(batch)}
        self.after(self, batch)
        time.sleep(self.compute_s)
        return now, given

    def end(self):
        self.join(120)
        assert not self.is_alive() and self.problem is None, self.problem
        self.loader.close()

    def again(self):
        return [one for _, one in self.given if one["again"] > 0]


def check_whole(test, jobs, rows):
    """Each sample once, but for the batches that were given again, which are the same."""
    keys = []
    for job in jobs:
        last = None
        for _, one in job.given:
            if one["again"]:
                test.assertEqual({**last, "again": one["again"]}, one)
                test.assertEqual(last["again"] + 1, one["again"])
            else:
                keys += one["keys"][:len(one["keys"]) - one["fillers"]]
            last = one
            for row, key in zip(one["rows"], one["keys"]):
                test.assertEqual(row, [key * 7, key * 7 + 7, key * 7 + 14])
    test.assertEqual(sorted(keys), list(range(rows)))


class Ideal(Served):
    ROWS = 2000
    WIDTH = 1024  # 8 KiB a sample
    DELAY_MS = 1  # of each read

    def setUp(self):
        super().setUp()
        self.daemon.kill()
        write_rows(self.data / "rows.npy", self.ROWS, self.WIDTH)
        file = self.folder / "node.yaml"
        file.write_text("kind: node\nworkers: 1\nstorage: {engine: pread, threads: 1}\n"
                        f"engine: {{block_bytes: {BATCH * self.WIDTH * 8}}}\n")
        self.serve(f"storage.read.error=delay-{self.DELAY_MS}", "--config", str(file))

    def serve(self, failing, *arguments):
        os.environ["BATCHFLOW_FAILPOINTS"] = failing
        self.daemon = Daemon(self.folder, "--dataset", f"rows={self.data}", *arguments)
        del os.environ["BATCHFLOW_FAILPOINTS"]
        self.addCleanup(self.daemon.kill)

    def doctor(self, *words):
        done = subprocess.run([CTL, "--service", self.daemon.socket, "doctor", *words, "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        (found,) = json.loads(done.stdout)["jobs"]
        return found

    def ideal(self, time_text="1s"):
        found = self.doctor(f"--ideal={time_text}")
        self.assertTrue(found["ideal"]["is_measured"], found)
        return found

    def begun(self, *jobs, batches=4):
        for job in jobs:
            wait_until(lambda job=job: len(job.given) >= batches or job.problem, what="batches")

    def check_whole(self, *jobs):
        check_whole(self, jobs, self.ROWS)


class Answers(Ideal):
    ROWS, WIDTH = 1000, 16384  # such large ones are read one by one
    DELAY_MS = 6

    def test_the_gain_is_that_of_a_loop_which_never_waits(self):
        for more in reversed(range(3)):  # other work may slow one of two measurements, not the other
            try:
                return self.check_gain()
            except AssertionError:
                if not more:
                    raise

    def check_gain(self):
        kept = []

        def keep(job, batch):
            if len(kept) < 4:
                kept.append(batch)
        job = Job(after=keep)
        self.begun(job)
        asked = time.monotonic()
        found = self.ideal("3s")["ideal"]
        job.stopped = True
        job.join(60)
        # A perfect loader is a list: the same loop, over batches that are there.
        begun, steps = time.monotonic(), 0
        for batch in itertools.cycle(kept):
            job.train(batch)
            steps += 1
            if time.monotonic() - begun > 3:
                break
        perfect_s = (time.monotonic() - begun) / steps
        job.end()
        times = [when for when, one in job.given if when >= asked and one["again"] == 0 and
                 one["step"] <= job.again()[0]["step"]]
        step_s = (times[-1] - times[0]) / (len(times) - 1)
        times = [when for when, one in job.given if one["again"] > 0]
        ideal_s = (times[-1] - times[0]) / (len(times) - 1)
        real = step_s / ideal_s - 1
        self.assertGreaterEqual(ideal_s, COMPUTE_S)
        self.assertGreater(real, 0.5)  # 48 ms of reads, 20 ms of computing
        self.assertLess(abs(found["gain_ratio"] - real), 0.1 * real, (found, step_s, ideal_s))
        self.assertEqual(found["steps"], len(times))
        gained = step_s / perfect_s - 1
        self.assertLess(abs(found["gain_ratio"] - gained), 0.1 * gained, (found, step_s, perfect_s))

    def test_a_loop_that_runs_ahead_of_a_gpu_is_measured_as_the_gpu_is(self):
        work = queue.Queue(3)

        def compute():
            while work.get():
                time.sleep(COMPUTE_S)
        gpu = threading.Thread(target=compute, daemon=True)
        gpu.start()
        job = Job(compute_s=0, after=lambda job, batch: work.put(True))
        self.begun(job)
        found = self.ideal("3s")
        job.stopped = True
        job.end()
        work.put(False)
        # By its waits it only waits, and would gain without bound.
        self.assertGreater(found["stalled_ratio"], 0.9)
        times = [when for when, one in job.given if one["again"] > 0]
        times = times[len(times) // 4:]
        gpu_s = (times[-1] - times[0]) / (len(times) - 1)
        self.assertGreaterEqual(gpu_s, 0.9 * COMPUTE_S)
        self.assertLess(abs(found["ideal"]["ideal_step_s"] - gpu_s), 0.1 * gpu_s)

    def test_a_job_whose_script_does_not_allow_it_is_left_alone(self):
        job = Job(ideal=None)
        self.begun(job)
        found = self.doctor("--ideal=1s")
        self.assertFalse(found["ideal"]["is_measured"])
        self.assertRegex(found["ideal"]["why_not_measured"],
                         r"does not allow it.*DataLoader\(\.\.\., ideal=True\), or BATCHFLOW_IDEAL=1")
        self.assertTrue(any("by its waits, a perfect loader would gain" in fact
                            for fact in found["facts"]), found)
        job.stopped = True
        job.end()
        self.assertEqual(job.again(), [])

    def test_it_may_be_allowed_in_the_environment(self):
        os.environ["BATCHFLOW_IDEAL"] = "1"
        allowed, refused = Job(ideal=None), Job(ideal=False)
        self.begun(allowed, refused)
        jobs = {job["ideal_allowed"] for job in self.daemon.status()["jobs"]}
        self.assertEqual(jobs, {0, 1})
        for job in (allowed, refused):
            job.stopped = True
            job.end()

    def test_a_wrong_time_is_refused(self):
        for words in ("--ideal=5", "--ideal=0s", "--ideal=2h", "--ideal=soon"):
            done = subprocess.run([CTL, "--service", self.daemon.socket, "doctor", words],
                                  stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn("write a time from 0.1s to 1h, as --ideal=10s", done.stderr)


class Untouched(Ideal):
    def test_positions_counts_and_receipts(self):
        states, receipts = [], self.folder / "receipts"

        def look(job, batch):
            states.append((batch.step, batch.again, job.loader.state_dict()))
        job = Job(after=look, compute_s=0.005, receipts=receipts)
        self.begun(job)
        steps = self.ideal()["ideal"]["steps"]
        counted = self.daemon.status()["jobs"][0]
        job.end()
        self.check_whole(job)
        self.assertEqual([one["again"] for one in job.again()], list(range(1, steps + 1)))
        self.assertEqual(len({one["step"] for one in job.again()}), 1)
        self.assertEqual(counted["ideal_steps"], steps)
        done = verify(receipts)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn(f"{self.ROWS} of {self.ROWS} samples, each once", done.stdout)

        # A checkpoint is that of the step, whenever it is taken; what follows it comes once.
        (step,) = {step for step, again, _ in states if again}
        (state,) = {json.dumps(state, sort_keys=True) for at, _, state in states if at == step}
        before = {key for _, one in job.given if one["step"] <= step for key in one["keys"]}
        after = []
        with batchflow.DataLoader("rows", BATCH, True) as loader:
            loader.load_state_dict(json.loads(state))
            for batch in loader:
                after += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
        self.assertEqual(sorted(list(before) + after), list(range(self.ROWS)))

    def test_times_count_them_apart(self):
        job = Job(compute_s=0.005)
        self.begun(job)
        steps = self.ideal()["ideal"]["steps"]
        job.stopped = True
        job.join(60)
        times = job.loader.times()
        job.end()
        self.assertEqual(times["again"], steps)
        self.assertEqual(times["batches"], len(job.given) - steps)
        once = again = 0
        for (begin, one), (end, _) in zip(job.given, job.given[1:]):
            once += (end - begin) * (one["again"] == 0)
            again += (end - begin) * (one["again"] > 0)
        self.assertLess(times["between_s"], once + again / 2)

    def test_all_ranks_alike(self):
        meet = threading.Barrier(2)
        ranks = [Job(compute_s=0.005, meet=meet, rank=rank, world_size=2, job_name="two")
                 for rank in range(2)]
        self.begun(*ranks)
        steps = self.ideal("500ms")["ideal"]["steps"]
        for rank in ranks:
            rank.end()
        self.check_whole(*ranks)
        self.assertEqual(*({(one["step"], one["again"]) for one in rank.again()} for rank in ranks))
        self.assertEqual(len(ranks[0].again()), steps)

    @needs("numpy")
    def test_batches_that_the_script_writes_to_and_keeps(self):
        def spoil(job, batch):
            batch[0].fill(0)
        kept = []
        copies = Job(after=spoil, compute_s=0.005, copy=True, output="numpy")
        self.begun(copies)
        self.ideal()
        copies.stopped = True
        copies.end()
        self.assertGreater(len(copies.again()), 7)
        for one in copies.again():
            self.assertEqual(one["rows"][0][0], one["keys"][0] * 7)

        job = Job(after=lambda job, batch: kept.append(batch), compute_s=0.005)
        self.begun(job)
        self.ideal("500ms")
        job.end()
        self.check_whole(job)
        for batch, (_, one) in zip(kept, job.given):
            self.assertEqual(first_columns(batch), one["rows"])

    def test_the_service_is_lost_meanwhile(self):
        job = Job(compute_s=0.01)
        self.begun(job)
        asking = threading.Thread(target=subprocess.run, daemon=True, args=(
            [CTL, "--service", self.daemon.socket, "doctor", "--ideal=2s"],),
            kwargs={"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 60})
        asking.start()
        wait_until(lambda: len(job.again()) > 3, what="a batch again")
        self.daemon.kill()
        self.daemon.start()
        job.end()
        self.check_whole(job)
        self.assertEqual([one["again"] for one in job.again()],
                         list(range(1, len(job.again()) + 1)))
        asking.join(60)


class FromAnotherMachine(Ideal):
    """As a job has it that reaches its service by TCP."""

    def serve(self, failing, *arguments):
        self.port, token = free_port(), self.folder / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        os.environ["BATCHFLOW_TOKEN_FILE"] = str(token)
        super().serve(failing, "--tcp", f"127.0.0.1:{self.port}", "--tcp-token", str(token),
                      *arguments)

    def test_it_is_measured_and_the_epoch_is_whole(self):
        job = Job(compute_s=0.005, service=f"tcp://127.0.0.1:{self.port}")
        self.begun(job)
        steps = self.ideal("500ms")["ideal"]["steps"]
        job.end()
        self.check_whole(job)
        self.assertEqual(len(job.again()), steps)


class OnNodes(Cluster):
    def test_ranks_of_several_nodes_alike(self):
        meet = threading.Barrier(2)
        ranks = [Job(compute_s=0.005, meet=meet, rank=rank, world_size=2, job_name="two",
                     service=self.agent(name).socket) for rank, name in enumerate("ab")]
        for rank in ranks:
            wait_until(lambda rank=rank: len(rank.given) >= 4 or rank.problem, what="batches")
        done = subprocess.run([CTL, "--service", self.coordinator.socket, "doctor", "--ideal=500ms",
                               "--json"], stdout=subprocess.PIPE, timeout=120)
        (found,) = json.loads(done.stdout)["jobs"]
        self.assertTrue(found["ideal"]["is_measured"], found)
        for rank in ranks:
            rank.end()
        self.assertEqual(*({(one["step"], one["again"]) for one in rank.again()} for rank in ranks))
        self.assertEqual(len(ranks[0].again()), found["ideal"]["steps"])
        check_whole(self, ranks, self.ROWS)


if __name__ == "__main__":
    unittest.main()
