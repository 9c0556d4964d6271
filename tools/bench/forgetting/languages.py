"""Three generated languages, of which a small model is given other parts in the middle of its run.

A language is a Markov chain over the same letters, with transitions of its own. So a model is good at
a language as far as it has seen it: the mixture shows in its losses, and in the keys that came.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import torch

import batchflow

LETTERS, LENGTH, TEXTS = 24, 32, 600
NAMES = ("a", "b", "c")
BEFORE = {"a": 0.8, "b": 0.15, "c": 0.05}
AFTER = {"a": 0.05, "b": 0.15, "c": 0.8}
BATCH, STEPS = 16, 300  # the weights change after half of them
LEARNING_RATE = 0.5


@dataclasses.dataclass
class Told:
    losses: list[dict[str, float]]  # on texts of each language that were not had: before, middle, end
    counts: list[dict[str, int]]  # by keys: of each half
    due: list[dict[str, float]]


def write_languages(folder: Path) -> dict[str, Any]:
    """`folder/LANGUAGE/rows.npy`, a row of letters for each text. Gives texts to test by."""
    import numpy

    random = numpy.random.default_rng(1)
    tests = {}
    for name in NAMES:
        chain = random.dirichlet(numpy.full(LETTERS, 0.1), LETTERS)
        rows = numpy.zeros((TEXTS + 100, LENGTH), numpy.int64)
        rows[:, 0] = random.integers(LETTERS, size=len(rows))
        for at in range(1, LENGTH):
            chances = chain[rows[:, at - 1]].cumsum(axis=1)
            rows[:, at] = (random.random((len(rows), 1)) > chances).sum(axis=1).clip(0, LETTERS - 1)
        (folder / name).mkdir(parents=True)
        numpy.save(folder / name / "rows.npy", rows[:TEXTS])
        tests[name] = torch.tensor(rows[TEXTS:])
    return tests


def loss_of(model: Any, texts: Any) -> Any:
    answers = model(texts[:, :-1])
    return torch.nn.functional.cross_entropy(answers.reshape(-1, LETTERS), texts[:, 1:].reshape(-1))


def measure(service_folder: Path) -> Told:
    with tempfile.TemporaryDirectory(dir=service_folder) as name:
        folder = Path(name)
        tests = write_languages(folder)
        return _train(folder, tests)


def _train(folder: Path, tests: dict[str, Any]) -> Told:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(LETTERS, 16), torch.nn.Linear(16, LETTERS))
    descent = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    half = STEPS // 2 * BATCH
    told = Told([], [{}, {}], [])

    def look() -> None:
        with torch.no_grad():
            told.losses.append({name: loss_of(model, texts).item() for name, texts in tests.items()})

    look()
    with batchflow.DataLoader(folder, BATCH, True, mixture=BEFORE, weights_change=True,
                              draws=STEPS * BATCH, shuffle_seed=1, epochs=1) as loader:
        loader.set_weights(AFTER, at=half)
        for step, batch in enumerate(loader):
            if step == STEPS // 2:
                look()
            mixture = loader.mixture()
            counts = told.counts[0 if step < STEPS // 2 else 1]
            for key in batch.sample_keys.tolist():
                name = mixture.source_of(key)
                counts[name] = counts.get(name, 0) + 1
            descent.zero_grad()
            loss_of(model, batch[0].reshape(batch.samples, LENGTH)).backward()
            descent.step()
    look()
    told.due = [{name: half * part[name] for name in NAMES} for part in (BEFORE, AFTER)]
    return told
