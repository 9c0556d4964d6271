"""Functions that tests bring as steps."""

import batchflow

SHIFT = 5


@batchflow.step
def shifted(rows):
    return rows * 2 + SHIFT
