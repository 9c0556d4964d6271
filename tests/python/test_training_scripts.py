"""Training scripts in the shape of those that people run, with one changed line: as many batches, of
the same sizes, with the same samples and labels, and evaluations in the same order."""

import json
import os
import random
import struct
import subprocess
import sys
import unittest

from support import HERE, Daemon, Folder, needs

try:
    from pictures import write_pictures
except ImportError:
    pass  # the tests are skipped

LINE = "from torch.utils.data import DataLoader\n"
OURS = "from batchflow import DataLoader\n"
TRAIN, VAL = 43, 21
SERVED, LOCAL = "DataLoader", "LocalDataLoader"


class Scripts(Folder):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "data"
        self.root.mkdir()
        daemon = Daemon(self.folder, "--open-datasets", "--workers", "2", memory="2gib")
        self.addCleanup(daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = daemon.socket

    def lines(self, script, text):
        """What a script prints, an object a line."""
        (self.folder / script).write_text(text)
        done = subprocess.run([sys.executable, str(self.folder / script), str(self.root)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=250)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def check(self, script, loaders):
        """`loaders`: their classes, in turn, with the changed line."""
        text = (HERE / "scripts" / script).read_text()
        self.assertEqual(text.count(LINE), 1)
        theirs, _ = self.lines(script, text)
        ours, said = self.lines(script, text.replace(LINE, OURS))
        self.assertEqual(theirs.pop()["loaders"], [SERVED] * len(loaders))
        self.assertEqual(ours.pop()["loaders"], loaders, said)
        self.assertEqual([list(one) for one in ours], [list(one) for one in theirs])
        trained = []
        for given, expected in zip(ours, theirs):
            self.assertEqual(given["length"], expected["length"])
            self.assertEqual(given.get("val"), expected.get("val"))  # in this order, too
            if "train" in expected:
                sizes = [len(batch) for batch in expected["train"]]
                self.assertEqual([len(batch) for batch in given["train"]], sizes)
                trained.append([one for batch in given["train"] for one in batch])
                self.check_samples(trained[-1], [one for batch in expected["train"] for one in batch],
                                   sum(sizes))
        self.assertNotEqual(*trained)  # each epoch has an order of its own
        return said

    def check_samples(self, given, expected, count):
        """Each at most once, with its label; where none is dropped, the same ones."""
        labels = {json.dumps(sample): label for sample, label in self.samples or expected}
        self.assertEqual(len({json.dumps(sample) for sample, _ in given}), count)
        for sample, label in given:
            self.assertEqual(labels.get(json.dumps(sample), label), label)
        if not self.drops:
            self.assertEqual(sorted(given), sorted(expected))

    drops = False  # whether an epoch leaves some out
    samples = None  # all of them with their labels, where some are left out

    def write_folders(self):
        write_pictures(self.root / "train", TRAIN)
        write_pictures(self.root / "val", VAL)

    @needs("torchvision")
    def test_classification_of_pictures_in_folders(self):
        self.write_folders()
        self.check("classification.py", [SERVED, SERVED])

    @needs("torchvision")
    def test_loader_arguments_in_a_dict(self):
        self.write_folders()
        self.drops, self.samples = True, [[i, i % 5] for i in range(TRAIN)]
        said = self.check("loader_arguments.py", [LOCAL, LOCAL])
        self.assertIn("is loaded by this script's own workers, as PyTorch would", said)

    @needs("torch")
    def test_windows_of_a_memory_map(self):
        for name, windows in (("train", 50), ("val", 20)):
            tokens = [(7 * i + i // 16) % 512 for i in range(16 * windows + 1)]
            (self.root / f"{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
            if name == "train":
                self.drops = True
                self.samples = [[tokens[at:at + 16], tokens[at + 1:at + 17]]
                                for at in range(0, 16 * windows, 16)]
        self.check("memory_map.py", [SERVED, SERVED])

    @needs("torchvision")
    def test_pairs_of_pictures_and_captions(self):
        write_pictures(self.root / "pictures", TRAIN)
        words = "a the photo of cat dog small large red blue running asleep".split()
        chance = random.Random(5)
        rows = []
        for file in sorted(self.root.rglob("*.png"), key=lambda one: one.name):
            rows.append(f"{file}\t{' '.join(chance.choices(words, k=chance.randint(3, 15)))}")
        (self.root / "pairs.tsv").write_text("\n".join(["filepath\ttitle", *rows]) + "\n")
        self.drops = True
        self.check("image_and_text.py", [SERVED])

    @needs("torch")
    def test_text_as_dicts(self):
        chance = random.Random(6)
        for name, count in (("train", 40), ("eval", 18)):
            rows = [{"tokens": [chance.randint(1, 99) for _ in range(chance.randint(2, 14))],
                     "label": chance.randint(0, 2)} for _ in range(count)]
            (self.root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.check("text_classification.py", [SERVED, SERVED])


if __name__ == "__main__":
    unittest.main()
