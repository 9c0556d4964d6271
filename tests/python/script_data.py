"""The data that the training scripts of `scripts/` read, as small as a test needs it, or `scale` times
as much. Each function answers the samples that the script knows, where a test needs them."""

import json
import math
import random
import struct
import wave

import numpy as np


def _pictures(folder, count):
    from pictures import write_pictures
    write_pictures(folder, count)


def folders(root, scale=1):
    for part, count in (("train", 43 * scale), ("val", 21 * scale)):
        _pictures(root / part, count)
        _stripe(root / part)


def _stripe(folder):
    """Draws a stripe into each picture that says its class, so that a model can learn it. The corner,
    which names the picture, stays."""
    from PIL import Image
    for label, files in enumerate(sorted(folder.iterdir())):
        for file in files.iterdir():
            picture = Image.open(file)
            picture.paste((255, 255, 255), (2 + 2 * label, 0, 4 + 2 * label, 12))
            picture.save(file)


def train_folder(root, scale=1):
    _pictures(root / "train", 43 * scale)


def memory_map(root, scale=1):
    for name, windows in (("train", 50 * scale), ("val", 20 * scale)):
        tokens = [(7 * i + i // 16) % 512 for i in range(16 * windows + 1)]
        (root / f"{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        if name == "train":
            samples = [[tokens[at:at + 16], tokens[at + 1:at + 17]]
                       for at in range(0, 16 * windows, 16)]
    return samples


def captions(root, scale=1):
    _pictures(root / "pictures", 43 * scale)
    words = "a the photo of cat dog small large red blue running asleep".split()
    chance = random.Random(5)
    rows = []
    for file in sorted(root.rglob("*.png"), key=lambda one: one.name):
        rows.append(f"{file}\t{' '.join(chance.choices(words, k=chance.randint(3, 15)))}")
    (root / "pairs.tsv").write_text("\n".join(["filepath\ttitle", *rows]) + "\n")


def texts(root, scale=1):
    chance = random.Random(6)
    for name, count in (("train", 40 * scale), ("eval", 18 * scale)):
        rows = [{"tokens": [chance.randint(1, 33) + 33 * (i % 3)
                            for _ in range(chance.randint(2, 14))], "label": i % 3}
                for i in range(count)]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def padded_texts(root, scale=1):
    chance = random.Random(7)
    for name, count in (("train", 40 * scale), ("eval", 18 * scale)):
        rows = [{"tokens": [chance.randint(1, 49) + 50 * (i % 2)
                            for _ in range(chance.randint(2, 14))], "label": i % 2}
                for i in range(count)]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def boxes(root, scale=1):
    from PIL import Image
    chance, annotations = random.Random(1), []
    for i in range(21 * scale):
        Image.new("RGB", (12, 12), (i % 256, 0, 0)).save(root / f"{i}.png")
        found = [[x, y, x + 4, y + 4] for x, y in zip(range(i % 4), range(3, 9))]
        annotations.append([f"{i}.png", found or [[0, 0, 12, 12]],
                            [chance.randint(1, 3) for _ in found or [0]]])
    (root / "boxes.json").write_text(json.dumps(annotations))


def masks(root, scale=1):
    from PIL import Image
    for part, count in (("train", 95 * scale), ("val", 9 * scale)):
        for i in range(count):
            mask = np.zeros((16, 16), np.uint8)
            mask[i % 5:i % 5 + 9, i % 3 + 2:i % 3 + 8] = 1
            planes = np.stack([np.full_like(mask, i % 256), np.full_like(mask, 9), mask * 255], -1)
            for folder, one in (("images", planes), ("masks", mask)):
                (root / part / folder).mkdir(parents=True, exist_ok=True)
                Image.fromarray(one).save(root / part / folder / f"{i:02}.png")
    return [[i, True] for i in range(95 * scale)]


def mnist(root, scale=1):
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count in (("train", 40 * scale), ("t10k", 20 * scale)):
        pixels = np.zeros((count, 28, 28), np.uint8)
        pixels[:, 8:20, 10:18] = 255
        pixels[:, 0, 0] = np.arange(count) % 256
        for kind, magic, array in (("images-idx3", 2051, pixels),
                                   ("labels-idx1", 2049, (np.arange(count) % 10).astype(np.uint8))):
            head = np.array([magic, *array.shape], ">i4").tobytes()
            (raw / f"{name}-{kind}-ubyte").write_bytes(head + array.tobytes())


def slopes(root, scale=1):
    from PIL import Image
    for part, count in (("train", 27 * scale), ("val", 13 * scale)):
        (root / part).mkdir()
        for i in range(count):
            slope = np.add.outer(np.arange(14), np.arange(14)) * 3 + 4 * (i % 40)
            picture = np.stack([slope.astype(np.uint8)] * 3, -1)
            Image.fromarray(picture).save(root / part / f"{i:02}.png")


def sounds(root, scale=1):
    for part, count in (("train", 240 * scale), ("val", 13 * scale)):
        for i in range(count):
            label, pitch = (("low", 200), ("high", 1800))[i % 2]
            (root / part / label).mkdir(parents=True, exist_ok=True)
            frames = 400 + 10 * (i % 30)
            with wave.open(str(root / part / label / f"{i}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(8000)
                file.writeframes(struct.pack(f"<{frames}h", *(
                    int(9000 * math.sin(k * pitch / 8000 * 2 * math.pi)) for k in range(frames))))


def drawn_windows(root, scale=1):
    known = []
    for name, count in (("train", 400 * scale), ("val", 150 * scale)):
        tokens = [0]
        while len(tokens) < count:
            tokens.append((5 * tokens[-1] + 3) % 64)  # a token says which one comes next
        (root / f"{name}.bin").write_bytes(struct.pack(f"<{count}H", *tokens))
        known += [[tokens[at:at + 16], tokens[at + 1:at + 17]] for at in range(count - 16)]
    return known


def columns(root, scale=1):
    for name, count in (("train", 233 * scale), ("val", 100 * scale)):
        tokens = [(3 * i + i // 7) % 32 for i in range(count)]
        (root / f"{name}.bin").write_bytes(struct.pack(f"<{count}H", *tokens))


def points(root, name, labels):
    """Two numbers that tell the label, the row's own number, the label."""
    drawn = np.random.default_rng(len(labels)).normal(0, 0.3, (len(labels), 2))
    labels = np.array(labels)
    table = np.column_stack([drawn[:, 0] + 2 * labels - 1, drawn[:, 1] - 2 * labels + 1,
                             np.arange(len(labels)), labels])
    np.save(root / f"{name}.npy", table.astype(np.float32))
    return [[i, int(label)] for i, label in enumerate(labels)]


def unequal_classes(root, scale=1):
    known = points(root, "train", [int(i % 8 == 0) for i in range(96 * scale)])
    points(root, "val", [i % 2 for i in range(40 * scale)])
    return known


def one_table(root, scale=1):
    return points(root, "train", [i % 2 for i in range(50 * scale)])


def pairs(root, scale=1):
    for name, count in (("train", 400 * scale), ("val", 61 * scale)):
        points(root, name, [i % 2 for i in range(count)])


def series(root, scale=1):
    np.save(root / "series.npy", np.sin(np.arange(700 * scale) / 5))


def two_tables(root, scale=1):
    known = points(root, "train", [i % 2 for i in range(43 * scale)])
    points(root, "val", [i % 2 for i in range(21 * scale)])
    return known


def nothing(root, scale=1):
    del root, scale


# By the script that reads it.
OF_SCRIPT = {
    "classification.py": folders, "loader_arguments.py": folders, "detection.py": boxes,
    "segmentation.py": masks, "repeated_augmentation.py": train_folder, "gan.py": train_folder,
    "vae.py": mnist, "super_resolution.py": slopes, "image_and_text.py": captions,
    "memory_map.py": memory_map, "memory_map_draws.py": drawn_windows,
    "text_classification.py": texts, "text_dynamic_padding.py": padded_texts, "audio.py": sounds,
    "word_language_model.py": columns, "imbalanced.py": unequal_classes, "kfold.py": one_table,
    "siamese.py": pairs, "time_series.py": series, "replay.py": nothing,
    "lightning_module.py": two_tables, "accelerate_prepare.py": two_tables}
