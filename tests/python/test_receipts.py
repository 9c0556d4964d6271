"""Receipts of real jobs, and the program that verifies them: whole runs, losses of the service and
of the job, other numbers of ranks; and canaries, which it must find."""

import array
import base64
import copy
import hashlib
import importlib.util
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import unittest

import batchflow
from support import HERE, Folder, Served, ServedFolders, needs, result, run_python, start_job, wait_until
from test_cluster import ROWS as CLUSTER_ROWS
from test_cluster import Job
from test_takeover import Candidates, term

PROGRAM = HERE.parent.parent / "tools" / "verify_receipts.py"
HASH = "[0-9a-f]{64}"


def verify(folder, *options):
    return subprocess.run([sys.executable, str(PROGRAM), *options, str(folder)], timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def written(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def chained(records):
    """The text of a file with these records, numbered and with links that fit."""
    link, lines = "", []
    for at, record in enumerate(records):
        record = {"n": at, **{key: value for key, value in record.items() if key not in ("n", "link")}}
        body = json.dumps(record, separators=(",", ":"))[:-1]
        link = hashlib.blake2b(f"{link}\n{body}".encode(), digest_size=32).hexdigest()
        lines.append(f'{body},"link":"{link}"}}\n')
    return "".join(lines)


def ids_of(record):
    """Of a dataset of 257 to 65,536 samples: their ids have two bytes."""
    return list(array.array("H", base64.b64decode(record["ids"])))


def with_ids(record, ids):
    return {**record, "ids": base64.b64encode(array.array("H", ids).tobytes()).decode()}


class Checks:
    """Of a test with `receipts`, the folder of a job."""

    def file(self, rank=0):
        return self.receipts / f"rank-{rank}.jsonl"

    def verified(self, *options):
        """The lines of a verification that must succeed, without hashes."""
        done = verify(self.receipts, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        lines = done.stdout.splitlines()
        for line in lines[:-1]:
            self.assertRegex(line, f"; receipt {HASH}$")
        self.assertTrue(lines[-1].startswith(f"{self.receipts}: "), lines[-1])
        return [line.rpartition("; receipt ")[0] for line in lines[:-1]] + [
            lines[-1][len(f"{self.receipts}: "):]]

    def assert_found(self, problem, *options):
        done = verify(self.receipts, *options)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, problem)
        self.assertEqual(done.stderr.count("\n"), 1)


class Receipted(Checks, Served):
    ROWS = 1000

    def setUp(self):
        super().setUp()
        self.receipts = self.folder / "receipts"

    def loader(self, batch_size=20, **options):
        return batchflow.DataLoader("rows", batch_size, receipts=self.receipts, **options)

    def two_ranks(self, epochs=1, world_size=2, **options):
        """Ranks in threads; the keys of each, fillers included."""
        given = [[] for _ in range(world_size)]

        def rank(number):
            loader = self.loader(rank=number, world_size=world_size, job_name="two", **options)
            for _ in range(epochs):
                for batch in loader:
                    given[number].append(batch.sample_keys.tolist())
            loader.close()
        ranks = [threading.Thread(target=rank, args=(number,)) for number in range(world_size)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(60)
        return given


class Whole(Receipted):
    def test_every_order(self):
        steps = "1000 of 1000 samples, each once; 50 steps of 1 rank"
        for order, lines in (
                (None, [f"epoch {e}: {steps}; order sequential, worked out again; draws of generation "
                        f"{e}, pass 0" for e in range(2)]),
                ("strict", [f"epoch {e}: {steps}; order strict, worked out again; draws of generation "
                            f"{e}, pass 0" for e in range(2)])):
            with self.loader(order=order, shuffle_seed=3) as loader:
                given = [batch.sample_keys.tolist() for _ in range(2) for batch in loader]
                self.assertRegex(loader.receipt, HASH)
            self.assertEqual(self.verified(), [*lines, "2 epochs verified, 1 run of the job, 0 steps taken "
                                               "back"])
            records = written(self.file())
            self.assertEqual([one["kind"] for one in records], ["begin"] + ["step"] * 100 + ["end"])
            self.assertEqual([ids_of(one) for one in records[1:-1]], given)
            self.assertEqual([one["n"] for one in records], list(range(102)))
            shutil.rmtree(self.receipts)

    def test_a_relaxed_order_draws_anew_in_each_epoch(self):
        with self.loader(order="relaxed") as loader:
            for _ in range(3):
                self.assert_whole([key for batch in loader for key in batch.sample_keys.tolist()])
        lines = self.verified()
        self.assertEqual(lines[3:], ["3 epochs verified, 1 run of the job, 0 steps taken back"])
        for epoch, line in enumerate(lines[:3]):
            self.assertRegex(line, f"^epoch {epoch}: 1000 of 1000 samples, each once; 50 steps of 1 rank; "
                             r"order relaxed; draws of generation \d+, pass(es)? [\d to]+$")

    def test_draws_with_replacement(self):
        with self.loader(order="weighted", draws=777) as loader:
            loader.report_scores([3, 4], [0.0, 9.0])
            keys = [key for batch in loader for key in batch.sample_keys.tolist()]
        self.assertEqual((len(keys), keys.count(3)), (777, 0))
        [line, end] = self.verified()
        self.assertRegex(line, "^epoch 0: 777 draws from 1000 samples; 39 steps of 1 rank; order weighted; "
                         "draws by weights [0-9a-f]{16}$")

    def test_fillers_and_what_is_left_out(self):
        given = self.two_ranks(order="strict", batch_size=37)
        self.assertEqual([len(one) for one in given], [14, 14])
        self.assertEqual(self.verified()[0], "epoch 0: 1000 of 1000 samples, each once; 14 steps of 2 ranks; "
                         "order strict, worked out again; draws of generation 0, pass 0")
        shutil.rmtree(self.receipts)
        self.two_ranks(order="strict", batch_size=27)
        self.assertEqual(self.verified()[0], "epoch 0: 1000 of 1000 samples, each once; 19 steps of 2 ranks; "
                         "order strict, worked out again; draws of generation 0, pass 0")
        shutil.rmtree(self.receipts)
        self.two_ranks(world_size=3, shuffle=True, batch_size=33)
        self.assertRegex(self.verified()[0], "^epoch 0: 1000 of 1000 samples, each once; 11 steps of 3 ranks; "
                         "2 fillers; order relaxed; ")
        shutil.rmtree(self.receipts)
        self.two_ranks(world_size=3, shuffle=True, batch_size=33, drop_last=True)
        self.assertRegex(self.verified()[0], "^epoch 0: 990 of 1000 samples, each once; 10 steps of 3 ranks; "
                         "order relaxed; ")

    def test_rehearsal(self):
        with self.loader(16, order="strict", rehearsed=6, exemplars=[2, 30, 31, 77]) as loader:
            for _ in loader:
                pass
        self.assertEqual(self.verified()[0], "epoch 0: 1000 of 1000 samples, each once; 100 steps of 1 rank; "
                         "600 rehearsed samples; order strict, worked out again; draws of generation 0, pass 0")

    def test_without_batches_of_samples(self):
        with self.loader(None) as loader:
            for _ in loader:
                pass
        self.assertIn("1000 of 1000 samples, each once; 1000 steps of 1 rank", self.verified()[0])

    def test_an_epoch_that_is_left_is_said(self):
        with self.loader(shuffle=True) as loader:
            for _ in itertools.islice(loader, 7):
                pass
            for _ in loader:
                pass
        self.assert_found("epoch 0 was left by the script after 140 of 1000 samples")
        first, second, end = self.verified("--partial")
        self.assertRegex(first, "^epoch 0: 140 of 1000 samples, each once; 7 steps .*; left by the script$")
        self.assertRegex(second, "^epoch 1: 1000 of 1000 samples")
        self.assertEqual(end, "1 epoch verified, 2 runs of the job, 0 steps taken back")

    def test_an_epoch_that_is_repeated_is_another(self):
        with self.loader(order="strict") as loader:
            for epoch in (0, 1, 1):
                loader.set_epoch(epoch)
                for _ in loader:
                    pass
        lines = self.verified()
        self.assertEqual([line[:8] for line in lines[:-1]], ["epoch 0:", "epoch 1:", "epoch 1:"])
        self.assertEqual(lines[-1], "3 epochs verified, 2 runs of the job, 0 steps taken back")

    def test_a_folder_has_one_loader_and_one_iteration_at_a_time(self):
        loader = self.loader()
        iteration = iter(loader)
        next(iteration)
        with self.assertRaisesRegex(ValueError, "another DataLoader writes to .*rank-0.jsonl"):
            len(self.loader())
        with self.assertRaisesRegex(RuntimeError, "receipts are of one iteration at a time"):
            iter(loader)
        self.assertEqual(len(list(iteration)), 49)
        self.assertEqual(len(list(loader)), 50)

    def test_a_head_that_was_kept(self):
        with self.loader(shuffle=True) as loader:
            for _ in itertools.islice(loader, 7):
                pass
            kept = loader.receipt
            for _ in loader:
                pass
        self.verified("--partial", "--head", kept)
        records = written(self.file())
        self.file().write_text(chained([*records[:4], *records[9:]]))
        self.assert_found(f"no receipt has the hash {kept}", "--partial", "--head", kept)

    def test_without_a_folder_there_is_no_receipt(self):
        loader = batchflow.DataLoader("rows", 20)
        next(iter(loader))
        self.assertIsNone(loader.receipt)
        self.assertFalse(self.receipts.exists())
        with self.assertRaisesRegex(ValueError, "receipts is empty"):
            batchflow.DataLoader("rows", 20, receipts="")


@batchflow.step
def broken_twice(row):
    if int(row[0]) in (7 * 7, 31 * 7):
        raise ValueError("a bad row")
    return row


@needs("numpy")
class Replaced(Receipted):
    ROWS = 60
    MEMORY = "640mib"

    def test_a_corrupt_sample_counts_as_itself(self):
        with self.loader(8, order="strict", pipeline=[broken_twice]) as loader:
            given = [batch.sample_keys.tolist() for _ in range(2) for batch in loader]
        self.assertEqual(self.verified(), [
            *(f"epoch {epoch}: 60 of 60 samples, each once; 8 steps of 1 rank; 2 replaced samples; order "
              f"strict, worked out again; draws of generation {epoch}, pass 0" for epoch in range(2)),
            "2 epochs verified, 1 run of the job, 0 steps taken back"])
        stand_ins = [(step, at, key) for step, record in enumerate(written(self.file())[1:-1])
                     for at, key in record.get("replaced", ())]
        self.assertEqual(len(stand_ins), 4)
        for step, at, key in stand_ins:
            self.assertEqual(given[step][at], key)


class Losses(Receipted):
    def test_the_service_is_killed_in_mid_epoch(self):
        for order in ("relaxed", "strict"):
            with self.loader(order=order, prefetch_factor=2) as loader:
                for epoch in range(2):
                    for i, _ in enumerate(loader):
                        if i in (10, 30):
                            self.daemon.kill()
                            self.daemon.start()
                self.assertEqual(loader.times()["reconnects"], 4)
            lines = self.verified()
            for epoch in range(2):
                self.assertRegex(lines[epoch], f"^epoch {epoch}: 1000 of 1000 samples, each once; 50 steps of "
                                 f"1 rank; 2 losses of the service; order {order}")
            self.assertEqual(lines[2:], ["2 epochs verified, 1 run of the job, 0 steps taken back"])
            shutil.rmtree(self.receipts)

    def test_ranks_whose_service_is_killed_meet_at_the_next(self):
        ranks = [start_job("rank_of", "rows", {"batch_size": 10, "shuffle": True, "rank": rank,
                                               "world_size": 3, "job_name": "three",
                                               "receipts": str(self.receipts)}, {}, None, None, 0.05)
                 for rank in range(3)]
        wait_until(lambda: any(job["samples"] > 300 for job in self.daemon.status()["jobs"]), 60,
                   "the middle of the epoch")
        self.daemon.kill()
        self.daemon.start()
        for rank in ranks:
            result(rank)
        [line, end] = self.verified()
        self.assertRegex(line, "^epoch 0: 1000 of 1000 samples, each once; 34 steps of 3 ranks; 2 fillers; "
                         "1 loss of the service; order relaxed")
        self.assertEqual(end, "1 epoch verified, 1 run of the job, 0 steps taken back")

    def test_a_job_that_is_killed_goes_on_from_an_earlier_state(self):
        for order in ("relaxed", "strict"):
            file = self.folder / "checkpoints"
            options = {"batch_size": 25, "order": order, "receipts": str(self.receipts)}
            job = start_job("checkpointing", "rows", options, str(file))
            wait_until(lambda: file.exists() and file.read_text().count("\n") > 20, 60, "20 batches")
            job.send_signal(signal.SIGKILL)
            job.communicate()
            states = [json.loads(line)[1] for line in file.read_text().splitlines(True)
                      if line.endswith("\n")]
            file.unlink()
            had = len(written(self.file())) - 1
            self.assertIn(had - len(states), (0, 1))  # a batch has a receipt before it has a state
            self.assert_found(f"epoch 0 is not whole: receipts end after {25 * had} of 1000 samples")
            self.assertRegex(self.verified("--partial")[0], f"^epoch 0: {25 * had} of .*; not over$")
            with self.loader(30, order=order) as loader:
                loader.load_state_dict(states[14])
                for _ in loader:
                    pass
            steps = 15 + -(-(1000 - 15 * 25) // 30)
            line, end = self.verified()
            self.assertRegex(line, f"^epoch 0: 1000 of 1000 samples, each once; {steps} steps of 1 rank; "
                             f"{had - 15} steps taken back; order {order}")
            self.assertEqual(end, f"1 epoch verified, 2 runs of the job, {had - 15} steps taken back")
            shutil.rmtree(self.receipts)

    def test_a_line_that_was_being_written_goes(self):
        with self.loader() as loader:
            for _ in itertools.islice(loader, 5):
                pass
            state = loader.state_dict()
        with self.file().open("a") as file:
            file.write('{"n":7,"kind":"st')
        self.assert_found("line 8 is cut")
        with self.loader() as loader:
            loader.load_state_dict(state)
            for _ in loader:
                pass
        self.assertEqual(self.verified()[1], "1 epoch verified, 2 runs of the job, 0 steps taken back")

    def test_a_state_of_which_there_is_no_receipt(self):
        loader = batchflow.DataLoader("rows", 20, order="strict")
        iteration = iter(loader)
        states = [loader.state_dict() for _ in itertools.islice(iteration, 20)]
        del iteration
        loader.close()
        with self.loader(order="strict") as loader:
            loader.load_state_dict(states[4])
            for _ in itertools.islice(loader, 5):
                pass
        self.assert_found("epoch 0: receipts begin behind 100 samples of it")
        with self.loader(order="strict") as loader:
            loader.load_state_dict(states[14])
            for _ in loader:
                pass
        self.assert_found("line 8: the job goes on behind 300 samples of epoch 0, and all ranks have receipts up "
                          "to 200 samples of epoch 0: steps between are missing")


class TakenOver(Checks, Candidates):
    """A cluster of three nodes, each of which may coordinate it; a job has a rank on each."""

    def test_another_coordinator_takes_over_in_mid_epoch(self):
        for order in ("relaxed", "strict"):
            self.receipts = self.folder / order
            jobs = [Job(node, epochs=3, pause=0.003, job_name=order, rank=rank, world_size=3, order=order,
                        receipts=str(self.receipts)) for rank, node in enumerate(self.candidates)]
            for job in jobs:
                job.begun()
            before = max(term(node) for node in self.candidates)
            first = next(node for node in self.candidates if term(node) == before)
            first.end()
            second = self.coordinator(after=before)
            first.start()
            self.wait_for_agents(second, 2)
            given = [job.result()["keys"] for job in jobs]
            lines = self.verified()
            for epoch, line in enumerate(lines[:3]):
                self.assertRegex(line, f"^epoch {epoch}: 6000 of 6000 samples, each once; 125 steps of 3 ranks; "
                                 rf"(\d loss(es)? of the service; )?order {order}")
                self.assertEqual(sorted(key for rank in given for key in rank[epoch]),
                                 list(range(CLUSTER_ROWS)))
            self.assertGreaterEqual(sum("of the service" in line for line in lines), 1)
            self.assertEqual(lines[3:], ["3 epochs verified, 1 run of the job, 0 steps taken back"])
            for rank in range(3):
                records = [one for one in written(self.file(rank)) if one["kind"] == "step"]
                self.assertEqual([key for one in records for key in ids_of(one)],
                                 [key for keys in given[rank] for key in keys])


class Mixed(Checks, ServedFolders):
    SERVED_AS = "mixed"
    SIZES = {"a": 300, "b": 40}

    def setUp(self):
        super().setUp()
        self.receipts = self.folder / "receipts"

    def loader(self, **more):
        return batchflow.DataLoader("mixed", 20, mixture={"a": 2, "b": 1}, draws=250, shuffle=True,
                                    weights_change=True, receipts=self.receipts, **more)

    def go_on(self):
        """A change by a schedule, one that is asked for, and two steps that are taken back."""
        schedule = {100: {"a": 1, "b": 1}}
        with self.loader(weights_at=schedule) as first:
            batches = iter(first)
            next(batches)
            first.set_weights({"a": 0, "b": 1}, at=400)
            for _ in batches:
                pass
            for count, _ in enumerate(first):
                if count == 5:
                    state = first.state_dict()
                if count == 7:
                    break
        with self.loader(weights_at=schedule) as again:
            again.load_state_dict(state)
            for _ in again:
                pass
        return written(self.file())

    def changed(self, records, change):
        """The file with `change` made to a copy of the records, and a chain that fits."""
        records = copy.deepcopy(records)
        change(records)
        self.file().write_text(chained(records))

    def test_each_draw_is_worked_out_again(self):
        records = self.go_on()
        lines = self.verified()
        # Of 100 draws at 2 to 1 a has 67, of the 300 that follow half, and none of the last 100.
        self.assertEqual(lines[0], "epoch 0: 250 draws from 340 samples; 13 steps of 1 rank; order mixed, "
                         "worked out again; draws of a 142, b 108")
        self.assertEqual(lines[1], "epoch 1: 250 draws from 340 samples; 13 steps of 1 rank; 2 steps "
                         "taken back; order mixed, worked out again; draws of a 217, b 283")

        def turn(records):
            ids = ids_of(records[2])
            records[2] = with_ids(records[2], ids[:1] + ids[2:] + ids[1:2])
        self.changed(records, turn)
        self.assert_found("draw 21 of the mixture is sample")

    def test_weights_that_the_next_run_has_were_told_before(self):
        records = self.go_on()
        at = next(at for at, one in enumerate(records) if "weights" in one)
        self.assertEqual(records[at]["weights"], [[400, [0, 2**32]]])
        for change in (lambda records: records[at].pop("weights"),
                       lambda records: records[at].update(weights=[[400, [2**31, 2**31]]]),
                       lambda records: records[at].update(weights=[[401, [0, 2**32]]])):
            self.changed(records, change)
            self.assert_found("line 24: the job goes on behind 370 draws of its mixture, with weights from draw "
                              "400 on that no rank was told of")

    def test_draws_are_by_the_weights_that_were_told(self):
        with self.loader() as loader:
            batches = iter(loader)
            next(batches)
            loader.set_weights({"a": 0, "b": 1}, at=402)
            for _ in itertools.chain(batches, loader):
                pass
        # 402 draws at 2 to 1, and 98 of b.
        self.assertRegex(self.verified()[1], "draws of a 268, b 232$")
        records = written(self.file())
        at = next(at for at, one in enumerate(records) if "weights" in one)
        for weights, draw in (([], 402), ([[402, [2**32, 0]]], 402), ([[399, [0, 2**32]]], 399)):
            self.changed(records, lambda records: records[at].update(weights=weights))
            self.assert_found(f"draw {draw} of the mixture is sample \\d+, and its rule says \\d+")
        for weights, problem in (([[1, [0, 2**32]]], "weights from draw 1 on were told after"),
                                 ([[402, [0, 7]]], "weights from draw 402 on that are none"),
                                 ([[402, [-1, 2**32 + 1]]], "weights from draw 402 on that are none"),
                                 ([[402, [2**32]]], "weights from draw 402 on that are none"),
                                 ([[402, "ab"]], "'weights' are none"), (7, "line \\d+"), ([7], "line \\d+"),
                                 ([[402]], "line \\d+"), ([[402, [0.0, 2**32]]], "'weights' are none")):
            self.changed(records, lambda records: records[at].update(weights=weights))
            self.assert_found(problem)

    def test_any_byte_of_a_mixture_is_changed_anew(self):
        """Whatever a position says of its mixture, it is said in one line what does not hold, or the
        draws are the same."""
        with self.loader() as loader:
            for _ in loader:
                pass
        records, chance = written(self.file()), random.Random(7)
        raw = base64.b64decode(records[0]["position"]["mixture"])
        found = 0
        for _ in range(40):
            made = bytearray(raw)
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
            self.changed(records, lambda records: records[0]["position"].update(
                mixture=base64.b64encode(made).decode()))
            done = verify(self.receipts)
            found += done.returncode
            self.assertEqual(done.stderr.count("\n"), done.returncode, f"{bytes(made)!r}: {done.stderr}")
        self.assertGreater(found, 30)


class Forked(Receipted):
    def test_a_child_that_inherits_the_file_does_not_end_it(self):
        done = run_python(f"""
import os, sys, batchflow
loader = batchflow.DataLoader("rows", 20, receipts={str(self.receipts)!r})
iteration = iter(loader)
next(iteration)
child = os.fork()
if child == 0:
    sys.exit()  # its finalizers run
os.waitpid(child, 0)
for _ in iteration:
    pass
""")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.verified()[1], "1 epoch verified, 1 run of the job, 0 steps taken back")
        self.assertEqual([one["kind"] for one in written(self.file())], ["begin"] + ["step"] * 50 + ["end"])


class OtherWorldSizes(Receipted):
    ROWS = 700

    def ranks(self, world, state, batches, size):
        jobs = [start_job("rank_of", "rows", {"batch_size": size, "order": self.order, "shuffle_seed": 4,
                                              "rank": rank, "world_size": world, "job_name": f"job-{world}",
                                              "receipts": str(self.receipts)}, state, batches, None)
                for rank in range(world)]
        return [result(job) for job in jobs][0]["state"]

    def test_three_ranks_are_killed_and_two_go_on(self):
        """Three ranks are killed at steps of their own. Two go on from the state after step 10."""
        files = [self.folder / f"states-{rank}" for rank in range(3)]
        jobs = [start_job("checkpointing", "rows", {"batch_size": 5, "order": "relaxed", "rank": rank,
                                                    "world_size": 3, "job_name": "killed", "shuffle_seed": 4,
                                                    "receipts": str(self.receipts)}, str(file))
                for rank, file in enumerate(files)]
        wait_until(lambda: all(file.exists() and file.read_text().count("\n") > 14 for file in files), 60,
                   "15 steps")
        for job in jobs:
            job.send_signal(signal.SIGKILL)
        for job in jobs:
            job.communicate()
        had = [sum(one["kind"] == "step" for one in written(self.file(rank))) for rank in range(3)]
        self.assertGreaterEqual(min(had), 15)
        self.order = "relaxed"
        self.ranks(2, json.loads(files[0].read_text().splitlines()[9])[1], None, 8)
        steps = -(-(700 - 10 * 15) // 16)
        line, end = self.verified()
        back = f"{min(had) - 10} steps taken back"
        self.assertRegex(line, f"^epoch 0: 700 of 700 samples, each once; 10 steps of 3 ranks, {steps} steps of 2 "
                         f"ranks; {back}; order relaxed")
        self.assertEqual(end, f"1 epoch verified, 2 runs of the job, {max(had) - 10} steps taken back")

    def test_three_ranks_then_two_then_four(self):
        for self.order in ("strict", "relaxed"):
            state = {}
            for world, batches, size in ((3, 7, 10), (2, 5, 16), (4, None, 9)):
                state = self.ranks(world, state, batches, size)
            line, end = self.verified()
            self.assertRegex(line, "^epoch 0: 700 of 700 samples, each once; 7 steps of 3 ranks, 5 steps of 2 "
                             f"ranks, 10 steps of 4 ranks; 2 fillers; order {self.order}")
            self.assertEqual(end, "1 epoch verified, 3 runs of the job, 0 steps taken back")
            self.assertEqual([len(written(self.file(rank))) for rank in range(4)],
                             [7 + 5 + 10 + 6, 7 + 5 + 10 + 6, 7 + 10 + 4, 10 + 2])
            # A rank that the second run did not have is without its last two steps of the first.
            records = written(self.file(2))
            self.file(2).write_text(chained([*records[:6], *records[8:]]))
            self.assert_found("rank-0.jsonl, line 10: the job goes on behind 210 samples of epoch 0, and "
                              "all ranks have receipts up to 150 samples of epoch 0: steps between are missing")
            shutil.rmtree(self.receipts)


class Canaries(Receipted):
    """Each is a change that the program must find. Those that only change a file break its chain.
    Those that make the chain anew must be found by what it says."""

    def setUp(self):
        super().setUp()
        self.two_ranks(2, order=self.order(), batch_size=20)
        self.kept = {rank: self.file(rank).read_text() for rank in range(2)}

    def order(self):
        return "strict" if "strict" in self._testMethodName else "relaxed"

    def changed(self, change, rank=1):
        """The file with its lines changed."""
        lines = self.kept[rank].splitlines(True)
        change(lines)
        self.file(rank).write_text("".join(lines))

    def rewritten(self, change, rank=1):
        """The file with its records changed, and a chain that fits."""
        records = [json.loads(line) for line in self.kept[rank].splitlines()]
        change(records)
        self.file(rank).write_text(chained(records))

    def test_nothing_was_changed(self):
        lines = self.verified()
        self.assertRegex(lines[0], "^epoch 0: 1000 of 1000 samples, each once; 25 steps of 2 ranks; order relaxed")
        self.assertEqual(lines[2], "2 epochs verified, 1 run of the job, 0 steps taken back")
        self.assertEqual(self.kept[1].count("\n"), 52)
        self.rewritten(lambda records: None)  # the test's own chains are those of the loader
        self.assertEqual(self.file(1).read_text(), self.kept[1])

    def test_a_key_is_changed(self):
        def change(lines):
            record = json.loads(lines[9])
            ids = ids_of(record)
            ids[3] ^= 1
            lines[9] = lines[9].replace(record["ids"], with_ids(record, ids)["ids"])
        self.changed(change)
        self.assert_found("rank-1.jsonl, line 10 was altered")

    def test_the_world_size_is_changed(self):
        self.changed(lambda lines: lines.__setitem__(0, lines[0].replace('"world_size":2', '"world_size":1')))
        self.assert_found("rank-1.jsonl, line 1 was altered")

    def test_a_line_is_removed(self):
        for at in (0, 1, 17, 50):
            self.changed(lambda lines: lines.pop(at))
            self.assert_found(f"rank-1.jsonl, line {at + 1} is receipt {at + 1}: 1 line missing before it")

    def test_the_end_is_cut(self):
        for left in (51, 26, 20):
            self.changed(lambda lines: lines.__delitem__(slice(left, None)))
            self.assert_found("rank-1.jsonl has no end" if left == 51 else
                              f"rank 1 has receipts of {left - 1} steps since rank-0.jsonl, line 1, and "
                              "another rank of 50")
        for rank in range(2):
            self.changed(lambda lines: lines.__delitem__(slice(26, None)), rank)
        self.assert_found("rank-0.jsonl has no end")
        for rank in range(2):
            self.changed(lambda lines: lines.__delitem__(slice(20, None)), rank)
        self.assert_found("epoch 0 is not whole: receipts end after 760 of 1000 samples")

    def test_a_line_is_cut(self):
        self.file(1).write_text(self.kept[1][:-20])
        self.assert_found("rank-1.jsonl, line 52 is cut")

    def test_a_line_is_doubled(self):
        for at in (0, 1, 17, 51):
            self.changed(lambda lines: lines.insert(at, lines[at]))
            self.assert_found(f"rank-1.jsonl, line {at + 2} is doubled")

    def test_two_lines_are_swapped(self):
        for at in (0, 5, 50):
            def change(lines):
                lines[at], lines[at + 1] = lines[at + 1], lines[at]
            self.changed(change)
            self.assert_found(f"rank-1.jsonl, line {at + 1} and the next one have changed places")

    def test_a_line_is_moved(self):
        self.changed(lambda lines: lines.insert(30, lines[4]))
        self.assert_found("rank-1.jsonl, line 31 is receipt 4, which stands before it")

    def test_a_rank_is_missing(self):
        self.file(1).unlink()
        self.assert_found("rank-1.jsonl is missing, of a job that had 2 ranks")
        self.file(1).write_text(self.kept[1])
        self.file(0).unlink()
        self.assert_found("rank-0.jsonl is missing")
        self.file(0).write_text("")
        self.assert_found("rank-0.jsonl is empty")
        self.file(0).write_text(self.kept[1])
        self.assert_found("rank-0.jsonl, line 1: it is of rank 1")

    def test_any_byte_is_changed(self):
        whole, chance = self.kept[1].encode(), random.Random(7)
        for at in sorted(chance.sample(range(len(whole)), 50)):
            other = chance.choice([byte for byte in (whole[at] ^ 1, 10, 32, 48) if byte != whole[at]])
            self.file(1).write_bytes(whole[:at] + bytes([other]) + whole[at + 1:])
            self.assert_found("rank-1.jsonl, line \\d+ ")

    def test_any_value_is_changed_anew(self):
        """Whatever a chain that fits says, it is said in one line what does not hold. How often the
        service was lost is the loader's word, which is only passed on."""
        records, chance = written(self.file(1)), random.Random(7)
        values = [None, -1, 0, 1, 7, 10**30, "", "AAAA", [], {}, True]
        for _ in range(50):
            changed = copy.deepcopy(records)
            record = changed[chance.randrange(len(changed))]
            place = record["position"] if "position" in record and chance.random() < .5 else record
            key = chance.choice([key for key in place if key not in ("n", "link", "reconnects")])
            old, place[key] = place[key], chance.choice(values)
            self.file(1).write_text(chained(changed))
            done, same = verify(self.receipts), json.dumps(old) == json.dumps(place[key])
            self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 0) if same else (1, 1),
                             f"{record['n']} {key} {place[key]!r}: {done.stderr}")

    def test_anew_a_sample_comes_twice(self):
        def change(records):
            records[9] = with_ids(records[9], ids_of(records[4]))
        self.rewritten(change)
        self.assert_found("epoch 0, step 8 since rank-0.jsonl, line 1: sample \\d+ came twice in epoch 0")

    def test_anew_a_step_is_left_out(self):
        self.rewritten(lambda records: records.pop(9))
        self.assert_found("rank-1.jsonl, line 10 is step 9 of its rank, and step 8 belongs there")

    def test_anew_all_ranks_leave_a_step_out_and_count_again(self):
        def change(records):
            records.pop(9)
            for at in range(9, 50):
                records[at]["step"] -= 1
        for rank in range(2):
            self.rewritten(change, rank)
        self.assert_found("rank-0.jsonl, line 10: the loader was at 400 samples of the epoch, and its receipts "
                          "come to 360")

    def test_anew_all_ranks_say_less(self):
        def change(records):
            records.pop(9)
            for at in range(9, 50):
                records[at]["step"] -= 1
                if records[at]["epoch"] == 0 and not records[at]["last"]:
                    records[at]["had"] -= 40
        for rank in range(2):
            self.rewritten(change, rank)
        self.assert_found("epoch 0 is without 40 samples: (\\d+, ){4}\\d+ and 35 more")

    def test_anew_ranks_do_not_agree(self):
        self.rewritten(lambda records: records[9].update(had=361))
        self.assert_found("rank-1.jsonl, line 10: rank 1 and rank 0 do not agree on 'had' of step 8")

    def test_anew_two_samples_of_a_strict_order_change_places(self):
        def change(records):
            ids = ids_of(records[9])
            records[9] = with_ids(records[9], [ids[1], ids[0], *ids[2:]])
        self.rewritten(change)
        self.assert_found("sample \\d+ stands at index 340 of the epoch, where the strict order has another")

    def test_anew_an_epoch_has_the_draws_of_the_one_before(self):
        for rank in range(2):
            def change(records):
                for name in ("generation", "passes"):
                    records[50]["position"][name] = records[25]["position"][name]
            self.rewritten(change, rank)
        self.assert_found("epoch 1 has passes that an earlier epoch had")


class Program(Folder):
    def test_its_order_has_the_golden_values(self):
        spec = importlib.util.spec_from_file_location("verify_receipts", PROGRAM)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        key = program.hash_of(1, 2, 3)
        self.assertEqual((key, program.mix(1)), (0x003F53A1FE784BBF, 0x5692161D100B05E5))
        for count, first in ((1281167, [1215657, 1208498, 296845, 233270, 781634, 485813]),
                             (10**9, [585994599, 409207765, 540064518]),
                             (65537, [42795, 35370, 20425, 6374]), (10, [8, 3, 1, 4, 0, 5, 6, 7, 2, 9])):
            order = program.permutation(key, count)
            self.assertEqual([order(i) for i in range(len(first))], first)

    def test_it_uses_nothing_of_the_package(self):
        self.assertNotRegex(PROGRAM.read_text(), "(?m)^\\s*(import|from) (batchflow|numpy|torch)")
        done = subprocess.run([sys.executable, "-I", str(PROGRAM), "--help"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("each epoch has each sample once", done.stdout)
        self.assertEqual(verify(self.folder / "nothing").returncode, 2)
        self.folder.joinpath("empty").mkdir()
        self.assertEqual(verify(self.folder / "empty").returncode, 1)


if __name__ == "__main__":
    unittest.main()
