"""Training scripts in the shape of those that people run, with one changed line: as many batches, of
the same sizes, with the same samples and labels, and evaluations in the same order."""

import json
import random
import struct
import unittest

from changed_line import LOCAL, SERVED, ChangedLine
from support import needs

try:
    from pictures import write_pictures
except ImportError:
    pass  # the tests are skipped

TRAIN, VAL = 43, 21


class Scripts(ChangedLine):
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
        self.check("loader_arguments.py", [LOCAL, LOCAL])

    @needs("torch")
    def test_windows_of_a_memory_map(self):
        for name, windows in (("train", 50), ("val", 20)):
            tokens = [(7 * i + i // 16) % 512 for i in range(16 * windows + 1)]
            (self.root / f"{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
            if name == "train":
                samples = [[tokens[at:at + 16], tokens[at + 1:at + 17]]
                           for at in range(0, 16 * windows, 16)]
        self.check("memory_map.py", [SERVED, SERVED], drops=True, samples=samples)

    @needs("torchvision")
    def test_pairs_of_pictures_and_captions(self):
        write_pictures(self.root / "pictures", TRAIN)
        words = "a the photo of cat dog small large red blue running asleep".split()
        chance = random.Random(5)
        rows = []
        for file in sorted(self.root.rglob("*.png"), key=lambda one: one.name):
            rows.append(f"{file}\t{' '.join(chance.choices(words, k=chance.randint(3, 15)))}")
        (self.root / "pairs.tsv").write_text("\n".join(["filepath\ttitle", *rows]) + "\n")
        self.check("image_and_text.py", [SERVED], drops=True)

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
