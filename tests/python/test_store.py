"""Samples by their keys, beside jobs that read in an order; and the page about it (docs/store.md)."""

import ctypes
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from unittest import mock

import batchflow
from batchflow import library
from support import CTL, DAEMON, HERE, Daemon, Served, needs, run_python, value_at, wait_until


class Gets(Served):
    def assert_row(self, sample, key):
        self.assertEqual(list(sample[0].tolist()), [value_at(key, i) for i in range(16)])

    def test_each_key_is_answered_with_its_own_sample(self):
        with batchflow.Store("rows") as store:
            self.assertEqual(len(store), self.ROWS)
            for key in (0, 7, self.ROWS - 1, 7):
                self.assert_row(store[key], key)
            for count in (1, 2, 63, 64, 65, 700):  # around the credits
                keys = [(k * 37) % self.ROWS for k in range(count)]
                for key, sample in zip(keys, store.get_many(keys)):
                    self.assert_row(sample, key)
            self.assertEqual(store.get_many([]), [])

    def test_a_key_that_is_not_there_is_a_key_error_and_the_store_goes_on(self):
        with batchflow.Store("rows") as store:
            for key in (self.ROWS, 2**63, 2**64 - 1, -1, 2**64):
                with self.assertRaises(KeyError):
                    store[key]
                self.assert_row(store[5], 5)
            with self.assertRaises(KeyError) as raised:
                store.get_many([1, self.ROWS, 2, self.ROWS + 1])
            self.assertEqual(raised.exception.args[0], [self.ROWS, self.ROWS + 1])
            keys = [key % self.ROWS for key in range(9000)]  # more than one call of the library
            keys[7] = keys[4500] = self.ROWS
            keys[3], keys[8999] = -1, self.ROWS + 1
            with self.assertRaises(KeyError) as raised:
                store.get_many(keys)
            self.assertEqual(raised.exception.args[0], [-1, self.ROWS, self.ROWS, self.ROWS + 1])
            with self.assertRaises(KeyError) as raised:
                store[-1]
            self.assertEqual(raised.exception.args[0], -1)
            self.assert_row(store[5], 5)

    def test_a_key_that_is_no_whole_number_is_a_type_error(self):
        class Whole:
            def __index__(self):
                return 7
        with batchflow.Store("rows") as store:
            for key in (7.9, 7.0, None, True, b"7", (7,)):
                with self.subTest(key=key), self.assertRaisesRegex(TypeError, "should be an integer"):
                    store[key]
            for keys in ([1, 2.5], ["7"]):
                with self.subTest(keys=keys), self.assertRaisesRegex(TypeError, "find()"):
                    store.get_many(keys)
            self.assert_row(store[Whole()], 7)

    CREDITS = (1, 2, 3, 5, 64, 546, 547, 10**9)  # the rings have room for 546

    def test_any_number_of_credits_answers_each_key_once(self):
        for credits in self.CREDITS:
            with self.subTest(credits=credits), batchflow.Store("rows", credits=credits) as store:
                for count in (1, 2, 1500):
                    keys = [(k * 37) % self.ROWS for k in range(count)]
                    for key, sample in zip(keys, store.get_many(keys)):
                        self.assert_row(sample, key)
                held = store.get_many(range(1200)), store.get_many(range(1200))
                for samples in held:
                    for key, sample in enumerate(samples):
                        self.assert_row(sample, key)
        self.assertEqual(self.daemon.status()["protocol_errors"], 0)

    def test_any_number_of_credits_says_which_keys_are_not_there(self):
        absent = [self.ROWS + k for k in range(1000)]
        keys = [key for k, there in enumerate(absent) for key in (k, there)]
        for credits in self.CREDITS:
            with self.subTest(credits=credits), batchflow.Store("rows", credits=credits) as store:
                for asked in (absent, keys, absent + [7], [7] + absent):
                    with self.assertRaises(KeyError) as raised:
                        store.get_many(asked)
                    self.assertEqual(raised.exception.args[0], absent)
                    self.assert_row(store[5], 5)
        self.assertEqual(self.daemon.status()["protocol_errors"], 0)

    def test_a_key_asked_for_many_times_at_once_is_answered_as_often(self):
        def ask(key, count):
            with batchflow.Store("rows") as store:
                for sample in store.get_many([key] * count):
                    self.assert_row(sample, key)
                    answered.append(key)

        answered = []
        asking = [threading.Thread(target=ask, args=(key, 300)) for key in (7, 7, 7, 8)]
        for one in asking:
            one.start()
        for one in asking:
            one.join(120)
        self.assertEqual((answered.count(7), answered.count(8)), (900, 300))
        self.assertEqual(self.daemon.status()["protocol_errors"], 0)

    def test_samples_that_are_held_stay_as_they_are(self):
        with batchflow.Store("rows") as store:
            held = [store[key] for key in range(300)]
        for key, sample in enumerate(held):
            self.assert_row(sample, key)

    def test_a_store_beside_a_job_leaves_the_job_what_it_was(self):
        def ask():
            with batchflow.Store("rows") as store:
                for n in range(40):
                    keys = [(n * 101 + k) % self.ROWS for k in range(50)]
                    for key, sample in zip(keys, store.get_many(keys)):
                        self.assert_row(sample, key)
        asking = threading.Thread(target=ask)
        asking.start()
        had = []
        for batch in batchflow.DataLoader("rows", 50, shuffle=True, epochs=1):
            had += self.own_keys(batch)
        asking.join()
        self.assert_whole(had)
        self.assertEqual(self.daemon.status()["protocol_errors"], 0)

    def test_threads_and_processes_share_what_a_store_is_made_of(self):
        store = batchflow.Store("rows")
        wrong = []

        def ask(own):
            for key in range(own, self.ROWS, 40):
                if store[key][0].tolist()[0] != value_at(key, 0):
                    wrong.append(key)
        threads = [threading.Thread(target=ask, args=(own,)) for own in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assert_row(pickle.loads(pickle.dumps(store))[9], 9)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, struct.pack("q", int(store[11][0].tolist()[0])))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(struct.unpack("q", os.read(read, 8))[0], value_at(11, 0))
        self.assert_row(store[12], 12)
        store.close()
        with self.assertRaises(ValueError):
            store[1]

    def test_a_service_that_is_killed_comes_back_to_its_stores(self):
        with batchflow.Store("rows") as store, batchflow.Store("rows") as other:
            held = other.get_many(range(40))
            for _ in range(3):
                self.assert_row(store[1], 1)
                self.daemon.kill(signal.SIGKILL)
                self.daemon.start()
                for key, sample in zip(range(200), store.get_many(range(200))):
                    self.assert_row(sample, key)
            for key, sample in zip(range(300), other.get_many(range(300))):
                self.assert_row(sample, key)
            for key, sample in enumerate(held):
                self.assert_row(sample, key)
        self.assertEqual(self.daemon.status()["protocol_errors"], 0)

    def test_a_service_that_is_killed_while_it_is_asked_answers_each_key_once(self):
        with batchflow.Store("rows") as store:
            asked = []

            def ask():
                for n in range(120):
                    keys = [(n * 97 + k) % self.ROWS for k in range(300)]
                    for key, sample in zip(keys, store.get_many(keys)):
                        self.assert_row(sample, key)
                    asked.append(n)
            asking = threading.Thread(target=ask)
            asking.start()
            for _ in range(3):
                before = len(asked)
                wait_until(lambda: len(asked) > before + 5 or not asking.is_alive())
                self.daemon.kill(signal.SIGKILL)
                self.daemon.start()
            asking.join(120)
            self.assertEqual(asked, list(range(120)))

    def test_a_store_that_is_killed_leaves_nothing_behind(self):
        before = self.daemon.status()
        held = "import batchflow, os, time\n" \
               "store = batchflow.Store('rows')\n" \
               "held = store.get_many(range(60))\n" \
               "os.write(1, b'held')\n" \
               "time.sleep(600)\n"
        for _ in range(3):
            child = subprocess.Popen([sys.executable, "-c", held], stdout=subprocess.PIPE)
            self.assertEqual(child.stdout.read(4), b"held")
            self.assertEqual(len(self.daemon.status()["jobs"]), 1)
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
        wait_until(lambda: self.daemon.status()["jobs"] == before["jobs"])
        with batchflow.Store("rows") as store:
            for key, sample in zip(range(200), store.get_many(range(200))):
                self.assert_row(sample, key)

    def test_more_keys_than_an_epoch_and_the_memory_have_are_no_end(self):
        with batchflow.Store("rows", copy=True) as store:
            for n in range(20):
                keys = [(n * 11 + k * 37) % self.ROWS for k in range(4000)]
                for key, sample in zip(keys, store.get_many(keys)):
                    self.assertEqual(sample[0].tolist()[0], value_at(key, 0))

    def test_a_fork_beside_a_thread_that_gets_has_a_store_of_its_own(self):
        store = batchflow.Store("rows")
        over = threading.Event()

        def ask():
            while not over.is_set():
                store.get_many(range(100))
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for key in range(8):
                read, write = os.pipe()
                child = os.fork()
                if child == 0:
                    try:
                        os.write(write, struct.pack("q", int(store[key][0].tolist()[0])))
                    finally:
                        os._exit(0)
                os.close(write)
                self.assertEqual(struct.unpack("q", os.read(read, 8))[0], value_at(key, 0))
                os.close(read)
                os.waitpid(child, 0)
        finally:
            over.set()
            asking.join()
        store.close()

    def test_what_cannot_be_is_refused(self):
        with self.assertRaises(ValueError):
            batchflow.Store("rows", form="raw")
        for credits in (-1, 2**32, 1.5, True):
            with self.assertRaises(ValueError):
                batchflow.Store("rows", credits=credits)
        with self.assertRaises(batchflow.RefusedError):
            batchflow.Store("nothing")
        with self.assertRaises(batchflow.RefusedError):
            batchflow.Store("rows", pipeline="imagenet-val")

    def test_encoded_and_decoded_forms(self):
        for form in ("encoded", "decoded"):
            with batchflow.Store("rows", form=form, pipeline="bytes") as store:
                self.assert_row(store[3], 3)


class Files(Served):
    def setUp(self):
        super().setUp()
        self.pictures = self.folder / "files"
        for n in range(30):
            (self.pictures / f"{n % 3}").mkdir(parents=True, exist_ok=True)
            (self.pictures / f"{n % 3}" / f"{n:03}.jpg").write_bytes(b"not a picture %d" % n)
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--dataset", f"files={self.pictures}")
        self.addCleanup(self.daemon.kill)

    def test_a_sample_is_found_by_its_path_and_given_as_it_is_stored(self):
        with batchflow.Store("files", form="encoded") as store:
            for n in (0, 17, 29):
                name = f"{n % 3}/{n:03}.jpg"
                sample = store[name]
                self.assertEqual(bytes(bytearray(sample[0].tolist())), b"not a picture %d" % n)
            with self.assertRaises(KeyError):
                store.find("0/nothing.jpg")
            for name in ("0/000.jpg\0", "0/" + "n" * (1 << 21)):
                with self.assertRaises(KeyError):
                    store.find(name)
            with self.assertRaisesRegex(ValueError, "no UTF-8"):
                store.find(os.fsdecode(b"0/caf\xe9.jpg"))
            self.daemon.kill(signal.SIGKILL)
            self.daemon.start()
            self.assertEqual(store.find("2/017.jpg"), store.find("2/017.jpg"))
            self.assertEqual(bytes(bytearray(store["2/017.jpg"][0].tolist())), b"not a picture 17")

    def test_a_sample_that_cannot_be_prepared_is_said_and_none_stands_for_it(self):
        with batchflow.Store("files", pipeline="imagenet-val") as store:
            for key in range(30):  # more than a job may meet
                with self.assertRaises(batchflow.CorruptSampleError):
                    store[key]
            with self.assertRaises(batchflow.CorruptSampleError):
                store.get_many([1, 2, 1])
            with self.assertRaises(KeyError):
                store[30]


@needs("PIL")
class Pictures(Served):
    COUNT = 43

    def setUp(self):
        super().setUp()
        from pictures import write_pictures
        write_pictures(self.folder / "pictures", self.COUNT)
        steps = "{step: decode}, {step: resize, size: [12, 12]}, {step: horizontal_flip}"
        (self.folder / "flipped.yaml").write_text(
            f"{{kind: pipeline, name: flipped, steps: [{steps}]}}")
        (self.folder / "sizes.yaml").write_text(
            "{kind: pipeline, name: sizes, steps: [{step: decode}, "
            "{step: random_resized_crop, size: 12}]}")
        config = self.folder / "node.yaml"
        config.write_text(f"{{kind: node, pipelines: [{self.folder / 'flipped.yaml'}, "
                          f"{self.folder / 'sizes.yaml'}]}}")
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--config", str(config), "--dataset",
                             f"pictures={self.folder / 'pictures'}")
        self.addCleanup(self.daemon.kill)

    def train(self):
        had = []
        for batch in batchflow.DataLoader("pictures", 8, pipeline="flipped", shuffle=True, epochs=1):
            had += self.own_keys(batch)
        self.assert_whole(had, self.COUNT)

    def look(self, form):
        with batchflow.Store("pictures", form=form, pipeline="flipped") as store:
            for key, sample in enumerate(store.get_many(range(self.COUNT))):
                self.assertEqual(self.number_of(sample), self.number_by_key(key))

    @staticmethod
    def number_of(sample):
        red, green, blue = (int(one) for one in sample[0].reshape(-1)[:3])
        assert blue == 77
        return red + 256 * green

    def number_by_key(self, key):
        files = sorted(str(one) for one in (self.folder / "pictures").glob("*/*.png"))
        return int(Path(files[key]).stem)

    def test_a_job_and_stores_read_and_decode_each_picture_once_between_them(self):
        for part in (lambda: self.look("decoded"), self.train, lambda: self.look("prepared"),
                     lambda: self.look("decoded")):
            before = self.daemon.status()["decoded_hits"]
            part()
            status = self.daemon.status()
            self.assertEqual(status["read_samples"], self.COUNT)
            if before > 0:
                self.assertEqual(status["decoded_hits"] - before, self.COUNT)

    def test_a_picture_that_is_asked_for_many_times_at_once_is_read_once(self):
        for form in ("decoded", "prepared"):
            with batchflow.Store("pictures", form=form, pipeline="flipped") as store, \
                    batchflow.Store("pictures", form=form, pipeline="flipped") as other:
                asking = threading.Thread(target=other.get_many, args=([5] * 60,))
                asking.start()
                samples = store.get_many([5] * 60)
                asking.join(120)
                if form == "decoded":
                    self.assertEqual({self.number_of(sample) for sample in samples},
                                     {self.number_by_key(5)})
                self.assertEqual(len(samples), 60)
            self.assertEqual(self.daemon.status()["read_samples"], 1)

    def test_pictures_of_many_sizes_have_no_decoded_form_of_their_own(self):
        with self.assertRaisesRegex(batchflow.RefusedError, "different sizes"):
            batchflow.Store("pictures", form="decoded", pipeline="sizes")
        with batchflow.Store("pictures", pipeline="sizes") as store:
            self.assertEqual(len(store.get_many(range(self.COUNT))), self.COUNT)


class Fed(Served):
    KEEP = "8mib"
    def setUp(self):
        super().setUp()
        self.feed = self.folder / "clicks"
        subprocess.run([CTL, "feed", "create", str(self.feed), "--schema", "f32[2]", "--keep",
                        self.KEEP], check=True, stdout=subprocess.DEVNULL)
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--dataset", f"rows={self.data}", "--dataset",
                             f"clicks={self.feed}")
        self.addCleanup(self.daemon.kill)

    def put(self, numbers, name="one", ends=False):
        with batchflow.Feed(self.feed, name, "f32[2]") as feed:
            for n in numbers:
                feed.put(struct.pack("<2f", n, n))
            if ends:
                feed.end()

    def test_records_are_given_by_their_numbers_as_soon_as_they_are_durable(self):
        with batchflow.Store("clicks", pipeline="bytes") as store:
            with self.assertRaises(KeyError):
                store[0]
            for n in range(20):
                self.put([n], f"producer-{n}")
                self.assertEqual(store[n][0].tolist(), [n, n])
            with self.assertRaises(KeyError):
                store[20]

    def feed_status(self):
        """Datasets stand in the order in which they were opened."""
        return next(one["feed"] for one in self.daemon.status()["datasets"] if "feed" in one)

    def test_records_that_go_while_they_are_asked_for_end_no_store(self):
        over = threading.Event()
        outcomes = {"given": 0, "gone": 0}
        wrong = []

        def ask():
            with batchflow.Store("clicks", pipeline="bytes") as store:
                while not over.is_set() or outcomes["given"] == 0:
                    first = self.feed_status()["first"]
                    for key in range(first, first + 64):
                        try:
                            if store[key][0].tolist() != [key, key]:
                                wrong.append(key)
                            outcomes["given"] += 1
                        except (KeyError, batchflow.CorruptSampleError):
                            outcomes["gone"] += 1
        def train():  # a log without jobs keeps all that it has
            for batch in batchflow.DataLoader(batchflow.Live("clicks", fill=None), batch_size=64):
                batch.sample_keys.tolist()
        threads = [threading.Thread(target=ask), threading.Thread(target=train)]
        for thread in threads:
            thread.start()
        with batchflow.Feed(self.feed, "one", "f32[2]") as feed:
            try:
                for n in range(250_000):
                    feed.put(struct.pack("<2f", n, n))
            finally:
                over.set()
                feed.end()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(outcomes["given"], 0)
        self.assertGreater(self.feed_status()["first"], 0)
        self.assertEqual(self.daemon.status()["protocol_errors"], 0)

    def test_a_subscriber_has_each_record_from_its_position_on_also_after_a_kill(self):
        self.put(range(50))
        had, position = [], 0
        for message in batchflow.subscribe("clicks", position):
            had.append(message.number)
            self.assertEqual(message.value[0].tolist(), [message.number] * 2)
            position = message.position
            if len(had) == 20:
                break
        self.daemon.kill(signal.SIGKILL)
        self.daemon.start()
        with batchflow.Feed(self.feed, "one", "f32[2]") as feed:
            feed.put(struct.pack("<2f", 50, 50))
            feed.end()
        had += [message.number for message in batchflow.subscribe("clicks", position)]
        self.assertEqual(had, list(range(51)))
        with self.assertRaises(batchflow.RefusedError):
            next(batchflow.subscribe("clicks", 1000))

    def test_a_subscriber_outlasts_a_feed_that_is_quiet(self):
        with mock.patch("batchflow.arguments.DEFAULT_TIMEOUT_S", 1.0):
            late = threading.Timer(3, self.put, [[7], "late", True])
            late.start()
            self.addCleanup(late.join)
            self.assertEqual([message.number for message in batchflow.subscribe("clicks")], [0])

    def test_records_of_a_feed_have_no_names(self):
        with batchflow.Store("clicks", pipeline="bytes") as store:
            self.assertRaisesRegex(KeyError, "a key is a record's number", store.find, "7")
            key = ctypes.c_uint64()  # as a program in C asks
            self.assertEqual(store._library.bf_store_find(store._store, b"record 7", ctypes.byref(key)),
                             library.ABSENT)


class ProgramInC(Served):
    """The example of docs/store.md, runtime/client/store.c, on a feed of texts."""

    def setUp(self):
        super().setUp()
        self.feed = self.folder / "texts"
        subprocess.run([CTL, "feed", "create", str(self.feed)], check=True,
                       stdout=subprocess.DEVNULL)
        self.daemon.kill()
        self.daemon = Daemon(self.folder, "--dataset", f"rows={self.data}", "--dataset",
                             f"texts={self.feed}")
        self.addCleanup(self.daemon.kill)

    def run_it(self, *arguments):
        done = subprocess.run([Path(DAEMON).parent / "batchflow-store", *arguments],
                              capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def test_it_puts_gets_and_subscribes(self):
        self.assertEqual(self.run_it("put", str(self.feed), "one", "two", "three"), (0, "", ""))
        self.assertEqual(self.run_it("get", "texts", "2", "0", "3"),
                         (0, "2 three\n0 one\n3 is absent\n", ""))
        with batchflow.Feed(self.feed, "python") as feed:
            feed.put(b"four")
            feed.end()
        self.assertEqual(self.run_it("subscribe", "texts"),
                         (0, "0 one\n1 two\n2 three\n3 four\n", ""))
        self.assertEqual(self.run_it("subscribe", "texts", "2"), (0, "2 three\n3 four\n", ""))

    def test_it_says_what_is_wrong(self):
        for arguments, code, text in ((("get", "rows", "0"), 1, "name a feed of bytes"),
                                      (("get", "nothing", "0"), 1, "open: "),
                                      (("subscribe", "texts", "9"), 1, "the next to come is 0"),
                                      (("put", str(self.data), "one"), 1, "open: "),
                                      (("get", "texts"), 2, "Usage: ")):
            with self.subTest(arguments):
                made = self.run_it(*arguments)
                self.assertEqual(made[:2], (code, ""))
                self.assertIn(text, made[2])


class Page(Fed):
    PAGE = HERE.parent.parent / "docs" / "store.md"
    BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)

    def run_block(self, code):
        done = run_python(code.replace("FOLDER", repr(str(self.feed))))
        self.assertEqual(done.returncode, 0, f"{code}\n{done.stderr.decode()}")

    def test_plain_blocks(self):
        plain = [code for code in self.BLOCKS if "torch" not in code and "tensorflow" not in code]
        self.assertEqual(len(plain), 2)
        for code in plain:
            self.run_block(code)

    @needs("torch")
    def test_the_dataset_of_pytorch(self):
        self.run_block(next(code for code in self.BLOCKS if "torch" in code))

    @needs("tensorflow")
    def test_the_generator_of_tensorflow(self):
        self.run_block(next(code for code in self.BLOCKS if "tensorflow" in code))


if __name__ == "__main__":
    unittest.main()
