"""BatchFlow with memory for hardly any decoded picture, as with large datasets: each picture is
decoded anew for each epoch, once for all jobs."""

from __future__ import annotations

from typing import Any, ContextManager

from . import batchflow_
from .batchflow_ import GUARANTEE, MODULES, PACKAGES, counted, epochs

TITLE = "BatchFlow, little memory"
__all__ = ["GUARANTEE", "MODULES", "PACKAGES", "counted", "epochs"]


def serve(options: dict[str, Any]) -> ContextManager[Any]:
    blocks = 8 + 3 * options["jobs"]  # blocks that are prepared, wait, or are read
    memory = blocks * batchflow_.block_bytes(options) // 2**20 + 192
    return batchflow_.serve(options, f"{memory}mib", "64mib")
