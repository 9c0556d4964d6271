"""Measured runs as lines, tables and a page."""

from __future__ import annotations

import statistics
from typing import Any

import environment

Rows = list[list[str]]


def rate_of(result: dict[str, Any]) -> float:
    return statistics.median(run["samples_per_s"] for run in result["runs"])


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


def spread(values: list[float]) -> str:
    middle = f"{statistics.median(values):.0f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.0f} to {max(values):.0f})"


def line(result: dict[str, Any]) -> str:
    paced = " paced" if any(result["sleeps_s"]) else ""
    what = f"{result['peer']}, {result['jobs']} jobs, {result['type']}{paced}"
    if result["failed"]:
        return f"{what}: failed: {result['failed']}"
    return f"{what}: {rate_of(result):.0f} samples/s, {visited(result)}"


def _beside(result: dict[str, Any], others: list[dict[str, Any]], title: str) -> str:
    for other in others:
        if other["peer"] == title and other["runs"] and not other["failed"]:
            return f"{rate_of(result) / rate_of(other):.2f}"
    return ""


def _row(result: dict[str, Any], group: list[dict[str, Any]]) -> list[str]:
    row = [result["peer"]]
    if result["failed"] or not result["runs"]:
        return row + ["failed", "", "", "", "", result["guarantee"]]
    samples = sum(run["samples"] for run in result["runs"])
    # The epoch that warms up is in it, and processes that start.
    cpu_ms = 1000 * sum(run["cpu_s"] for run in result["runs"]) / samples
    return row + [spread([run["samples_per_s"] for run in result["runs"]]),
                  _beside(result, group, "PyTorch DataLoader"),
                  f"{cpu_ms:.1f}",
                  f"{1000 * max(run['wait_p99_s'] for run in result['runs']):.0f}",
                  visited(result), result["guarantee"]]


def _paced_row(result: dict[str, Any]) -> list[str]:
    if result["failed"] or not result["runs"]:
        return [result["peer"], "failed", *[""] * (result["jobs"] + 1)]
    each = zip(*(run["utilisation"] for run in result["runs"]))
    return [result["peer"], spread([run["samples_per_s"] for run in result["runs"]]),
            *[f"{100 * statistics.median(one):.0f} %" for one in each], visited(result)]


def tables(measured: dict[str, Any]) -> list[tuple[str, Rows]]:
    made = []
    groups: dict[Any, list[dict[str, Any]]] = {}
    for result in measured["results"]:
        groups.setdefault((result["type"], result["jobs"], tuple(result["sleeps_s"])),
                          []).append(result)
    for (kind, jobs, sleeps_s), group in groups.items():
        if any(sleeps_s):
            title = (f"{jobs} jobs that compute {', '.join(f'{s:g}' for s in sleeps_s)} s a batch, "
                     f"{kind}")
            rows = [["", "samples/s", *[f"job {i + 1}" for i in range(jobs)], "by ids"],
                    *[_paced_row(one) for one in group]]
        else:
            title = f"{jobs} job{'s' * (jobs > 1)} at full speed, {kind}"
            rows = [["", "samples/s", "x DataLoader", "CPU ms / sample", "wait p99, ms", "by ids",
                     "guarantee"], *[_row(one, group) for one in group]]
        made.append((title, rows))
    return made


def notes(measured: dict[str, Any]) -> list[str]:
    made = [f"{peer} does not run here: {why}" for peer, why in measured["absent"].items()]
    for result in measured["results"]:
        if result["failed"]:
            made.append(line(result))
    return made


def is_once(measured: dict[str, Any], peer: str) -> bool:
    return all(not result["failed"] and visited(result) in ("each once", "no whole epoch")
               for result in measured["results"] if result["peer"] == peer)


def page(measured: dict[str, Any]) -> str:
    lines = [f"{measured['date']}, {measured['machine']}, `{measured['command']}`: "
             f"{measured['rounds']} run{'s' * (measured['rounds'] > 1)} of each, turn by turn; "
             f"median, least and most. {measured['pictures']} pictures of {measured['bytes_mean']} "
             f"bytes in the mean, batches of {measured['batch']}.", ""]
    for title, rows in tables(measured):
        lines += [f"**{title}**", "", *environment.markdown(rows), ""]
    lines += [f"- {note}" for note in notes(measured)]
    return "\n".join(lines).rstrip() + "\n"
