"""Does rehearsal prevent forgetting, and does a model learn the mixture that it is given? See
docs/studies.md.

    main.py [--seeds N] [--quick] [--json FILE] [--write FILE]

Exit code 1: rehearsal forgets as much as nothing does, or the mixture was not held.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
import environment
from service import Service

SEEDS = 10
NODE = "{kind: node, memory: 512mib, engine: {block_bytes: 4kib}}"
COLOURS = ["#888888", "#1f77b4", "#ff7f0e", "#2ca02c", "#17becf", "#9467bd", "#d62728", "#000000"]


def cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f} %{spread}"


def table(ways: Any, runs: dict[str, Any]) -> list[list[str]]:
    rows = [["", "all classes", "the first task's", "exemplars of a class"]]
    for way in ways:
        done = runs[way.name]
        kept = [count for run in done for count in run.kept.values()]
        rows.append([way.name, cell([run.accuracies[-1] for run in done]),
                     cell([run.first_classes for run in done]),
                     f"{min(kept)} to {max(kept)}" if kept else ""])
    return rows


def picture(ways: Any, runs: dict[str, Any]) -> str:
    """Accuracy on the classes that were had, after each task."""
    width, height, left, top, step = 560, 300, 50, 15, 90
    tasks = len(next(iter(runs.values()))[0].accuracies)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 190}" height="{height + 60}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{width + 190}" height="{height + 60}" fill="white"/>']
    def y(percent: float) -> float:
        return top + (100 - percent) / 100 * height
    for percent in range(0, 101, 20):
        lines.append(f'<line x1="{left}" x2="{left + step * tasks}" y1="{y(percent)}" '
                     f'y2="{y(percent)}" stroke="#dddddd"/><text x="{left - 8}" '
                     f'y="{y(percent) + 4}" text-anchor="end">{percent} %</text>')
    for task in range(tasks):
        lines.append(f'<text x="{left + step * (task + 0.5)}" y="{height + top + 20}" '
                     f'text-anchor="middle">{task + 1}</text>')
    lines.append(f'<text x="{left + step * tasks / 2}" y="{height + top + 40}" '
                 'text-anchor="middle">tasks of two classes</text>')
    for index, way in enumerate(ways):
        means = [statistics.fmean(run.accuracies[task] for run in runs[way.name])
                 for task in range(tasks)]
        points = " ".join(f"{left + step * (task + 0.5):.0f},{y(mean):.1f}"
                          for task, mean in enumerate(means))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[index]}" '
                     'stroke-width="2"/>')
        lines.append(f'<text x="{left + step * tasks + 10}" y="{top + 14 + 18 * index}" '
                     f'fill="{COLOURS[index]}">{way.name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def languages_table(told: Any) -> list[list[str]]:
    names = list(told.losses[0])
    rows = [["", *(f"language {name}" for name in names)]]
    for title, losses in zip(("loss before", "loss in the middle", "loss in the end"), told.losses):
        rows.append([title, *(f"{losses[name]:.2f}" for name in names)])
    for half, (counts, due) in enumerate(zip(told.counts, told.due)):
        rows.append([f"samples of half {half + 1} (due)",
                     *(f"{counts.get(name, 0)} ({due[name]:.0f})" for name in names)])
    return rows


def mixture_holds(told: Any) -> bool:
    return all(abs(counts.get(name, 0) - due[name]) <= 1
               for counts, due in zip(told.counts, told.due) for name in due)


def learned_mixture(told: Any) -> bool:
    """The language of which there was most is known best, before the change and after."""
    middle, end = told.losses[1], told.losses[2]
    return min(middle, key=middle.get) == "a" and end["c"] < middle["c"] and end["a"] > middle["a"]


def page(ways: Any, runs: dict[str, Any], told: Any, seeds: int) -> str:
    lines = ["", f"{datetime.date.today()}, {environment.machine()}, `./dev bench forgetting`: "
             f"{seeds} seeds.", "Accuracy on the test pictures after the last task, mean and "
             "deviation.", "", *environment.markdown(table(ways, runs)), "",
             "![Accuracy on the classes that were had, after each task](studies/forgetting.svg)", "",
             *[f"- {way.name}: {way.what}" for way in ways], "", "**A mixture is learned.**", "",
             *environment.markdown(languages_table(told)), ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench forgetting")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true", help="1 seed")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this Markdown file, "
                        "and the plot into the folder studies beside it")
    arguments = parser.parse_args()
    seeds = 1 if arguments.quick else arguments.seeds
    environment.use("convergence", {"sklearn": "scikit-learn", "torch": "torch", "PIL": "pillow"})
    import digits
    import languages
    import torch
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="batchflow-forgetting-") as name:
        folder = Path(name)
        node = folder / "node.yaml"
        node.write_text(NODE)
        with Service(folder, "--config", str(node)):
            runs = digits.measure(folder, seeds,
                                  lambda text: print(text, file=sys.stderr, flush=True))
            told = languages.measure(folder)
    environment.show(table(digits.WAYS, runs))
    print()
    environment.show(languages_table(told))
    environment.keep({"runs": {name: [dataclasses.asdict(run) for run in done]
                               for name, done in runs.items()},
                      "languages": dataclasses.asdict(told)}, arguments.json)
    if arguments.write:
        file = Path(arguments.write)
        environment.write_part(file, page(digits.WAYS, runs, told, seeds), "<!-- forgetting -->")
        (file.parent / "studies" / "forgetting.svg").write_text(picture(digits.WAYS, runs))
    problems = []
    forgotten = statistics.fmean(run.accuracies[-1] for run in runs["nothing"])
    for way in digits.WAYS:
        mean = statistics.fmean(run.accuracies[-1] for run in runs[way.name])
        if way.remembers and mean < forgotten + 30:
            problems.append(f"{way.name}: {mean:.1f} %, and {forgotten:.1f} % without rehearsal")
        if not all(run.mixture_holds for run in runs[way.name]):
            problems.append(f"{way.name}: a batch did not have {digits.REHEARSED} exemplars")
    if not mixture_holds(told):
        problems.append(f"languages: {told.counts} were had, and {told.due} were due")
    if not learned_mixture(told):
        problems.append(f"languages: the losses do not follow the mixture: {told.losses}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
