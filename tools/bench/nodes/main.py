"""The simulator from one node to many: what jobs of one cluster get, and what simulating them costs.

    main.py [--quick] [--most N] [--seeds N] [--own] [--set PATH=VALUE] [--json FILE]

The scenario jobs-per-node with 1, 2, 4, ... nodes, and two jobs for each. Nothing else changes: the store and the
dataset stay as they are. All jobs share an order, or with --own each has an order of its own. Figures are means over
the seeds. `store` is what was read from the store over the dataset's bytes: 1 is each byte once for the whole cluster.
CPU time and memory are those of the simulator.

Exit code 1: a job did not have all of its samples, or what was read from the store grows with the nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import environment  # noqa: E402

SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")
SCENARIO = "jobs-per-node"
# Of the dataset's bytes. Each byte is read once; a sample that two nodes want in the same moment may come twice.
STORE_MOST = 1.05
BATCH = 128


def simulate(nodes: int, seed: int, more: list[str]) -> dict[str, Any]:
    """One run in a process of its own, with what it cost."""
    command = [SIM, "run", SCENARIO, "--seed", str(seed), "--json"]
    for assignment in [f"cluster.nodes.0.count={nodes}", f"jobs.0.count={2 * nodes}", *more]:
        command += ["--set", assignment]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    run = json.loads(text)["runs"][0]
    all_sum = run["aggregate"]
    return {
        "nodes": nodes, "seed": seed,
        "done": all(job["state"] == "done" for job in run["jobs"]),
        "samples": all_sum["samples"],
        "samples_per_s": all_sum["samples_per_s"],
        "stall_fraction": all_sum["stall_fraction"],
        "storage_bytes": all_sum["storage_bytes"],
        "network_bytes": all_sum["network_bytes"],
        "preparations": all_sum["preparations"],
        "makespan_s": run["makespan_s"],
        "steps": run["steps"],
        "protocol_errors": run["protocol_errors"],
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_bytes": usage.ru_maxrss * 1024,
    }


def dataset_bytes() -> int:
    """Of the scenario, as it stands in its file."""
    import yaml
    configs = Path(__file__).resolve().parent.parent.parent.parent / "configs"
    dataset = yaml.safe_load((configs / "scenarios" / f"{SCENARIO}.yaml").read_text())["datasets"][0]
    return dataset["samples"] * dataset["bytes"]


HEADER = ["nodes", "jobs", "samples/s", "a node", "stall", "store", "prepared", "network", "a node", "CPU s",
          "us a step", "us a batch", "MiB"]


def row(runs: list[dict[str, Any]], dataset: int) -> list[str]:
    def mean(name: str) -> float:
        return statistics.fmean(run[name] for run in runs)
    nodes = runs[0]["nodes"]
    batches = mean("samples") / BATCH
    return [str(nodes), str(2 * nodes), f"{mean('samples_per_s'):,.0f}",
            f"{mean('samples_per_s') / nodes:,.0f}", f"{100 * mean('stall_fraction'):.1f} %",
            f"{mean('storage_bytes') / dataset:.3f}", f"{mean('preparations'):,.0f}",
            f"{mean('network_bytes') / 1e9:,.1f} GB",
            f"{mean('network_bytes') / nodes / 1e9:.1f} GB", f"{mean('cpu_s'):.2f}",
            f"{1e6 * mean('cpu_s') / mean('steps'):.1f}", f"{1e6 * mean('cpu_s') / batches:.1f}",
            f"{mean('memory_bytes') / 2**20:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench nodes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 to 8 nodes and one seed, for the tests")
    parser.add_argument("--most", type=int, default=512, metavar="N", help="nodes of the largest run")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="runs of each size")
    parser.add_argument("--own", action="store_true", help="each job has an order of its own")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="changes the scenario in all runs")
    parser.add_argument("--json", metavar="FILE", help="all runs, for programs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.most, arguments.seeds = 8, 1
    if arguments.own:
        arguments.set.append("engine.share_streams=false")
    environment.use("nodes", {"yaml": "pyyaml"})
    dataset = dataset_bytes()
    rows, kept, bad = [HEADER], [], []
    nodes = 1
    while nodes <= arguments.most:
        runs = [simulate(nodes, seed, arguments.set) for seed in range(1, arguments.seeds + 1)]
        kept += runs
        rows.append(row(runs, dataset))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        for run in runs:
            if not run["done"] or run["protocol_errors"]:
                bad.append(f"{nodes} nodes, seed {run['seed']}: a job was not done, or the engine was told nonsense")
            if run["storage_bytes"] > STORE_MOST * dataset:
                bad.append(f"{nodes} nodes, seed {run['seed']}: the store was read "
                           f"{run['storage_bytes'] / dataset:.3f} times, {STORE_MOST} at most")
        nodes *= 2
    environment.show(rows)
    environment.keep(kept, arguments.json)
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
