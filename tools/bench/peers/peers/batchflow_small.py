"""BatchFlow where hardly a decoded picture fits into its memory, as with data sets that are large:
each is decoded anew for each epoch, once for all jobs."""

from __future__ import annotations

from typing import Any, ContextManager

from . import batchflow_
from .batchflow_ import GUARANTEE, MODULES, PACKAGES, counted, epochs

TITLE = "BatchFlow, little memory"
__all__ = ["GUARANTEE", "MODULES", "PACKAGES", "counted", "epochs"]


def serve(options: dict[str, Any]) -> ContextManager[Any]:
    blocks = 8 + 3 * options["jobs"]  # that are prepared, wait and are read
    memory = blocks * batchflow_.block_bytes(options) // 2**20 + 192
    return batchflow_.serve(options, f"{memory}mib", "64mib")
