"""Recordings of scores: what a loader writes of what it reports, and what it refuses."""

import math
import struct
import unittest

import batchflow
from batchflow import score_recording
from support import Served

HEAD = "# batchflow-scores 1 samples 2000\nepoch,key,score\n"


def as_float(score):
    """The number of 32 bits that the service gets."""
    return struct.unpack("f", struct.pack("f", score))[0]


class Recordings(Served):
    def loader(self, **more):
        loader = batchflow.DataLoader("rows", 500, order="weighted", shuffle_seed=1, **more)
        self.addCleanup(loader.close)
        return loader

    def test_each_score_is_a_line_with_the_epoch_in_which_it_was_reported(self):
        file = self.folder / "scores.csv"
        loader = self.loader()
        loader.report_scores([4], [9.0])  # not recorded yet
        loader.record_scores(file)
        self.assertEqual(file.read_text(), HEAD)
        loader.report_scores([3, 1], [2.5, 1e-30])  # before the first batch: in epoch 0
        expected = ["0,3,2.5", f"0,1,{as_float(1e-30):.9g}"]
        for epoch in range(3):
            for batch in loader:
                keys = batch.sample_keys.tolist()
                losses = [math.sin(key + epoch) + 1 for key in keys]
                with loader.record_importance(batch.sample_keys) as record:
                    record(losses)
                expected += [f"{epoch},{key},{as_float(loss):.9g}"
                             for key, loss in zip(keys, losses)]
                # The whole of it is there at any time.
                self.assertEqual(file.read_text(), HEAD + "\n".join(expected) + "\n")
        loader.report_scores((7,), (0.1,))  # between two epochs: in the one that is over
        self.assertEqual(file.read_text().splitlines()[-1], "2,7,0.100000001")
        # The numbers are those that the service was told.
        keys, scores = loader.scores()
        last = {int(key): float(score) for _, key, score in
                (line.split(",") for line in file.read_text().splitlines()[2:])}
        self.assertEqual({**dict(zip(keys, scores)), 4: None},
                         {**{key: as_float(score) for key, score in last.items()}, 4: None})

    def test_epochs_are_those_of_the_job_wherever_it_begins(self):
        file = self.folder / "scores.csv"
        loader = self.loader()
        loader.set_epoch(6)
        loader.record_scores(file)
        loader.report_scores([5], [1])  # for the epoch that comes
        next(iter(loader))
        loader.report_scores([5], [2])
        loader.load_state_dict({})
        loader.report_scores([5], [3])
        for _ in range(2):  # the second leaves the first early
            next(iter(loader))
            loader.report_scores([5], [4])
        self.assertEqual(file.read_text(), HEAD + "6,5,1\n6,5,2\n0,5,3\n0,5,4\n1,5,4\n")

    def test_what_the_service_does_not_take_is_not_recorded(self):
        file = self.folder / "scores.csv"
        loader = self.loader()
        loader.record_scores(str(file))
        for keys, scores in (([2000], [1.0]), ([1], [math.nan]), ([1, 2], [1.0]), ([-1], [1.0])):
            with self.assertRaises((ValueError, batchflow.ServiceError)):
                loader.report_scores(keys, scores)
        self.assertEqual(file.read_text(), HEAD)
        loader.close()
        with self.assertRaises(RuntimeError):
            loader.report_scores([1], [1.0])

    def test_a_file_that_is_there_is_not_touched(self):
        file = self.folder / "scores.csv"
        file.write_text("what an earlier training recorded")
        loader = self.loader()
        with self.assertRaises(FileExistsError):
            loader.record_scores(file)
        self.assertEqual(file.read_text(), "what an earlier training recorded")
        loader.record_scores(self.folder / "other.csv")
        with self.assertRaisesRegex(RuntimeError, "are written to .*other.csv already"):
            loader.record_scores(self.folder / "third.csv")
        with self.assertRaisesRegex(RuntimeError, "record_scores: .*order is sequential"):
            batchflow.DataLoader("rows").record_scores(self.folder / "fourth.csv")

    def test_a_full_recording_says_so_once_and_training_goes_on(self):
        most, score_recording.SCORES_MOST = score_recording.SCORES_MOST, 3
        self.addCleanup(setattr, score_recording, "SCORES_MOST", most)
        file = self.folder / "scores.csv"
        loader = self.loader()
        loader.record_scores(file)
        loader.report_scores([1, 2], [1.0, 2.0])
        with self.assertLogs("batchflow", "WARNING") as said:
            loader.report_scores([3, 4], [3.0, 4.0])
            loader.report_scores([5], [5.0])
        self.assertEqual(len(said.output), 1)
        self.assertIn("is full, with 2 scores", said.output[0])
        self.assertEqual(file.read_text(), HEAD + "0,1,1\n0,2,2\n")
        self.assertEqual(loader.scores()[0], [1, 2, 3, 4, 5])


if __name__ == "__main__":
    unittest.main()
