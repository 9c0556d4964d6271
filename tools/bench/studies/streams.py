"""Studies of one job that has its samples in an order of time: what it waits for, and what its
buffer has. They compare no policies beside each other's waiting, so they have a table of their figures.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import environment
import lines

BEGIN = "<!-- streams -->"


class Shown(NamedTuple):
    figure: str
    title: str
    scale: float = 1


# Of each study, what its plot shows.
STUDIES = {
    "live-sources": [Shown("stall_fraction", "time that the job waits, in %", 100),
                     Shown("lag_p99_s", "99 % of the records come within, in s")],
    "live-window": [Shown("fill_ratio", "of the job's samples are fills, in %", 100),
                    Shown("buffer_classes", "classes that fills come from")],
    "rehearsal-buffers": [Shown("buffer_evenness", "the rarest class over the most frequent"),
                          Shown("buffer_age", "mean age of exemplars, as a part of all that came")],
}
NAMES = {"samples_per_s": "samples/s", "stall_fraction": "waits", "fill_ratio": "fills",
         "thinned_ratio": "thinned", "lag_p50_s": "lag p50", "lag_p99_s": "lag p99",
         "buffer_classes": "classes", "buffer_evenness": "evenness", "buffer_age": "age"}


def text_of(name: str, value: float) -> str:
    if name.endswith(("_fraction", "_ratio")):
        return f"{100 * value:.1f} %"
    if name.endswith("_per_s"):
        return f"{value:,.0f}"
    if name.endswith("_s"):
        return f"{1000 * value:.0f} ms"
    return f"{value:.1f}" if name == "buffer_classes" else f"{value:.2f}"


class StreamStudy:
    """What a sweep found."""

    def __init__(self, study: Path, result: dict[str, Any]) -> None:
        import yaml
        self.name, self.about = result["study"]["name"], result["study"]["about"]
        self._figures = yaml.safe_load(study.read_text())["figures"]
        axes = [axis["name"] for axis in result["study"]["axes"]]
        values = [[part for axis in axes for part in point["values"][axis].split(", ")]
                  for point in result["points"]]
        names = [name for axis in axes for name in axis.split(", ")]
        # Axes that go with another say no more.
        kept = [i for i, _ in enumerate(names)
                if not any([at[i] for at in values] == [at[k] for at in values] for k in range(i))]
        self._axes = [names[i] for i in kept]
        self._points = [([at[i] for i in kept], point["figures"])
                        for at, point in zip(values, result["points"])]

    def table(self) -> list[list[str]]:
        rows = [[*(name.split(".")[-1] for name in self._axes),
                 *(NAMES[name] for name in self._figures)]]
        for at, figures in self._points:
            rows.append([*at, *(text_of(name, figures[name]["mean"]) for name in self._figures)])
        return rows

    def picture(self) -> str:
        """The last axis along the plot; a line for each combination of the others."""
        points = list(dict.fromkeys(at[-1] for at, _ in self._points))
        panels = []
        for shown in STUDIES[self.name]:
            found: dict[str, dict[int, float]] = {}
            for at, figures in self._points:
                value = shown.scale * figures[shown.figure]["mean"]
                found.setdefault(", ".join(at[:-1]), {})[points.index(at[-1])] = value
            panels.append(lines.Panel(shown.title, points, found, False))
        return lines.svg(panels)

    def page(self) -> str:
        axes = ", ".join(f"`{name}`" for name in self._axes)
        return "\n".join([
            f"## {self.name}", "",
            textwrap.fill(f"{self.about[0].upper()}{self.about[1:]}.", 120), "",
            textwrap.fill(f"`./dev sim sweep {self.name}` prints these figures with intervals. The first "
                          f"columns are {axes}.", 120), "",
            *environment.markdown(self.table()), "",
            f"![The study {self.name}](studies/{self.name}.svg)", "", ""])
