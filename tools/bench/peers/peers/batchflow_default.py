"""BatchFlow as a new user meets it: no service runs, and the first job starts one with its
defaults. Its memory is half of what the machine has left."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Iterator

from . import batchflow_
from .batchflow_ import GUARANTEE, MODULES, PACKAGES

TITLE = "BatchFlow, defaults"
__all__ = ["GUARANTEE", "MODULES", "PACKAGES"]


def prepare(options: dict[str, Any]) -> None:
    """The service of these jobs, and what it keeps, is not the user's."""
    for name in ("BATCHFLOW_SERVICE", "BATCHFLOW_EMBEDDED"):
        os.environ.pop(name, None)
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        folder = Path(options["scratch"]) / name.lower()
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ[name] = str(folder)


@contextlib.contextmanager
def serve(options: dict[str, Any]) -> Iterator[Path]:
    """Starts nothing. It asks the jobs' service in the end what it counted."""
    yield Path(options["scratch"]) / "xdg_runtime_dir" / "batchflow" / "batchflow.sock"


def counted(socket: Path) -> dict[str, Any]:
    answer = subprocess.run([os.environ["BATCHFLOWCTL"], "--service", str(socket), "status",
                             "--json"], check=True, stdout=subprocess.PIPE, timeout=60)
    return batchflow_.counts(json.loads(answer.stdout))


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    return batchflow_.epochs(options, own_service=False)


def rows(options: dict[str, Any]) -> Iterator[Any]:
    return batchflow_.rows(options, own_service=False)
