"""The Dataset of the benchmark: rows of 4 KiB, and some work for each."""

import random
import time

import numpy as np


class Rows:
    def __init__(self, rows: int, work_us: int, draws: bool):
        self.rows = np.arange(rows * 1024, dtype=np.float32).reshape(rows, 1024)
        self.work_s, self.draws = work_us / 1e6, draws

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int):
        until = time.thread_time() + self.work_s
        row = self.rows[index] * 2
        if self.draws:
            row = row + random.random()
        while time.thread_time() < until:
            row = row * 1.0
        return row, int(index)
