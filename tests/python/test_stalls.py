"""What a loader says at the end of an epoch in which the loop waited."""

import logging
import time
import unittest

import batchflow
from batchflow.stalls import EpochStalls
from support import needs
from test_served_dataset import Served

try:
    import datasets_of_ours as ours
except ImportError:
    ours = None
try:
    import torch
except ImportError:
    torch = None


def slow(samples):
    time.sleep(0.1)
    return len(samples)


class Seen(logging.Handler):
    """What is said to the logger `batchflow` within a block."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __enter__(self):
        logging.getLogger("batchflow").addHandler(self)
        return self

    def __exit__(self, *unused):
        logging.getLogger("batchflow").removeHandler(self)


class Said(unittest.TestCase):
    def said(self, *times):
        """Of an epoch: the loader had these times at its begin, first batch and end."""
        left = [{"wait_s": waited, "between_s": between} for waited, between in times]
        stalls = EpochStalls(lambda: left.pop(0))
        stalls.first_came()
        with Seen() as seen:
            stalls.say(4, lambda: "something helps")
        return seen.lines

    def test_the_time_between_epochs_counts_for_neither(self):
        (line,) = self.said((10, 50), (12, 150), (20, 160))
        self.assertIn("waited for batches for 50 % of the 20 s of epoch 4; something helps", line)

    def test_little_is_not_worth_a_word(self):
        self.assertEqual(self.said((0, 0), (1, 0), (5, 95)), [])  # 5 %
        self.assertEqual(len(self.said((0, 0), (1, 0), (5.1, 94.9))), 1)
        self.assertEqual(self.said((0, 0), (0.1, 0), (0.9, 0)), [])  # less than a second

    def test_an_epoch_without_batches(self):
        self.assertEqual(self.said((0, 0), (0, 0), (0, 0)), [])


@needs("numpy")
class Loaders(Served):
    def lines(self, loader):
        with Seen() as seen:
            count = sum(1 for _ in loader)
        self.assertEqual(count, len(loader))
        return seen.lines

    def test_by_the_service_with_what_its_jobs_wait_for(self):
        (line,) = self.lines(batchflow.DataLoader(ours.Sleeping(), 10, output="numpy"))
        self.assertRegex(line, r"waited for batches for \d+ % of the .* s of epoch 0; \d+ % of the "
                               r"waits at its service are for preparation: more cores for the service")
        loader = batchflow.DataLoader(ours.Sleeping(1), 10, output="numpy", say_stalls=False)
        self.assertEqual(self.lines(loader), [])

    def test_by_a_slow_collate_fn(self):
        (line,) = self.lines(batchflow.DataLoader(ours.Rows(), 10, output="numpy", num_workers=1,
                                                  collate_fn=slow))
        self.assertRegex(line, r"of epoch 0; most of it for collate_fn: more workers \(num_workers=1 now, "
                               r"up to \d+ here\) or a cheaper collate_fn may help")

    @needs("torch")
    def test_by_the_scripts_own_workers(self):
        loader = batchflow.DataLoader(ours.Sleeping(), 10, local=True)
        (line,) = self.lines(loader)
        self.assertRegex(line, r"of epoch 0; more workers of its own \(num_workers=, up to \d+ here\), or "
                               "a Dataset that the service can load: local=True says so")
        times = loader.times()
        self.assertEqual(times["batches"], len(loader))
        self.assertEqual(self.lines(batchflow.DataLoader(ours.Sleeping(), 10, local=True,
                                                         say_stalls=False)), [])


if __name__ == "__main__":
    unittest.main()
