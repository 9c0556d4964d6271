"""Documents of any length as sequences of N tokens: how fast they are packed, how full sequences are,
how fast a loop gets them, and how evenly their cost lies on ranks.

    main.py [--quick] [--documents N] [--tokens N] [--rounds N] [--peers] [--json FILE]

Documents are of lengths as of texts (log-normal, median 400). `packed` is `batchflowctl pack`, which
reads the documents and writes the sequences; NumPy's loop beside it does the same as a user would
write it: end to end by one concatenation, whole by first fit over 1,000 open sequences; it writes
nothing. `loop` is a job's loop over sequences that are there: BatchFlow's is shuffled, and NumPy's is
over a memory map of them, also shuffled. `rows` is whole with 8 sequences a sample, and a rank trains
on one sample. With --peers Grain and MosaicML Streaming are measured in the same rounds (from PyPI):
Grain packs whole by first fit, in memory; MosaicML's are end to end, as LLM Foundry makes them, written
with MDSWriter and read by PyTorch's DataLoader, with the number of workers that is fastest.
The cost of a sequence is the sum of the squares of its documents' lengths. `cost` is the greatest cost
of 8 ranks of 8 sequences, over their mean, step by step: the middle one and the greatest. Ratios are
of each round: the middle one, the least and the greatest. The last one is of all the time from the
documents to the end of the first epoch: packing, and a loop over what was packed.

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
    parser.add_argument("--peers", action="store_true",
                        help="Grain and MosaicML Streaming, too; they are installed from PyPI")
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


WAYS = {"concat": ["--packing", "concat"], "whole": ["--packing", "whole"],
        "rows": ["--packing", "whole", "--rows", str(BATCH)], "buckets": ["--packing", "buckets"]}


def packed_here(folder: Path, way: str, length: int, into: Path) -> tuple[float, dict[str, Any]]:
    begin = time.perf_counter()
    done = subprocess.run([os.environ["BATCHFLOWCTL"], "pack", str(folder), str(into), "--tokens",
                           str(length), *WAYS[way], "--json"], check=True,
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


def packed_by_mosaicml(tokens: Any, begins: Any, length: int, folder: Path) -> float:
    from streaming import MDSWriter
    import numpy
    begin = time.perf_counter()
    with MDSWriter(out=str(folder), columns={"tokens": f"ndarray:uint16:{length}"}) as out:
        buffer, held = [], 0
        for document in documents_in_turn(tokens, begins):
            buffer.append(document)
            held += len(document)
            if held < length:
                continue
            joined = numpy.concatenate(buffer)
            for at in range(0, held // length * length, length):
                out.write({"tokens": joined[at:at + length]})
            buffer, held = [joined[held // length * length:]], held % length
    return time.perf_counter() - begin


def joined(batch: list[Any]) -> dict[str, Any]:
    """PyTorch has no 16 bits without a sign; ours gives 32 bits, too."""
    import numpy
    import torch
    rows = numpy.stack([one["tokens"] for one in batch])
    return {"tokens": torch.from_numpy(rows.astype(numpy.int32))}


def loop_by_mosaicml(folder: Path, length: int) -> float:
    import torch
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    best = 0.0
    for workers in (0, 1, 2):
        clean_stale_shared_memory()
        data = StreamingDataset(local=str(folder), shuffle=True, batch_size=BATCH)
        loader = torch.utils.data.DataLoader(data, BATCH, num_workers=workers,
                                             collate_fn=joined)
        rows, begin = 0, 0.0
        for batch in loader:
            begin = begin or time.perf_counter()  # from the first batch on
            rows += len(batch["tokens"])
        best = max(best, (rows - BATCH) * length / (time.perf_counter() - begin))
    return best


def loop(loader: Any) -> float:
    """Tokens a second of an epoch."""
    begin, places = time.perf_counter(), 0
    for batch in loader:
        places += batch["tokens"].size
    return places / (time.perf_counter() - begin)


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
        if len(segments) < (RANKS * BATCH if segments.ndim == 2 else RANKS):
            continue
        of_samples = [float((numpy.bincount(sample.ravel())[1:].astype(numpy.int64) ** 2).sum())
                      for sample in segments]
        of_ranks = numpy.array(of_samples).reshape(RANKS, -1).sum(axis=1)
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


def filled_of(loader: Any) -> float:
    """The part of the places that a job trains on: of buckets, of their rows."""
    filled = places = 0
    for batch in loader:
        for segments in batch["segments"]:
            width = int((segments == 1).sum())
            places += -(-int(segments.nonzero()[0][-1] + 1) // width) * width
            filled += int((segments > 0).sum())
    return filled / places


def one_after_the_other(packed: list[float], loops: list[float]) -> list[float]:
    """Round by round: the rate of packing and looping, of which each goes over all tokens."""
    return [1 / (1 / pack + 1 / over) for pack, over in zip(packed, loops)]


def main() -> None:
    arguments = parse()
    peers = {"grain": "grain", "streaming": "mosaicml-streaming"} if arguments.peers else {}
    environment.use("packing", {"numpy": "numpy", **peers})
    import batchflow
    length = arguments.tokens
    figures: dict[str, dict[str, Any]] = {way: {"packed": [], "numpy": [], "loop": [], "numpy_loop": []}
                                          for way in WAYS}
    theirs: dict[str, list[float]] = {name: [] for name in ("grain", "mosaicml", "mosaicml_loop")}
    with tempfile.TemporaryDirectory(prefix="batchflow-") as name:
        folder = Path(name)
        tokens, begins = write_documents(folder / "corpus", arguments.documents)
        millions = len(tokens) / 1e6
        with Service(folder, "--memory", "2gib"):
            for number in range(arguments.rounds):
                for way, found in figures.items():
                    made = folder / f"{way}-{number}"
                    seconds, counts = packed_here(folder / "corpus", way, length, made)
                    found["packed"].append(millions / seconds)
                    a_rank = BATCH if way in ("concat", "whole") else 1
                    loader: Any = batchflow.DataLoader(str(made), a_rank, True, output="numpy")
                    if number == 0:
                        check(loader, tokens, counts["left_out"])
                        found["counts"] = counts
                        found["filled"] = counts["filled"]
                    if way == "buckets" and number == 0:
                        found["filled"] = filled_of(loader)
                    found["loop"].append(loop(loader) / 1e6)
                    if way in ("whole", "rows") and number == 0:
                        steps = costs(batchflow.DataLoader(str(made), RANKS * a_rank, True,
                                                           output="numpy"))
                        if steps:
                            found["cost"] = f"{statistics.median(steps):.3f}, at most {max(steps):.3f}"
                    if way in ("concat", "whole"):
                        seconds, filled, rows = packed_by_numpy(tokens, begins, way, length)
                        found["numpy"].append(millions / seconds)
                        found["numpy_filled"] = filled
                        found["numpy_loop"].append(
                            loop_by_numpy(folder / "rows.npy", rows, length) / 1e6)
                if arguments.peers:
                    seconds, grain_filled = packed_by_grain(tokens, begins, length)
                    theirs["grain"].append(millions / seconds)
                    made = folder / f"mds-{number}"
                    theirs["mosaicml"].append(
                        millions / packed_by_mosaicml(tokens, begins, length, made))
                    theirs["mosaicml_loop"].append(loop_by_mosaicml(made, length) / 1e6)

    def spread(values: list[float]) -> str:
        return environment.spread(values, ",.0f") if values else ""

    def ratio(ours: list[float], others: list[float]) -> str:
        if not others:
            return ""
        return environment.spread([one / other for one, other in zip(ours, others)], ",.1f") + " times"

    table = [["", "packed, M tokens/s", "of NumPy's loop", "filled", "of NumPy's",
              "loop, M tokens/s", "of NumPy's", "cost of a rank"]]
    for way, found in figures.items():
        table.append([way, spread(found["packed"]), spread(found["numpy"]), f"{found['filled']:.2%}",
                      f"{found['numpy_filled']:.2%}" if "numpy_filled" in found else "",
                      spread(found["loop"]), spread(found["numpy_loop"]), found.get("cost", "")])
    if arguments.peers:
        table.append(["Grain, first fit", spread(theirs["grain"]), "", f"{grain_filled:.2%}", "", "", "",
                      ""])
        table.append(["MosaicML Streaming, end to end", spread(theirs["mosaicml"]), "", "100.00%", "",
                      spread(theirs["mosaicml_loop"]), "", ""])
        table.append(["whole over Grain", ratio(figures["whole"]["packed"], theirs["grain"]),
                      *[""] * 6])
        table.append(["concat over MosaicML",
                      ratio(figures["concat"]["packed"], theirs["mosaicml"]), "", "", "",
                      ratio(figures["concat"]["loop"], theirs["mosaicml_loop"]), "", ""])
        table.append(["concat over MosaicML, packing and one loop together",
                      ratio(one_after_the_other(figures["concat"]["packed"], figures["concat"]["loop"]),
                            one_after_the_other(theirs["mosaicml"], theirs["mosaicml_loop"])),
                      *[""] * 6])
    environment.report(table, [figures, theirs], arguments.json)


if __name__ == "__main__":
    main()
