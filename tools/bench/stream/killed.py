"""A job changes in size and in weights, its ranks are killed, and so is its live service. What its
ranks had is compared with a job to which nothing happens.

A rank is a process. After each step it writes the keys of its batch and its state; a checkpoint is
the last step that all ranks have written. When ranks are killed, all begin again from there, as a
launcher would have them do, and what they had behind it does not count.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Optional

from service import Service

WIDTH = 16  # numbers of a row, and of a record
SOURCES = {"code": 400, "math": 90, "web": 3000}  # rows
WEIGHTS = {"code": 2.0, "math": 1.0, "web": 3.0}
AHEAD = 6000  # samples from where weights are asked for until they count
CHANGES_MOST = 60  # a schedule may have 64
KINDS = ("services_killed", "ranks_killed", "resizes", "weight_changes")


class KilledService(Service):
    """Comes back after `kill -9`, with what it has on its drive."""

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.socket.unlink(missing_ok=True)
        self.__enter__()


class Comparison(NamedTuple):
    samples: int  # of the undisturbed job
    lost: int
    doubled: int
    differing: int

    @staticmethod
    def between(undisturbed: list[int], disturbed: list[int]) -> "Comparison":
        due, had = Counter(undisturbed), Counter(disturbed)
        return Comparison(len(undisturbed), sum((due - had).values()), sum((had - due).values()),
                          int(undisturbed != disturbed))


def own_keys(batch: Any) -> list[int]:
    """Neither fillers nor what is rehearsed, which stand last."""
    return [int(key) for key in
            batch.sample_keys[:batch.samples - batch.fillers - batch.rehearsed]]


class MixtureJob:
    """Rows of three folders. Other weights are asked for while it runs."""

    name = "mixture"
    takes_weights = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for source, rows in SOURCES.items():
            (folder / source).mkdir(parents=True)
            with (folder / source / "rows.npy").open("wb") as out:
                head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({rows}, {WIDTH}), }}"
                head = head.ljust((10 + len(head) + 64) // 64 * 64 - 11) + "\n"
                out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
                out.write(bytes(8 * WIDTH * rows))

    def service_arguments(self) -> list[str]:
        return ["--dataset", f"mix={self._folder}"]

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def loader(self, chance: random.Random, **size: Any) -> Any:
        import batchflow
        return batchflow.DataLoader("mix", mixture=WEIGHTS, shuffle=True, output="dlpack",
                                    draws=10**9, weights_change=True, **size)

    def undisturbed(self, changes: dict[int, dict[str, float]], samples: int) -> list[int]:
        import batchflow
        keys: list[int] = []
        for batch in batchflow.DataLoader("mix", 100, mixture=WEIGHTS, shuffle=True,
                                          output="dlpack", draws=10**9, weights_at=changes):
            keys += own_keys(batch)
            if len(keys) >= samples:
                return keys[:samples]
        return keys


class LiveJob:
    """Records that a producer sends meanwhile, in bursts."""

    name = "live"
    takes_weights = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        subprocess.run([os.environ["BATCHFLOWCTL"], "feed", "create", str(folder), "--schema",
                        f"i64[{WIDTH}]", "--keep", "1gib"], check=True, stdout=subprocess.DEVNULL)

    def service_arguments(self) -> list[str]:
        return ["--dataset", f"clicks={self._folder}"]

    def begin(self) -> None:
        self._ends = self._folder.with_suffix(".ends")
        self._parent = os.getpid()
        self._producer = os.fork()
        if self._producer:
            return
        status = 1
        try:
            self._produce()
            status = 0
        except BaseException as problem:
            print(f"producer: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def _produce(self) -> None:
        import batchflow
        chance, count = random.Random(1), 0
        with batchflow.Feed(self._folder, "bench", f"i64[{WIDTH}]") as feed:
            while not self._ends.exists():
                if os.getppid() != self._parent:
                    return  # the benchmark was ended
                for _ in range(chance.randint(1, 200)):
                    feed.put(struct.pack("<q", count) + bytes(8 * (WIDTH - 1)))
                    count += 1
                feed.flush()
                time.sleep(chance.choice([0.0, 0.01, 0.1]))
            feed.end()

    def end(self) -> None:
        self._ends.touch()
        if os.waitpid(self._producer, 0)[1] != 0:
            sys.exit("bench_stream: the producer failed")

    def loader(self, chance: random.Random, **size: Any) -> Any:
        import batchflow
        fill = chance.choice([None, "rehearse", "short"])
        return batchflow.DataLoader(batchflow.Live("clicks", wait=0.05, fill=fill, window=1000),
                                    output="dlpack", **size)

    def undisturbed(self, changes: dict[int, dict[str, float]], samples: int) -> list[int]:
        import batchflow
        return [key for batch in batchflow.DataLoader(batchflow.Live("clicks", fill=None), 100,
                                                      output="dlpack") for key in own_keys(batch)]


class Ranks:
    """The ranks of a job, from one checkpoint to the next."""

    def __init__(self, job: Any, folder: Path, number: int, world: int, batch_size: int,
                 state: Any) -> None:
        self.world, self._logs = world, [folder / f"rank-{rank}" for rank in range(world)]
        self._job, self._state = job, state
        self._number, self._batch_size = number, batch_size
        asks, self._weights = os.pipe()
        for log in self._logs:
            log.write_bytes(b"")
        self._processes = [self._begin(rank, asks) for rank in range(world)]
        os.close(asks)

    def _begin(self, rank: int, asks: int) -> int:
        process = os.fork()
        if process:
            return process
        status = 1
        try:
            loader = self._job.loader(random.Random(self._number), batch_size=self._batch_size,
                                      rank=rank, world_size=self.world,
                                      job_name=f"job-{self._number}")
            if self._state is not None:
                loader.load_state_dict(self._state)
            self._train(loader, rank, asks)
            status = 0
        except BaseException as problem:
            print(f"rank {rank}: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def _train(self, loader: Any, rank: int, asks: int) -> None:
        with self._logs[rank].open("w") as log:
            for batch in loader:
                step: dict[str, Any] = {"keys": own_keys(batch), "state": loader.state_dict()}
                if self._job.takes_weights:
                    step["changes"] = [[change.at, change.weights]
                                       for change in loader.mixture().changes]
                    if rank == 0 and select.select([asks], [], [], 0)[0]:
                        for weights in os.read(asks, 65536).splitlines():
                            loader.set_weights(json.loads(weights),
                                               at=loader.mixture().drawn + AHEAD)
                log.write(json.dumps(step) + "\n")
                log.flush()
                time.sleep(0.002)
            log.write('"ended"\n')

    def ask(self, weights: dict[str, float]) -> None:
        os.write(self._weights, json.dumps(weights).encode() + b"\n")

    def steps(self) -> list[list[Any]]:
        """Of each rank, as many as all of them have written."""
        written = []
        for log in self._logs:
            whole = log.read_bytes().rpartition(b"\n")[0]
            written.append([json.loads(line) for line in whole.splitlines()])
        least = min(map(len, written))
        return [steps[:least] for steps in written]

    def wait_for(self, steps: int, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not any(steps_of and (len(steps_of) >= steps or steps_of[-1] == "ended")
                      for steps_of in self.steps()[:1]):
            if time.monotonic() > deadline:
                sys.exit(f"bench_stream: a job has not had {steps} steps within {seconds} s")
            time.sleep(0.02)

    def kill(self, one_first: Optional[int] = None) -> list[list[Any]]:
        """Answers what counts."""
        if one_first is not None:
            os.kill(self._processes[one_first], signal.SIGKILL)
            time.sleep(0.03)  # in which the others may go on
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
        for process in self._processes:
            os.waitpid(process, 0)
        os.close(self._weights)
        self._processes = []
        return self.steps()

    def let_go(self) -> None:
        if self._processes:
            self.kill()


class Killer:
    """Disturbs a job until there were so many disturbances."""

    def __init__(self, job: Any, folder: Path, service: KilledService, seed: int) -> None:
        self.job, self._folder, self._service = job, folder, service
        self._chance = random.Random(seed)
        self.done = dict.fromkeys(KINDS, 0)
        self._keys: list[int] = []
        self._changes: dict[int, dict[str, float]] = {}
        self._asked: list[dict[str, float]] = []
        self._state: Any = None
        self._number = 0
        self._size = self._new_size()

    def _new_size(self) -> tuple[int, int]:
        return self._chance.randint(1, 3), self._chance.randint(20, 200)

    def _begin(self) -> None:
        self._number += 1
        self._ranks = Ranks(self.job, self._folder, self._number, *self._size, self._state)

    def _commit(self, ranks: list[list[Any]]) -> bool:
        """Whether the job is at its end."""
        for steps in zip(*ranks):
            if "ended" in steps:
                return True
            for step in steps:
                self._keys += step["keys"]
                if step["state"] != steps[0]["state"]:
                    sys.exit("bench_stream: ranks disagree on their job's state")
            self._state = steps[0]["state"]
            for at, weights in steps[0].get("changes", []):
                self._changes.setdefault(at, self._asked_as(weights))
        return False

    def _asked_as(self, weights: dict[str, float]) -> dict[str, float]:
        """A schedule has weights as they were asked for: their parts are rounded once."""
        for asked in self._asked:
            total = sum(asked.values())
            if all(abs(weights[name] - one / total) < 1e-6 for name, one in asked.items()):
                return asked
        sys.exit(f"bench_stream: nothing asked for the weights {weights}")

    def _disturb(self, kind: str) -> None:
        if kind == "services_killed":
            self._service.kill()
        elif kind == "weight_changes":
            weights = {name: float(self._chance.randint(0, 9)) for name in SOURCES}
            weights["web"] += not any(weights.values())
            self._asked.append(weights)
            self._ranks.ask(weights)
            return  # counted where a step has it
        else:
            one = self._chance.randrange(self._size[0]) if kind == "ranks_killed" else None
            self._commit(self._ranks.kill(one))
            before = self._size
            while kind == "resizes" and self._size == before:
                self._size = self._new_size()
            self._begin()
        self.done[kind] += 1

    def run(self, wanted: int) -> Comparison:
        self.job.begin()
        self._begin()
        try:
            self._disturb_until(wanted)
        finally:
            self._ranks.let_go()
        return Comparison.between(self._apart(), self._keys)

    def _disturb_until(self, wanted: int) -> None:
        kinds = [kind for kind in KINDS if self.job.takes_weights or kind != "weight_changes"]
        while sum(self.done.values()) < wanted:
            self._ranks.wait_for(len(self._ranks.steps()[0]) + self._chance.randint(1, 15))
            kind = self._chance.choice(kinds)
            if kind == "weight_changes" and len(self._asked) >= CHANGES_MOST:
                continue
            self._disturb(kind)
            self.done["weight_changes"] = sum(at < len(self._keys) for at in self._changes)
        self.job.end()
        if self.job.takes_weights:
            self._ranks.wait_for(len(self._ranks.steps()[0]) + 10)
        else:
            self._ranks.wait_for(10**9, 120)
        self._commit(self._ranks.kill())
        self.done["weight_changes"] = sum(at < len(self._keys) for at in self._changes)

    def _apart(self) -> list[int]:
        """The undisturbed job is a process of its own: this one forks, and so has no library."""
        read, write = os.pipe()
        process = os.fork()
        if not process:
            status = 1
            try:
                keys = self.job.undisturbed(self._changes, len(self._keys))
                with open(write, "w") as out:
                    json.dump(keys, out)
                status = 0
            except BaseException as problem:
                print(f"undisturbed: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.close(write)
        with open(read) as answer:
            text = answer.read()
        if os.waitpid(process, 0)[1] != 0:
            sys.exit("bench_stream: the undisturbed job failed")
        return [int(key) for key in json.loads(text)]


def rows(folder: Path, wanted: int, seed: int) -> list[dict[str, Any]]:
    """Half of them to a mixture, half to a job of a live source."""
    made = []
    node = folder / "node.yaml"
    node.write_text("{kind: node, memory: 256mib, engine: {block_bytes: 16kib}}\n")
    for kind in (MixtureJob, LiveJob):
        mine = folder / kind.name
        mine.mkdir()
        job = kind(mine / "data")
        with KilledService(mine, "--config", str(node), *job.service_arguments()) as service:
            killer = Killer(job, mine, service, seed)
            compared = killer.run((wanted + 1) // 2)
        made.append({"jobs": kind.name, **killer.done, **compared._asdict()})
    return made
