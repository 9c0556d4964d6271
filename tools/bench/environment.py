"""Common parts of the benchmarks in Python: their environments, tables, and pages of docs/.

BATCHFLOW_BUILD is the build folder, where environments are kept.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

BUILD = Path(os.environ.get("BATCHFLOW_BUILD", "build/release"))
_END = "<!-- end of what was measured -->"


def install(name: str, packages: Sequence[str], with_system: bool = True,
            timeout_s: float = 1800,
            without_dependencies: Sequence[str] = ()) -> tuple[Path, Optional[str]]:
    """The interpreter of an environment, or what went wrong. Finished ones are used again.

    `without_dependencies` are more packages: what these depend on is in `packages`.
    """
    folder = BUILD / "python" / name
    python, done = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join([*packages, *(f"{package} without dependencies"
                                     for package in without_dependencies)])
    if done.exists() and done.read_text() == wanted:
        return python, None
    names = " ".join([*packages, *without_dependencies]) or "nothing"
    print(f"installing {names} into {folder}", file=sys.stderr)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input",
           "--disable-pip-version-check"]
    commands = [[sys.executable, "-m", "venv", "--clear",
                 *["--system-site-packages"] * with_system, str(folder)], [*pip, *packages]]
    if with_system and importlib.util.find_spec("numpy"):
        # The version of the system: its other packages were built for it.
        import numpy
        commands[-1].append(f"numpy=={numpy.__version__}")
    if without_dependencies:
        commands.append([*pip, "--no-deps", *without_dependencies])
    log = folder.with_suffix(".log")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        for command in commands:
            try:
                ended = subprocess.run(command, stdout=output, stderr=output, timeout=timeout_s)
            except (subprocess.TimeoutExpired, OSError) as error:
                return python, f"{error}; see {log}"
            if ended.returncode != 0:
                return python, f"{_reason(log.read_text())}; see {os.path.relpath(log)}"
    done.write_text(wanted)
    return python, None


def _reason(log: str) -> str:
    """What pip says last is advice. The exception of a package that cannot be built tells more."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = ([line for line in lines if re.match(r"\w+Error: ", line)] or
              [line for line in lines if line.startswith("ERROR: ")] or lines)
    return errors[-1] if errors else "it printed nothing"


def use(name: str, needed: dict[str, str]) -> None:
    """Goes on in an environment with these modules (by package), if this one lacks some."""
    missing = [package for module, package in needed.items()
               if not importlib.util.find_spec(module)]
    if not missing:
        return
    if os.environ.get("BATCHFLOW_NO_INSTALL"):
        sys.exit(f"{sys.executable} has no {', '.join(missing)}; install them, or unset "
                 "BATCHFLOW_NO_INSTALL")
    python, problem = install(name, missing)
    if problem:
        sys.exit(f"skipped: {name}: {', '.join(missing)} cannot be installed: {problem}")
    os.environ["BATCHFLOW_NO_INSTALL"] = "1"  # once
    os.execv(python, [str(python), *sys.argv])


def machine() -> str:
    """Processor, cores and memory, in words."""
    processor = "unknown processor"
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores of {processor}, {memory:.0f} GiB"


def show(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width)
                                           for cell, width in zip(row[1:], widths[1:]))]
        print("  ".join(cells).rstrip())


def spread(values: Sequence[float], form: str) -> str:
    """The median, and of several values the least and the most."""
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else (f"{middle} ({min(values):{form}} to "
                                            f"{max(values):{form}})")


def keep(results: Any, file: Optional[str]) -> None:
    """Writes what was measured, as JSON, if there is a file for it."""
    if file:
        Path(file).write_text(json.dumps(results, indent=1))


def report(rows: Sequence[Sequence[str]], results: Any, file: Optional[str]) -> None:
    print(machine())
    show(rows)
    keep(results, file)


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]


def write_part(file: Path, text: str, begin: str = "<!-- measured -->") -> None:
    """Puts the text between the mark `begin` of a page and the next mark of an end."""
    page = file.read_text()
    before, found, rest = page.partition(begin)
    if not found or begin in rest or _END not in rest:
        sys.exit(f"{file} does not have '{begin}' once, and '{_END}' after it: the text is put "
                 "between these")
    file.write_text(f"{before}{begin}\n{text}{_END}{rest.partition(_END)[2]}")
