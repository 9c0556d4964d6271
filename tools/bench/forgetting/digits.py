"""Class by class: a small network learns scikit-learn's digits two classes at a time.

Each task is a loader of its own over one dataset: a mixture of the folders of its classes. All
loaders of a run name one buffer, so what is rehearsed comes from the tasks before.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any, Optional

import torch

import batchflow

SIDE, CLASSES, A_TASK = 8, 10, 2
TRAINING = 1200
NEW, REHEARSED, BUFFER = 32, 16, 100
HIDDEN, LEARNING_RATE, EPOCHS = 64, 0.05, 5
PIPELINE = [{"step": "decode"}, {"step": "resize", "size": [SIDE, SIDE]},
            {"step": "layout", "order": "nchw"}]


@dataclasses.dataclass
class Way:
    """How the tasks before are kept in mind."""
    name: str
    what: str
    policy: Optional[str] = None
    features: bool = False
    everything: bool = False
    remembers: bool = False  # it keeps samples of all tasks, so it has to prevent forgetting


WAYS = [
    Way("nothing", "each task alone"),
    Way("reservoir", "a uniform choice of all that was had", "reservoir", remembers=True),
    Way("random-replacement", "equal parts of the classes, replaced at random", "random-replacement",
        remembers=True),
    Way("per-class", "equal parts of the classes, a uniform choice of each", "per-class",
        remembers=True),
    Way("per-class, herding", "the same, chosen by features of the network", "per-class", True,
        remembers=True),
    Way("by-score", "the highest losses: what is hard now, so mostly new", "by-score"),
    Way("prioritised", "the last samples, drawn by their losses: of the last task alone",
        "prioritised"),
    Way("everything", "all samples of the tasks before: the bound", everything=True),
]


def write_digits(folder: Path) -> None:
    """`folder/train/CLASS/NUMBER.png`, and `folder/test` likewise."""
    import numpy
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = numpy.random.default_rng(0).permutation(len(digits.target))
    for index, number in enumerate(order):
        part = folder / ("train" if index < TRAINING else "test") / str(digits.target[number])
        part.mkdir(parents=True, exist_ok=True)
        grey = numpy.round(digits.images[number] * (255 / 16)).astype(numpy.uint8)
        Image.fromarray(grey).save(part / f"{number:04}.png")


def test_pictures(folder: Path) -> tuple[Any, Any]:
    import numpy
    from PIL import Image

    pictures, labels = [], []
    for file in sorted(folder.glob("*/*.png")):
        pictures.append(numpy.asarray(Image.open(file)))
        labels.append(int(file.parent.name))
    return (torch.tensor(numpy.stack(pictures)).float().reshape(len(labels), -1) / 255 - 0.3,
            torch.tensor(labels))


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(SIDE * SIDE, HIDDEN)
        self.answer = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, pictures: Any) -> tuple[Any, Any]:
        features = torch.relu(self.hidden(pictures))
        return self.answer(features), features


@dataclasses.dataclass
class Run:
    """Accuracies on the test pictures of all classes that were had, after each task; of the last
    task's network on the first task's classes; and what the buffer was in the end."""
    accuracies: list[float]
    first_classes: float
    mixture_holds: bool
    kept: dict[int, int]  # exemplars, by class


def loader_of(folder: Path, way: Way, seed: int, task: int) -> batchflow.DataLoader:
    own = range(A_TASK * task, A_TASK * (task + 1))
    classes = range(A_TASK * (task + 1)) if way.everything else own
    rehearsal = None if way.policy is None else {
        "policy": way.policy, "samples": BUFFER, "rehearsed": REHEARSED,
        "name": f"{way.name} {seed}"}
    return batchflow.DataLoader(
        folder, NEW if way.policy is None else NEW + REHEARSED, True,
        mixture={str(one): 1.0 for one in classes}, shuffle_seed=seed, pipeline=PIPELINE,
        epochs=EPOCHS, rehearsal=rehearsal, job_name=f"{way.name}-{seed}-{task}")


def train(folder: Path, way: Way, seed: int, test: tuple[Any, Any]) -> Run:
    torch.manual_seed(seed)
    network = Network()
    descent = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss(reduction="none")
    pictures, labels = test
    accuracies, kept, holds = [], {}, True
    for task in range(CLASSES // A_TASK):
        with loader_of(folder, way, seed, task) as loader:
            label_of: dict[int, int] = {}
            for _ in range(EPOCHS):
                for batch in loader:
                    if task > 0 and way.policy is not None:
                        holds = holds and batch.rehearsed == REHEARSED
                    seen = batch["image"][:, 0].reshape(batch.samples, -1).float() / 255 - 0.3
                    answers, features = network(seen)
                    losses = loss_of(answers, batch["label"])
                    weights = torch.tensor(loader.importance(batch)) \
                        if way.policy == "prioritised" else torch.ones(batch.samples)
                    descent.zero_grad()
                    (weights * losses).mean().backward()
                    descent.step()
                    keys = batch.sample_keys
                    label_of.update(zip(keys.tolist(), batch["label"].tolist()))
                    if way.policy in ("by-score", "prioritised"):
                        loader.report_scores(keys, losses)
                    if way.features:
                        loader.record_features(keys, features)
            if way.policy is not None:
                kept = {}
                for key in loader.exemplars().keys:
                    kept[label_of.get(key, -1)] = kept.get(label_of.get(key, -1), 0) + 1
        had = labels < A_TASK * (task + 1)
        with torch.no_grad():
            right = network(pictures)[0].argmax(1) == labels
        accuracies.append(100 * right[had].float().mean().item())
    first = labels < A_TASK
    return Run(accuracies, 100 * right[first].float().mean().item(), holds, kept)


def measure(service_folder: Path, seeds: int, say: Any) -> dict[str, list[Run]]:
    with tempfile.TemporaryDirectory(dir=service_folder) as name:
        folder = Path(name)
        write_digits(folder)
        test = test_pictures(folder / "test")
        runs: dict[str, list[Run]] = {way.name: [] for way in WAYS}
        for seed in range(1, seeds + 1):
            for way in WAYS:
                runs[way.name].append(train(folder / "train", way, seed, test))
            say(f"seed {seed} of {seeds}: " + ", ".join(
                f"{name} {done[-1].accuracies[-1]:.1f} %" for name, done in runs.items()))
        return runs
