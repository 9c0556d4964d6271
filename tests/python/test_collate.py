"""A collate_fn in processes of the script: what it makes, in which order, and what is left of these
processes."""

import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import unittest
import warnings
from unittest import mock

import batchflow
from batchflow.crossing import crossing
from support import HERE, Served, interrupt_and, lives, needs, run_python, wait_until
from test_own_order import Buckets
from test_served_dataset import Served as ServedDatasets

try:
    import datasets_of_ours as ours
    import numpy
except ImportError:
    numpy = ours = None
try:
    import torch
except ImportError:
    torch = None

SIZE = 50


def keys_of(samples):
    """By what stands in the rows (support.value_at)."""
    return [int(row[0]) // 7 for row, *_ in samples]


def collate(samples):
    time.sleep(0.005)
    return {"keys": keys_of(samples), "process": os.getpid()}


def of_sample(sample):
    return {"keys": keys_of([sample]), "process": os.getpid()}


def counting(samples):
    """Each call adds a byte to a file."""
    with open(os.environ["COUNTED"], "ab", buffering=0) as file:
        file.write(b"x")
    return {"keys": keys_of(samples)}


def raising(samples):
    keys = keys_of(samples)
    if 120 in keys:
        raise KeyError("there is no 120")
    return {"keys": keys}


class TwoWords(Exception):
    """One that pickle cannot make again."""

    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


def refused(samples):
    raise ConnectionRefusedError("no tokenizer listens")


def raising_two_words(samples):
    raise TwoWords("first", "second")


def dying(samples):
    keys = keys_of(samples)
    if 120 in keys:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"keys": keys}


def drawing(samples):
    info = torch.utils.data.get_worker_info()
    return {"worker": info.id, "workers": info.num_workers, "seed": info.seed,
            "drawn": (random.random(), float(numpy.random.rand()), float(torch.rand(1)))}


def set_up(worker):
    os.environ["SET_UP"] = str(10 + worker)


def tell_set_up(samples):
    return {"keys": keys_of(samples), "set_up": os.environ.get("SET_UP")}


def stacked(samples):
    return torch.stack([row for row, in samples])


def with_lambda(samples):
    return lambda: samples


def hanging(samples):
    time.sleep(60)


def takes_nothing():
    pass


def of_dataset(samples):
    return {"keys": [int(row[0]) // 1024 for row, _ in samples],
            "labels": [label for _, label in samples], "process": os.getpid()}


class Handle:
    def __init__(self, file):
        self.file = open(file, "rb")

    def __call__(self, samples):
        return collate(samples)


class Said:
    """What is said in a block."""

    def __enter__(self):
        self._caught = warnings.catch_warnings(record=True)
        self._said = self._caught.__enter__()
        warnings.simplefilter("always")
        return self

    def __exit__(self, *error):
        self.texts = [str(one.message) for one in self._said]
        self._caught.__exit__(*error)


@needs("numpy")
class Collating(Served):
    ROWS = 1000

    def loader(self, function=collate, workers=2, **named):
        named = {"order": "strict", "shuffle_seed": 3, "output": "numpy", **named}
        return batchflow.DataLoader("rows", SIZE, collate_fn=function, num_workers=workers, **named)

    def keys(self, batches):
        return [key for batch in batches for key in batch["keys"]]

    def assert_gone(self, processes):
        for process in processes:
            wait_until(lambda: not lives(process), 30, f"the end of worker {process}")


class Workers(Collating):
    def test_they_make_what_the_loop_would_make_in_its_order(self):
        expected = self.keys(self.loader(workers=0))
        self.assert_whole(expected)
        for workers in (1, 2, 3):
            with Said() as said:
                batches = list(self.loader(workers=workers))
            self.assertEqual(said.texts, [])
            self.assertEqual(self.keys(batches), expected)
            processes = {batch["process"] for batch in batches}
            self.assertNotIn(os.getpid(), processes)
            self.assertEqual(len(processes), workers)
            self.assert_gone(processes)

    def test_methods_of_starting_processes(self):
        expected = self.keys(self.loader(workers=0))
        for method in ("spawn", multiprocessing.get_context("forkserver")):
            batches = list(self.loader(workers=1, multiprocessing_context=method))
            self.assertEqual(self.keys(batches), expected)
            self.assertNotIn(os.getpid(), {batch["process"] for batch in batches})
        with self.assertRaisesRegex(ValueError, "no such method"):
            next(iter(self.loader(multiprocessing_context="no such method")))

    def test_samples_one_by_one(self):
        loader = batchflow.DataLoader("rows", None, collate_fn=of_sample, num_workers=2,
                                      output="memoryview")
        batches = list(itertools.islice(loader, 100))
        self.assertEqual(self.keys(batches), list(range(100)))
        self.assertEqual(len({batch["process"] for batch in batches} - {os.getpid()}), 2)

    def test_no_more_is_made_ahead_than_the_bound(self):
        os.environ["COUNTED"] = str(self.folder / "counted")
        for factor, most in ((None, 4), (3, 6), (0, 1), (100, 16)):
            (self.folder / "counted").write_bytes(b"")
            given, keys = 0, []
            for batch in self.loader(counting, prefetch_factor=factor):
                keys += batch["keys"]
                given += 1
                self.assertLessEqual((self.folder / "counted").stat().st_size, given + most)
                # The service has the memory back as soon as a worker has a batch.
                self.assertEqual(crossing().held_count(), 0)
            self.assert_whole(keys)
            self.assertEqual((self.folder / "counted").stat().st_size, given)

    def test_a_state_counts_what_the_loop_was_given(self):
        expected = self.keys(self.loader(workers=0))
        for order in ("strict", "relaxed"):
            for count in (0, 1, 7, 19):
                loader = self.loader(order=order)
                iteration = iter(loader)
                had = []
                for n in range(count):
                    had += next(iteration)["keys"]
                    self.assertEqual(loader.state_dict()["consumed"], (n + 1) * SIZE)
                state = json.loads(json.dumps(loader.state_dict()))
                again = self.loader(order=order)
                again.load_state_dict(state)
                rest = self.keys(again)
                self.assert_whole(had + rest)
                if order == "strict":
                    self.assertEqual(had + rest, expected)
                # The loop that was not ended goes on, too.
                had += self.keys(iteration)
                self.assert_whole(had)
                self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["consumed"]), (1, 0))

    def test_an_iteration_that_is_left_is_followed_by_the_next_epoch(self):
        loader = self.loader()
        epochs = [self.keys(self.loader(workers=0)), []]
        for batch in loader:
            processes = {batch["process"]}
            break
        self.assert_gone(processes)
        self.assertEqual(loader.state_dict()["consumed"], SIZE)
        epochs[1] = self.keys(loader)
        self.assert_whole(epochs[1])
        self.assertNotEqual(*epochs)
        self.assertEqual(loader.state_dict()["epoch"], 2)
        # As in a loader that collates in the loop.
        here = self.loader(workers=0)
        next(iter(here))
        self.assertEqual(self.keys(here), epochs[1])

    def test_iterations_side_by_side(self):
        for persistent in (False, True):
            loader = self.loader(persistent_workers=persistent)
            pairs = list(zip(loader, loader))
            for side in zip(*pairs):
                self.assert_whole(self.keys(side))
            self.assert_whole(self.keys(loader))

    def test_persistent_workers_stay_until_the_loader_ends(self):
        loader = self.loader(persistent_workers=True)
        epochs = [{batch["process"] for batch in loader} for _ in range(2)]
        self.assertEqual(*epochs)
        for batch in loader:
            break
        self.assert_whole(self.keys(loader))
        loader.close()
        self.assert_gone(epochs[0])

    def test_persistent_workers_keep_nothing_of_iterations_that_are_left(self):
        loader = self.loader(persistent_workers=True, order="sequential")
        for _ in range(300):  # a socket has room for fewer messages
            next(iter(loader))
        self.assert_whole(self.keys(loader))

    def test_workers_are_those_of_an_epoch(self):
        loader = self.loader()
        epochs = [{batch["process"] for batch in loader} for _ in range(2)]
        self.assertFalse(epochs[0] & epochs[1])

    def test_an_error_comes_with_its_traceback_and_the_loop_goes_on(self):
        loader = self.loader(raising, order="sequential")
        iteration = iter(loader)
        had = next(iteration)["keys"] + next(iteration)["keys"]
        with self.assertRaisesRegex(KeyError, "there is no 120") as caught:
            next(iteration)
        self.assertIn("in raising\n", str(caught.exception.__cause__))
        self.assertEqual(loader.state_dict()["consumed"], 3 * SIZE)
        had += self.keys(iteration)
        self.assertEqual(had, [key for key in range(self.ROWS) if not 100 <= key < 150])
        with self.assertRaisesRegex(ConnectionRefusedError, "no tokenizer listens"):
            next(iter(self.loader(refused)))
        with self.assertRaisesRegex(RuntimeError, "TwoWords: first second") as caught:
            next(iter(self.loader(raising_two_words)))
        self.assertIn("in raising_two_words\n", str(caught.exception.__cause__))
        with self.assertRaisesRegex(RuntimeError, "collate_fn gave cannot be taken .* a lambda"):
            next(iter(self.loader(with_lambda)))

    def test_a_worker_that_dies_is_an_error_and_loses_nothing(self):
        loader = self.loader(dying, order="sequential")
        iteration = iter(loader)
        had = next(iteration)["keys"] + next(iteration)["keys"]
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, r"worker \(pid \d+\), which ran collate_fn, was "
                                                      "killed by signal SIGKILL.*num_workers=0"):
                next(iteration)
        state = loader.state_dict()
        self.assertEqual(state["consumed"], 2 * SIZE)
        again = self.loader(order="sequential")
        again.load_state_dict(state)
        self.assertEqual(had + self.keys(again), list(range(self.ROWS)))

    def test_a_wait_ends_with_pytorchs_words(self):
        iteration = iter(self.loader(hanging, timeout=1))
        with self.assertRaisesRegex(RuntimeError, "timed out after 1 seconds: collate_fn"):
            next(iteration)

    def test_what_cannot_be_taken_runs_in_the_loop_and_says_so(self):
        def closure(samples):
            return dict(collate(samples), by=self.id())

        handle = Handle(self.data / "rows.npy")
        self.addCleanup(handle.file.close)
        for function, why in ((lambda samples: collate(samples), "a lambda cannot be taken"),
                              (closure, "it cannot be pickled .*closure"),
                              (handle, "it cannot be pickled .*BufferedReader")):
            loader = self.loader(function)
            with Said() as said:
                batches = [*loader, *loader]
            self.assert_whole(self.keys(batches[:len(loader)]))
            self.assertEqual({batch["process"] for batch in batches}, {os.getpid()})
            self.assertEqual(len(said.texts), 1, said.texts)
            self.assertRegex(said.texts[0], "collate_fn runs in the training process, and not in 2 "
                                            f"workers: {why}")
            with Said() as said:
                list(self.loader(function, workers=0))
            self.assertEqual(said.texts, [])

    def test_worker_init_fn(self):
        with Said() as said:
            batches = list(self.loader(tell_set_up, worker_init_fn=set_up))
        self.assertEqual(said.texts, [])
        self.assertEqual([batch["set_up"] for batch in batches], ["10", "11"] * 10)
        with self.assertRaisesRegex(TypeError, "takes 0 positional arguments"):
            next(iter(self.loader(tell_set_up, worker_init_fn=takes_nothing)))

    def test_receipts_are_of_what_the_loop_was_given(self):
        loader = self.loader(receipts=self.folder / "receipts")
        iteration = iter(loader)
        for _ in range(3):
            next(iteration)
        lines = (self.folder / "receipts" / "rank-0.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["kind"] for line in lines], ["begin", "step", "step", "step"])
        list(iteration)
        loader.close()
        list(here := self.loader(workers=0, receipts=self.folder / "here"))
        here.close()
        steps = [[{**json.loads(line), "link": ""} for line in (
            self.folder / name / "rank-0.jsonl").read_text().splitlines()] for name in ("receipts", "here")]
        self.assertEqual(*steps)
        self.assertEqual(len(steps[0]), 1 + self.ROWS // SIZE + 1)

    def test_a_closed_loader_has_no_processes(self):
        loader = self.loader()
        iteration = iter(loader)
        process = next(iteration)["process"]
        loader.close()
        self.assert_gone([process])
        with self.assertRaisesRegex(RuntimeError, "closed"):
            next(iteration)

    def test_an_error_of_the_service_comes_behind_the_batches_before_it(self):
        for persistent in (False, True):
            loader = self.loader(order="sequential", persistent_workers=persistent)
            iteration = iter(loader)
            had = [next(iteration)]
            ahead = iteration._ahead
            take, taken = ahead._take, []

            def fails_behind_three():
                if len(taken) == 3:
                    taken.append(None)
                    raise batchflow.ServiceError("the job was ended")
                taken.append(take())
                return taken[-1]

            ahead._take, ahead._is_there = fails_behind_three, lambda: True
            before = len(ahead._items)
            with self.assertRaisesRegex(batchflow.ServiceError, "the job was ended"):
                while True:
                    had.append(next(iteration))
            self.assertEqual(len(had), 1 + before + 3)
            self.assertEqual(self.keys(had), list(range(len(had) * SIZE)))
            self.assertEqual(loader.state_dict()["consumed"], len(had) * SIZE)
            # The next call asks the service again.
            self.assertEqual(self.keys([*had, *iteration]), list(range(self.ROWS)))

    def test_a_ctrl_c_while_an_iteration_goes_is_raised(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        loader = self.loader()
        held = [iter(loader)]
        processes = [next(held[0])["process"] for _ in range(2)]
        with self.assertRaises(KeyboardInterrupt):
            interrupt_and(held.clear)
        self.assertEqual(len(set(processes)), 2)
        self.assert_gone(processes)

    def test_a_child_of_fork_leaves_the_workers_alone(self):
        iteration = iter(self.loader())
        had = next(iteration)["keys"]
        child = os.fork()
        if child == 0:
            try:
                next(iteration)
            except RuntimeError as error:
                del iteration
                os._exit("which fork() made of it" not in str(error))
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assert_whole(had + self.keys(iteration))

    def test_nothing_is_left_of_a_script_that_ends(self):
        script = (f"import sys; sys.path.insert(0, {str(HERE)!r}); import batchflow, test_collate\n"
                  "loader = batchflow.DataLoader('rows', 50, collate_fn=test_collate.collate, "
                  "num_workers=2)\n"
                  "iteration = iter(loader)\n"
                  "print(*{next(iteration)['process'] for _ in range(4)}, flush=True)\n")
        for end in ("", "raise SystemExit(0)", "del iteration"):
            done = run_python(script + end)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, b"")
            processes = [int(one) for one in done.stdout.split()]
            self.assertEqual(len(processes), 2)
            self.assert_gone(processes)
        killed = subprocess.Popen([sys.executable, "-c", script + "import time; time.sleep(60)"],
                                  stdout=subprocess.PIPE)
        self.addCleanup(killed.stdout.close)
        processes = [int(one) for one in killed.stdout.readline().split()]
        killed.kill()
        killed.wait()
        self.assert_gone(processes)

    @needs("torch")
    def test_seeds_and_worker_info_are_as_pytorchs(self):
        batches = list(self.loader(drawing, output="torch"))
        base = batches[0]["seed"]
        for n, batch in enumerate(batches):
            worker = n % 2
            self.assertEqual((batch["worker"], batch["workers"], batch["seed"]),
                             (worker, 2, base + worker))
        for worker in range(2):
            random.seed(base + worker)
            self.assertEqual(batches[worker]["drawn"][0], random.random())
            generator = torch.Generator().manual_seed(base + worker)
            self.assertEqual(batches[worker]["drawn"][2], float(torch.rand(1, generator=generator)))
        for draws in zip(*(batch["drawn"] for batch in batches)):
            self.assertEqual(len(set(draws)), len(batches))
        # A seeded script draws the same again, and another epoch draws anew.
        runs = []
        for _ in range(2):
            torch.manual_seed(5)
            loader = self.loader(drawing, output="torch")
            runs.append([[batch["drawn"] for batch in loader] for _ in range(2)])
        self.assertEqual(*runs)
        self.assertNotEqual(*runs[0])

    @needs("torch")
    def test_tensors(self):
        here = list(self.loader(stacked, 0, output="torch"))
        there = list(self.loader(stacked, output="torch"))
        for one, other in zip(here, there):
            self.assertTrue(torch.equal(one, other))
            other += 1  # they are the script's own
        self.assertEqual(len(here), len(there))
        mixed = [list(self.loader(stacked, workers, output="torch", mixing=lambda rows: rows + torch.rand(1)))
                 for workers in (0, 2)]
        for one, other in zip(*mixed):
            self.assertTrue(torch.equal(one, other))


class SmallMemory(Collating):
    MEMORY = "192mib"

    def test_workers_hold_none_of_it(self):
        loaders = [self.loader(workers=3, shuffle_seed=seed, prefetch_factor=100) for seed in range(4)]
        for side in zip(*zip(*loaders)):
            self.assert_whole(self.keys(side))


@needs("torch")
class Values(unittest.TestCase):
    """What goes from one process to another."""

    def passed(self, value):
        import socket

        from batchflow import passing
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            passing.send(ours, 3, 1, value)
            message = passing.receive(theirs)
        self.assertEqual((message.number, message.kind), (3, 1))
        return message.value()

    def test_tensors_stay_as_they_are(self):
        whole = torch.arange(60000).reshape(100, 600)
        for tensor in (whole, whole[:, ::2], whole.float().reshape(10, 3, 100, 20).contiguous(
                memory_format=torch.channels_last), whole.bfloat16(), whole.bool(), whole[:0],
                torch.tensor(3.5), whole.float().requires_grad_(), whole.float().to_sparse()):
            made = self.passed([tensor])[0]
            self.assertIs(made.dtype, tensor.dtype)
            self.assertEqual(made.requires_grad, tensor.requires_grad)
            self.assertTrue(torch.equal(made.to_dense(), tensor.to_dense()) if tensor.is_sparse else
                            torch.equal(made, tensor))
        nhwc = whole.float().reshape(10, 3, 100, 20).contiguous(memory_format=torch.channels_last)
        self.assertEqual(self.passed(nhwc).stride(), nhwc.stride())

    def test_other_values(self):
        self.assertEqual(self.passed({"text": "word", "none": None, 3: (1.5, [b"x" * 10000])}),
                         {"text": "word", "none": None, 3: (1.5, [b"x" * 10000])})
        rows = numpy.arange(20000, dtype=numpy.float32).reshape(100, 200)
        for array in (rows, rows.T, rows[::3], numpy.array(["a", None], object), rows[:0]):
            numpy.testing.assert_array_equal(self.passed(array), array)
        view = memoryview(bytes(range(24)) * 1000).cast("B").cast("I", (60, 100))
        self.assertEqual(self.passed(view), view)
        self.assertTrue(self.passed(view).readonly)
        self.assertEqual(self.passed(memoryview(b"")).nbytes, 0)

    def test_the_c_library_is_loaded_once(self):
        self.passed(torch.arange(5000))
        with mock.patch("ctypes.CDLL", side_effect=AssertionError("it is loaded again")):
            self.assertEqual(self.passed(torch.arange(5000))[-1], 4999)

    def test_memory_goes_with_its_last_array_and_keeps_no_file(self):
        def mapped():
            with open("/proc/self/maps", encoding="utf-8") as maps:
                return sum("memfd:batchflow" in line for line in maps)

        files, before = len(os.listdir("/proc/self/fd")), mapped()
        kept = [self.passed(torch.arange(5000)) for _ in range(3)]
        self.assertEqual((len(os.listdir("/proc/self/fd")), mapped()), (files, before + 3))
        part = kept[1][7:9]
        del kept
        self.assertEqual(mapped(), before + 1)
        self.assertEqual(part.tolist(), [7, 8])


@needs("numpy")
class Datasets(ServedDatasets):
    """Samples of a Dataset of the script, which the service loads."""

    def loader(self, **named):
        return batchflow.DataLoader(ours.Rows(), collate_fn=of_dataset, num_workers=2, output="numpy",
                                    **named)

    def test_each_sample_once_as_the_dataset_gives_it(self):
        loader = self.loader(batch_size=32, shuffle=True)
        for _ in range(2):
            batches = list(loader)
            keys = [key for batch in batches for key in batch["keys"]]
            self.assertEqual(sorted(keys), list(range(ours.ROWS)))
            self.assertEqual([label for batch in batches for label in batch["labels"]],
                             [key % 7 for key in keys])
            self.assertEqual(len({batch["process"] for batch in batches} - {os.getpid()}), 2)

    def test_the_order_of_a_sampler_also_after_a_resume(self):
        batches = list(Buckets())
        for persistent in (False, True):
            loader = self.loader(batch_sampler=Buckets(), persistent_workers=persistent)
            for _ in range(2):
                given = list(loader)
                self.assertEqual([one["keys"] for one in given], batches)
                self.assertNotIn(os.getpid(), {one["process"] for one in given})
            for count in (1, 5):
                iteration = iter(loader)
                had = [next(iteration)["keys"] for _ in range(count)]
                again = self.loader(batch_sampler=Buckets(), persistent_workers=persistent)
                again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
                self.assertEqual(had + [one["keys"] for one in again], batches)
                self.assertEqual(had + [one["keys"] for one in iteration], batches)


if __name__ == "__main__":
    unittest.main()
