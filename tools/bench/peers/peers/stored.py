"""Formats of a peer's own: written once, before any job begins."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Callable


def folder_of(options: dict[str, Any], ending: str) -> Path:
    return Path(options["store"]) / f"{Path(options['data']).name}-{ending}"


def write_once(folder: Path, write: Callable[[Path], None]) -> float:
    """The seconds that it took to write the folder, in this run or an earlier one."""
    made = folder.with_name(folder.name + ".made")
    if not made.exists():
        shutil.rmtree(folder, ignore_errors=True)  # what a run that was ended has left
        began = time.monotonic()
        write(folder)
        made.write_text(f"{time.monotonic() - began}")
    return float(made.read_text())
