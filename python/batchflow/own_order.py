"""A DataLoader for which the script gives the order, and the service makes the samples.

A sampler or batch_sampler of any class is asked for its order as PyTorch would ask it: PyTorch's own
DataLoader goes over the indices, so that the same ones are drawn from the same generators. What was
drawn is a listed order (docs/order.md): a dataset of its own at the service, which a job has in
sequence. All else, such as positions and the numbers of epochs, is as in LocalDataLoader.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from functools import partial
from typing import Any, Callable, Iterator, Optional

from . import arguments as args
from .batch import Batch
from .collate_ahead import Collating
from .job import Job
from .library import ServiceError
from .local import LocalDataLoader, LocalIteration, LocalLoadingWarning, Position, set_to
from .ranks import job_name
from .recut import Recut
from .served_dataset import ServedDataset
from .stalls import helps_service
from .state import State
from .steps import NotTakable

# So many indices are drawn before the first of them is given: as a rule those of an epoch. A
# sampler without a length may go on for ever, so fewer of its indices are drawn.
_PART = 1 << 20
_PART_OF_ENDLESS = 1 << 14
_OF_ORDER = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator", "seed")
_SHOWN = ("dataset", "collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn",
          "multiprocessing_context", "prefetch_factor", "persistent_workers", "pin_memory_device",
          "in_order")


class _Indices:
    """The Dataset over which the order is drawn: each sample is its index."""

    def __init__(self, samples: int):
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: Any) -> Any:
        return index

    def __getitems__(self, indices: Any) -> Any:
        return list(indices)


def _alone(index: Any) -> Any:
    return [index]


class OwnOrderDataLoader(LocalDataLoader):
    """What DataLoader.__init__ makes of itself where a sampler of the script decides the order."""

    def begin_served(self, given: dict[str, Any], served: ServedDataset) -> None:
        self._given, self._why = given, "its sampler decides the order"
        self._served = served
        self._arguments = args.read({**given, **served.meant}, served)
        self._set_up_local()
        args.say_what_has_no_meaning(given)
        served.say_that_python_reads()

    def _set_up_local(self) -> None:
        self._jobs: list[weakref.ref[Job]] = []
        self._count_of_jobs = 0
        self._has_said_why = False
        self._collating = Collating()
        super()._set_up_local()

    def _made_loader(self) -> Any:
        """It gives a list of indices at a time; where samples come one by one, a list of one."""
        passed = {name: value for name, value in self._passed.items() if name in _OF_ORDER}
        return self._make(_Indices(len(self._given["dataset"])), collate_fn=(
            _alone if self._arguments.batch_size is None else list), **passed)

    # -------------------------------------------------------------------------------- iteration --

    def _begin_iteration(self, position: Position, begin: Optional[State]) -> LocalIteration:
        self._served.check_unchanged()
        if begin is None:
            position.sampler_states = self._sampler_states()
            drawn = iter(self._loader)
        else:
            position.sampler_states = begin.get("samplers", self._sampler_states())
            position.sum_given = begin.get("sum_given", 0)
            drawn = self._replayed(begin)
        return OwnOrderIteration(self, self._batches(drawn, position, position.given), position)

    def _batches(self, drawn: Iterator[Any], position: Position, had: int) -> Iterator[Any]:
        """Functions that give batches: what collate_fn raises must not end this generator. `had`: so many batches of the epoch were given before."""
        for number in itertools.count():
            part = list(_part(drawn, self._part_most()))
            if not part:
                return
            if had < len(part):
                yield from self._of_part(part, had, position, number)
            had = max(0, had - len(part))

    def _part_most(self) -> int:
        by_batches = self._given["batch_sampler"]
        order = self._given["sampler"] if by_batches is None else by_batches
        try:
            len(order)
        except (TypeError, NotImplementedError):
            return _PART_OF_ENDLESS
        return _PART

    def _of_part(self, part: list[Any], had: int, position: Position, number: int) -> Iterator[Any]:
        try:
            batches = [[operator.index(one) for one in batch] for batch in part]
            if not all(batches):
                raise NotTakable("a batch of it is empty")
            served = self._served.in_order([one for batch in batches for one in batch],
                                           f"{position.number}.{number}")
        except (NotTakable, TypeError) as problem:
            yield from self._loaded_here(part[had:], position, str(problem))
            return
        sizes = [len(batch) for batch in batches]
        try:
            job = self._joined(served, sizes, sum(sizes[:had]))
        except ServiceError as problem:
            served.release()
            yield from self._loaded_here(part[had:], position, str(problem))
            return
        try:
            source = _Source(self, job, batches[had:], position.number)
            ahead = self._collating.ahead(self, lambda: job.collate(self._arguments),
                                          position.number, source.is_there, source.take_ahead,
                                          number)
            if ahead is not None:
                while (found := ahead.next(self._arguments.timeout)) is not None:
                    (batch, given), result = found
                    position.add(batch)
                    yield partial(_finish_result, job, result, given, self._arguments)
                return
            while (taken := source.take()) is not None:
                position.add(taken[1])
                yield partial(job.finish, taken[0], self._arguments)
        finally:
            job.session.close()
            served.release()

    def _joined(self, served: ServedDataset, sizes: list[int], consumed: int) -> Job:
        """A job of this part of the order, which goes on behind `consumed` of its samples."""
        one_by_one = self._arguments.batch_size is None
        arguments = args.changed(
            self._arguments, brought=served, dataset=served.path,
            batch_size=None if one_by_one else max(sizes), expected=None)
        job = self._join(arguments, {})
        if consumed > 0:
            state = {**job.session.state(), "consumed": consumed}
            job.session.close()
            job = self._join(arguments, state)
        return job

    def _join(self, arguments: args.Arguments, state: State) -> Job:
        self._count_of_jobs += 1
        name = job_name(arguments.job_name, arguments.ranks(), 0, arguments.dataset)
        if name is not None:  # the job before may still be ending
            name = f"{name}.{self._count_of_jobs}"
        job = Job(arguments, name, state, 1, ((), ()))
        self._jobs = [*(one for one in self._jobs if one() is not None), weakref.ref(job)]
        return job

    def _loaded_here(self, part: list[Any], position: Position, why: str) -> Iterator[Any]:
        """Loads the samples as LocalDataLoader does, in the order that was drawn."""
        if not self._has_said_why:
            self._has_said_why = True
            args.say(f"{self._served.kind} is loaded by this script's own workers, as PyTorch would: "
                     f"{why}", LocalLoadingWarning)
        passed = {name: value for name, value in self._passed.items() if name not in _OF_ORDER}
        if not passed.get("num_workers"):
            passed.pop("timeout", None)  # which PyTorch has for workers alone
        if self._arguments.batch_size is None:
            passed.update(batch_size=None, sampler=[index for index, in part])
        else:
            passed.update(batch_sampler=part)
        for drawn, batch in zip(part, self._make(self._given["dataset"], **passed)):
            position.add(drawn)
            yield partial(LocalDataLoader.finish, self, batch)

    def finish(self, batch: Any) -> Any:
        return batch()

    def close(self) -> None:
        super().close()
        self._collating.close()
        for reference in self._jobs:
            job = reference()
            if job is not None:
                job.session.close()

    # ------------------------------------------------------------------------------ checkpoints --

    def state_dict(self) -> State:
        """As LocalDataLoader's, with a checksum of the order so far, and what the samplers themselves
        say of their state, as it was when the epoch began."""
        made, running = super().state_dict(), self._position_of_last
        if self._begin is None and made["consumed"] > 0 and running is not None:
            made["sum_given"] = running.sum_given
            if running.sampler_states:
                made["samplers"] = running.sampler_states
        return made

    def _stateful_samplers(self) -> list[Any]:
        return [one for one in self._samplers()
                if hasattr(one, "state_dict") and hasattr(one, "load_state_dict")]

    def _sampler_states(self) -> list[Any]:
        return [one.state_dict() for one in self._stateful_samplers()]

    def _replayed(self, begin: State) -> Iterator[Any]:
        """The order of an epoch that was begun before: drawn anew from the same generators, and,
        where that makes another order, from the states of samplers that have some."""
        drawn, is_same = self._drawn_as(begin)
        if is_same:
            return drawn
        states, samplers = begin.get("samplers", []), self._stateful_samplers()
        if states and len(states) == len(samplers):
            for sampler, state in zip(samplers, states):
                sampler.load_state_dict(state)
            drawn, is_same = self._drawn_as(begin)
            if is_same:
                return drawn
        raise ValueError(
            f"the sampler gives another order than before the state was made: its first "
            f"{begin['consumed']} batches differ. Give it the seed and the epoch that it had; where it "
            "has more state than that, give it state_dict() and load_state_dict()")

    def _drawn_as(self, begin: State) -> tuple[Iterator[Any], bool]:
        had: list[Any] = []
        with set_to(self._generators_as(begin), begin["generators"], self._torch):
            drawn = iter(self._loader)
            # All that was drawn when the state was made, since it was drawn in parts.
            while len(had) <= begin["consumed"] and (part := list(_part(drawn, self._part_most()))):
                had += part
        made = Position(0, 0, [])
        for batch in had[:begin["consumed"]]:
            made.add(batch)
        is_same = begin.get("sum_given", made.sum_given) == made.sum_given
        return itertools.chain(had, drawn), is_same

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        given = pickled["given"]
        self.begin_served(given, ServedDataset(given["dataset"], given))

    # ------------------------------------------------------------------------------ information --

    @property
    def classes(self) -> Any:
        return self._given["dataset"].classes

    def _of_other_orders(self, *unused: Any, **named: Any) -> Any:
        raise RuntimeError("this is of orders that the service makes, and this one is made by a "
                           f"{self._served.sampler_kind}")

    report_scores = record_scores = report_exemplars = scores = _of_other_orders
    record_importance = sample_name = _of_other_orders
    fields = receipt = property(_of_other_orders)


def _shown(name: str) -> property:
    def change(self: OwnOrderDataLoader, value: Any) -> None:
        if name not in ("collate_fn", "pin_memory", "timeout"):
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized")
        self._given[name] = value
        self._arguments = args.changed(self._arguments, **{name: value})
    return property(lambda self: self._given[name], change)


for _name in _SHOWN:
    setattr(OwnOrderDataLoader, _name, _shown(_name))


class OwnOrderIteration(LocalIteration):
    """One epoch."""

    def _what_helps(self) -> str:
        return helps_service(self._loader._arguments.service)


class _Source:
    """Batches of a part of an order, each with its indices. The job's batches have one size."""

    def __init__(self, loader: OwnOrderDataLoader, job: Job, batches: list[list[int]], epoch: int):
        self._job, self._left, self._epoch = job, iter(batches), epoch
        self._cut = Recut(lambda: job.next(loader._arguments.timeout_s))

    def take(self) -> Optional[tuple[Batch, list[int]]]:
        batch = next(self._left, None)
        if batch is None:
            return None
        given = self._cut.take(len(batch))
        given.__dict__["epoch"] = self._epoch
        return given, batch

    def take_ahead(self) -> Optional[tuple[Batch, tuple[list[int], Batch]]]:
        taken = self.take()
        return None if taken is None else (taken[0], (taken[1], self._job.without_fields(taken[0])))

    def is_there(self) -> bool:
        return self._cut.has_some or self._job.session.is_there()


def _finish_result(job: Job, result: Callable[[], Any], batch: Batch, arguments: args.Arguments) -> Any:
    return job.finish_result(result(), batch, arguments)


def _part(drawn: Iterator[Any], most: int) -> Iterator[Any]:
    """Batches of so many indices in all, at least one batch."""
    while most > 0:
        batch = next(drawn, None)
        if batch is None:
            return
        most -= max(1, len(batch))
        yield batch

