"""Documents of any length as sequences of N tokens: how fast they are packed, how full sequences are,
how fast a loop gets them, and how evenly their cost lies on ranks.

    main.py [--quick] [--documents N] [--tokens N] [--rounds N] [--peers] [--json FILE]

Documents are of lengths as of texts (log-normal, median 400). `packed` is `batchflowctl pack`, which
reads the documents and writes the sequences; NumPy's loop beside it does the same as a user would
write it: end to end by one concatenation, whole by first fit over 1,000 open sequences; it writes
nothing. `loop` is a job's loop over sequences that are there: BatchFlow's is shuffled, and NumPy's is
over a memory map of them, also shuffled. With --peers Grain's packing is measured, too (from PyPI).
The cost of a sequence is the sum of the squares of its documents' lengths. `cost` is the greatest cost
of 8 ranks of 8 sequences, over their mean, step by step: the middle one and the greatest.

Exit code 1: a token is not in exactly one sequence.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import environment
from service import Service

RANKS, BATCH = 8, 8


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench packing")
    parser.add_argument("--quick", action="store_true", help="few documents, one round")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--tokens", type=int, default=2048, help="of a sequence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="Grain, too; it is installed from PyPI")
    parser.add_argument("--json", metavar="FILE", help="keeps the figures")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.documents, arguments.rounds = 3000, 1
    return arguments


def write_documents(folder: Path, count: int) -> tuple[Any, Any]:
    """Megatron-LM's files: tokens of 16 bits. Answers the tokens and where documents begin."""
    import numpy
    chance = numpy.random.default_rng(1)
    lengths = numpy.maximum(1, numpy.exp(6 + chance.standard_normal(count))).astype(numpy.int32)
    ends = numpy.cumsum(lengths, dtype=numpy.int64)
    tokens = chance.integers(1, 50_000, ends[-1], dtype=numpy.uint16)
    folder.mkdir()
    tokens.tofile(folder / "corpus.bin")
    with (folder / "corpus.idx").open("wb") as out:
        out.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([8]) +
                  count.to_bytes(8, "little") + (count + 1).to_bytes(8, "little"))
        lengths.tofile(out)
        (2 * (ends - lengths)).tofile(out)
        numpy.arange(count + 1, dtype=numpy.int64).tofile(out)
    return tokens, numpy.concatenate([[0], ends])


def packed_here(folder: Path, way: str, length: int, into: Path) -> tuple[float, dict[str, Any]]:
    begin = time.perf_counter()
    done = subprocess.run([os.environ["BATCHFLOWCTL"], "pack", str(folder), str(into), "--tokens",
                           str(length), "--packing", way, "--json"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin, json.loads(done.stdout)


def documents_in_turn(tokens: Any, begins: Any) -> Iterator[Any]:
    import numpy
    for i in numpy.random.default_rng(2).permutation(len(begins) - 1):
        yield tokens[begins[i]:begins[i + 1]]


def packed_by_numpy(tokens: Any, begins: Any, way: str, length: int) -> tuple[float, float, Any]:
    """Seconds, the part that is filled, and the sequences."""
    import numpy
    begin = time.perf_counter()
    if way == "concat":
        all_of = numpy.concatenate(list(documents_in_turn(tokens, begins)))
        rows = all_of[:len(all_of) // length * length].reshape(-1, length)
        return time.perf_counter() - begin, 1.0, rows
    made, open_ones = [], []  # open: room, documents
    for document in documents_in_turn(tokens, begins):
        for at in range(0, len(document), length):
            piece = document[at:at + length]
            for one in open_ones:
                if one[0] >= len(piece):
                    break
            else:
                if len(open_ones) == 1000:
                    made.append(open_ones.pop(0)[1])
                one = [length, []]
                open_ones.append(one)
            one[0] -= len(piece)
            one[1].append(piece)
    made += [pieces for _, pieces in open_ones]
    rows = numpy.zeros((len(made), length), numpy.int32)
    positions, segments = numpy.zeros_like(rows), numpy.zeros_like(rows)
    for row, pieces in enumerate(made):
        at = 0
        for i, piece in enumerate(pieces):
            rows[row, at:at + len(piece)] = piece
            positions[row, at:at + len(piece)] = numpy.arange(len(piece))
            segments[row, at:at + len(piece)] = i + 1
            at += len(piece)
    return time.perf_counter() - begin, float((segments > 0).mean()), rows


def packed_by_grain(tokens: Any, begins: Any, length: int) -> tuple[float, float]:
    import grain
    import numpy
    try:
        from grain.experimental import FirstFitPackIterDataset
    except ImportError:
        from grain.python.experimental import FirstFitPackIterDataset
    pieces = [{"tokens": document[at:at + length].astype(numpy.int32)}
              for document in documents_in_turn(tokens, begins)
              for at in range(0, len(document), length)]
    data = FirstFitPackIterDataset(grain.MapDataset.source(pieces).to_iter_dataset(),
                                   length_struct={"tokens": length}, num_packing_bins=1000)
    begin, rows, filled = time.perf_counter(), 0, 0
    for one in data:
        rows += 1
        filled += int((one["tokens_segment_ids"] > 0).sum())
    return time.perf_counter() - begin, filled / rows / length


def loop(loader: Any, length: int) -> float:
    """Tokens a second of an epoch."""
    begin, rows = time.perf_counter(), 0
    for batch in loader:
        rows += len(batch["tokens"])
    return rows * length / (time.perf_counter() - begin)


def loop_by_numpy(file: Path, rows: Any, length: int) -> float:
    import numpy
    numpy.save(file, rows)
    mapped = numpy.load(file, mmap_mode="r")
    order = numpy.random.default_rng(3).permutation(len(mapped))
    begin = time.perf_counter()
    for at in range(0, len(order), BATCH):
        mapped[order[at:at + BATCH]]
    return len(mapped) * length / (time.perf_counter() - begin)


def costs(loader: Any) -> list[float]:
    """Of each step: the greatest cost of a rank over the mean."""
    import numpy
    found = []
    for batch in loader:
        segments = batch["segments"]
        if len(segments) < RANKS * BATCH:
            continue
        of_rows = [float((numpy.bincount(row)[1:].astype(numpy.int64) ** 2).sum())
                   for row in segments]
        of_ranks = numpy.array(of_rows).reshape(RANKS, BATCH).sum(axis=1)
        found.append(float(of_ranks.max() / of_ranks.mean()))
    return found


def check(loader: Any, tokens: Any, left_out: int) -> None:
    import numpy
    counts = numpy.zeros(65536, numpy.int64)
    for batch in loader:
        given = batch["tokens"]
        if len(batch) > 1:
            given = given[batch["segments"] > 0]
        counts += numpy.bincount(given.ravel(), minlength=65536)
    if int(counts.sum()) != len(tokens) - left_out or (
            left_out == 0 and (counts != numpy.bincount(tokens, minlength=65536)).any()):
        sys.exit("a token is not in exactly one sequence")


def main() -> None:
    arguments = parse()
    environment.use("packing", {"numpy": "numpy", **({"grain": "grain"} if arguments.peers else {})})
    import batchflow
    length = arguments.tokens
    table = [["", "packed, M tokens/s", "of NumPy's loop", "filled", "of NumPy's",
              "loop, M tokens/s", "of NumPy's", "cost of a rank"]]
    kept = []
    with tempfile.TemporaryDirectory(prefix="batchflow-") as name:
        folder = Path(name)
        tokens, begins = write_documents(folder / "corpus", arguments.documents)
        with Service(folder, "--memory", "2gib"):
            for way in ("concat", "whole"):
                rates, theirs, loops, their_loops = [], [], [], []
                for number in range(arguments.rounds):
                    made = folder / f"{way}-{number}"
                    seconds, counts = packed_here(folder / "corpus", way, length, made)
                    rates.append(len(tokens) / seconds / 1e6)
                    seconds, filled, rows = packed_by_numpy(tokens, begins, way, length)
                    theirs.append(len(tokens) / seconds / 1e6)
                    loader: Any = batchflow.DataLoader(str(made), BATCH, True, output="numpy")
                    if number == 0:
                        check(loader, tokens, counts["left_out"])
                    loops.append(loop(loader, length) / 1e6)
                    their_loops.append(loop_by_numpy(folder / "rows.npy", rows, length) / 1e6)
                cost = "equal"
                if way == "whole":
                    steps = costs(batchflow.DataLoader(str(made), RANKS * BATCH, True,
                                                       output="numpy"))
                    if steps:
                        cost = f"{statistics.median(steps):.2f}, at most {max(steps):.2f}"
                kept.append({"way": way, "packed": rates, "numpy": theirs, "counts": counts,
                             "loop": loops, "numpy_loop": their_loops, "cost": cost})
                table.append([way, environment.spread(rates, ",.0f"),
                              environment.spread(theirs, ",.0f"), f"{counts['filled']:.2%}",
                              f"{filled:.2%}", environment.spread(loops, ",.0f"),
                              environment.spread(their_loops, ",.0f"), cost])
        if arguments.peers:
            seconds, filled = packed_by_grain(tokens, begins, length)
            table.append(["Grain, first fit", f"{len(tokens) / seconds / 1e6:,.0f}", "",
                          f"{filled:.2%}", "", "", "", ""])
            kept.append({"way": "grain", "packed": len(tokens) / seconds / 1e6, "filled": filled})
    environment.report(table, kept, arguments.json)


if __name__ == "__main__":
    main()
