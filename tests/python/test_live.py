"""Live jobs through the service, with exact ids: each record once, in the order in which it came,
whatever is killed meanwhile (docs/live.md)."""

import gc
import json
import mmap
import os
import pickle
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from array import array
from pathlib import Path

import batchflow
from support import CTL, DAEMON, HERE, Daemon, Folder, free_port, rest_of, run_python, wait_until, write_rows

SIM = os.environ.get("BATCHFLOW_SIM", str(Path(CTL).parent / "batchflow-sim"))
WIDTH = 16  # int64
RESERVOIR = {"policy": "reservoir", "samples": 20, "rehearsed": 3}


def record(n):
    return struct.pack(f"<{WIDTH}q", n, *([7 * n] * (WIDTH - 1)))


class Fed(Folder):
    """A feed `clicks` of numbers, in a service of its own."""

    SCHEMA = f"i64[{WIDTH}]"
    KEEP = "4mib"
    MEMORY = "512mib"
    ARGUMENTS = ()

    def setUp(self):
        super().setUp()
        self.feed = self.folder / "clicks"
        subprocess.run([CTL, "feed", "create", str(self.feed), "--schema", self.SCHEMA,
                        "--keep", self.KEEP], check=True, stdout=subprocess.DEVNULL)
        self.daemon = Daemon(self.folder, "--dataset", f"clicks={self.feed}", *self.ARGUMENTS,
                             memory=self.MEMORY)
        self.addCleanup(self.daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket

    def producer(self, name="one", **arguments):
        return batchflow.Feed(self.feed, name, f"i64[{WIDTH}]", **arguments)

    def send(self, numbers, name="one", end=False):
        with self.producer(name) as feed:
            for n in numbers:
                feed.put(record(n))
            feed.flush()
            if end:
                feed.end()

    def loader(self, batch_size=4, live=None, **arguments):
        return batchflow.DataLoader(live or batchflow.Live("clicks", fill=None), batch_size,
                                    **arguments)

    def numbers(self, batch):
        """Of the records that are new; every number of a batch belongs to them."""
        rows = batch[0].tolist()
        for row in rows:
            self.assertEqual(row, [row[0]] + [7 * row[0]] * (WIDTH - 1))
        keys = batch.sample_keys.tolist()
        self.assertEqual(len(keys), len(rows))
        new = batch.samples - batch.rehearsed - batch.fillers
        return [row[0] for row in rows][:new]


class Many(Fed):
    KEEP = "256mib"
    MEMORY = "256mib"

    def test_blocks_of_small_batches_take_no_more_memory_than_there_is(self):
        records = 4 * 80_000  # each batch of 4 takes a page, and all of them more than the memory
        self.send(range(records), end=True)
        expected = 0
        for batch in self.loader(batch_size=4):
            self.assertEqual(batch.sample_keys.tolist(), list(range(expected, expected + 4)))
            expected += 4
        self.assertEqual(expected, records)


class LargeRecords(Fed):
    """Of 16 KiB: a block of 8 MiB has 512."""

    SCHEMA = "i64[2048]"
    KEEP = "256mib"

    def test_a_batch_of_a_prime_number_of_them_comes(self):
        size = 1031
        with batchflow.Feed(self.feed, "one", self.SCHEMA) as feed:
            for n in range(2 * size):
                feed.put(struct.pack("<q", n) * 2048)
            feed.end()
        had = []
        for batch in self.loader(batch_size=size, timeout=60):
            for row in batch[0].tolist():
                self.assertEqual(row, [row[0]] * 2048)
                had.append(row[0])
        self.assertEqual(had, list(range(2 * size)))

    def test_a_batch_that_no_blocks_cut_is_refused(self):
        with self.assertRaisesRegex(batchflow.RefusedError, "no large prime number"):
            next(iter(self.loader(batch_size=4099)))


class Arriving(Fed):
    def test_each_record_comes_once_in_its_order_until_the_feed_ends(self):
        self.send(range(103), end=True)
        had = []
        for batch in self.loader(batch_size=10):
            had += self.numbers(batch)
        self.assertEqual(had, list(range(103)))

    def test_records_that_came_lately_are_not_read_from_the_drive(self):
        def read_bytes():
            lines = Path(f"/proc/{self.daemon.process.pid}/io").read_text().splitlines()
            return int(dict(line.split(": ") for line in lines)["read_bytes"])

        self.send(range(8000), end=True)  # 1 MB, which is durable
        before = read_bytes()
        for _ in range(2):
            had = [n for batch in self.loader(batch_size=100) for n in self.numbers(batch)]
            self.assertEqual(had, list(range(8000)))
        self.assertLess(read_bytes() - before, 8000 * 8 * WIDTH // 10)

    def test_a_feed_is_said_to_have_no_end(self):
        said = f"dataset clicks: a feed of i64[{WIDTH}], which has no end, version "
        wait_until(lambda: said in self.daemon.log.read_text())
        shown = subprocess.run([CTL, "--service", self.daemon.socket, "datasets"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        self.assertRegex(shown, r"(?m)^clicks +no end ")
        self.assertNotIn("4294967295", shown)

    def test_a_live_loader_has_no_length(self):
        with self.assertRaises(TypeError):
            len(self.loader())

    def test_records_come_while_a_job_waits_for_them(self):
        had = []

        def produce():
            with self.producer() as feed:
                for n in range(40):
                    feed.put(record(n))
                    feed.flush()
                    time.sleep(0.002)
                feed.end()

        sending = threading.Thread(target=produce)
        sending.start()
        for batch in self.loader(batch_size=8):
            had += self.numbers(batch)
        sending.join()
        self.assertEqual(had, list(range(40)))

    def test_what_a_live_job_waits_for_are_records(self):
        def produce():
            with self.producer() as feed:
                for n in range(8):
                    feed.put(record(n))
                feed.flush()
                time.sleep(3)
                for n in range(8, 16):
                    feed.put(record(n))
                feed.end()

        sending = threading.Thread(target=produce)
        sending.start()
        with self.assertLogs("batchflow", "WARNING") as said:
            loader = self.loader(batch_size=4)
            had = [n for batch in loader for n in self.numbers(batch)]
        sending.join()
        self.assertEqual(had, list(range(16)))
        self.assertRegex("\n".join(said.output),
                         r"\d+ % of the waits at its service are for records: producers that send more")
        stalls = self.daemon.status()["stall_s"]
        self.assertGreater(stalls["records"], 1)
        self.assertEqual(max(stalls, key=stalls.get), "records")

    def test_two_jobs_have_every_record_each(self):
        self.send(range(60), end=True)
        for _ in range(2):
            had = [n for batch in self.loader(batch_size=7) for n in self.numbers(batch)]
            self.assertEqual(had, list(range(60)))

    def test_a_job_may_begin_with_what_comes_next(self):
        self.send(range(20))
        loader = self.loader(batch_size=5, live=batchflow.Live("clicks", fill=None, begin="newest"))
        iteration = iter(loader)
        loader._opened()
        self.send(range(20, 30), end=True)
        had = [n for batch in iteration for n in self.numbers(batch)]
        self.assertEqual(had, list(range(20, 30)))

    def test_a_slow_feed_is_filled_up_with_what_was_had(self):
        self.send(range(8))
        loader = self.loader(batch_size=4, live=batchflow.Live("clicks", wait=0.05))
        batches, began = [], time.monotonic()
        for batch in loader:
            batches.append(batch)
            if len(batches) == 2:
                began = time.monotonic()
            if len(batches) == 5:
                break
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual([batch.rehearsed for batch in batches], [0, 0, 4, 4, 4])
        for batch in batches[2:]:
            rows = [row[0] for row in batch[0].tolist()]
            self.assertTrue(set(rows) <= set(range(8)), rows)
            self.assertEqual(rows, batch.sample_keys.tolist())

    def test_batches_may_be_short_instead(self):
        self.send(range(6))
        loader = self.loader(batch_size=4, live=batchflow.Live("clicks", wait=0.05, fill="short"))
        iteration = iter(loader)
        self.assertEqual(self.numbers(next(iteration)), [0, 1, 2, 3])
        short = next(iteration)
        self.assertEqual(short.samples, 2)
        self.assertEqual(len(short[0]), 2)
        self.assertEqual(self.numbers(short), [4, 5])


class Short(Fed):
    def test_short_batches_of_any_size_wait_for_no_whole_one(self):
        self.send(range(100))
        for size in (1, 7, 256):
            for begin in ("oldest", 0, 93):
                with self.subTest(size=size, begin=begin):
                    expected = list(range(0 if begin == "oldest" else begin, 100))
                    live = batchflow.Live("clicks", wait=0.05, fill="short", begin=begin)
                    had = []
                    for batch in self.loader(size, live, timeout=60):
                        self.assertEqual(batch.rehearsed, 0)
                        had += self.numbers(batch)
                        if len(had) >= len(expected):
                            break
                    self.assertEqual(had, expected)

    def test_all_ways_to_have_too_few_end_with_their_feed(self):
        self.send(range(100), end=True)
        for size in (1, 7, 256):
            for fill in ("short", "rehearse", None):
                for begin in (0, 93, 100):
                    with self.subTest(size=size, fill=fill, begin=begin):
                        live = batchflow.Live("clicks", wait=0.05, fill=fill, begin=begin)
                        had = [n for batch in self.loader(size, live, timeout=60)
                               for n in self.numbers(batch)]
                        self.assertEqual(had, list(range(begin, 100)))

    def test_subscribers_begin_anywhere_and_end_with_the_feed(self):
        self.send(range(100), end=True)
        for begin in (0, 1, 99, 100):
            messages = list(batchflow.subscribe("clicks", begin))
            self.assertEqual([message.number for message in messages], list(range(begin, 100)))
            self.assertEqual([message.value[0].tolist()[0] for message in messages],
                             list(range(begin, 100)))


class SmallLog(Fed):
    KEEP = "1mib"

    def test_a_burst_of_many_logs_comes_as_a_whole_and_its_job_ends(self):
        records = 30_000  # which take 5 MB in the log
        sending = threading.Thread(target=self.send, args=(range(records),), kwargs={"end": True})
        sending.start()
        self.addCleanup(sending.join)
        had = []
        for batch in self.loader(batch_size=256, timeout=60):
            had += self.numbers(batch)
        self.assertEqual(had, list(range(records)))

    def test_a_step_for_which_half_of_the_log_has_no_room_is_refused(self):
        most = 2 ** 19 // (8 * WIDTH + 64)
        for fill in (None, "rehearse"):
            with self.subTest(fill=fill), \
                    self.assertRaisesRegex(batchflow.RefusedError, f"has room for {most};"):
                next(iter(self.loader(most + 1, batchflow.Live("clicks", fill=fill))))
        sending = threading.Thread(target=self.send, args=(range(2 * most),), kwargs={"end": True})
        sending.start()
        self.addCleanup(sending.join)
        had = [n for batch in self.loader(batch_size=most, timeout=60) for n in self.numbers(batch)]
        self.assertEqual(had, list(range(2 * most)))

    def test_what_is_gone_is_refused_with_what_is_kept(self):
        sending = threading.Thread(target=self.send, args=(range(30_000),), kwargs={"end": True})
        sending.start()
        self.addCleanup(sending.join)
        state = None
        loader = self.loader(batch_size=256, timeout=60)
        for batch in loader:
            state = state or loader.state_dict()
        del batch  # a job stays while the script holds a batch
        loader.close()
        wait_until(lambda: not self.daemon.status()["jobs"])  # then nothing goes any more
        first = self.daemon.status()["datasets"][0]["feed"]["first"]
        self.assertGreater(first, 256)
        begins = batchflow.Live("clicks", fill=None, begin=first - 1)
        for record, ask in ((0, lambda: next(batchflow.subscribe("clicks", 0))),
                            (first - 1, lambda: next(iter(self.loader(live=begins))))):
            with self.assertRaisesRegex(
                    batchflow.RefusedError,
                    f"with record {record}, which is gone: the first record kept is {first}; ask for"):
                ask()
        again = self.loader(batch_size=256)
        again.load_state_dict(state)
        with self.assertRaisesRegex(
                batchflow.RefusedError,
                f"it goes on with record 256, which is gone: the first record kept is {first};"):
            next(iter(again))
        with self.assertRaisesRegex(batchflow.RefusedError, "the next to come is 30000"):
            next(batchflow.subscribe("clicks", 30_001))
        self.assertEqual(next(batchflow.subscribe("clicks", first)).number, first)

    def test_a_short_step_of_any_size_comes_from_a_small_log(self):
        self.send(range(10))
        live = batchflow.Live("clicks", wait=0.05, fill="short")
        had = []
        for batch in self.loader(20_000, live, timeout=60):  # half of the log has room for 2,730
            had += self.numbers(batch)
            if len(had) == 10:
                break
        self.assertEqual(had, list(range(10)))

    def test_a_step_of_filled_records_that_has_just_room_comes(self):
        most = 2 ** 19 // (8 * WIDTH + 64)
        self.send(range(most))
        live = batchflow.Live("clicks", wait=0.05)
        batches = iter(self.loader(most, live, timeout=60))
        self.assertEqual(self.numbers(next(batches)), list(range(most)))
        self.assertEqual(next(batches).rehearsed, most)


class Killed(Fed):
    def test_no_acknowledged_record_is_lost_by_kill_9_in_the_middle_of_ingestion(self):
        had, acknowledged = [], 0
        feed = self.producer()
        for n in range(3000):
            feed.put(record(n))
            if n == 300:
                feed.flush()  # so that some are acknowledged, however slow the machine is
            if n in (400, 1100, 1700):
                self.daemon.kill(signal.SIGKILL)
                acknowledged = feed.acknowledged
                self.daemon.start()
        feed.flush()
        self.assertGreater(acknowledged, 0)
        self.assertEqual(feed.acknowledged, 3000)
        feed.end()
        feed.close()
        for batch in self.loader(batch_size=50):
            had += self.numbers(batch)
        self.assertEqual(had, list(range(3000)))

    def test_a_folder_that_is_no_feed_is_refused_at_once(self):
        for folder, why in ((self.folder / "none", "there is no such folder"),
                            (self.folder, "it has no feed.json")):
            with self.assertRaisesRegex(ValueError, f"^{folder} is no feed: {why}; .* "
                                                    f"batchflowctl feed create {folder}, "):
                batchflow.Feed(folder, "one", timeout=1e7)

    def test_a_feed_that_fork_copied_is_refused_in_the_child_and_goes_on_in_the_parent(self):
        feed = self.producer()
        feed.put(record(0))
        feed.flush()
        with self.assertRaisesRegex(TypeError, "cannot be sent to another; open a feed there"):
            pickle.dumps(feed)
        read, write = os.pipe()
        go_on, told = os.pipe()
        child = os.fork()
        if child == 0:
            said = "nothing"
            try:
                try:
                    feed.put(record(100))
                except ValueError as error:
                    said = str(error)
                feed.close()
                with self.producer("of the child") as own:
                    own.put(record(1))
                del feed
                gc.collect()
            finally:
                os.write(write, said.encode())
                os.close(told)
                os.read(go_on, 1)  # it outlives the parent's feed, and has its socket
                os._exit(0)
        os.close(write)
        self.addCleanup(os.close, told)
        self.assertRegex(os.read(read, 1 << 16).decode(),
                         r"was opened in process \d+, and this is process \d+, which fork\(\) made of "
                         "it; open a feed in each process, under a producer's name of its own$")
        feed.put(record(2))
        feed.flush()
        feed.close()
        with self.producer() as again:  # of the same name, while the child lives
            again.put(record(3))
            again.flush()
            again.end()
        os.write(told, b"x")
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual([n for batch in self.loader(1) for n in self.numbers(batch)], [0, 1, 2, 3])

    def test_a_job_goes_on_when_its_service_is_killed(self):
        self.send(range(200))
        had = []
        for i, batch in enumerate(self.loader(batch_size=10)):
            had += self.numbers(batch)
            if i == 7:
                self.daemon.kill(signal.SIGKILL)
                self.daemon.start()
                self.send(range(200, 215), end=True)
        self.assertEqual(had, list(range(215)))

    def test_a_state_goes_on_at_another_world_size(self):
        self.send(range(100), end=True)
        loader, had = self.loader(batch_size=10), []
        for i, batch in enumerate(loader):
            had += self.numbers(batch)
            if i == 2:
                state = loader.state_dict()
                break
        del loader
        self.assertEqual(had, list(range(30)))
        by_step = {}

        def rank(number):
            mine = self.loader(batch_size=4, rank=number, world_size=2, job_name="resumed")
            mine.load_state_dict(state)
            for step, batch in enumerate(mine):
                by_step[step, number] = self.numbers(batch)

        ranks = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(60)
        self.assertEqual([n for _, numbers in sorted(by_step.items()) for n in numbers],
                         list(range(30, 100)))


class ManyGenerations(Fed):
    """In a service in which a live job's generation has ten blocks alone."""

    def setUp(self):
        node = Path(tempfile.mkdtemp(prefix="batchflow-"))
        self.addCleanup(shutil.rmtree, node, True)
        (node / "node.yaml").write_text("kind: node\nengine: {live_blocks_most: 10}\n")
        self.ARGUMENTS = ("--config", str(node / "node.yaml"))
        super().setUp()

    def test_a_loop_goes_on_beyond_the_blocks_of_a_generation(self):
        records, had, states = 1003, [], []
        sending = threading.Thread(target=self.send, args=(range(records),), kwargs={"end": True})
        sending.start()
        loader = self.loader(batch_size=4)
        for i, batch in enumerate(loader):
            self.assertEqual((batch.epoch, batch.rehearsed), (0, 0))
            had += self.numbers(batch)
            if i % 7 == 0:
                states.append((len(had), loader.state_dict()))
        sending.join()
        self.assertEqual(had, list(range(records)))
        for count, state in states[::9]:
            resumed = self.loader(batch_size=3)
            resumed.load_state_dict(state)
            self.assertEqual([n for batch in resumed for n in self.numbers(batch)],
                             list(range(count, records)))

    def test_a_subscriber_goes_on_beyond_them(self):
        self.send(range(300), end=True)
        self.assertEqual([message.number for message in batchflow.subscribe("clicks", 0)],
                         list(range(300)))

    def test_a_job_goes_on_beyond_them_when_its_service_is_killed(self):
        self.send(range(400))
        had = []
        for i, batch in enumerate(self.loader(batch_size=4)):
            had += self.numbers(batch)
            if i in (9, 33, 52):
                self.daemon.kill(signal.SIGKILL)
                self.daemon.start()
                if i == 52:
                    self.send(range(400, 415), end=True)
        self.assertEqual(had, list(range(415)))


class Remote(Fed):
    """Producers that reach the service over TCP."""

    FLAGS = ("--tcp-feeds",)

    def setUp(self):
        self.port = free_port()
        self.token = Path(tempfile.mkdtemp(prefix="batchflow-")) / "token"
        self.addCleanup(shutil.rmtree, self.token.parent, True)
        self.token.write_text("0123456789abcdef" * 4 + "\n")
        self.token.chmod(0o600)
        self.ARGUMENTS = ("--tcp", f"127.0.0.1:{self.port}", "--tcp-token", str(self.token),
                          *self.FLAGS)
        super().setUp()
        os.environ["BATCHFLOW_TOKEN_FILE"] = str(self.token)
        self.address = f"tcp://127.0.0.1:{self.port}/clicks"

    def producer(self, name="one", **arguments):
        return batchflow.Feed(self.address, name, f"i64[{WIDTH}]", **arguments)

    def test_no_acknowledged_record_is_lost_by_kill_9(self):
        with self.producer() as feed:
            for n in range(2000):
                feed.put(record(n))
                if n in (500, 1300):
                    feed.flush()
                    self.daemon.kill(signal.SIGKILL)
                    self.daemon.start()
            feed.end()
        had = [n for batch in self.loader(batch_size=50) for n in self.numbers(batch)]
        self.assertEqual(had, list(range(2000)))

    def test_standard_input_goes_to_another_machine(self):
        sent = subprocess.run([CTL, "feed", "send", self.address, "--size", str(8 * WIDTH), "--schema",
                               f"i64[{WIDTH}]", "--end"], input=b"".join(map(record, range(20))),
                              stdout=subprocess.PIPE, timeout=60, check=True)
        self.assertEqual(sent.stdout, b"20 records are acknowledged\n")
        had = [n for batch in self.loader(batch_size=4) for n in self.numbers(batch)]
        self.assertEqual(had, list(range(20)))

    def test_a_file_of_tokens_that_is_not_there_ends_its_sender_at_once(self):
        os.environ["BATCHFLOW_TOKEN_FILE"] = str(self.folder / "none")
        for arguments in (("send",), ("watch", "--from", str(self.folder), "--once")):
            sent = subprocess.run([CTL, "feed", *arguments, self.address], input=b"one\n",
                                  capture_output=True, timeout=40)  # a service is waited for longer
            self.assertEqual(sent.returncode, 1)
            self.assertIn(b"none: No such file or directory", sent.stderr)


class RemoteRefused(Remote):
    FLAGS = ()
    test_a_file_of_tokens_that_is_not_there_ends_its_sender_at_once = None
    test_no_acknowledged_record_is_lost_by_kill_9 = None
    test_standard_input_goes_to_another_machine = None

    def test_an_operator_who_has_not_said_so_takes_no_records_over_tcp(self):
        with self.assertRaises(batchflow.RefusedError) as refused:
            self.producer(timeout=20)
        self.assertIn("--tcp-feeds", str(refused.exception))


class Refused(Fed):
    def test_another_schema_is_an_error_that_names_both(self):
        with self.assertRaises(batchflow.RefusedError) as refused:
            batchflow.Feed(self.feed, "one", "f32[4]")
        self.assertIn("i64[16]", str(refused.exception))

    def test_another_order_of_a_feed_is_refused(self):
        for arguments in ({"shuffle": True}, {}, {"order": "weighted"}, {"order": "strict"}):
            with self.subTest(arguments), self.assertRaisesRegex(
                    batchflow.RefusedError, r"'clicks' is a feed, .*DataLoader\(Live\(\"clicks\"\)\)"):
                next(iter(batchflow.DataLoader("clicks", 4, **arguments)))

    def test_a_feed_that_is_none_is_refused_as_that(self):
        self.daemon.kill()
        rows = self.folder / "rows"
        rows.mkdir()
        write_rows(rows / "rows.npy", 10)
        self.daemon = Daemon(self.folder, "--dataset", f"rows={rows}")
        self.addCleanup(self.daemon.kill)
        for asked in (lambda: next(iter(self.loader(live=batchflow.Live("rows")))),
                      lambda: next(batchflow.subscribe("rows"))):
            with self.assertRaisesRegex(batchflow.RefusedError, "'rows' is no feed"):
                asked()

    def test_a_record_of_another_size_is_left_out_and_counted(self):
        with self.producer() as feed:
            feed.put(record(0))
            feed.put(record(1)[:-1])
            feed.put(record(2))
            feed.flush()
            feed.end()
        had = [n for batch in self.loader(batch_size=2) for n in self.numbers(batch)]
        self.assertEqual(had, [0, 2])
        feed = self.daemon.status()["datasets"][0]["feed"]
        self.assertEqual((feed["first"], feed["end"], feed["taken"]), (0, 2, 2))
        self.assertEqual((feed["malformed"], feed["doubled"]), (1, 0))
        self.assertTrue(feed["ended"])

    def test_a_record_that_is_too_large_is_refused_before_it_is_copied(self):
        with open(self.folder / "sparse", "wb") as sparse:
            sparse.truncate(1 << 40)  # no machine has memory for a copy
        with open(self.folder / "sparse", "rb") as sparse, self.producer() as feed, \
                mmap.mmap(sparse.fileno(), 0, access=mmap.ACCESS_READ) as large:
            for much in (large, record(0) + b"x"):
                with self.assertRaisesRegex(ValueError, f"takes records of at most {8 * WIDTH}$"):
                    feed.put(much)
            feed.put(record(1))
            feed.end()
        self.assertEqual([n for batch in self.loader(1) for n in self.numbers(batch)], [1])

    def test_arguments_that_cannot_be(self):
        for arguments in ({"wait": -1}, {"fill": "maybe"}, {"window": 0}, {"begin": "now"}):
            with self.subTest(arguments), self.assertRaises(ValueError):
                batchflow.Live("clicks", **arguments)
        with self.assertRaises(ValueError):
            batchflow.Live(str(self.feed))
        with self.assertRaises(ValueError):
            self.loader(shuffle=True)

    def test_a_buffer_to_rehearse_from_is_for_datasets_that_do_not_grow(self):
        for value in ([0, 1], [], memoryview(array("q", [0, 1]))):
            with self.subTest(value), self.assertRaisesRegex(
                    ValueError, "^exemplars= is for datasets that do not grow; .*fill='rehearse'"):
                self.loader(exemplars=value)
        for wrong in ({"policy": "per-class"}, {"name": "mine"}):
            rehearsal = {"policy": "reservoir", "samples": 10, "rehearsed": 1, **wrong}
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "a reservoir of its own; write 'reservoir'"):
                next(iter(self.loader(live=batchflow.Live("clicks"), rehearsal=rehearsal)))
        with self.assertRaisesRegex(RuntimeError, "exemplars are for datasets that do not grow"):
            self.loader(live=batchflow.Live("clicks"), rehearsed=1).report_exemplars([0, 1])

    def test_only_full_batches_of_records_that_were_had_are_rehearsed(self):
        for fill in ("short", None):
            with self.subTest(fill=fill), \
                    self.assertRaisesRegex(ValueError, rf"^rehearsed=1 with fill={fill!r}: .*leave rehearsed out"):
                self.loader(live=batchflow.Live("clicks", fill=fill), rehearsed=1)
            self.loader(live=batchflow.Live("clicks", fill=fill), rehearsed=0)
            with self.assertRaisesRegex(ValueError, "^rehearsal=.*leave rehearsal out"):
                self.loader(live=batchflow.Live("clicks", fill=fill), rehearsal=RESERVOIR)
        with self.assertRaisesRegex(ValueError, "rehearsed=4 of batch_size=4 leaves no room"):
            self.loader(live=batchflow.Live("clicks"), rehearsed=4)
        with self.assertRaisesRegex(ValueError, "^rehearsal= with window=9"):
            self.loader(live=batchflow.Live("clicks", window=9), rehearsal=RESERVOIR)

    def test_what_a_policy_would_look_at_is_not_for_a_feed(self):
        loader = self.loader(8, batchflow.Live("clicks"), rehearsal=RESERVOIR)
        for ask in (loader.exemplars, lambda: loader.record_features([1]), lambda: loader.report_exemplars([1]),
                    lambda: loader.report_scores([1], [1.0])):
            with self.assertRaises(RuntimeError):
                ask()


class Rehearsed(Fed):
    """A part of each batch are records that the job has had, however many have come."""

    def rehearsing(self, **arguments):
        return self.loader(8, batchflow.Live("clicks", window=20), rehearsed=3, **arguments)

    def check(self, batches, records):
        """8 records, 5 in each batch behind that one, and what is left."""
        had = []
        for batch in batches:
            new = self.numbers(batch)
            last = len(had) + len(new) == records
            if not had or (last and not batch.rehearsed):
                self.assertEqual(batch.rehearsed, 0)
            else:
                self.assertEqual((len(new), batch.rehearsed), (5, 3))
                old = batch.sample_keys.tolist()[5:]
                self.assertTrue(set(old) <= set(had[-20:]), (old, had[-20:]))
                self.assertEqual([row[0] for row in batch[0].tolist()][5:], old)
                self.assertEqual([marks & batchflow.REHEARSED for marks in batch.marks.tolist()[5:]],
                                 [batchflow.REHEARSED] * 3)
            had += new
        self.assertEqual(had, list(range(records)))

    def test_each_batch_has_its_part_and_each_record_comes_once(self):
        self.send(range(8 + 5 * 20 + 3), end=True)
        batches = list(self.rehearsing(copy=True))
        self.assertEqual([batch.rehearsed for batch in batches], [0] + [3] * 20 + [0])
        self.check(batches, 111)

    def test_what_is_rehearsed_is_the_same_again(self):
        self.send(range(108), end=True)
        first, second = ([batch.sample_keys.tolist() for batch in self.rehearsing()] for _ in range(2))
        self.assertEqual(first, second)

    def test_a_job_goes_on_from_its_state_and_when_its_service_is_killed(self):
        self.send(range(108), end=True)
        keys = [batch.sample_keys.tolist() for batch in self.rehearsing()]
        loader, had = self.rehearsing(), []
        for i, batch in enumerate(loader):
            had.append(batch.sample_keys.tolist())
            if i == 6:
                self.daemon.kill(signal.SIGKILL)
                self.daemon.start()
            if i == 10:
                state = loader.state_dict()
                break
        del batch
        loader.close()
        again = self.rehearsing()
        again.load_state_dict(state)
        had += [batch.sample_keys.tolist() for batch in again]
        self.assertEqual(had, keys)


class Sent(Fed):
    def setUp(self):
        Folder.setUp(self)
        self.feed = self.folder / "clicks"
        subprocess.run([CTL, "feed", "create", str(self.feed), "--record-bytes", "100"], check=True,
                       stdout=subprocess.DEVNULL)
        self.daemon = Daemon(self.folder, "--dataset", f"clicks={self.feed}")
        self.addCleanup(self.daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket

    def contents(self):
        """Of all records, as bytes; the feed must have ended."""
        made = []
        for batch in self.loader(batch_size=3):
            for sample in range(batch.samples - batch.fillers):
                made.append(bytes(batch[0][sample].tolist()))
        return made

    def test_standard_input_becomes_records(self):
        done = subprocess.run([CTL, "feed", "send", str(self.feed), "--end"], input=b"one\ntwo\n\nthree",
                              stdout=subprocess.PIPE, check=True)
        self.assertIn(b"3 records", done.stdout)
        self.assertEqual(self.contents(), [b"one", b"two", b"three"])

    def test_input_that_stops_in_the_middle_of_a_record_is_said(self):
        done = subprocess.run([CTL, "feed", "send", str(self.feed), "--size", "4", "--end"],
                              input=b"aaaabbbbcc", stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"2 of 4 bytes", done.stderr)

    def test_what_the_feed_left_out_is_said_and_none_taken_is_an_error(self):
        labelled = self.folder / "labelled"
        subprocess.run([CTL, "feed", "create", str(labelled), "--labelled"], check=True,
                       stdout=subprocess.DEVNULL)
        grows = self.folder / "grows"
        grows.mkdir()
        (grows / "a.txt").write_bytes(b"a")
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--dataset", f"clicks={labelled}")
        self.addCleanup(self.daemon.kill)
        for arguments, what in ((("send",), b"2 records"),
                                (("watch", "--from", str(grows), "--settle", "0", "--once"), b"1 files")):
            done = subprocess.run([CTL, "feed", *arguments, str(labelled), "--end"], input=b"one\ntwo\n",
                                  capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"the feed took none of " + what + b": " + what[:1] + b" malformed (",
                          done.stderr)
            self.assertIn(b"without a class", done.stderr)
        with batchflow.Feed(labelled, producer="with classes") as feed:
            feed.put(b"three", label=3)  # it has not ended
            feed.end()

    def test_records_of_which_some_are_left_out(self):
        numbers = self.folder / "numbers"
        subprocess.run([CTL, "feed", "create", str(numbers), "--schema", "u8[4]"], check=True,
                       stdout=subprocess.DEVNULL)
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--dataset", f"clicks={numbers}")
        self.addCleanup(self.daemon.kill)
        done = subprocess.run([CTL, "feed", "send", str(numbers)], input=b"aaaa\nbb\ncccc\n",
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"3 records are acknowledged: the feed took 2 and left 1 out: 1 malformed (",
                      done.stdout)

    def test_a_folder_that_grows(self):
        grows = self.folder / "grows"
        grows.mkdir()
        for n in range(5):
            (grows / f"{n}.txt").write_bytes(b"file %d" % n)
        (grows / ".hidden").write_bytes(b"not yet")
        (grows / "large.txt").write_bytes(b"x" * 101)
        command = [CTL, "feed", "watch", str(self.feed), "--from", str(grows), "--settle", "0",
                   "--once"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (grows / "5.txt").write_bytes(b"file 5")
        subprocess.run([*command, "--end"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(self.contents(), [b"file %d" % n for n in range(6)])
        self.assertEqual(sorted(one.name for one in (grows / ".taken").iterdir()),
                         [f"{n}.txt" for n in range(6)])
        self.assertEqual([one.name for one in (grows / ".left-out").iterdir()], ["large.txt"])

    def test_files_that_are_being_written_are_waited_for(self):
        grows = self.folder / "grows"
        grows.mkdir()
        (grows / "a.txt").write_bytes(b"a")
        (grows / "later.txt").write_bytes(b"of a machine with another clock")
        os.utime(grows / "later.txt", (time.time() + 3600, time.time() + 3600))
        done = subprocess.run([CTL, "feed", "watch", str(self.feed), "--from", str(grows), "--once",
                               "--end"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"1 files stay where they are: their time is in the future", done.stderr)
        self.assertEqual(self.contents(), [b"a"])
        self.assertTrue((grows / "later.txt").exists())

    def test_a_list_that_is_sent_again_sends_no_file_twice(self):
        grows = self.folder / "grows"
        grows.mkdir()
        command = [CTL, "feed", "watch", str(self.feed), "--from", str(grows), "--settle", "0", "--once"]

        def was_killed_before_it_moved(first, contents):
            for name, content in contents.items():
                (grows / name).write_bytes(content)
            (grows / ".batchflow-sending").write_text(
                "\n".join([f"{first} batchflowctl-watch {self.feed}", *contents]) + "\n")

        (grows / "a.txt").write_bytes(b"a")
        (grows / "b.txt").write_bytes(b"")  # left out, and the feed never hears of its sequence
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for _ in range(2):
            was_killed_before_it_moved(3, {"c.txt": b"c"})
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for _ in range(2):
            was_killed_before_it_moved(4, {"d.txt": b"x" * 101, "e.txt": b"e"})
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*command, "--end"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(self.contents(), [b"a", b"c", b"e"])
        self.assertEqual(sorted(one.name for one in (grows / ".taken").iterdir()),
                         ["a.txt", "c.txt", "e.txt"])
        self.assertEqual(sorted(one.name for one in (grows / ".left-out").iterdir()),
                         ["b.txt", "d.txt"])

    def test_what_is_larger_than_a_record_is_refused_before_all_of_it_is_read(self):
        with open("/dev/zero", "rb") as endless:
            for arguments, said in (((), b"a line of more than 100 bytes"),
                                    (("--size", "101"), b"--size 101: the feed takes records of at most 100")):
                done = subprocess.run([CTL, "feed", "send", str(self.feed), *arguments], stdin=endless,
                                      capture_output=True, timeout=30)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)

    def test_a_feed_is_not_closed_while_a_thread_puts_a_record(self):
        feed = batchflow.Feed(self.feed, producer="closed", timeout=2)
        feed.put(b"one")
        feed.flush()
        self.daemon.kill()
        ended = []

        def puts():
            try:
                while True:
                    feed.put(b"x" * 100)
            except (batchflow.ServiceError, ValueError) as error:
                ended.append(error)

        thread = threading.Thread(target=puts)
        thread.start()
        time.sleep(0.5)  # it waits for the service by then
        feed.close()
        thread.join(timeout=30)
        self.assertEqual(len(ended), 1)
        with self.assertRaisesRegex(ValueError, "closed"):
            feed.put(b"one")

    def test_what_was_being_sent_as_another_is_not_taken_as_sent(self):
        grows = self.folder / "grows"
        grows.mkdir()
        (grows / "a.txt").write_bytes(b"a")
        (grows / ".batchflow-sending").write_text("1 another\na.txt\n")
        command = [CTL, "feed", "watch", str(self.feed), "--from", str(grows), "--settle", "0", "--once"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("as another producer or to another feed (another)", done.stderr)
        self.assertTrue((grows / "a.txt").exists())

    def watch(self, inbox):
        watching = subprocess.Popen([CTL, "feed", "watch", str(self.feed), "--from", str(inbox),
                                     "--settle", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(rest_of, watching)
        self.addCleanup(watching.kill)
        wait_until(lambda: (inbox / ".left-out").is_dir(), 30, "the folder")
        return watching

    def drop(self, inbox, name, content):
        """A whole file at once, as nothing settles here; waits until it was sent."""
        (inbox / ".part").write_bytes(content)
        (inbox / ".part").rename(inbox / name)
        wait_until(lambda: (inbox / ".taken" / name).exists(), 30, "its file")

    def test_a_folder_that_is_removed_while_it_is_watched_is_said(self):
        grows = self.folder / "grows"
        watching = self.watch(grows)
        self.drop(grows, "a.txt", b"a")
        shutil.rmtree(grows)
        said = rest_of(watching)[1].decode()
        self.assertEqual(watching.returncode, 1)
        self.assertIn(f"{grows}: No such file or directory", said)
        with batchflow.Feed(self.feed, producer="another") as feed:
            feed.end()
        self.assertEqual(self.contents(), [b"a"])

    def test_files_are_sent_once_where_the_folder_of_those_taken_is_removed(self):
        grows = self.folder / "grows"
        self.watch(grows)
        for n in range(3):
            self.drop(grows, f"{n}.txt", b"%d" % n)
            shutil.rmtree(grows / ".taken")  # to make room
        with batchflow.Feed(self.feed, producer="another") as feed:
            feed.end()
        self.assertEqual(self.contents(), [b"0", b"1", b"2"])

    def test_the_producer_in_c_sends_lines(self):
        def send(feed, lines):
            return subprocess.run([Path(DAEMON).parent / "batchflow-producer", feed, "lines"],
                                  input=lines, capture_output=True, timeout=120)

        sent = send(self.feed, b"one\n\ntwo\nthree")
        self.assertEqual((sent.returncode, sent.stdout, sent.stderr),
                         (0, b"3 lines are acknowledged\n", b""))
        self.assertEqual(send(self.feed, b"four\n").returncode, 0)
        for feed, said in ((self.feed, b"put: a record of 101 bytes"),
                           ("tcp://nowhere", b"open: ")):
            wrong = send(feed, b"x" * 101)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn(said, wrong.stderr)
        with batchflow.Feed(self.feed, producer="another") as feed:
            feed.end()
        self.assertEqual(self.contents(), [b"one", b"two", b"three", b"four"])

    def test_threads_share_a_producer(self):
        with batchflow.Feed(self.feed, producer="threads") as feed:
            threads = [threading.Thread(target=lambda t=t: [feed.put(b"%d %d" % (t, n)) for n in range(500)])
                       for t in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            feed.end()
        self.assertEqual(sorted(self.contents()), sorted(b"%d %d" % (t, n) for t in range(4) for n in range(500)))


class Documented(Folder):
    PAGE = HERE.parent.parent / "docs" / "live.md"

    def test_the_guide_does_what_it_says(self):
        text = self.PAGE.read_text().replace("/tmp/clicks", str(self.folder / "clicks"))
        commands = text.split("```sh\n")[1].split("```")[0].splitlines()
        code = text.split("```python\n")[1].split("```")[0]
        made = commands[0].split()
        self.assertEqual((made[0], commands[1].split()[0]), ("batchflowctl", "batchflowd"))
        subprocess.run([CTL, *made[1:]], check=True, stdout=subprocess.DEVNULL)
        daemon = Daemon(self.folder, *commands[1].split()[1:-1])
        self.addCleanup(daemon.kill)
        done = run_python(code, BATCHFLOW_SERVICE=daemon.socket)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()],
                         [list(range(n, n + 10)) for n in range(0, 100, 10)])

    def test_the_simulated_example_prints_what_the_guide_says(self):
        section = self.PAGE.read_text().split("## Simulated\n")[1].split("\n## ")[0]
        command = section.split("```sh\n")[1].split("```")[0].split()
        said = section.split("```\n\n```\n")[1].split("```")[0]
        self.assertEqual(command[0], "batchflow-sim")
        done = subprocess.run([SIM, *command[1:]], check=True, stdout=subprocess.PIPE, text=True)
        # Its last line has the time that it took.
        self.assertEqual(done.stdout.rstrip().rpartition("\n")[0] + "\n", said)


if __name__ == "__main__":
    unittest.main()
