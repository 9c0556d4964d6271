"""As test_training_scripts.py: scripts over pictures, in several ranks too."""

import json
import random
import unittest

from changed_line import LOCAL, SERVED, ChangedLine
from support import needs

try:
    import numpy as np
    from PIL import Image
    from pictures import write_pictures
except ImportError:
    pass  # the tests are skipped


@needs("torchvision")
class Pictures(ChangedLine):
    def test_detection_in_two_ranks(self):
        chance, annotations = random.Random(1), []
        for i in range(21):
            Image.new("RGB", (12, 12), (i, 0, 0)).save(self.root / f"{i}.png")
            boxes = [[x, y, x + 4, y + 4] for x, y in zip(range(i % 4), range(3, 9))]
            annotations.append([f"{i}.png", boxes or [[0, 0, 12, 12]],
                                [chance.randint(1, 3) for _ in boxes or [0]]])
        (self.root / "boxes.json").write_text(json.dumps(annotations))
        said = self.check("detection.py", [LOCAL, LOCAL], ranks=2)
        self.assertIn("samples differ: ", said)

    def test_segmentation_in_two_ranks(self):
        for part, count in (("train", 95), ("val", 9)):
            for i in range(count):
                mask = np.zeros((16, 16), np.uint8)
                mask[i % 5:i % 5 + 9, i % 3 + 2:i % 3 + 8] = 1
                planes = np.stack([np.full_like(mask, i), np.full_like(mask, 9), mask * 255], -1)
                for folder, one in (("images", planes), ("masks", mask)):
                    (self.root / part / folder).mkdir(parents=True, exist_ok=True)
                    Image.fromarray(one).save(self.root / part / folder / f"{i:02}.png")
        self.check("segmentation.py", [SERVED, SERVED], ranks=2, drops=True,
                   samples=[[i, True] for i in range(95)])

    def test_repeated_augmentation_in_two_ranks(self):
        write_pictures(self.root / "train", 43)
        self.check("repeated_augmentation.py", [LOCAL], ranks=2)

    def test_a_gan(self):
        write_pictures(self.root / "train", 43)
        self.check("gan.py", [SERVED])

    def test_a_vae_on_mnist(self):
        raw = self.root / "MNIST" / "raw"
        raw.mkdir(parents=True)
        for name, count in (("train", 40), ("t10k", 20)):
            pixels = np.zeros((count, 28, 28), np.uint8)
            pixels[:, 8:20, 10:18] = 255
            pixels[:, 0, 0] = range(count)
            for kind, magic, array in (("images-idx3", 2051, pixels),
                                       ("labels-idx1", 2049, np.arange(count, dtype=np.uint8) % 10)):
                head = np.array([magic, *array.shape], ">i4").tobytes()
                (raw / f"{name}-{kind}-ubyte").write_bytes(head + array.tobytes())
        self.check("vae.py", [SERVED, SERVED])

    def test_super_resolution(self):
        for part, count in (("train", 27), ("val", 13)):
            (self.root / part).mkdir()
            for i in range(count):
                slope = np.add.outer(np.arange(14), np.arange(14)) * 3 + 4 * i
                picture = np.stack([slope.astype(np.uint8)] * 3, -1)
                Image.fromarray(picture).save(self.root / part / f"{i:02}.png")
        self.check("super_resolution.py", [SERVED, SERVED])


if __name__ == "__main__":
    unittest.main()
