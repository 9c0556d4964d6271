"""Throughput over the number of jobs, as SVG: one panel a type, one line a peer, and a
logarithmic axis, because the fastest peer is a hundred times as fast as others."""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

import report

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 400, 60, 40, 40
COLOURS = ["#0b6e4f", "#c1121f", "#1d4e89", "#f4a261", "#6a4c93", "#8d99ae", "#e07a5f", "#3d405b",
           "#81b29a", "#00a6d6", "#b5838d", "#588157", "#9c6644", "#ff006e", "#495057", "#bc6c25",
           "#4cc9f0", "#a3b18a"]


def _ticks(rates: list[float]) -> list[float]:
    """1, 2, 5, 10 and so on, from the last below all rates to the first above them."""
    made: list[float] = []
    for power in range(math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates))) + 1):
        made += [digit * 10.0**power for digit in (1, 2, 5)]
    begin = max(i for i, tick in enumerate(made) if tick <= min(rates))
    end = min(i for i, tick in enumerate(made) if tick >= max(rates))
    return made[begin:end + 1] if end > begin else [made[begin], made[begin] * 2]


def _panel(kind: str, results: list[dict[str, Any]], colours: dict[str, str], x0: int) -> list[str]:
    points: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        if result["type"] == kind and result["what"] == "speed" and result["runs"]:
            points.setdefault(result["peer"], []).append(
                (result["jobs"], report.rate_of(result)))
    jobs = sorted({x for line in points.values() for x, _ in line})
    ticks = _ticks([y for line in points.values() for _, y in line] or [1.0])

    def x_of(count: int) -> float:
        return x0 + LEFT + (WIDTH - LEFT - 20) * (jobs.index(count) + 0.5) / len(jobs)

    def y_of(rate: float) -> float:
        share = math.log(rate / ticks[0]) / math.log(ticks[-1] / ticks[0])
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)

    out = [f'<text x="{x0 + LEFT}" y="{TOP - 14}" font-weight="bold">{kind}, samples/s of all jobs'
           "</text>"]
    for rate in ticks:
        out.append(f'<line x1="{x0 + LEFT}" y1="{y_of(rate):.1f}" x2="{x0 + WIDTH - 20}" '
                   f'y2="{y_of(rate):.1f}" stroke="#ddd"/>'
                   f'<text x="{x0 + LEFT - 6}" y="{y_of(rate) + 4:.1f}" text-anchor="end">'
                   f"{rate:,g}</text>")
    for count in jobs:
        out.append(f'<text x="{x_of(count):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                   f"{count} job{'s' * (count > 1)}</text>")
    for peer, line in points.items():
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in sorted(line))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colours[peer]}" '
                   'stroke-width="2"/>')
        out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colours[peer]}"/>'
                for x, y in line]
    return out


def svg(measured: dict[str, Any]) -> str:
    results = measured["results"]
    results = [result for result in results if result["what"] != "rows"]
    peers = list(dict.fromkeys(result["peer"] for result in results))
    colours = {peer: COLOURS[i % len(COLOURS)] for i, peer in enumerate(peers)}
    kinds = list(dict.fromkeys(result["type"] for result in results))
    legend = HEIGHT + 18 * ((len(peers) + 2) // 3) + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(kinds)}" '
           f'height="{legend}" font-family="sans-serif" font-size="12">'
           '<rect width="100%" height="100%" fill="white"/>']
    for index, kind in enumerate(kinds):
        out += _panel(kind, results, colours, WIDTH * index)
    for index, peer in enumerate(peers):
        x, y = LEFT + 200 * (index % 3), HEIGHT + 18 * (index // 3)
        out.append(f'<rect x="{x}" y="{y - 9}" width="12" height="10" fill="{colours[peer]}"/>'
                   f'<text x="{x + 18}" y="{y}">{escape(peer)}</text>')
    return "\n".join([*out, "</svg>", ""])
