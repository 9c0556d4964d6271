"""Datasets for test_served_dataset.py, in a module that the service's processes can import."""

import os
import random
import time

import batchflow
import numpy as np

ROWS = 300


class Rows:
    """Its arrays are its state."""

    def __init__(self, rows=ROWS, factor=1):
        self.rows = np.arange(rows * 1024, dtype=np.float32).reshape(rows, 1024)
        self.factor = factor

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index] * self.factor, int(index) % 7


class Alone(Rows):
    def __getitem__(self, index):
        return self.rows[index] * self.factor


class Noisy(Rows):
    def __getitem__(self, index):
        return np.array([index, random.random(), np.random.rand()]), int(index)


class Rarely(Rows):
    """It draws, and seldom shows it."""

    def __getitem__(self, index):
        return np.array([index, 7 if random.random() < 1e-9 else 0])


class LoadsPyTorch(Rows):
    """Its first sample loads PyTorch."""

    def __getitem__(self, index):
        import torch
        return torch.from_numpy(self.rows[index])


class DrawsByPyTorch(Rows):
    """Its first sample loads PyTorch, and each draws by it."""

    def __getitem__(self, index):
        import torch
        return torch.rand(3)


class Declared(Noisy):
    """It is declared to give the same each time, though it draws."""

    @batchflow.step
    def __getitem__(self, index):
        return np.array([index, random.random()])


class OwnGenerator(Rows):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.generator.random(3)


class Short(Rows):
    """Its length is a lie."""

    def __len__(self):
        return 2 * len(self.rows)


class Sleeping(Rows):
    """Each sample takes so long that an epoch waits for two seconds and more."""

    def __init__(self, seed=0):
        super().__init__(60)
        self.seed = seed

    def __getitem__(self, index):
        time.sleep(0.08)
        return super().__getitem__(index)


class Broken(Rows):
    """One sample raises, and with `crashes` another ends its process."""

    def __init__(self, crashes=False):
        super().__init__()
        self.crashes = crashes

    def __getitem__(self, index):
        if index == 5:
            raise ValueError("sample 5 is broken")
        if self.crashes and index == 11:
            os.abort()
        return super().__getitem__(index)


class Uneven(Rows):
    def __getitem__(self, index):
        return self.rows[index, :index + 1]


class LateUneven(Rows):
    """Samples differ where a probe does not look."""

    def __getitem__(self, index):
        return self.rows[index, :9 if index == 5 else 8]


class ByName(Rows):
    def __getitem__(self, index):
        return {"x": self.rows[index], "index": index, "more": [{"half": index / 2}, (index,)]}


class Things(Rows):
    def __getitem__(self, index):
        return object(), index


class Text(Rows):
    def __getitem__(self, index):
        return str(index), index


class Tokens(Rows):
    """As a tokenizer gives them: each sample has another length."""

    def __getitem__(self, index):
        length = 1 + index * 7 % 23
        return {"ids": list(range(index, index + length)), "text": "\u00e4" * length,
                "weights": np.arange(length, dtype=np.float32) / 4, "label": index % 7}


class Boxes(Rows):
    """As many boxes as a picture has, and parts that some samples do not have."""

    def __getitem__(self, index):
        boxes = np.arange(index % 3 * 4, dtype=np.float32).reshape(-1, 4)
        return np.full((2, 1 + index % 4), index), {"boxes": boxes, "names": ["a"] * (index % 3),
                                                    "note": None if index % 2 else b"odd"}


class Flipped(Tokens):
    """It draws how long a sample is."""

    def __getitem__(self, index):
        return np.full(random.randint(1, 9), index)


class LateLong(Rows):
    """One sample is far longer than all that a probe looks at."""

    def __getitem__(self, index):
        return self.rows[index, :1000 if index == 5 else 1 + index % 2]


class LateLongSaid(LateLong):
    @batchflow.step(output=("uint8", (8192,)))
    def __getitem__(self, index):
        return super(LateLongSaid, self).__getitem__(index)


class Named(Rows):
    """It opens its file where the script is."""

    def __getitem__(self, index):
        with open(f"data/{index % 3}.txt") as file:
            return np.array([int(file.read()), index])


class Writes(Rows):
    """A confined process may not do that."""

    def __getitem__(self, index):
        with open(f"/tmp/{os.getpid()}", "w") as out:
            out.write("x")
        return self.rows[index]


class Slow(Rows):
    def __getitem__(self, index):
        time.sleep(11)
        return super().__getitem__(index)


class Numbers(Rows):
    """Numbers of many kinds, as PyTorch puts them together."""

    def __getitem__(self, index):
        return (index, index / 3, index % 2 == 0, np.float32(index), np.int16(index),
                np.full(3, index % 250, dtype=np.uint8), np.array([True, index % 3 == 0]))


class LooksAtFiles(Rows):
    """As dill does when it is imported."""

    def __getitem__(self, index):
        kinds = []
        for mode, buffering in (("wb", 0), ("w", -1), ("wb", -1), ("r+b", -1)):
            with open(os.devnull, mode, buffering) as file:
                kinds.append(len(type(file).__name__))
        os.close(os.open(os.devnull, os.O_WRONLY))
        return np.array(kinds)


FACTOR = 0


class Elsewhere(Rows):
    """It uses what stands outside of it."""

    def __getitem__(self, index):
        return np.full(int(os.environ.get("BATCHFLOW_TEST_SIDE", 3)), FACTOR)


class DefaultType(Rows):
    def __getitem__(self, index):
        import torch
        return torch.zeros(2)


class ByPair(Rows):
    """Its indices may be pairs."""

    def __getitem__(self, index):
        return sum(index) if isinstance(index, tuple) else index


class InFile:
    def __init__(self, file):
        self.file = file

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return np.load(self.file)[index]


class Numbered:
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return np.array([index])
