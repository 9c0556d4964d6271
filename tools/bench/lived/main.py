"""Does the simulator rank policies as a live service does?

Each case of cases.yaml is run by `batchflowctl run` on a service of its own for each preset, on made
pictures, and by `batchflow-sim run` with what a sample costs here. Jobs sleep instead of computing.
The two rank policies alike if the one that waits less live waits less in the simulation, too.

With --change it measures instead how soon jobs do as well as under `default`, once the preset of
their service changes to it (change.py).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))

import environment  # noqa: E402
from lived_bench import ALIKE, Bench, Waits  # noqa: E402

# Those that a live service takes, and that need no scores.
PRESETS = ["independent", "tf-data", "silod", "hoard", "coordl", "tensorsocket", "joader",
           "tf-data-service", "quiver", "seneca", "deepio", "fixed", "default"]


class Agreement(NamedTuple):
    pairs: int  # of presets of which one waits longer, live and in simulation
    alike: int
    unlike: list[tuple[str, str]]


def agreement(live: dict[str, Waits], simulated: dict[str, Waits]) -> Agreement:
    pairs, unlike = 0, []
    for a, b in itertools.combinations(live, 2):
        lived, planned = live[a].part - live[b].part, simulated[a].part - simulated[b].part
        if abs(lived) < ALIKE or abs(planned) < ALIKE:
            continue
        pairs += 1
        if (lived < 0) != (planned < 0):
            unlike.append((a, b))
    return Agreement(pairs, pairs - len(unlike), unlike)


def page_of(case: dict[str, Any], live: dict[str, Waits], simulated: dict[str, Waits]) -> str:
    rows = [["policy", "live", "simulated"]]
    rows += [[preset, live[preset].cell(), simulated[preset].cell()] for preset in live]
    agreed = agreement(live, simulated)
    unlike = "; ".join(f"{a} and {b}" for a, b in agreed.unlike)
    return "\n".join([
        f"**{case['name']}**: {case['about']}; {case['memory']}.", "", *environment.markdown(rows),
        "", f"Of {agreed.pairs} pairs that differ in both, {agreed.alike} have the same order"
        + (f"; not {unlike}." if unlike else "."), "", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench lived", description=__doc__)
    parser.add_argument("cases", nargs="*", help="some of cases.yaml, by name")
    parser.add_argument("--presets", default=",".join(PRESETS), help="which to compare")
    parser.add_argument("--pictures", type=int, default=2048)
    parser.add_argument("--change", action="store_true",
                        help="change the preset of four jobs while they run")
    parser.add_argument("--quick", action="store_true",
                        help="the first case, three presets and 512 pictures")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this Markdown file")
    arguments = parser.parse_args()
    environment.use("lived", {"yaml": "pyyaml", "numpy": "numpy", "PIL": "pillow"})
    import change
    import pictures
    import yaml

    cases = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())
    unknown = set(arguments.cases) - {case["name"] for case in cases}
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}; write some of "
                 f"{', '.join(case['name'] for case in cases)}")
    if arguments.cases:
        cases = [case for case in cases if case["name"] in arguments.cases]
    presets, count = arguments.presets.split(","), arguments.pictures
    if arguments.quick:
        cases, presets, count = cases[:1], ["independent", "tensorsocket", "default"], 512
    made = pictures.make(environment.BUILD / "peers", count)
    if arguments.change:
        with tempfile.TemporaryDirectory() as folder:
            change.measure(Bench(made, count, pictures.mean_bytes(made), Path(folder)),
                           next(case for case in cases if case["name"] == "four-speeds"))
        return
    text, all_pairs, all_alike = "", 0, 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(made, count, pictures.mean_bytes(made), Path(folder))
        bench.measure_costs()
        costs = (f"A picture costs {1e6 * bench.costs.whole:.0f} us of a core, and "
                 f"{1e6 * bench.costs.kept:.0f} if it is kept decoded.")
        print(costs)
        for case in cases:
            live: dict[str, Waits] = {}
            simulated: dict[str, Waits] = {}
            for preset in presets:
                live[preset], cache = bench.live(case, preset)
                simulated[preset] = bench.simulated(case, preset, cache)
                print(f"{case['name']}, {preset}: live {live[preset].cell()}, "
                      f"simulated {simulated[preset].cell()}", flush=True)
            agreed = agreement(live, simulated)
            all_pairs, all_alike = all_pairs + agreed.pairs, all_alike + agreed.alike
            text += page_of(case, live, simulated)
    summary = f"{all_alike} of {all_pairs} pairs of policies that differ have the same order."
    print(summary)
    if arguments.write:
        environment.write_part(Path(arguments.write), "\n" + "\n".join([
            f"{environment.machine()}; {count} pictures of {pictures.mean_bytes(made)} bytes in "
            f"the mean. {costs} {summary}", "", text]))


if __name__ == "__main__":
    main()
