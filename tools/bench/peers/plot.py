"""Throughput over the number of jobs, as SVG: one panel a type, one line a peer, and a
logarithmic axis, because the fastest peer is a hundred times as fast as others."""

from __future__ import annotations

from typing import Any

import lines
import report


def _panel(kind: str, results: list[dict[str, Any]]) -> lines.Panel:
    results = [result for result in results
               if result["type"] == kind and result["what"] == "speed" and result["runs"]]
    jobs = sorted({result["jobs"] for result in results})
    rates: dict[str, dict[int, float]] = {}
    for result in results:
        rates.setdefault(result["peer"], {})[jobs.index(result["jobs"])] = report.rate_of(result)
    names = [f"{count} job{'s' * (count > 1)}" for count in jobs]
    return lines.Panel(f"{kind}, samples/s of all jobs", names, rates, True)


def svg(measured: dict[str, Any]) -> str:
    results = [result for result in measured["results"] if result["what"] != "rows"]
    kinds = list(dict.fromkeys(result["type"] for result in results))
    return lines.svg([_panel(kind, results) for kind in kinds])
