"""Columns of tables as arguments of a DataLoader, and folders of shards that are not whole."""

import struct
import unittest

import batchflow
from mds_files import mds_index, mds_shard
from support import Daemon, Folder, needs

COLUMNS = [("text", "bytes", None), ("summary", "bytes", None), ("label", "int", 8),
           ("kind", "int", 8)]


def row(number):
    return (b"text %03d" % number, b"summary %03d" % number, struct.pack("<q", number % 3),
            struct.pack("<q", number % 5))


@needs("numpy")
class Tables(Folder):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "shards"
        self.data.mkdir()
        self.rows = {f"{part}.mds": (COLUMNS, [row(i) for i in range(part, 40, 2)])
                     for part in range(2)}
        for name, (columns, rows) in self.rows.items():
            (self.data / name).write_bytes(mds_shard(columns, rows))
        daemon = Daemon(self.folder, "--open-datasets")
        self.addCleanup(daemon.kill)
        self.socket = daemon.socket

    def loader(self, data=None, **options):
        loader = batchflow.DataLoader(data or self.data, 8, output="numpy", service=self.socket,
                                      **options)
        self.addCleanup(loader.close)
        return loader

    def given(self, loader, field):
        return sorted((bytes(one).decode(), label) for batch in loader
                      for one, label in zip(batch[field], batch["label"].tolist()))

    def test_the_obvious_columns_and_named_ones(self):
        self.assertEqual(self.given(self.loader(), "text"),
                         [(f"text {i:03}", i % 3) for i in range(40)])
        self.assertEqual(self.given(self.loader(column="summary", label="kind"), "summary"),
                         [(f"summary {i:03}", i % 5) for i in range(40)])
        self.assertEqual(self.given(self.loader(label="kind", split={"keys": "0-9"}), "text"),
                         [(f"text {i:03}", i % 5) for i in range(0, 20, 2)])

    def test_columns_that_cannot_be(self):
        with self.assertRaisesRegex(batchflow.ServiceError, "it has no column 'sumary'"):
            iter(self.loader(column="sumary"))
        for wrong in ("", "a,pin"):
            with self.assertRaisesRegex(ValueError, "cannot be written here"):
                self.loader(column=wrong)
        with self.assertRaisesRegex(TypeError, "label should be a text"):
            self.loader(label=3)
        with self.assertRaisesRegex(ValueError, "column and label are for a path"):
            batchflow.DataLoader("served", 8, column="text", service=self.socket)
        with self.assertRaisesRegex(ValueError, "label.*let the Dataset give it"):
            batchflow.DataLoader([1, 2, 3], 2, label="kind", service=self.socket)

    def test_files_without_columns_are_refused(self):
        sounds = self.folder / "sounds"
        sounds.mkdir()
        (sounds / "one.wav").write_bytes(b"RIFF")
        with self.assertRaisesRegex(batchflow.ServiceError, "column 'left' is for tables, and this is "
                                    "read as files, which has no columns; leave it out"):
            iter(self.loader(sounds, column="left"))

    def test_an_index_that_does_not_fit_the_shards(self):
        index = self.data / "index.json"
        index.write_bytes(mds_index(self.rows))
        with self.loader() as loader:
            self.assertEqual(len(self.given(loader, "text")), 40)
        (self.data / "1.mds").unlink()
        with self.assertRaisesRegex(batchflow.ServiceError,
                                    "index.json: it names 1.mds, which is not there"):
            iter(self.loader())


if __name__ == "__main__":
    unittest.main()
