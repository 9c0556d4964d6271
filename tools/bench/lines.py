"""Lines over a few named points, as SVG: panels beside each other, with a legend below."""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 400, 60, 40, 40
COLOURS = ["#0b6e4f", "#c1121f", "#1d4e89", "#f4a261", "#6a4c93", "#8d99ae", "#e07a5f", "#3d405b",
           "#81b29a", "#00a6d6", "#b5838d", "#588157", "#9c6644", "#ff006e", "#495057", "#bc6c25",
           "#4cc9f0", "#a3b18a"]


class Panel(NamedTuple):
    title: str
    points: Sequence[str]                # their names, along the axis
    lines: dict[str, dict[int, float]]   # of each name: the value at a point
    logarithmic: bool


def ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10 and so on, from the last below all values to the first above them."""
    made: list[float] = []
    for power in range(math.floor(math.log10(min(values))),
                       math.ceil(math.log10(max(values))) + 1):
        made += [digit * 10.0**power for digit in (1, 2, 5)]
    begin = max(i for i, tick in enumerate(made) if tick <= min(values))
    end = min(i for i, tick in enumerate(made) if tick >= max(values))
    return made[begin:end + 1] if end > begin else [made[begin], made[begin] * 2]


def _steps(greatest: float) -> list[float]:
    """From 0 to above the greatest, in five to ten steps of 1, 2 or 5."""
    power = 10.0**math.floor(math.log10(greatest or 1))
    step = next(power * digit for digit in (0.1, 0.2, 0.5, 1) if greatest <= 10 * power * digit)
    return [step * i for i in range(math.ceil(greatest / step - 1e-9) + 1)]


def _panel(panel: Panel, colours: dict[str, str], x0: int) -> list[str]:
    values = [value for line in panel.lines.values() for value in line.values()]
    marks = ticks(values or [1.0]) if panel.logarithmic else _steps(max(values, default=1.0))

    def x_of(point: int) -> float:
        return x0 + LEFT + (WIDTH - LEFT - 20) * (point + 0.5) / len(panel.points)

    def y_of(value: float) -> float:
        scale: Callable[[float], float] = math.log if panel.logarithmic else float
        share = (scale(value) - scale(marks[0])) / (scale(marks[-1]) - scale(marks[0]))
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)

    out = [f'<text x="{x0 + LEFT}" y="{TOP - 14}" font-weight="bold">{escape(panel.title)}</text>']
    for mark in marks:
        out.append(f'<line x1="{x0 + LEFT}" y1="{y_of(mark):.1f}" x2="{x0 + WIDTH - 20}" '
                   f'y2="{y_of(mark):.1f}" stroke="#ddd"/>'
                   f'<text x="{x0 + LEFT - 6}" y="{y_of(mark) + 4:.1f}" text-anchor="end">'
                   f"{mark:,g}</text>")
    for point, name in enumerate(panel.points):
        # Beside each other, names of two parts have no room in one line.
        for i, part in enumerate(name.split(", ")):
            out.append(f'<text x="{x_of(point):.1f}" y="{HEIGHT - BOTTOM + 15 + 13 * i}" '
                       f'text-anchor="middle">{escape(part)}</text>')
    for name, line in panel.lines.items():
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in sorted(line.items()))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" '
                   'stroke-width="2"/>')
        out += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colours[name]}"/>'
                for x, y in line.items()]
    return out


def svg(panels: Sequence[Panel]) -> str:
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    width = WIDTH * len(panels)
    columns = max(1, (width - LEFT) // 200)
    legend = HEIGHT + 18 * ((len(names) + columns - 1) // columns) + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
           f'height="{legend}" font-family="sans-serif" font-size="12">'
           '<rect width="100%" height="100%" fill="white"/>']
    for index, panel in enumerate(panels):
        out += _panel(panel, colours, WIDTH * index)
    for index, name in enumerate(names):
        x, y = LEFT + 200 * (index % columns), HEIGHT + 18 * (index // columns)
        out.append(f'<rect x="{x}" y="{y - 9}" width="12" height="10" fill="{colours[name]}"/>'
                   f'<text x="{x + 18}" y="{y}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])
