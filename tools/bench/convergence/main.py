"""Does a model learn as well from BatchFlow's batches as from PyTorch's? See docs/convergence.md.

    main.py [--seeds N] [--epochs N] [--quick] [--json FILE] [--write FILE]
    main.py --record FILE [--epochs N]

Exit code 1: a source is not equivalent to PyTorch's, or a canary is. What orders of other systems
cost is only shown.
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
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).parent.parent))
import environment
from service import Service

# So small a dataset would be one block of the usual size, so blocks have 16 samples.
NODE = "{kind: node, memory: 512mib, engine: {block_bytes: 4kib}}"
MARGIN = 0.5  # percentage points of accuracy


@dataclasses.dataclass
class Source:
    """`epochs` is a function of folder, seed and number of epochs."""
    name: str
    what: str
    epochs: Callable[[Path, int, int], Any]
    canary: bool = False


def all_sources() -> list[Source]:
    import sources as s
    return [Source("pytorch", "PyTorch DataLoader, shuffle=True: the reference", s.pytorch),
            Source("strict", "BatchFlow, order strict", s.strict),
            Source("relaxed", "BatchFlow, order relaxed, beside three jobs of other speeds",
                   s.relaxed),
            Source("frozen", "canary: the first epoch's crops in all epochs",
                   lambda *arguments: s.frozen(s.strict(*arguments)), True),
            Source("by class", "canary: each epoch sorted by class",
                   lambda *arguments: s.by_class(s.strict(*arguments)), True)]


def served(service: Service) -> dict[str, int]:
    """What the service has prepared and delivered so far."""
    status = service.status()
    return {name: status[name] for name in ("prepared_samples", "samples", "repeats")}


def measure(service: Service, folder: Path, seeds: int, epochs: int) -> list[dict[str, Any]]:
    """Measures all sources, in turn."""
    import training
    test = training.test_views(folder / "test")
    runs: list[dict[str, Any]] = []
    for source in all_sources():
        runs.append({"source": source, "results": [], "prepared_samples": 0, "samples": 0,
                     "repeats": 0})
    for seed in range(1, seeds + 1):
        for run in runs:
            before = served(service)
            epochs_of = run["source"].epochs(folder / "train", seed, epochs)
            run["results"].append(training.train(epochs_of, epochs, seed, test))
            for name, count in served(service).items():
                run[name] += count - before[name]
        print(f"seed {seed} of {seeds}: " + ", ".join(
            f"{run['source'].name} {run['results'][-1].accuracy:.2f} %" for run in runs),
            file=sys.stderr, flush=True)
    for run in runs:
        source, results = run.pop("source"), run.pop("results")
        run.update(name=source.name, what=source.what, canary=source.canary,
                   accuracies=[result.accuracy for result in results],
                   unchanged=statistics.fmean(result.unchanged for result in results))
    return runs


def judge(runs: list[dict[str, Any]], margin: float) -> bool:
    """Adds its comparison with the reference to each run; whether all are as they must be."""
    import equivalence
    for run in runs[1:]:
        compared = equivalence.compare(run["accuracies"], runs[0]["accuracies"], margin)
        run.update(dataclasses.asdict(compared), equivalent=compared.equivalent,
                   as_expected=compared.equivalent != run["canary"])
    return all(run["as_expected"] for run in runs[1:])


def table(runs: list[dict[str, Any]]) -> list[list[str]]:
    rows = [["", "accuracy", "deviation", "difference (90 %)", "p", "power", "equivalent",
             "prepared / delivered", "crops unchanged"]]
    for run in runs:
        own = run["accuracies"]
        row = [run["name"], f"{statistics.fmean(own):.2f} %",
               f"{statistics.stdev(own):.2f}" if len(own) > 1 else ""]
        if "difference" in run:
            row += [f"{run['difference']:+.2f} ({run['low']:+.2f} to {run['high']:+.2f})",
                    f"{run['p']:.2g}", f"{run['power']:.2f}", "yes" if run["equivalent"] else "no"]
        else:
            row += [""] * 4
        row += [f"{run['prepared_samples'] / run['samples']:.2f}" if run["samples"] else "",
                f"{100 * run['unchanged']:.1f} %"]
        rows.append(row)
    return rows


def page(runs: list[dict[str, Any]], of_systems: list[str],
         arguments: argparse.Namespace) -> str:
    """The measured part of docs/convergence.md."""
    lines = [f"{datetime.date.today()}, {environment.machine()}, `./dev bench convergence"
             f"{' --seeds %d' % arguments.seeds if arguments.seeds != SEEDS else ''}`: "
             f"{arguments.seeds} seeds, {arguments.epochs} epochs.", ""]
    rows = table(runs)
    lines += environment.markdown(rows)
    lines += [""] + [f"- {run['name']}: {run['what']}" for run in runs]
    return "\n".join([*lines, "", "## Orders of other systems", "", *of_systems]) + "\n"


SEEDS, EPOCHS = 24, 15


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench convergence")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="trainings of each kind")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--quick", action="store_true",
                        help="2 seeds of 3 epochs: each sample once, and that all of it runs; too "
                        "few to compare")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this Markdown file")
    parser.add_argument("--record", metavar="FILE", help="trains once on digits that are drawn by "
                        "their losses, and records these in a new file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds, arguments.epochs = 2, 3
    if arguments.seeds < 2 or arguments.epochs < 1:
        parser.error("write 2 seeds and 1 epoch at least")
    return arguments


def main() -> int:
    arguments = parse()
    environment.use("convergence", {"sklearn": "scikit-learn", "torch": "torch",
                                    "torchvision": "torchvision"})
    import systems
    import torch
    import training
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="batchflow-convergence-") as name:
        folder = Path(name)
        training.write_digits(folder)
        node = folder / "node.yaml"
        node.write_text(NODE)
        with Service(folder, "--config", str(node)) as service:
            if arguments.record:
                import record
                record.record(folder, Path(arguments.record), arguments.epochs)
                return 0
            runs = measure(service, folder, arguments.seeds, arguments.epochs)
        of_systems = systems.measure(folder, arguments.seeds, arguments.epochs)
    right = judge(runs, MARGIN)
    environment.show(table(runs))
    print()
    environment.show(systems.table(of_systems, MARGIN))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({
            "machine": environment.machine(), "date": str(datetime.date.today()),
            "seeds": arguments.seeds, "epochs": arguments.epochs, "margin": MARGIN, "runs": runs,
            "systems": of_systems}))
    if arguments.write:
        environment.write_part(Path(arguments.write),
                               page(runs, systems.page(of_systems, MARGIN), arguments))
    if arguments.quick:
        print("each epoch of each source had each sample once; too few runs to compare accuracies")
        return 0
    for run in runs[1:]:
        if not run["as_expected"]:
            print(f"{run['name']}: " + (
                "a canary that must differ is equivalent: this proves nothing then" if run["canary"]
                else f"not shown to be within {MARGIN} points of PyTorch's"))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
