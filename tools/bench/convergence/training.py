"""The data and the model: scikit-learn's handwritten digits, and a small network.

Each training picture is seen through a random crop, and so is each test picture, through a few that
are the same in all runs: a model that has learned from one crop a picture has not learned enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple

import torch
from torchvision import transforms

SIDE = 8
TRAINING = 1200
VIEWS = 8  # of each test picture
HIDDEN = 64
LEARNING_RATE = 0.15  # at the beginning; it goes down to none, or accuracies would scatter
BATCH = 32

AUGMENTATION = transforms.Compose([
    transforms.RandomResizedCrop(SIDE, scale=(0.4, 1.0)), transforms.PILToTensor()])


class Batch(NamedTuple):
    pictures: Any  # uint8, [n, 3, SIDE, SIDE]
    labels: Any
    keys: list[int]  # sample keys


Epochs = Iterable[Iterator[Batch]]


class NotOnce(AssertionError):
    """An epoch did not have each sample once."""


def write_digits(folder: Path) -> None:
    """`folder/train/CLASS/NUMBER.png`, and `folder/test` likewise."""
    import numpy
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = numpy.random.default_rng(0).permutation(len(digits.target))
    for index, number in enumerate(order):
        label = digits.target[number]
        part = folder / ("train" if index < TRAINING else "test") / str(label)
        part.mkdir(parents=True, exist_ok=True)
        grey = numpy.round(digits.images[number] * (255 / 16)).astype(numpy.uint8)
        Image.fromarray(grey).save(part / f"{number:04}.png")


def test_views(folder: Path) -> Batch:
    from torchvision.datasets import ImageFolder

    torch.manual_seed(0)
    seen = [sample for _ in range(VIEWS) for sample in ImageFolder(str(folder), AUGMENTATION)]
    return Batch(torch.stack([picture for picture, _ in seen]),
                 torch.tensor([label for _, label in seen]), [])


def _numbers(pictures: Any) -> Any:
    return pictures[:, 0].reshape(len(pictures), -1).float() / 255 - 0.3


class Result(NamedTuple):
    accuracy: float  # on the test pictures, in percent
    loss: float  # on the same
    unchanged: float  # share of the pictures that looked as in the epoch before
    had: float  # share of the samples that an epoch had


def check_once(epoch: int, keys: list[int]) -> None:
    if sorted(keys) != list(range(TRAINING)):
        raise NotOnce(f"epoch {epoch}: {len(keys)} samples, {len(set(keys))} of them "
                      f"different, where each of {TRAINING} has to come once")


def train(epochs: Epochs, count: int, seed: int, test: Batch,
          check: Callable[[int, list[int]], None] = check_once,
          learned: Callable[[list[int], Any], None] = lambda keys, losses: None) -> Result:
    """Trains `count` epochs. `check` is called with each epoch's number and keys, and `learned` with
    the keys and losses of each batch."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(SIDE * SIDE, HIDDEN), torch.nn.ReLU(),
                                torch.nn.Linear(HIDDEN, 10))
    descent = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(descent, count)
    loss_of = torch.nn.CrossEntropyLoss(reduction="none")
    looks: dict[int, bytes] = {}
    unchanged = compared = had = 0
    for number, epoch in enumerate(epochs):
        keys: list[int] = []
        for batch in epoch:
            keys += batch.keys
            for key, picture in zip(batch.keys, batch.pictures.numpy()):
                look = picture.tobytes()
                compared += key in looks
                unchanged += looks.get(key) == look
                looks[key] = look
            descent.zero_grad()
            losses = loss_of(model(_numbers(batch.pictures)), batch.labels)
            losses.mean().backward()
            descent.step()
            learned(batch.keys, losses.detach())
        schedule.step()
        check(number, keys)
        had += len(set(keys))
    with torch.no_grad():
        answers = model(_numbers(test.pictures))
        right = answers.argmax(1) == test.labels
        loss = loss_of(answers, test.labels).mean().item()
    return Result(100 * right.float().mean().item(), loss, unchanged / max(1, compared),
                  had / count / TRAINING)
