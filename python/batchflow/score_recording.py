"""A file of the scores that a training reports, which the simulator can play back.

    # batchflow-scores 1 samples 1200
    epoch,key,score
    0,17,2.30258512

1 is the version of the format, and the last number is that of the dataset's samples. Each score
that is reported is a line, in the order in which they come; docs/python.md describes it.
"""

from __future__ import annotations

import logging
import os
from array import array
from typing import Sequence, Union

_log = logging.getLogger("batchflow")

SCORES_MOST = 2**26  # as in programs/input/recorded_scores.h


class ScoreRecording:
    """`samples`: of the dataset. A file that is there already is not touched: FileExistsError."""

    def __init__(self, file: Union[str, "os.PathLike[str]"], samples: int):
        self.name = os.fspath(file)
        self._left = SCORES_MOST
        self._file = open(file, "x", encoding="ascii", newline="\n")
        self._write(f"# batchflow-scores 1 samples {samples}\nepoch,key,score\n")

    def add(self, epoch: int, keys: Sequence[int], scores: Sequence[float]) -> None:
        """The scores are in the file before this returns."""
        if self._file.closed:
            return
        if len(keys) > self._left:
            _log.warning("batchflow: %s is full, with %d scores; further ones are not recorded",
                         self.name, SCORES_MOST - self._left)
            self.close()
            return
        self._left -= len(keys)
        # Nine digits name each number that the service is told, which has 32 bits.
        self._write("".join(f"{epoch},{key},{score:.9g}\n"
                            for key, score in zip(keys, array("f", scores))))

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()

    def close(self) -> None:
        self._file.close()
