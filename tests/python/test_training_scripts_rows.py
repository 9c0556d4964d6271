"""As test_training_scripts.py: scripts over sound, text, tables and series, and those of frameworks."""

import json
import math
import random
import struct
import unittest
import wave

from changed_line import LOCAL, SERVED, ChangedLine
from support import needs

try:
    import numpy as np
except ImportError:
    pass  # the tests are skipped


@needs("torch")
class Rows(ChangedLine):
    def write_points(self, name, labels):
        """Two numbers that tell the label, the row's own number, the label."""
        drawn = np.random.default_rng(len(labels)).normal(0, 0.3, (len(labels), 2))
        labels = np.array(labels)
        table = np.column_stack([drawn[:, 0] + 2 * labels - 1, drawn[:, 1] - 2 * labels + 1,
                                 np.arange(len(labels)), labels])
        np.save(self.root / f"{name}.npy", table.astype(np.float32))
        return [[i, int(label)] for i, label in enumerate(labels)]

    def test_sound_of_different_lengths(self):
        for part, count in (("train", 30), ("val", 13)):
            for i in range(count):
                label, pitch = (("low", 200), ("high", 1800))[i % 2]
                (self.root / part / label).mkdir(parents=True, exist_ok=True)
                with wave.open(str(self.root / part / label / f"{i}.wav"), "wb") as file:
                    file.setnchannels(1)
                    file.setsampwidth(2)
                    file.setframerate(8000)
                    file.writeframes(struct.pack(f"<{400 + 10 * i}h", *(
                        int(9000 * math.sin(k * pitch / 8000 * 2 * math.pi))
                        for k in range(400 + 10 * i))))
        self.check("audio.py", [LOCAL, LOCAL])

    def test_text_that_is_padded_in_each_batch(self):
        chance = random.Random(7)
        for name, count in (("train", 40), ("eval", 18)):
            rows = [{"tokens": [chance.randint(1, 49) + 50 * (i % 2)
                                for _ in range(chance.randint(2, 14))], "label": i % 2}
                    for i in range(count)]
            (self.root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.check("text_dynamic_padding.py", [LOCAL, LOCAL])

    def test_windows_that_are_drawn(self):
        known = []
        for name, count in (("train", 400), ("val", 150)):
            tokens = [0]
            while len(tokens) < count:
                tokens.append((5 * tokens[-1] + 3) % 64)  # a token says which one comes next
            (self.root / f"{name}.bin").write_bytes(struct.pack(f"<{count}H", *tokens))
            known += [[tokens[at:at + 16], tokens[at + 1:at + 17]] for at in range(count - 16)]
        self.check("memory_map_draws.py", [SERVED, SERVED], samples=known)

    def test_a_language_model_over_columns(self):
        for name, count in (("train", 233), ("val", 100)):
            tokens = [(3 * i + i // 7) % 32 for i in range(count)]
            (self.root / f"{name}.bin").write_bytes(struct.pack(f"<{count}H", *tokens))
        self.check("word_language_model.py", [LOCAL, LOCAL])

    def test_classes_of_unequal_size(self):
        known = self.write_points("train", [int(i % 8 == 0) for i in range(96)])
        self.write_points("val", [i % 2 for i in range(40)])
        self.check("imbalanced.py", [SERVED, SERVED], samples=known, within=0.2)

    def test_folds(self):
        self.write_points("train", [i % 2 for i in range(50)])
        self.check("kfold.py", [SERVED] * 6)

    def test_pairs_that_are_drawn(self):
        for name, count in (("train", 400), ("val", 61)):
            self.write_points(name, [i % 2 for i in range(count)])
        self.check("siamese.py", [SERVED, SERVED], within=0.2)

    def test_windows_of_a_series(self):
        series = np.sin(np.arange(700) / 5)
        np.save(self.root / "series.npy", series)
        self.check("time_series.py", [SERVED, SERVED], drops=True)

    def test_a_buffer_that_grows(self):
        said = self.check("replay.py", [LOCAL])
        self.assertIn("this one gives them in its own", said)

    def test_a_module_of_lightning(self):
        self.write_points("train", [i % 2 for i in range(43)])
        self.write_points("val", [i % 2 for i in range(21)])
        self.check("lightning_module.py", [SERVED, SERVED])

    def test_what_accelerate_prepares(self):
        known = self.write_points("train", [i % 2 for i in range(43)])
        self.write_points("val", [i % 2 for i in range(21)])
        self.check("accelerate_prepare.py", [SERVED, SERVED], drops=True, samples=known)


if __name__ == "__main__":
    unittest.main()
