"""The programs that a wheel brings, as commands of its environment."""

import os
import sys
from pathlib import Path


def _become(name: str) -> None:
    program = Path(__file__).parent / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{program}: {error.strerror}; this package was not installed from a wheel")


def batchflowctl() -> None:
    _become("batchflowctl")


def batchflowd() -> None:
    _become("batchflowd")
