"""Measured runs as lines, tables and a page."""

from __future__ import annotations

import statistics
from typing import Any

import environment

Rows = list[list[str]]
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
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def name_of(result: dict[str, Any]) -> str:
    """The name of the case."""
    if result["what"] == "late":
        return f"a job alone, and one that comes beside it; {result['type']}"
    if result["what"] == "demand":
        return (f"{result['jobs']} jobs that together ask for {result['demand']:g} times what PyTorch's "
                f"loader prepares, {result['type']}")
    return f"{result['jobs']} job{'s' * (result['jobs'] > 1)} at full speed, {result['type']}"


def line(result: dict[str, Any]) -> str:
    what = f"{result['peer']}, {name_of(result)}"
    if result["failed"]:
        return f"{what}: failed in round {len(result['runs']) + 1}: {result['failed']}"
    if result["what"] == "late":
        return f"{what}: {_first(result, 'alone_s')} and {_first(result, 'late_s')} s"
    return f"{what}: {rate_of(result):.0f} samples/s, {visited(result)}"


def _values(result: dict[str, Any], name: str) -> list[Any]:
    return [run[name] for run in result["runs"]]


def _first(result: dict[str, Any], name: str) -> str:
    return spread(_values(result, name), 2)


def _beside(result: dict[str, Any], group: list[dict[str, Any]], title: str) -> str:
    """The ratio of the rates, round by round."""
    for other in group:
        if other["peer"] == title and other["runs"]:
            pairs = zip(rates(result), rates(other))
            return spread([rate / other_rate for rate, other_rate in pairs], 2)
    return ""


def _cells(result: dict[str, Any], group: list[dict[str, Any]],
           measured: dict[str, Any]) -> dict[str, str]:
    if result["what"] == "late":
        return {"alone, s to the first batch": _first(result, "alone_s"),
                "beside another, s": _first(result, "late_s")}
    samples = sum(_values(result, "samples"))
    data = measured["pictures"] * measured["bytes_mean"]
    cells = {"samples/s": spread(rates(result))}
    if result["what"] == "demand":
        for number in range(result["jobs"]):
            share = statistics.median(shares[number] for shares in _values(result, "utilisation"))
            cells[f"job {number + 1}"] = f"{100 * share:.0f} %"
    else:
        cells["x DataLoader"] = _beside(result, group, "PyTorch DataLoader")
        prepared, delivered, decoded = (
            sum(run.get(name, 0) for run in result["runs"])
            for name in ("prepared_samples", "delivered_samples", "decoded_hits"))
        cells["prepared / delivered, of kept decoded"] = (
            f"{prepared / delivered:.2f}, {100 * decoded / prepared:.0f} %" if delivered else "")
        cells["wait p50, p99, ms"] = ", ".join(
            f"{1000 * max(_values(result, name)):.0f}" for name in ("wait_p50_s", "wait_p99_s"))
    # It counts the epoch that warms up, and the start of processes.
    cells["CPU ms / sample"] = f"{1000 * sum(_values(result, 'cpu_s')) / samples:.1f}"
    cells["memory, of it shared, MiB"] = ", ".join(
        f"{max(_values(result, name)) / 2**20:.0f}" for name in ("memory_bytes", "shared_bytes"))
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
    for result in measured["results"]:
        if result["failed"]:
            made.append(line(result))
    return made


def is_once(measured: dict[str, Any], peer: str) -> bool:
    return all(not result["failed"] and visited(result) in ("each once", "no whole epoch")
               for result in measured["results"]
               if result["peer"] == peer and result["what"] != "late")


def page(measured: dict[str, Any]) -> str:
    lines = [f"{measured['date']}, {measured['machine']}, `{measured['command']}`: "
             f"{measured['rounds']} run{'s' * (measured['rounds'] > 1)} of each, turn by turn, "
             f"{ROUNDS_OF_DEMAND} at most of jobs that sleep; "
             f"median, least and most. {measured['pictures']} pictures of {measured['bytes_mean']} "
             f"bytes in the mean, batches of {measured['batch']}.", ""]
    for title, rows in tables(measured):
        lines += [f"**{title}**", "", *environment.markdown(rows), ""]
    lines += [f"- {note}" for note in notes(measured)]
    return "\n".join(lines).rstrip() + "\n"
