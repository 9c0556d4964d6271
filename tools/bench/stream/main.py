"""Streams: is each sample had once, in its turn, whatever is killed meanwhile, and what does a feed
or a buffer cost? See docs/performance.md.

    main.py [--small] [--simulated N] [--live N] [--seed N] [--json FILE] [--write FILE] [--folder FOLDER]

First, pairs of jobs, of which one is disturbed: in virtual time (N disturbances, 10,000), and on a
live service (300). Then how many records of 1,000 bytes a feed takes in a second, on one core; how
long a record takes until it is durable, and until a job has it, at half of the rate that is aimed at
and at half of what the feed takes; and how many exemplars are drawn, and delivered. The feeds lie in
FOLDER.

Exit code 1: a sample was lost or doubled, or a sequence differs; or, without --small, a figure does not
reach the aim that stands beside it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import aims
import environment
import killed
from service import Service

BIN = environment.BUILD / "bin"
HEAD = ["jobs", "services killed", "ranks killed", "workers killed", "resizes", "weight changes",
        "samples", "lost", "doubled", "sequences that differ"]
RECORD = 1000


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench stream")
    parser.add_argument("--small", action="store_true", help="few of everything, to look at")
    parser.add_argument("--simulated", type=int, default=10_000, metavar="N", help="disturbances")
    parser.add_argument("--live", type=int, default=300, metavar="N", help="disturbances")
    parser.add_argument("--seed", type=int, default=1, help="of the live ones")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures")
    parser.add_argument("--write", metavar="FILE", help="puts the tables into this page")
    parser.add_argument("--folder", help="for the feeds' logs; without it, the one for temporary files")
    arguments = parser.parse_args()
    if arguments.small:
        arguments.simulated, arguments.live = 300, 12
    return arguments


def simulated(wanted: int) -> list[dict[str, Any]]:
    ended = subprocess.run([str(BIN / "stream_simulated"), str(wanted)], stdout=subprocess.PIPE,
                           text=True)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    if ended.returncode not in (0, 1) or not rows:
        sys.exit(f"stream_simulated ended with {ended.returncode}")
    for row in rows:
        row["jobs"] += ", simulated"
    return rows


def live(wanted: int, seed: int, folder: Path) -> list[dict[str, Any]]:
    rows = killed.rows(folder, wanted, seed)
    for row in rows:
        row["jobs"] += ", live"
    return rows


def row_of(one: dict[str, Any]) -> list[str]:
    broken = f" and {one['broken']} broken" if one.get("broken") else ""
    counts = ["services_killed", "ranks_killed", "workers_killed", "resizes", "weight_changes",
              "samples", "lost", "doubled"]
    return [one["jobs"], *(f"{one.get(name, 0):,}" for name in counts),
            f"{one['differing']}{broken}"]


def is_well(one: dict[str, Any]) -> bool:
    return not (one["lost"] or one["doubled"] or one["differing"] or one.get("broken"))


# ------------------------------------------------------------------------------------- feeds ----

def feed(small: bool, folder: Path) -> dict[str, Any]:
    ended = subprocess.run([str(BIN / "stream_feed"), *["--small"] * small, str(aims.LAG_PER_S),
                            str(folder)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout)


def delivered_lags(per_s: float, records: int, folder: Path) -> dict[str, float]:
    """From when a record is due at its producer until a job has it in its batch."""
    import numpy
    import batchflow
    log = folder / "delivered"
    subprocess.run([os.environ["BATCHFLOWCTL"], "feed", "create", str(log), "--schema",
                    f"i64[{RECORD // 8}]", "--keep", "4gib"], check=True, stdout=subprocess.DEVNULL)
    with Service(folder, "--memory", "512mib", "--dataset", f"clicks={log}"):
        loader = batchflow.DataLoader(batchflow.Live("clicks", fill=None), 256, output="numpy",
                                      say_stalls=False)
        batches = iter(loader)
        producer = subprocess.Popen([str(BIN / "stream_feed"), "--send", str(log), str(per_s),
                                     str(records)])
        lags = []
        for batch in batches:
            now = time.monotonic_ns()
            lags.append(now - batch[0][:batch.samples - batch.fillers, 0])
        if producer.wait() != 0:
            sys.exit("bench_stream: the producer failed")
        loader.close()
    every = numpy.concatenate(lags)
    if len(every) != records:
        sys.exit(f"bench_stream: {len(every)} of {records} records came")
    return {"p50_ms": float(numpy.quantile(every, 0.5)) / 1e6,
            "p99_ms": float(numpy.quantile(every, 0.99)) / 1e6}


# --------------------------------------------------------------------------------- rehearsal ----

def draws_per_s() -> float:
    """Of a buffer of 200 exemplars that weigh the same."""
    ended = subprocess.run([str(BIN / "bench_core"), "--benchmark_filter=BM_RehearsalDraws/200/0",
                            "--benchmark_format=json"], check=True, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    return float(json.loads(ended.stdout)["benchmarks"][0]["items_per_second"])


def delivered_per_s(seconds: float, folder: Path) -> tuple[float, float]:
    """Samples of 128 bytes in batches of 256, of which 64 are rehearsed: all, and these."""
    import numpy
    import batchflow
    data = folder / "rows"
    data.mkdir()
    numpy.save(data / "rows.npy", numpy.zeros((200_000, 16), "i8"))
    with Service(folder, "--memory", "512mib", "--dataset", f"rows={data}"):
        loader = batchflow.DataLoader(
            "rows", 256, shuffle=True, output="numpy", say_stalls=False,
            rehearsal={"policy": "reservoir", "samples": 2000, "rehearsed": 64})
        samples = rehearsed = 0
        for _ in loader:  # the first epoch fills the buffer
            pass
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            for batch in loader:
                samples, rehearsed = samples + batch.samples, rehearsed + batch.rehearsed
        took = time.monotonic() - begun
        loader.close()
    return samples / took, rehearsed / took


def figures(small: bool, folder: Path) -> dict[str, Any]:
    found = feed(small, folder)
    records = 5_000 if small else 500_000
    for name, durable in zip(("delivered", "delivered_at_half"), found["durable"]):
        at = folder / name
        at.mkdir()
        found[name] = delivered_lags(durable["per_s"], records, at)
    if (BIN / "bench_core").exists():
        found["draws_per_s"] = draws_per_s()
    rehearsal = folder / "rehearsal"
    rehearsal.mkdir()
    found["delivered_per_s"], found["rehearsed_per_s"] = delivered_per_s(0.5 if small else 5,
                                                                         rehearsal)
    return found


def table_of(found: dict[str, Any]) -> list[list[str]]:
    lags = []
    for durable, delivered, aim in zip(found["durable"],
                                       (found["delivered"], found["delivered_at_half"]),
                                       (f"p99 below {aims.LAG_P99_MS} ms", "")):
        rate = f"at {durable['per_s']:,.0f} records a second"
        lags += [[f"from due to durable {rate}: p50, p99, worst",
                  f"{durable['p50_ms']:.2f}, {durable['p99_ms']:.2f}, {durable['worst_ms']:.2f} ms", ""],
                 [f"from due to a job's batch {rate}: p50, p99",
                  f"{delivered['p50_ms']:.2f}, {delivered['p99_ms']:.2f} ms", aim]]
    draws = f"{found['draws_per_s'] / 1e6:,.0f} million" if "draws_per_s" in found else "not measured"
    return [["figure", "value", "aim"],
            [f"records of {RECORD} bytes that a feed on one core takes in a second",
             f"{found['per_s']:,.0f}", f"{aims.RECORDS_PER_S:,}"],
            ["processor time of the feed for each", f"{found['feed_us']:.2f} us", ""],
            ["processor time of the producer for each", f"{found['producer_us']:.2f} us", ""],
            *lags,
            ["exemplars drawn a second on one core (200 in the buffer)", draws,
             f"{aims.DRAWS_PER_S / 1e6:,.0f} million"],
            ["samples of 128 bytes delivered a second, a quarter of them rehearsed",
             f"{found['delivered_per_s'] / 1e6:,.2f} million", ""],
            ["of these rehearsed", f"{found['rehearsed_per_s'] / 1e6:,.2f} million", ""]]


def main() -> None:
    arguments = parse()
    environment.use("stream", {"numpy": "numpy"})
    with tempfile.TemporaryDirectory(prefix="bench-stream-", dir=arguments.folder) as name:
        folder = Path(name)
        pairs = simulated(arguments.simulated) + live(arguments.live, arguments.seed, folder)
        found = figures(arguments.small, folder)
    environment.keep({"pairs": pairs, "figures": found}, arguments.json)
    rows = [HEAD, *map(row_of, pairs)]
    table = table_of(found)
    print(environment.machine())
    environment.show(rows)
    print()
    environment.show(table)
    if arguments.write:
        text = "\n".join(["", f"{datetime.date.today()}, {environment.machine()}, `./dev bench stream`.",
                          "", *environment.markdown(rows), "", *environment.markdown(table), ""])
        environment.write_part(Path(arguments.write), text, "<!-- stream -->")
    if not all(map(is_well, pairs)):
        sys.exit("bench_stream: samples are lost, doubled or out of their turn")
    if not arguments.small and (missed := aims.missed(found)):
        sys.exit("bench_stream: " + "; ".join(missed))


if __name__ == "__main__":
    main()
