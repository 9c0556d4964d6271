"""What the orders of published systems cost or gain in accuracy, beside PyTorch's RandomSampler.

Systems that choose samples by what is kept are simulated, and a network is trained in the order in
which their job got the samples (`batchflow-sim run --batches`). Systems that draw by importance are
served live: batchflowd draws each epoch by the losses that the training has reported. In pairs of
one seed nothing differs but the order (views.py).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch
from torch.utils.data import BatchSampler, RandomSampler

import batchflow
import environment
import equivalence
import training
from service import Service
from sources import PIPELINE
from views import Orders, Views

SIM = os.environ.get("BATCHFLOW_SIM", "batchflow-sim")

# Three jobs of three users, and memory for half of the samples as they are stored.
SCENARIO = f"""
cluster:
  nodes: [{{name: node, cores: 4, gpus: 3, memory: 64mb, cache: 8mb}}]
  store: {{bytes_per_s: 40mb, latency: 200us, operations_ahead: 8}}
datasets: [{{name: digits, samples: {training.TRAINING}, bytes: 10kb}}]
pipelines:
  - name: train
    steps:
      - {{name: decode, cost: 100us, output: 10kb}}
      - {{name: crop, random: true, cost: 50us, output: 1kb}}
jobs:
  - {{name: measured, user: a, dataset: digits, pipeline: train, batch: {training.BATCH},
     epochs: EPOCHS, step: 10ms, shuffle_seed: SEED}}
  - {{name: b, user: b, dataset: digits, pipeline: train, batch: {training.BATCH}, epochs: EPOCHS,
     step: 12ms}}
  - {{name: c, user: c, dataset: digits, pipeline: train, batch: {training.BATCH}, epochs: EPOCHS,
     step: 15ms}}
grain: {{items_per_block: 16}}
engine: {{credits: 2}}
"""
# A sample without loss would never be drawn again.
LOSS_LEAST = 1e-6


class System(NamedTuple):
    preset: str
    gives_up: str
    draws: bool  # by importance, and live


SYSTEMS = [
    System("quiver", "a random order: of ten blocks' samples those that are kept come first", False),
    System("seneca", "a random order: of 64 blocks' samples, most of an epoch here, those that are "
           "kept come first", False),
    System("deepio", "a random order: as quiver, but for a quarter of each block", False),
    System("shade", "each sample once an epoch: those with higher losses than others of their batch "
           "come more often", True),
    System("fastmatch", "each sample once an epoch: the nearer a loss is to the greatest one, the "
           "more often its sample comes", True),
    System("icache", "each sample once an epoch: each comes in proportion to its loss", True),
]


def simulated(preset: str, seed: int, epochs: int, folder: Path) -> tuple[Orders, float]:
    """The order in which the job `measured` got its samples, and the part of all samples that were
    not read from the store."""
    scenario, batches = folder / "scenario.yaml", folder / "batches.jsonl"
    scenario.write_text(SCENARIO.replace("EPOCHS", str(epochs)).replace("SEED", str(seed)))
    ended = subprocess.run(
        [SIM, "run", str(scenario), "--policy", f"preset={preset}", "--batches", str(batches),
         "--seed", str(seed), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=300)
    if ended.returncode != 0:
        sys.exit(f"the simulator ended with {ended.returncode}: {ended.stderr.decode()[-2000:]}")
    orders: list[list[list[int]]] = [[] for _ in range(epochs)]
    for line in batches.read_text().splitlines():
        batch = json.loads(line)
        if batch["job"] == "measured":
            orders[batch["epoch"]].append(batch["samples"])
    return orders, json.loads(ended.stdout)["runs"][0]["aggregate"]["hit_ratio"]


def by_chance(seed: int, epochs: int) -> Orders:
    generator = torch.Generator().manual_seed(seed)
    sampler = RandomSampler(range(training.TRAINING), generator=generator)
    return (BatchSampler(sampler, training.BATCH, False) for _ in range(epochs))


def can_simulate() -> bool:
    """Whether there is a simulator, and SimGrid with it."""
    try:
        return subprocess.run([SIM, "run", "toy-jobs", "--set", "ends_after=1ms"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=60).returncode == 0
    except OSError:
        return False


class Bench:
    """Trains by each system, seed by seed. `services` has a socket for each preset that draws."""

    def __init__(self, folder: Path, epochs: int, services: dict[str, str]):
        self._folder, self._epochs, self._services = folder, epochs, services
        self._test = training.test_views(folder / "test")

    def reference(self, views: Views, seed: int) -> dict[str, float]:
        return self._trained(views, by_chance(seed, self._epochs), seed)

    def hits_in_turn(self, seed: int) -> float:
        """What a cache hits that keeps a fixed part, where each sample comes in its turn."""
        return simulated("coordl", seed, self._epochs, self._folder)[1]

    def system(self, system: System, views: Views, seed: int) -> dict[str, float]:
        if system.draws:
            return self._drawn(system, views, seed)
        orders, hits = simulated(system.preset, seed, self._epochs, self._folder)
        return {**self._trained(views, orders, seed), "hits": hits}

    def _drawn(self, system: System, views: Views, seed: int) -> dict[str, float]:
        with batchflow.DataLoader(
                self._folder / "train", training.BATCH, order="weighted", shuffle_seed=seed,
                pipeline=PIPELINE, epochs=self._epochs,
                service=self._services[system.preset]) as loader:
            orders = ((batch.sample_keys.tolist() for batch in loader)
                      for _ in range(self._epochs))
            return self._trained(
                views, orders, seed, lambda epoch, keys: None,
                lambda keys, losses: loader.report_scores(keys, losses.clamp(min=LOSS_LEAST)))

    def _trained(self, views: Views, orders: Orders, seed: int,
                 *how: Callable[..., None]) -> dict[str, float]:
        result = training.train(views.epochs(orders), self._epochs, seed, self._test, *how)
        return {"accuracy": result.accuracy, "loss": result.loss, "had": result.had}


def measure(folder: Path, seeds: int, epochs: int) -> list[dict[str, Any]]:
    """The reference, and each system that can be run here. `folder` has the digits."""
    systems = SYSTEMS
    simulates = can_simulate()
    if not simulates:
        print("without SimGrid, systems that choose samples are left out", file=sys.stderr)
        systems = [system for system in systems if system.draws]
    runs: list[dict[str, Any]] = [
        {"name": name, "what": what, "results": []} for name, what in
        [("by chance", "PyTorch's RandomSampler: the reference. Its hits are those of `coordl`"),
         *((system.preset, system.gives_up) for system in systems)]]
    with ExitStack() as stack:
        services = {}
        for preset in (system.preset for system in systems if system.draws):
            own = folder / preset
            own.mkdir()
            node = own / "node.yaml"
            node.write_text(f"{{kind: node, memory: 256mib, engine: {{preset: {preset}, "
                            "block_bytes: 4kib}}")
            services[preset] = str(stack.enter_context(
                Service(own, "--config", str(node))).socket)
        bench = Bench(folder, epochs, services)
        for seed in range(1, seeds + 1):
            views = Views(folder / "train", seed)
            runs[0]["results"].append(bench.reference(views, seed))
            if simulates:
                runs[0]["results"][-1]["hits"] = bench.hits_in_turn(seed)
            for run, system in zip(runs[1:], systems):
                run["results"].append(bench.system(system, views, seed))
            print(f"seed {seed} of {seeds}: " + ", ".join(
                f"{run['name']} {run['results'][-1]['accuracy']:.2f} %" for run in runs),
                file=sys.stderr, flush=True)
    return runs


def values_of(run: dict[str, Any], figure: str) -> list[float]:
    return [result[figure] for result in run["results"] if figure in result]


def table(runs: list[dict[str, Any]], margin: float) -> list[list[str]]:
    rows = [["", "accuracy", "difference (90 %)", "p", "equivalent", "loss", "difference (90 %)",
             "samples in an epoch", "hits"]]
    for run in runs:
        row = [run["name"], f"{statistics.fmean(values_of(run, 'accuracy')):.2f} %"]
        accuracy, loss = (
            equivalence.compare_pairs(values_of(run, figure), values_of(runs[0], figure), margin)
            for figure in ("accuracy", "loss"))
        is_reference = run is runs[0]
        row += [""] * 3 if is_reference else [
            f"{accuracy.difference:+.2f} ({accuracy.low:+.2f} to {accuracy.high:+.2f})",
            f"{accuracy.p:.2g}", "yes" if accuracy.equivalent else "no"]
        row.append(f"{statistics.fmean(values_of(run, 'loss')):.4f}")
        row.append("" if is_reference else
                   f"{loss.difference:+.4f} ({loss.low:+.4f} to {loss.high:+.4f})")
        row.append(f"{100 * statistics.fmean(values_of(run, 'had')):.0f} %")
        hits = values_of(run, "hits")
        row.append(f"{100 * statistics.fmean(hits):.0f} %" if hits else "")
        rows.append(row)
    return rows


def page(runs: list[dict[str, Any]], margin: float) -> list[str]:
    return [*environment.markdown(table(runs, margin)), "",
            *(f"- {run['name']}: {run['what']}" for run in runs[:1]),
            *(f"- {run['name']} gives up {run['what']}" for run in runs[1:])]
