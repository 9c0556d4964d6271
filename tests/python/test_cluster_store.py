"""Stores and subscribers at agents of a cluster: the coordinator's engine answers them, as it does
those of its own machine."""

import os
import signal
import struct
import unittest

import batchflow
from support import needs, status, value_at
from test_cluster import ROWS, WIDTH, Cluster, Job
from test_cluster_live import LiveCluster, record
from test_cluster_live import WIDTH as RECORD_WIDTH


class AtAnAgent(Cluster):
    def setUp(self):
        super().setUp()
        self.agents = [self.agent("a"), self.agent("b")]
        os.environ["BATCHFLOW_SERVICE"] = self.agents[0].socket

    def assert_rows(self, store, keys):
        for key, sample in zip(keys, store.get_many(keys), strict=True):
            self.assertEqual(list(sample[0].tolist()), [value_at(key, i) for i in range(WIDTH)])

    def assert_no_errors(self):
        self.assertEqual(status(self.coordinator.socket)["protocol_errors"], 0)

    def test_each_key_is_answered_with_its_own_sample(self):
        for form in ("prepared", "decoded", "encoded"):
            with batchflow.Store("rows", form=form, pipeline="bytes") as store:
                self.assertEqual(len(store), ROWS)
                for count in (1, 63, 64, 65, 700):  # around the credits
                    self.assert_rows(store, [(k * 37) % ROWS for k in range(count)])
        self.assert_no_errors()

    def test_keys_that_are_not_there_are_said_and_the_store_goes_on(self):
        with batchflow.Store("rows") as store:
            for key in (ROWS, 2**64 - 1):
                with self.assertRaises(KeyError):
                    store[key]
            beyond = list(range(ROWS, ROWS + 200))
            with self.assertRaises(KeyError) as raised:
                store.get_many([1, *beyond, 2])
            self.assertEqual(raised.exception.args[0], beyond)
            self.assert_rows(store, [5])
            with self.assertRaises(KeyError):
                store.find("nothing.npy")
        with self.assertRaises(batchflow.RefusedError):
            batchflow.Store("nothing")
        self.assert_no_errors()

    def test_stores_and_jobs_of_all_nodes_read_each_sample_once_between_them(self):
        jobs = [Job(node, epochs=1, shuffle_seed=seed)
                for seed, node in enumerate([self.coordinator, *self.agents])]
        for node in [self.coordinator, *self.agents]:
            with batchflow.Store("rows", service=node.socket) as store:
                for first in range(0, ROWS, 500):
                    self.assert_rows(store, range(first, first + 500))
        for job in jobs:
            self.check_epochs(job.result())
        self.check_read_once(ROWS * WIDTH * 8)
        self.assert_no_errors()

    def test_a_store_outlives_its_agent_and_the_coordinator(self):
        with batchflow.Store("rows") as store:
            self.assert_rows(store, range(200))
            for node in (self.agents[0], self.coordinator, self.agents[0]):
                node.end(signal.SIGKILL)
                node.start()
                self.assert_rows(store, range(100, 300))
        self.assert_no_errors()


@needs("numpy")
class OfAFeed(LiveCluster):
    def setUp(self):
        super().setUp()
        self.node = self.agent("a")
        os.environ["BATCHFLOW_SERVICE"] = self.node.socket

    def values(self, n):
        return list(struct.unpack(f"<{RECORD_WIDTH}q", record(n)))

    def test_records_by_their_numbers_as_soon_as_they_are_durable(self):
        with batchflow.Store("clicks", pipeline="bytes") as store:
            with self.assertRaises(KeyError):
                store[0]
            for n in range(0, 40, 8):
                self.send(range(n, n + 8))
                for key in range(n, n + 8):
                    self.assertEqual(list(store[key][0].tolist()), self.values(key))
            with self.assertRaises(KeyError):
                store[40]

    def test_a_subscriber_goes_on_from_its_position_also_after_a_kill(self):
        self.send(range(50))
        had, position = [], 0
        for message in batchflow.subscribe("clicks", position):
            had.append(message.number)
            self.assertEqual(list(message.value[0].tolist()), self.values(message.number))
            position = message.position
            if len(had) == 20:
                break
        self.node.end()
        self.node.start()
        self.send(range(50, 60), end=True)
        had += [message.number for message in batchflow.subscribe("clicks", position)]
        self.assertEqual(had, list(range(60)))


if __name__ == "__main__":
    unittest.main()
