"""Threads that share a DataLoader: as in PyTorch, each iteration has all samples once."""

import threading
import time
import unittest

import batchflow
from support import Served

ROUNDS = 20


class Threads(Served):
    ROWS = 150
    SECONDS = 60

    def run_threads(self, count, work):
        """What `work(i)` gives in each of `count` threads, which begin together."""
        results, begin = [None] * count, threading.Barrier(count)

        def run(i):
            begin.wait(self.SECONDS)
            try:
                results[i] = work(i)
            except BaseException as error:  # it is the result
                results[i] = error

        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.SECONDS)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        return results

    def epoch_of(self, loader):
        return [key for batch in loader for key in self.check_content(batch)]

    def test_each_thread_has_all_samples_once_an_epoch(self):
        for turn in range(ROUNDS):
            order = ("sequential", "relaxed", "strict")[turn % 3]
            for count in (2, 4):
                loader = batchflow.DataLoader("rows", 8, order=order)
                results = self.run_threads(
                    count, lambda i: [self.epoch_of(loader) for _ in range(3)])
                for epochs in results:
                    self.assertIsInstance(epochs, list, epochs)
                    for keys in epochs:
                        self.assert_whole(keys)
                self.assert_whole(self.epoch_of(loader))

    def test_a_thread_that_evaluates_beside_one_that_trains(self):
        for _ in range(ROUNDS):
            loader = batchflow.DataLoader("rows", 8, True)
            keys, results, threads = [], [], []
            for i, batch in enumerate(loader):
                keys += self.check_content(batch)
                if i % 3 == 0:
                    threads.append(threading.Thread(
                        target=lambda: results.append(self.epoch_of(loader)), daemon=True))
                    threads[-1].start()
            for thread in threads:
                thread.join(self.SECONDS)
            self.assert_whole(keys)
            self.assertEqual(len(results), len(threads))
            for one in results:
                self.assert_whole(one)

    def test_other_threads_may_ask_and_set_while_one_iterates(self):
        loader = batchflow.DataLoader("rows", 8, True)
        over = threading.Event()

        def ask():
            asked = 0
            while not over.is_set() or asked == 0:
                self.assertEqual(loader.sample_name(7), "rows.npy:7")
                self.assertEqual((len(loader), loader.dataset_samples), (19, self.ROWS))
                self.assertGreaterEqual(loader.times()["wait_s"], 0)
                self.assertLessEqual(loader.state_dict()["consumed"], self.ROWS)
                loader.timeout = 60
                asked += 1
            return "asked"

        def iterate():
            try:
                epochs = []
                for epoch in range(6):
                    loader.set_epoch(2 * epoch)  # which begins another job
                    epochs.append(self.epoch_of(loader))
                return epochs
            finally:
                over.set()

        epochs, asked = self.run_threads(2, lambda i: ask() if i else iterate())
        self.assertEqual(asked, "asked")
        self.assertIsInstance(epochs, list, epochs)
        for keys in epochs:
            self.assert_whole(keys)

    def test_a_loader_that_is_closed_ends_the_iterations_of_other_threads(self):
        for _ in range(ROUNDS):
            loader = batchflow.DataLoader("rows", 8)
            under_way = threading.Barrier(4)

            def work(i):
                if i == 3:
                    under_way.wait(self.SECONDS)
                    return loader.close()
                for epoch in range(10**6):
                    for batch in loader:
                        self.check_content(batch)
                        if epoch == 0 and batch.sample_keys[0] == 0:
                            under_way.wait(self.SECONDS)

            *errors, closed = self.run_threads(4, work)
            self.assertIsNone(closed)
            for error in errors:
                self.assertEqual(str(error), "this DataLoader is closed; make another one")

    def test_a_thread_that_waits_for_a_service_ends_with_the_loader(self):
        loader = batchflow.DataLoader("rows", 8)
        iteration = iter(loader)
        next(iteration)
        self.daemon.kill()

        def work(i):
            if i == 0:
                return list(iteration)
            time.sleep(0.5)  # by then the other one waits, mostly
            return loader.close()

        error, closed = self.run_threads(2, work)
        self.assertIsNone(closed)
        self.assertEqual(str(error), "this DataLoader is closed; make another one")

    def test_an_iteration_belongs_to_one_thread_at_a_time(self):
        inside, leave = threading.Event(), threading.Event()

        def collate(samples):
            inside.set()
            leave.wait(self.SECONDS)
            return len(samples)

        iteration = iter(batchflow.DataLoader("rows", 100, collate_fn=collate))

        def work(i):
            if i == 0:
                return list(iteration)
            inside.wait(self.SECONDS)
            try:
                return next(iteration)
            finally:
                leave.set()

        counts, error = self.run_threads(2, work)
        self.assertEqual(counts, [100, 50])
        self.assertRegex(str(error), "another thread is asking this iteration for a batch; let each "
                         "thread iterate over the DataLoader itself")


if __name__ == "__main__":
    unittest.main()
