"""How much memory the processes of a step may take, where the script does not say: it is measured.

A function with modules that are small enough runs within the service's usual bound. Others are
loaded once in a process as the service starts it, and what that takes is remembered.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any, Optional

from .brought_folder import alone_in, brought_folder, write_whole
from .step_probe import FOLDER_MIB, Failed, Probe
from .steps import NotTakable

_MIB = 1 << 20
# Code in a worker process that the bound of a step leaves room for, and what Python reserves
# (runtime/step/step_process.cpp).
_USUAL, _RESERVED, _STACK = 64 * _MIB, 64 * _MIB, 8 * _MIB
# Small enough, together with what is in Python itself.
_SMALL = ("numpy", "scipy", "PIL", "batchflow")


def memory_for(data: int, row: int = 0) -> Optional[str]:
    """What a process may take, where the usual bound is not enough."""
    wanted = max(data + data // 4 + 24 * _MIB + FOLDER_MIB * _MIB + _STACK - _RESERVED, 5 * row)
    if wanted <= _USUAL:
        return None
    return f"{-(-wanted // (16 * _MIB)) * 16}mib"


def with_memory(step: dict[str, Any]) -> dict[str, Any]:
    """The step of a pipeline, with the memory that its function needs to be loaded."""
    if "python" not in step or "memory" in step:
        return step
    bundle = json.loads(step["python"])
    if not bundle["modules"] and all(_is_small(module) for module, _, _ in bundle["imports"].values()):
        return step
    memory = _measured(step, bundle)
    return step if memory is None else {**step, "memory_measured": memory}


def _is_small(module: str) -> bool:
    top = module.split(".")[0]
    return top in _SMALL or top in getattr(sys, "stdlib_module_names", ())


def _measured(step: dict[str, Any], bundle: dict[str, Any]) -> Optional[str]:
    # With a declared output nothing calls the function, which would take a sample.
    shown = {**step, "python": json.dumps({**bundle, "output": ["uint8", [1]]})}
    name = hashlib.sha256(f"{sys.executable} {step['python']}".encode()).hexdigest()[:40]
    try:
        folder = brought_folder()
        file = folder / f"{name}.memory"
        with alone_in(folder):
            if not file.exists():
                with Probe(shown) as probe:
                    probe.wait()
                    write_whole(file, [str(probe.memory()).encode()])
        os.utime(file)
        return memory_for(int(file.read_text()))
    except (Failed, NotTakable, OSError, ValueError):
        return None  # the service says what is wrong with it
