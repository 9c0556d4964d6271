"""Shards of WebDataset: the same keys, texts and labels as were put into the tars."""

import io
import tarfile
import unittest

import batchflow
from support import Daemon, Folder


class Shards(Folder):
    SAMPLES = 300

    def setUp(self):
        super().setUp()
        self.shards = self.folder / "shards"
        self.shards.mkdir()
        self.texts = {}
        for shard in range(3):
            with tarfile.open(self.shards / f"part-{shard:06}.tar", "w") as tar:
                for i in range(shard, self.SAMPLES, 3):
                    self.texts[i] = f"{i:06}".encode() * (1 + i % 5)
                    self._add(tar, f"{i:06}.txt", self.texts[i])
                    self._add(tar, f"{i:06}.cls", str(i % 7).encode())
        self.daemon = Daemon(self.folder, "--dataset", f"shards={self.shards}")
        self.addCleanup(self.daemon.kill)

    @staticmethod
    def _add(tar, name, content):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))

    def test_each_sample_once_an_epoch_with_its_own_text_and_label(self):
        loader = batchflow.DataLoader("shards", 32, True, epochs=2, output="numpy",
                                      service=self.daemon.socket)
        orders = []
        for _ in range(2):
            seen = []
            for batch in loader:
                for text, label in zip(batch["txt"], batch["label"]):
                    sample = int(bytes(text[:6]))
                    self.assertEqual(bytes(text), self.texts[sample])
                    self.assertEqual(label, sample % 7)
                    seen.append(sample)
            self.assertEqual(sorted(seen), list(range(self.SAMPLES)))
            orders.append(seen)
        self.assertNotEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], sorted(orders[0]))


if __name__ == "__main__":
    unittest.main()
