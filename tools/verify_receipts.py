#!/usr/bin/env python3
"""Checks the receipts that batchflow.DataLoader(receipts=FOLDER) wrote: a file for each rank.

    batchflow-verify-receipts FOLDER

That is its name where BatchFlow is installed; it is this file, which python3 can run anywhere.

It prints a line for each epoch. It ends with 0 if all is as promised, with 1 and the reason if not,
and with 2 if it was called wrongly. It uses nothing of BatchFlow and believes no count in the
files: it counts the samples themselves, and works out the strict order from its rules
(docs/order.md).

What it checks:
- each file is a whole chain: no line is cut, altered, left out, doubled or moved;
- the files of all ranks are there, and agree on each step and on where the job went on;
- steps have no gap and no repeat, over losses of the service, resumes and other numbers of ranks;
- each epoch has each sample once. Fillers are at its end and repeat samples of its last step. With
  drop_last less than a step is left out; a weighted epoch has as many draws as it says;
- a strict or sequential epoch has the ids of its rule, in their order;
- the random steps of a relaxed epoch draw anew: its passes are greater than those of the epoch
  before;
- a mixture draws from each source as the weights say that were in force, at each step, and has the
  samples of its rule in their order, over epochs, resumes and other numbers of ranks; a state that
  it goes on from has the weights that its ranks were told of.

A chain that was written anew from its beginning is whole again. So keep a hash elsewhere
(loader.receipt), and name it with --head.
"""

import argparse
import base64
import hashlib
import json
import math
import re
import sys
from array import array
from collections import Counter
from heapq import heappop, heappush
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

FORM = 1
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
MARK = b',"link":"'
FILE = re.compile(r"rank-(\d+)\.jsonl")
SHOWN = 5  # of ids in a message
MANY = {"loss of the service": "losses of the service", "step taken back": "steps taken back",
        "run of the job": "runs of the job", "epoch verified": "epochs verified"}


class Wrong(Exception):
    """What does not hold."""


def counted(count, what):
    """`what`: what one is called."""
    return f"{count} {what if count == 1 else MANY.get(what, what + 's')}"


def shown(ids):
    ids = list(ids)
    more = len(ids) - SHOWN
    return ", ".join(map(str, ids[:SHOWN])) + (f" and {more} more" if more > 0 else "")


# --------------------------------------------------------------------- the order (docs/order.md) --

def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def hash_of(*words):
    made = 0
    for word in words:
        made = mix((made + GOLDEN & MASK) ^ mix(word + GOLDEN & MASK))
    return made


def permutation(key, count):
    """Which of `count` ids stands at an index."""
    if count <= 65536:
        table = list(range(count))
        for i in range(count, 1, -1):
            key = key + GOLDEN & MASK
            at = mix(key) * i >> 64
            table[i - 1], table[at] = table[at], table[i - 1]
        return table.__getitem__
    root = math.isqrt(count - 1) + 1
    columns = root + root % 2
    rows = -(-count // columns)
    keys = [hash_of(key, i) for i in range(8)]

    def sample(index):
        while True:
            row, column = divmod(index, columns)
            for i in range(0, 8, 2):
                column = (column + (mix(row ^ keys[i]) * columns >> 64)) % columns
                row = (row + (mix(column ^ keys[i + 1]) * rows >> 64)) % rows
            index = row * columns + column
            if index < count:
                return index
    return sample


WHOLE = 2**32  # of which sources of a mixture have parts


class Mixture:
    """From which source each draw of a mixture is, and which sample of it (docs/order.md, 9)."""

    def __init__(self, position):
        self.key = int(position["dataset"], 16), position["seed"]
        raw = base64.b64decode(position["mixture"], validate=True)
        self.raw, self.at = raw, 1
        self.shuffled = raw[0] & 1
        self.sources = [[self._count() for _ in range(5)] for _ in range(self._count())]
        self.taken = [source[3] for source in self.sources]
        self.parts = [source[2] for source in self.sources]
        self.behind = [source[4] >> 1 ^ -(source[4] & 1) for source in self.sources]
        self.now = sum(self.taken)
        self.since = [self.now] * len(self.taken)  # when `behind` was so
        self.changes, self.orders = [], {}
        self._count()
        for _ in range(self._count()):
            self.at += 1
            at = self._count()
            self.changes.append((at, [self._count() for _ in range(self._count())]))
        if (self.at != len(raw) or sum(self.parts) != WHOLE or sum(self.behind) != 0 or
                min(samples for _, samples, *_ in self.sources) == 0):
            raise ValueError("it does not add up")
        self._line_up()
        self._change_now()

    def _count(self):
        value = shift = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _due(self, source):
        """Brings `behind` up to now."""
        self.behind[source] += self.parts[source] * (self.now - self.since[source])
        self.since[source] = self.now

    def _line_up(self):
        self.ready, self.waiting = [], []
        for source in range(len(self.parts)):
            self._enqueue(source)

    def _enqueue(self, source):
        part = self.parts[source]
        if part:
            ahead = -self.behind[source] - part  # with one more
            heappush(self.waiting, (self.now + (ahead // part + 1 if ahead >= 0 else 0), source))

    def hear(self, at, parts):
        """From draw `at` on the sources have these parts."""
        if at < self.now:
            raise Wrong(f"weights from draw {at} on were told after {self.now} draws")
        if len(parts) != len(self.parts) or sum(parts) != WHOLE or min(parts) < 0:
            raise Wrong(f"weights from draw {at} on that are none")
        after = sum(1 for known, _ in self.changes if known <= at)
        self.changes.insert(after, (at, parts))
        self._change_now()

    def _change_now(self):
        while self.changes and self.changes[0][0] == self.now:
            self._change(self.changes.pop(0)[1])

    def _change(self, parts):
        for source in range(len(parts)):
            self._due(source)
        self.parts = list(parts)
        left = sum(due for due, part in zip(self.behind, parts) if not part)
        whole, kept = left, []
        for due, part in zip(self.behind, parts):
            share = abs(whole) * part // WHOLE * (1 if whole >= 0 else -1)
            kept.append(due + share if part else 0)
            left -= share
        first = next(i for i, part in enumerate(parts) if part)
        kept[first] += left
        self.behind = kept
        self._line_up()

    def to_come(self):
        """The weights that are to come, by their draws."""
        return [(at, tuple(parts)) for at, parts in self.changes]

    def weights(self):
        """A hash of what each source weighs, and is behind by."""
        for source in range(len(self.parts)):
            self._due(source)
        return hash((tuple(self.parts), tuple(self.behind)))

    def draw(self):
        """The next sample."""
        while self.waiting and self.waiting[0][0] <= self.now:
            source = heappop(self.waiting)[1]
            owed = WHOLE - self.behind[source]
            heappush(self.ready, (max(0, self.since[source] + -(-owed // self.parts[source])),
                                  source))
        source = heappop(self.ready)[1]
        first, samples = self.sources[source][:2]
        turn, index = divmod(self.taken[source], samples)
        known, order = self.orders.get(source, (None, None))
        if known != turn and self.shuffled:
            order = permutation(hash_of(10, *self.key, first, turn), samples)
            self.orders[source] = turn, order
        self.now += 1
        self.taken[source] += 1
        self._due(source)
        self.behind[source] -= WHOLE
        self._enqueue(source)
        self._change_now()
        return first + (order(index) if self.shuffled else index)


# -------------------------------------------------------------------------------------- one file --

class Step(NamedTuple):
    """A batch of one rank."""

    epoch: int
    step: int
    samples: int
    fillers: int
    rehearsed: int
    had: int  # of the epoch, by all ranks, as the loader says
    last: bool
    replaced: int
    position: object  # of the job behind it; only in the first and the last step of an epoch
    reconnects: int
    weights: list  # of a mixture: [draw, parts] that the loader heard of before
    line: int
    offset: int  # of its line
    link: str

    @property
    def own(self):
        return self.samples - self.fillers - self.rehearsed


class Part:
    """What a rank had between two beginnings of its job."""

    def __init__(self, file, line, begin):
        self.file, self.line, self.begin = file, line, begin
        self.steps = []
        self.is_ended = False
        self.signature = json.dumps({key: value for key, value in begin.items()
                                     if key not in ("n", "rank", "link")}, sort_keys=True)

    def name(self, step=None):
        return f"{self.file.name}, line {self.line if step is None else step.line}"

    def ids(self, step):
        """The samples of a step, fillers and rehearsed ones at the end."""
        with self.file.open("rb") as lines:
            lines.seek(step.offset)
            ids = base64.b64decode(json.loads(lines.readline())["ids"])
        width, wide = self.begin["id_bytes"], bytearray(8 * step.samples)
        for i in range(width):
            wide[i::8] = ids[i::width]
        made = array("Q", bytes(wide))
        if sys.byteorder == "big":
            made.byteswap()
        return made


def number(record, name, least=0):
    value = record.get(name)
    if type(value) is not int or value < least:
        raise ValueError(f"'{name}' is {value!r}")
    return value


def read_begin(record, rank):
    if number(record, "form", 1) != FORM:
        raise ValueError(f"its form is {record['form']}, and this program reads form {FORM}")
    if number(record, "rank") != rank:
        raise ValueError(f"it is of rank {record['rank']}")
    if rank >= number(record, "world_size", 1):
        raise ValueError(f"there is no rank {rank} of {record['world_size']}")
    number(record, "batch_size", 1)
    if not 1 <= number(record, "id_bytes") <= 8:
        raise ValueError(f"ids of {record['id_bytes']} bytes")
    position = record["position"]
    for name, least in (("samples", 1), ("seed", 0), ("epoch", 0), ("consumed", 0)):
        number(position, name, least)
    int(position["dataset"], 16)
    if position["order"] not in ("strict", "sequential", "relaxed", "weighted", "mixed"):
        raise ValueError(f"the order {position['order']!r}")
    return record


def read_weights(changes):
    if not all(type(one) is int for at, parts in changes for one in (at, *parts)):
        raise ValueError("'weights' are none")
    return [(at, tuple(parts)) for at, parts in changes]


def read_step(record, begin, line, offset):
    replaced = record.get("replaced", [])
    if type(record["last"]) is not bool:
        raise ValueError(f"'last' is {record['last']!r}")
    made = Step(*(number(record, name) for name in ("epoch", "step", "samples", "fillers",
                                                    "rehearsed", "had")),
                last=record["last"], replaced=len(replaced),
                position=record.get("position"),
                reconnects=number(record, "reconnects") if record["last"] else 0,
                weights=read_weights(record.get("weights", [])), line=line,
                offset=offset, link=record["link"])
    if len(base64.b64decode(record["ids"], validate=True)) != made.samples * begin["id_bytes"]:
        raise ValueError(f"it has not the ids of {made.samples} samples")
    if made.own < 0 or made.samples > begin["batch_size"]:
        raise ValueError(f"{made.samples} samples, {made.fillers} fillers and {made.rehearsed} "
                         f"rehearsed ones in a batch of {begin['batch_size']}")
    if any(not 0 <= at < made.samples or not 0 <= key < begin["position"]["samples"]
           for at, key in replaced):
        raise ValueError("it replaces what is not there")
    return made


def why_broken(file, line, found):
    """Why the line with this index has another number. Lines count from 1 in messages."""
    with file.open("rb") as lines:
        texts = list(islice(lines, max(0, line - 1), line + 2))
    if line > 0 and texts[0] == texts[1]:
        return "is doubled"
    if found < line:
        return f"is receipt {found}, which stands before it: it is doubled or was moved"
    if len(texts) > 2 - (line == 0) and texts[-1].startswith(b'{"n":%d,' % line):
        return "and the next one have changed places"
    return f"is receipt {found}: {counted(found - line, 'line')} missing before it"


class File:
    """The chain of one rank, in parts."""

    def __init__(self, file, rank, heads):
        self.file, self.rank, self.parts = file, rank, []
        self.heads, self.found = heads, set()
        link, offset, line = b"", 0, -1
        with file.open("rb") as lines:
            for line, text in enumerate(lines):
                link = self._check(text, link, line)
                self._add(text, line + 1, offset)
                offset += len(text)
        if line < 0:
            raise Wrong(f"{file.name} is empty")

    def _check(self, text, link, line):
        where = f"{self.file.name}, line {line + 1}"
        body, mark, rest = text.rpartition(MARK)
        if not text.endswith(b'"}\n') or not mark:
            raise Wrong(f"{where} is cut" if not text.endswith(b"\n") else f"{where} is no receipt")
        found = re.match(rb'{"n":(\d+),', body)
        if found is None:
            raise Wrong(f"{where} is no receipt")
        if int(found[1]) != line:
            raise Wrong(f"{where} {why_broken(self.file, line, int(found[1]))}")
        made = hashlib.blake2b(link + b"\n" + body, digest_size=32).hexdigest().encode()
        if rest != made + b'"}\n':
            raise Wrong(f"{where} was altered: it and the receipts before it make another hash")
        if made.decode() in self.heads:
            self.found.add(made.decode())
        return made

    def _add(self, text, line, offset):
        try:
            record = json.loads(text)
            kind = record["kind"]
            if kind == "begin":
                self.parts.append(Part(self.file, line, read_begin(record, self.rank)))
                return
            if not self.parts:
                raise ValueError("it stands before the beginning of the job")
            part = self.parts[-1]
            if part.is_ended:
                raise ValueError("it stands behind the end of the job")
            if kind == "step":
                part.steps.append(read_step(record, part.begin, line, offset))
            elif kind == "end":
                part.is_ended = True
            else:
                raise ValueError(f"its kind is {kind!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            reason = f"{problem} is missing" if isinstance(problem, KeyError) else problem
            raise Wrong(f"{self.file.name}, line {line}: {reason}") from None


# ------------------------------------------------------------------------------------- all ranks --

class Run:
    """What all ranks had between two beginnings of the job."""

    def __init__(self, first):
        self.begin, self.parts = first.begin, {0: first}
        self.world = first.begin["world_size"]
        self.position = first.begin["position"]
        self.group = self.begin["batch_size"] * self.world  # samples of a whole step

    def complete(self):
        """How many steps all ranks had."""
        if len(self.parts) < self.world:
            return 0
        return min(len(part.steps) for part in self.parts.values())

    def most(self):
        return max(len(part.steps) for part in self.parts.values())


def files_of(folder, heads):
    found = {int(match[1]): file for file in sorted(folder.iterdir())
             if (match := FILE.fullmatch(file.name))}
    if 0 not in found:
        raise Wrong("rank-0.jsonl is missing")
    files = {rank: File(file, rank, heads) for rank, file in sorted(found.items())}
    world = max(part.begin["world_size"] for file in files.values() for part in file.parts)
    for rank in range(world):
        if rank not in files:
            raise Wrong(f"rank-{rank}.jsonl is missing, of a job that had {world} ranks")
    return [files[rank] for rank in range(world)]


def runs_of(files):
    """The runs of a job, by the beginnings of rank 0; and how many steps of other ranks are in none
    of them. A process that was killed at the very beginning may have missed a run, so the last ones
    are matched first: what is behind a run relies on it."""
    runs = [Run(part) for part in files[0].parts]
    strays = 0
    for file in files[1:]:
        end = len(runs)
        for part in reversed(file.parts):
            at = next((i for i in range(end - 1, -1, -1)
                       if runs[i].parts[0].signature == part.signature), None)
            if at is None:
                strays += len(part.steps)
            else:
                runs[at].parts[file.rank] = part
                end = at
    return runs, strays


class Epoch:
    """One round over the samples. A script may go through an epoch of the same number again."""

    def __init__(self, epoch, had=0):
        self.epoch, self.had, self.begins_at = epoch, had, had
        self.steps = []  # (run, index in it, samples had before)
        self.is_whole = self.is_left = False
        self.taken_back = 0


class Job:
    """Puts the runs together: what was taken back, and where the job went on."""

    def __init__(self, runs, partial):
        self.runs, self.epochs, self.taken_back = runs, [], 0
        for run in runs:
            self._begin(run)
            for index in range(run.complete()):
                self._step(run, index)
            if run is not runs[-1] or partial:
                # Some ranks had more steps, and the job went on before these.
                self.taken_back += run.most() - run.complete()
            else:
                self._end(run)

    def _at(self):
        if not self.epochs:
            return 0, 0
        epoch = self.epochs[-1]
        return (epoch.epoch + 1, 0) if epoch.is_whole else (epoch.epoch, epoch.had)

    def _begin(self, run):
        wanted, consumed = run.position["epoch"], run.position["consumed"]
        here, had = self._at()
        if self.epochs and (wanted, consumed) == (here, had):
            return
        if not self.epochs:
            self._open(wanted, consumed)
        elif not run.begin["goes_on"] and (wanted, consumed) < (here, had):
            self._take_back(run, wanted, consumed)
        elif run.begin["goes_on"] and consumed == 0:
            self._open(wanted)  # the script left an epoch, passed over some, or repeats one
        else:
            raise Wrong(f"{run.parts[0].name()}: the job goes on behind {consumed} samples of epoch "
                        f"{wanted}, and all ranks have receipts up to {had} samples of epoch "
                        f"{here}: steps between are missing")

    def _open(self, number, had=0):
        if self.epochs and not self.epochs[-1].is_whole:
            if self.epochs[-1].steps:
                self.epochs[-1].is_left = True
            else:
                self.epochs.pop()
        self.epochs.append(Epoch(number, had))

    def _take_back(self, run, wanted, consumed):
        """The job goes on from an earlier state; what came behind it does not count."""
        before = self.taken_back
        while self.epochs and self.epochs[-1].epoch > wanted:
            self.taken_back += len(self.epochs.pop().steps)
        if not self.epochs or self.epochs[-1].epoch != wanted:
            if consumed:
                raise Wrong(f"{run.parts[0].name()}: the job goes back to epoch {wanted}, of which "
                            "there are no receipts")
            self._open(wanted)
        epoch = self.epochs[-1]
        while epoch.had > consumed or (epoch.is_whole and epoch.steps):
            if not epoch.steps:
                break
            epoch.had = epoch.steps.pop()[2]
            epoch.is_whole = epoch.is_left = False
            self.taken_back += 1
        if epoch.had != consumed:
            raise Wrong(f"{run.parts[0].name()}: the job goes on behind {consumed} samples of epoch "
                        f"{wanted}, and no step ends there")
        epoch.taken_back += self.taken_back - before

    def _step(self, run, index):
        steps = [run.parts[rank].steps[index] for rank in range(run.world)]
        first = steps[0]
        for rank, step in enumerate(steps):
            where = run.parts[rank].name(step)
            if step.step != index:
                raise Wrong(f"{where} is step {step.step} of its rank, and step {index} belongs "
                            "there")
            for name in ("epoch", "samples", "rehearsed", "last", "had", "position"):
                if getattr(step, name) != getattr(first, name):
                    raise Wrong(f"{where}: rank {rank} and rank 0 do not agree on '{name}' of step "
                                f"{index}")
        if self.epochs[-1].is_whole:
            self._open(self.epochs[-1].epoch + 1)
        epoch, own = self.epochs[-1], sum(step.own for step in steps)
        if first.epoch != epoch.epoch:
            raise Wrong(f"{run.parts[0].name(first)} is of epoch {first.epoch}, and epoch "
                        f"{epoch.epoch} is not whole")
        if run.position["order"] == "weighted" and first.had == own != epoch.had + own:
            # The service lost the weights, so the epoch began again.
            self.taken_back += len(epoch.steps)
            epoch.taken_back += len(epoch.steps)
            epoch.steps, epoch.had = [], 0
        epoch.steps.append((run, index, epoch.had))
        epoch.had += own
        if first.had != (0 if first.last else epoch.had):
            raise Wrong(f"{run.parts[0].name(first)}: the loader was at {first.had} samples of the "
                        f"epoch, and its receipts come to {epoch.had}")
        epoch.is_whole = first.last

    def _end(self, run):
        since = f"since {run.parts[0].name()}"
        for rank in range(run.world):
            if rank not in run.parts:
                raise Wrong(f"rank {rank} has no receipts {since}")
            if (count := len(run.parts[rank].steps)) < run.most():
                raise Wrong(f"rank {rank} has receipts of {count} steps {since}, and another rank of "
                            f"{run.most()}")


# ------------------------------------------------------------------------------------- one epoch --

class EpochCheck:
    """What an epoch must have, from the ids themselves."""

    def __init__(self, epoch, mixtures):
        self.epoch, self.mixtures = epoch, mixtures
        run = epoch.steps[0][0]
        self.position, self.begin = run.position, run.begin
        self.order, self.samples = self.position["order"], self.position["samples"]
        self.name = f"epoch {epoch.epoch}"
        self.fillers = self.replaced = 0
        self.rehearsed = Counter()
        for other, _, _ in epoch.steps:
            for key in ("dataset", "samples", "seed", "order"):
                if other.position[key] != self.position[key]:
                    raise Wrong(f"{self.name} was begun with {key} {self.position[key]} and goes on "
                                f"with {other.position[key]} ({other.parts[0].name()})")

    def check(self):
        self.times = bytearray(self.samples)
        self.expected = self._rule()
        for run, index, had in self.epoch.steps:
            self._add(run, index, had)
        if self.epoch.is_whole and not self.epoch.begins_at:
            self._count()
        self._rounds()

    def _rule(self):
        if self.order == "sequential":
            return lambda index: index
        if self.order == "strict":
            return permutation(hash_of(1, int(self.position["dataset"], 16), self.position["seed"],
                                       self.epoch.epoch), self.samples)
        return None

    def _add(self, run, index, had):
        own, fillers = array("Q"), []
        for rank in range(run.world):
            part = run.parts[rank]
            step = part.steps[index]
            ids = part.ids(step)
            own.extend(ids[:step.own])
            fillers += ids[step.own:step.own + step.fillers]
            self.rehearsed.update(ids[step.own + step.fillers:])
            self.replaced += step.replaced
        where = f"{self.name}, step {index} since {run.parts[0].name()}"
        if len(own) and max(own) >= self.samples:
            raise Wrong(f"{where}: there is no sample {max(own)} of {self.samples}")
        if self.order == "mixed":
            return self._draw(run, index, own, fillers, where)
        if self.expected is not None:
            for at, key in enumerate(own, had):
                if at >= self.samples or self.expected(at) != key:
                    raise Wrong(f"{where}: sample {key} stands at index {at} of the epoch, where "
                                f"the {self.order} order has another")
        self._fillers(run, run.parts[0].steps[index], own, fillers, where)
        if self.order == "weighted":
            return
        times = self.times
        for key in own:
            if times[key]:
                raise Wrong(f"{where}: sample {key} came twice in epoch {self.epoch.epoch}")
            times[key] = 1

    def _draw(self, run, index, own, fillers, where):
        """The draws of a step follow from the position at which the run began, and from the weights
        that its ranks were told of."""
        mixture = self.mixtures.mixture_of(run)
        step = run.parts[0].steps[index]
        for at, parts in step.weights:
            mixture.hear(at, parts)
        for key in own:
            here, drawn = mixture.now, mixture.draw()
            if drawn != key:
                raise Wrong(f"{where}: draw {here} of the mixture is sample {key}, and its rule says "
                            f"{drawn}")
        self.mixtures.remember(mixture)
        self._fillers(run, step, own, fillers, where)

    def _fillers(self, run, step, own, fillers, where):
        self.fillers += len(fillers)
        if fillers and (not step.last or self.begin["drop_last"] or len(fillers) >= run.world):
            raise Wrong(f"{where}: {len(fillers)} fillers, which only the last step of an epoch may "
                        "have, and fewer than there are ranks")
        repeats = ([own[i % len(own)] for i in range(len(fillers))] == fillers
                   if self.order not in ("relaxed", "weighted") and own else
                   set(fillers) <= set(own))
        if not repeats:
            raise Wrong(f"{where}: its fillers are not samples of the step: {shown(fillers)}")

    def _count(self):
        run, index, _ = self.epoch.steps[-1]
        count = self.samples
        if self.order == "mixed":
            count = self.position["draws"]
        if self.order == "weighted":
            told = [step.position["draws"] for run, index, _ in self.epoch.steps
                    if (step := run.parts[0].steps[index]).position and step.position.get("draws")]
            count = told[0] if told else self.epoch.had
        missing = count - self.epoch.had
        if run.begin["drop_last"] and 0 <= missing < run.group:
            return
        if missing == 0:
            return
        if self.order in ("weighted", "mixed"):
            raise Wrong(f"{self.name} has {self.epoch.had} draws of {count}")
        raise Wrong(f"{self.name} is without {missing} samples: "
                    + shown(key for key in range(self.samples) if not self.times[key]))

    def _rounds(self):
        """Each exemplar is drawn equally often, or once more, from a buffer that stays the same."""
        runs = {id(run) for run, _, _ in self.epoch.steps}
        if len(runs) == 1 and self.rehearsed and not self.epoch.begins_at:
            most, least = max(self.rehearsed.values()), min(self.rehearsed.values())
            if most - least > 1:
                raise Wrong(f"{self.name}: an exemplar was rehearsed {most} times and another "
                            f"{least} times")

    def last_position(self):
        run, index, _ = self.epoch.steps[-1]
        return run.parts[0].steps[index].position

    def first_position(self):
        for run, index, _ in self.epoch.steps:
            if (position := run.parts[0].steps[index].position) is not None:
                return position
        return None

    # ------------------------------------------------------------------------------- as a line --

    def draws(self):
        """What names the draws of the random steps, beside the dataset, the seed and the sample."""
        position = (self.last_position() if self.epoch.is_whole else self.first_position()) or {}
        if self.order in ("strict", "sequential"):
            return f"draws of generation {self.epoch.epoch}, pass 0"
        if self.order == "mixed":
            return "draws of " + self.mixtures.shares(self.epoch.steps[-1][0])
        if self.order == "weighted":
            first = self.first_position() or {}
            return f"draws by weights {first.get('weights', 'that are not known')}"
        if "passes" not in position:
            return "draws not told"
        passes = [one - 1 for one in base64.b64decode(position["passes"]) if one]
        return f"draws of generation {position['generation']}, " + (
            f"pass {min(passes)}" if min(passes) == max(passes) else
            f"passes {min(passes)} to {max(passes)}")

    def receipt(self):
        """Of all ranks together; that of one rank is the link of its last line."""
        run, index, _ = self.epoch.steps[-1]
        links = "\n".join(run.parts[rank].steps[index].link for rank in range(run.world))
        return hashlib.blake2b(links.encode(), digest_size=32).hexdigest()

    def reconnects(self):
        """How often the service was lost. A count begins anew with each run."""
        total = 0
        for run, steps in groupby(self.epoch.steps, key=lambda one: one[0]):
            index = list(steps)[-1][1]
            count = max(run.parts[rank].steps[index].reconnects for rank in range(run.world))
            before = [step.reconnects for step in run.parts[0].steps[:index] if step.last]
            total += max(0, count - max(before, default=0))
        return total

    def line(self):
        epoch = self.epoch
        worlds = [(world, len(list(steps))) for world, steps in
                  groupby(epoch.steps, key=lambda one: one[0].world)]
        had = epoch.had - epoch.begins_at
        parts = [f"{had} of {self.samples} samples, each once"
                 if self.order not in ("weighted", "mixed") else
                 f"{counted(had, 'draw')} from {self.samples} samples",
                 ", ".join(f"{counted(count, 'step')} of {counted(world, 'rank')}"
                           for world, count in worlds)]
        parts += [counted(count, what) for count, what in (
            (self.fillers, "filler"), (self.replaced, "replaced sample"),
            (sum(self.rehearsed.values()), "rehearsed sample"),
            (epoch.taken_back, "step taken back"), (self.reconnects(), "loss of the service"))
                  if count]
        parts += [f"order {self.order}" + ", worked out again" * (
            self.expected is not None or self.order == "mixed"),
                  self.draws()]
        if epoch.begins_at:
            parts.append(f"without the {epoch.begins_at} samples before receipts begin")
        if not epoch.is_whole:
            parts.append("left by the script" if epoch.is_left else "not over")
        return f"{self.name}: {'; '.join(parts)}; receipt {self.receipt()}"


class Mixtures:
    """Where the mixtures of a job's runs are, in turn."""

    def __init__(self, runs):
        self.run = self.mixture = None
        self.taken = {}  # what each source had given, and the weights, by the draws until then
        self.told = {}  # of each run: the weights that any of its ranks was told of before it
        told = set()
        for run in runs:
            self.told[id(run)] = set(told)
            for part in run.parts.values():
                for step in part.steps:
                    told.update(step.weights)

    def mixture_of(self, run):
        if run is not self.run:
            self.run, self.mixture = run, Mixture(run.position)
            self._goes_on(run, self.mixture)
        return self.mixture

    def _goes_on(self, run, mixture):
        """The job goes on from a state. What it says of the mixture is what receipts before say."""
        where = f"{run.parts[0].name()}: the job goes on behind {mixture.now} draws of its mixture"
        if not self.taken:  # the job begins; what it says is what it was asked for
            self.told = {one: told | set(mixture.to_come()) for one, told in self.told.items()}
        told = self.told[id(run)]
        for at, parts in mixture.to_come():
            if (at, parts) not in told:
                raise Wrong(f"{where}, with weights from draw {at} on that no rank was told of")
        if (found := self.taken.get(mixture.now)) is None:
            return
        if found[0] != hash(tuple(mixture.taken)):
            raise Wrong(f"{where}, and other sources have given them")
        if found[1] != mixture.weights() and (mixture.now, tuple(mixture.parts)) not in told:
            raise Wrong(f"{where}, with weights that no rank was told of")

    def remember(self, mixture):
        self.taken[mixture.now] = hash(tuple(mixture.taken)), mixture.weights()

    def shares(self, run):
        """What each source has given so far, of a few; else how many sources there are."""
        names, taken = run.begin.get("sources", []), self.mixture_of(run).taken
        if not 0 < len(names) == len(taken) <= SHOWN:
            return counted(len(taken), "source")
        return ", ".join(f"{name} {count}" for name, count in zip(names, taken))


def check_fresh(before, after, drop_last):
    """Two epochs of a relaxed job: the later has greater passes, or a greater generation."""
    keys = ("dataset", "seed", "block", "lane")
    if any("passes" not in one for one in (before, after)):
        return True
    if after["generation"] != before["generation"]:
        return after["generation"] > before["generation"] or after["seed"] != before["seed"]
    if any(before[key] != after[key] for key in keys):
        return before["seed"] != after["seed"]
    passes = [base64.b64decode(one["passes"]) for one in (before, after)]
    return len(passes[0]) == len(passes[1]) and all(
        new > old or (drop_last and new == old) for old, new in zip(*passes))


def verify(folder, partial, heads):
    files = files_of(folder, heads)
    for head in heads:
        if not any(head in file.found for file in files):
            raise Wrong(f"no receipt has the hash {head}: the end of a file was cut off, or a file "
                        "was written anew")
    runs, strays = runs_of(files)
    job = Job(runs, partial)
    drawn, mixtures = None, Mixtures(runs)
    for epoch in (one for one in job.epochs if one.steps):
        check = EpochCheck(epoch, mixtures)
        check.check()
        if epoch.begins_at and not partial:
            raise Wrong(f"{check.name}: receipts begin behind {epoch.begins_at} samples of it "
                        "(--partial takes that)")
        if not (epoch.is_whole or partial):
            after = f"after {epoch.had} of {check.samples} samples"
            raise Wrong(f"{check.name} was left by the script {after} (--partial takes that)"
                        if epoch.is_left else
                        f"{check.name} is not whole: receipts end {after}; the job was ended there, "
                        "or the files are cut (--partial takes that)")
        position = check.last_position()
        if epoch.is_whole and check.order == "relaxed" and position is not None:
            if drawn is not None and not check_fresh(drawn, position, check.begin["drop_last"]):
                raise Wrong(f"{check.name} has passes that an earlier epoch had: samples had the "
                            "same draws")
            drawn = position
        print(check.line())
    for part in runs[-1].parts.values():
        if not (part.is_ended or partial):
            raise Wrong(f"{part.file.name} has no end: the job was killed or still runs, or the end "
                        "of the file was cut off (--partial takes that)")
    whole = sum(one.is_whole and not one.begins_at for one in job.epochs)
    print(f"{folder}: {counted(whole, 'epoch verified')}, {counted(len(runs), 'run of the job')}, "
          f"{counted(job.taken_back + strays, 'step taken back')}", flush=True)


def main():
    about, _, more = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(description=about, epilog=more,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what the job was given as receipts=")
    parser.add_argument("--partial", action="store_true",
                        help="take epochs that the script left or that receipts do not begin with, "
                        "and the files of a job that was killed or still runs")
    parser.add_argument("--head", action="append", default=[], metavar="HASH",
                        help="a hash that was kept elsewhere, which a receipt must have; may be "
                        "repeated")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder")
    try:
        verify(given.folder, given.partial, given.head)
    except (Wrong, OSError) as problem:
        print(f"{parser.prog}: {given.folder}: {problem}", file=sys.stderr)
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        print(f"{parser.prog}: {given.folder}: a position is none that a job can be at "
              f"({problem!r})", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
