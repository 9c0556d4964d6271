"""Sources of epochs: PyTorch, BatchFlow, and two that train worse, which the test must notice."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import torch
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

import batchflow
from training import AUGMENTATION, BATCH, Batch, Epochs

PIPELINE = batchflow.from_torchvision(AUGMENTATION)
PACE_S = 0.002  # of the measured job among others: seconds a batch beside its training
OTHERS_S = (0.001, 0.004, 0.008)  # of the jobs that share with it


@functools.lru_cache(maxsize=None)
def _opened(file: str) -> Any:
    return default_loader(file)


class _Keyed(ImageFolder):
    """Its order is that of BatchFlow's keys. Files are decoded once: random steps come after."""

    def __init__(self, folder: Path):
        super().__init__(str(folder), AUGMENTATION, loader=_opened)

    def __getitem__(self, index: int) -> tuple[Any, int, int]:
        picture, label = super().__getitem__(index)
        return picture, label, index


def pytorch(folder: Path, seed: int, epochs: int) -> Epochs:
    torch.manual_seed(seed + 1_000_000)  # the transforms draw from it
    loader = torch.utils.data.DataLoader(
        _Keyed(folder), BATCH, shuffle=True,
        generator=torch.Generator().manual_seed(seed))
    for _ in range(epochs):
        yield (Batch(pictures, labels, keys.tolist()) for pictures, labels, keys in loader)


def own_batches(loader: batchflow.DataLoader, pause_s: float = 0.0) -> Iterator[Batch]:
    for batch in loader:
        own = batch.samples - batch.fillers
        yield Batch(batch["image"][:own], batch["label"][:own],
                    batch.sample_keys.tolist()[:own])
        time.sleep(pause_s)


def strict(folder: Path, seed: int, epochs: int) -> Epochs:
    with batchflow.DataLoader(folder, BATCH, True, order="strict", shuffle_seed=seed,
                              pipeline=PIPELINE, epochs=epochs) as loader:
        for _ in range(epochs):
            yield own_batches(loader)


def relaxed(folder: Path, seed: int, epochs: int) -> Epochs:
    """Beside three other jobs of other speeds, which get the same blocks."""
    with _others(folder, seed), batchflow.DataLoader(
            folder, BATCH, True, order="relaxed", shuffle_seed=seed, pipeline=PIPELINE,
            epochs=epochs) as loader:
        for _ in range(epochs):
            yield own_batches(loader, PACE_S)


@contextmanager
def _others(folder: Path, seed: int) -> Iterator[None]:
    """The jobs have begun when this is entered, and have checked their epochs when it is left."""
    jobs = [subprocess.Popen([sys.executable, str(Path(__file__).parent / "other.py"), str(folder),
                              str(BATCH), str(seed), str(pause_s), json.dumps(PIPELINE.steps)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
            for pause_s in OTHERS_S]
    try:
        for job in jobs:
            assert job.stdout and job.stdout.readline() == "begun\n", "a job did not begin"
        yield
        for job in jobs:
            output, _ = job.communicate("", timeout=60)
            if job.returncode != 0:
                raise AssertionError(f"a job beside the one that is measured failed: {output}")
    finally:
        for job in jobs:
            job.kill()
            job.wait()


def frozen(epochs: Epochs) -> Epochs:
    """Canary: the first epoch's crops for ever."""
    first: dict[int, Any] = {}

    def batches_of(epoch: Iterator[Batch]) -> Iterator[Batch]:
        for pictures, labels, keys in epoch:
            for key, picture in zip(keys, pictures):
                first.setdefault(key, picture.clone())
            yield Batch(torch.stack([first[key] for key in keys]), labels, keys)
    return map(batches_of, epochs)


def by_class(epochs: Epochs) -> Epochs:
    """Canary: each epoch's samples by their labels."""
    def batches_of(epoch: Iterator[Batch]) -> Iterator[Batch]:
        batches = list(epoch)
        pictures = torch.cat([batch.pictures for batch in batches])
        labels = torch.cat([batch.labels for batch in batches])
        keys = torch.tensor([key for batch in batches for key in batch.keys])
        for part in torch.argsort(labels, stable=True).split(BATCH):
            yield Batch(pictures[part], labels[part], keys[part].tolist())
    return map(batches_of, epochs)
