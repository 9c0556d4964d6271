"""Trains once on digits that are drawn by their losses, and records the losses: the scores of a real
training, for the simulator (`importance: {recorded: FILE}` of a scenario's job)."""

from __future__ import annotations

from pathlib import Path

import batchflow
import training
from sources import PIPELINE, own_batches


def record(folder: Path, file: Path, epochs: int) -> None:
    """`folder` has the digits, and a service is there."""
    with batchflow.DataLoader(folder / "train", training.BATCH, order="weighted", shuffle_seed=1,
                              pipeline=PIPELINE, epochs=epochs) as loader:
        loader.record_scores(file)
        result = training.train((own_batches(loader) for _ in range(epochs)), epochs, 1,
                                training.test_views(folder / "test"), lambda epoch, keys: None,
                                loader.report_scores)
    print(f"{file}: the losses of {epochs} epochs; {result.accuracy:.2f} % of the test pictures "
          "are right")
