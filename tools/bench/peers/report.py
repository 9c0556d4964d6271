"""Measured runs as lines, tables and a page."""

from __future__ import annotations

import statistics
from typing import Any, Callable

import environment

Rows = list[list[str]]
FULL_SPEED = ("speed", "rows")  # kinds of runs in which no job sleeps
ROUNDS_OF_DEMAND = 3  # their results differ little, and they take half of the time


def rates(result: dict[str, Any]) -> list[float]:
    if result["what"] == "demand":  # the last batches of jobs may end seconds apart
        return [sum(run["of_each_per_s"]) for run in result["runs"]]
    return [run["samples_per_s"] for run in result["runs"]]


def rate_of(result: dict[str, Any]) -> float:
    return statistics.median(rates(result))


def visited(result: dict[str, Any]) -> str:
    """How often each sample came, by ids."""
    epochs = sum(run["epochs"] for run in result["runs"])
    missing, repeated, unknown = (sum(run[name] for run in result["runs"])
                                  for name in ("missing", "repeated", "unknown"))
    if epochs == 0:
        return "no whole epoch"
    if missing == repeated == unknown == 0:
        return "each once"
    return f"{missing / epochs:.0f} missing, {repeated / epochs:.0f} twice" + (
        f", {unknown} unknown" if unknown else "")


def spread(values: list[float], digits: int = 0) -> str:
    return environment.spread(values, f".{digits}f")


def name_of(result: dict[str, Any]) -> str:
    """The name of the case."""
    if result["what"] == "late":
        return f"a job alone, and one that comes beside it; {result['type']}"
    if result["what"] == "demand":
        return (f"{result['jobs']} jobs that together ask for {result['demand']:g} times what PyTorch's "
                f"loader prepares, {result['type']}")
    jobs = f"{result['jobs']} job{'s' * (result['jobs'] > 1)}"
    if result["what"] == "rows":
        return f"rows of {result['row_bytes']} bytes, {jobs} at full speed"
    return f"{jobs} at full speed, {result['type']}"


def line(result: dict[str, Any]) -> str:
    what = f"{result['peer']}, {name_of(result)}"
    if result["failed"]:
        return f"{what}: failed in round {len(result['runs']) + 1}: {result['failed']}"
    if result["what"] == "late":
        return f"{what}: {_first(result, 'alone_s')} and {_first(result, 'late_s')} s"
    return (f"{what}: first batch after {_first(result, 'first_s')} s, "
            f"{rate_of(result):.0f} samples/s, {visited(result)}")


def _values(result: dict[str, Any], name: str) -> list[Any]:
    return [run[name] for run in result["runs"]]


def _first(result: dict[str, Any], name: str) -> str:
    return spread(_values(result, name), 2)


def start_rates(result: dict[str, Any], epochs: int) -> list[float]:
    """Of all jobs, over their first epochs together."""
    return [run["start_per_s"][epochs - 1] for run in result["runs"]]


def _beside(result: dict[str, Any], group: list[dict[str, Any]], title: str,
            of: Callable[[dict[str, Any]], list[float]] = rates) -> str:
    """The ratio of the rates, round by round."""
    for other in group:
        if other["peer"] == title and other["runs"]:
            pairs = zip(of(result), of(other))
            return spread([rate / other_rate for rate, other_rate in pairs], 2)
    return ""


def _start_cells(result: dict[str, Any], group: list[dict[str, Any]], title: str, short: str,
                 unit: str) -> dict[str, str]:
    """What a new user meets first; the ratio is to the peer with this title."""
    def first_epoch(one: dict[str, Any]) -> list[float]:
        return start_rates(one, 1)
    epochs = min(len(run["start_per_s"]) for run in result["runs"])
    cells = {"first batch, s": _first(result, "first_s"),
             f"first epoch, {unit}": spread(first_epoch(result)),
             f"first epoch x {short}": _beside(result, group, title, first_epoch)}
    if epochs > 1:
        cells[f"first {epochs} epochs, {unit}"] = spread(start_rates(result, epochs))
    return cells


def _rows_cells(result: dict[str, Any], group: list[dict[str, Any]]) -> dict[str, str]:
    samples = sum(_values(result, "samples"))
    return {"rows/s": spread(rates(result)),
            "x NumPy": _beside(result, group, "NumPy memory map"),
            "x DataLoader": _beside(result, group, "PyTorch DataLoader"),
            **_start_cells(result, group, "NumPy memory map", "NumPy", "rows/s"),
            "wait p50, p99, us": _waits(result, 1e6),
            "CPU us / row": f"{1e6 * sum(_values(result, 'cpu_s')) / samples:.1f}",
            "memory, of it shared, MiB": _memory(result),
            "by ids": visited(result)}


def _waits(result: dict[str, Any], unit: float) -> str:
    return ", ".join(f"{unit * max(_values(result, name)):.0f}"
                     for name in ("wait_p50_s", "wait_p99_s"))


def _memory(result: dict[str, Any]) -> str:
    return ", ".join(f"{max(_values(result, name)) / 2**20:.0f}"
                     for name in ("memory_bytes", "shared_bytes"))


def _speed_cells(result: dict[str, Any], group: list[dict[str, Any]]) -> dict[str, str]:
    prepared, delivered, decoded = (
        sum(run.get(name, 0) for run in result["runs"])
        for name in ("prepared_samples", "delivered_samples", "decoded_hits"))
    return {"x DataLoader": _beside(result, group, "PyTorch DataLoader"),
            **_start_cells(result, group, "PyTorch DataLoader", "DataLoader", "samples/s"),
            "prepared / delivered, of kept decoded": (
                f"{prepared / delivered:.2f}, {100 * decoded / prepared:.0f} %"
                if delivered else ""),
            "wait p50, p99, ms": _waits(result, 1e3)}


def _demand_cells(result: dict[str, Any]) -> dict[str, str]:
    cells = {}
    for number in range(result["jobs"]):
        share = statistics.median(shares[number] for shares in _values(result, "utilisation"))
        cells[f"job {number + 1}"] = f"{100 * share:.0f} %"
    return cells


def _cells(result: dict[str, Any], group: list[dict[str, Any]],
           measured: dict[str, Any]) -> dict[str, str]:
    if result["what"] == "late":
        return {"alone, s to the first batch": _first(result, "alone_s"),
                "beside another, s": _first(result, "late_s")}
    if result["what"] == "rows":
        return _rows_cells(result, group)
    samples = sum(_values(result, "samples"))
    data = measured["pictures"] * measured["bytes_mean"]
    cells = {"samples/s": spread(rates(result))}
    cells.update(_demand_cells(result) if result["what"] == "demand" else
                 _speed_cells(result, group))
    # It counts the first epochs, and the start of processes.
    cells["CPU ms / sample"] = f"{1000 * sum(_values(result, 'cpu_s')) / samples:.1f}"
    cells["memory, of it shared, MiB"] = _memory(result)
    cells["storage / data"] = f"{max(_values(result, 'read_bytes')) / data:.2f}"
    cells["pixels, unchanged crops"] = "{:.3g} ± {:.3g}, {:.0%}".format(
        *(statistics.median(_values(result, name)) for name in ("mean", "deviation", "unchanged")))
    cells["by ids"] = visited(result)
    return cells


def tables(measured: dict[str, Any]) -> list[tuple[str, Rows]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in measured["results"]:
        groups.setdefault(name_of(result), []).append(result)
    made = []
    for name, group in groups.items():
        all_cells = [_cells(result, group, measured) if result["runs"] else {} for result in group]
        titles = next((list(cells) for cells in all_cells if cells), [])
        rows = [["", *titles, "guarantee"]]
        for result, cells in zip(group, all_cells):
            values = list(cells.values()) or ["failed", *[""] * (len(titles) - 1)][:len(titles)]
            rows.append([result["peer"], *values, result["guarantee"]])
        made.append((name[0].upper() + name[1:], rows))
    return made


def notes(measured: dict[str, Any]) -> list[str]:
    made = [f"{peer} does not run here: {why}" for peer, why in measured["absent"].items()]
    if measured["converted"]:
        made.append("Before its first epoch, one process writes all pictures in the peer's own "
                    "format: " + ", ".join(f"{peer} in {seconds:.1f} s" for peer, seconds in
                                           measured["converted"].items()))
    for result in measured["results"]:
        if result["failed"]:
            made.append(line(result))
    return made


def is_once(measured: dict[str, Any], peers: str) -> bool:
    """Whether each of the peers with this beginning gave each sample once."""
    return all(not result["failed"] and visited(result) in ("each once", "no whole epoch")
               for result in measured["results"]
               if result["peer"].startswith(peers) and result["what"] != "late")


def page(measured: dict[str, Any]) -> str:
    lines = [f"{measured['date']}, {measured['machine']}, `{measured['command']}`: "
             f"{measured['rounds']} run{'s' * (measured['rounds'] > 1)} of each, turn by turn, "
             f"{ROUNDS_OF_DEMAND} at most of jobs that sleep; "
             f"median, least and most. {measured['pictures']} pictures of {measured['bytes_mean']} "
             f"bytes in the mean, {measured['rows']} rows, batches of {measured['batch']}.", ""]
    for title, rows in tables(measured):
        lines += [f"**{title}**", "", *environment.markdown(rows), ""]
    lines += [f"- {note}" for note in notes(measured)]
    return "\n".join(lines).rstrip() + "\n"
