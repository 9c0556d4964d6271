"""batchflow.DataLoader: PyTorch's DataLoader over a BatchFlow service."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from array import array
from contextlib import contextmanager
from typing import (TYPE_CHECKING, Any, Callable, Generic, Iterator, Mapping, Optional, Sequence,
                    TypeVar)

from . import arguments as args
from . import arrays, embedded
from . import library as c
from . import state as states
from .attributes import FROZEN, Attributes
from .batch import Batch, FieldReader, make_batch, plain_sample, split
from .iteration import Epoch, pin, show_where_it_crashes
from .ranks import job_name
from .session import Scores, Session

if TYPE_CHECKING:
    import typing_extensions
    # The type of batches. Only type checkers know that a type variable can have a default.
    _Given = typing_extensions.TypeVar("_Given", default=Batch)
else:
    _Given = TypeVar("_Given")

_numbers = itertools.count()  # of loaders that are split over ranks; all ranks make them alike


class DataLoader(Attributes, Generic[_Given]):
    """Batches of a dataset that a BatchFlow service prepares, once for all jobs.

    It takes PyTorch's arguments in PyTorch's order, and then its own; docs/python.md describes all.
    `dataset` is a path, or a name at the service. For a path a service is started, if none runs.

    One iteration is one epoch. The job begins with the first batch, or with the first question that
    only the service can answer (len, classes). With several ranks it begins when all have joined.
    """

    __initialized = False

    def __init__(self, dataset: Any = None, batch_size: Optional[int] = 1,
                 shuffle: Optional[bool] = None, sampler: Any = None, batch_sampler: Any = None,
                 num_workers: int = 0, collate_fn: Optional[Callable[[Any], _Given]] = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Any = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: Optional[int] = None,
                 persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True, pipeline: Any = None, epochs: Optional[int] = None,
                 service: Optional[str] = None, job_name: Optional[str] = None,
                 rank: Optional[int] = None, world_size: Optional[int] = None,
                 ranks: Optional[str] = None, corrupt_ratio_max: Optional[float] = None,
                 order: Optional[str] = None, shuffle_seed: Optional[int] = None,
                 snapshot_every_n_steps: Optional[int] = None, cache_limit: Any = None,
                 target_workers: Any = "auto", copy: bool = False, output: str = "auto",
                 device: Any = None, split: Optional[Mapping[str, Any]] = None,
                 tokens: Optional[int] = None, **aliases: Any):
        given = {name: value for name, value in locals().items()
                 if name not in ("self", "aliases", "__class__")}
        self._arguments = args.read(given, aliases)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._given_sampler = sampler
        self.num_workers, self.worker_init_fn = num_workers, worker_init_fn
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self.pin_memory_device, self.generator = pin_memory_device, generator
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self.epochs_hint = epochs
        self._set_up()
        self._restart({})
        self.__initialized = True

    def _set_up(self) -> None:
        self._number = next(_numbers) if self._arguments.is_split_over_ranks else 0
        self._scores: Scores = ((), ())
        self._apart: weakref.WeakSet[DataLoader[_Given]] = weakref.WeakSet()
        self._is_apart = False  # it was parted from another loader, for one iteration
        self._follows_sampler = False

    def _restart(self, state: states.State) -> None:
        self._session: Optional[Session] = None
        self._output, self._make = "", arrays.plain_arrays()
        self._make_numbers = self._make
        self._readers: list[FieldReader] = []
        self._names: tuple[str, ...] = ()
        self._incarnation = 0
        self._opened_for = 0  # epochs; 0: without a bound
        self._state = state  # at which the job begins
        self._left_early = False  # some batches of the epoch were given, not all
        self._over = False  # all epochs that the job was opened for are over
        self._wanted_epoch: Optional[int] = None
        self._running: Callable[[], Optional[Epoch[_Given]]] = lambda: None  # the last iteration
        self._closed = False
        self._next_lock = threading.RLock()  # a Ctrl-C may come while it is being taken

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in FROZEN:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is "
                             "initialized")
        super().__setattr__(name, value)

    # -------------------------------------------------------------------------------- iteration --

    def __iter__(self) -> "Epoch[_Given]":
        running = self._running()
        if running is not None and running.goes_on():
            self._part_with(running)
        self._follow_sampler()
        self._begin_epoch()
        epoch = Epoch(self)
        self._running = weakref.ref(epoch)
        return epoch

    def _part_with(self, running: "Epoch[_Given]") -> None:
        """PyTorch allows two iterations at a time. The earlier one keeps the job; this loader makes
        another job, which begins with the next epoch."""
        session = self._opened()
        apart: DataLoader[_Given] = object.__new__(type(self))
        apart.__dict__.update(self.__dict__)
        apart._is_apart, apart._apart = True, weakref.WeakSet()
        running.loader = apart
        self._apart.add(apart)
        if self._arguments.order == "weighted":
            self._scores = session.scores()
        state, wanted = session.state(), self._wanted_epoch
        incarnation = self._incarnation + 1
        self._restart(states.at_epoch(state, int(session.refresh().epoch) + 1))
        self._incarnation, self._wanted_epoch = incarnation, wanted

    def _follow_sampler(self) -> None:
        """A script that calls DistributedSampler.set_epoch says the epoch of each iteration. In a
        script that never does, each iteration is the next epoch."""
        if not args.is_distributed(self._given_sampler):
            return
        self._follows_sampler = self._follows_sampler or self._given_sampler.epoch != 0
        if self._follows_sampler:
            self.set_epoch(self._given_sampler.epoch)

    def __len__(self) -> int:
        return int(self._opened().info.steps_per_epoch)

    def epochs(self) -> Iterator[_Given]:
        """The batches of all epochs (`epochs=`; without it, for ever), without a gap between
        epochs."""
        iteration = iter(self)
        while True:
            yield from iteration
            if self._over or 0 < self._arguments.epochs <= self._opened().refresh().epoch:
                return
            iteration = iter(self)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, as DistributedSampler.set_epoch does. Without it,
        each iteration is the next epoch."""
        self._wanted_epoch = args._whole("epoch", epoch, 0)

    def _begin_epoch(self) -> None:
        session = self._opened()
        self._check_expected(session)
        here = int(session.refresh().epoch)
        wanted, self._wanted_epoch = self._wanted_epoch, None
        if wanted is None:
            wanted = here + 1 if self._left_early else here
        used_up = 0 < self._opened_for <= wanted
        if wanted != here or self._left_early or used_up or self._over:
            epochs = self._arguments.epochs  # a hint for look-ahead
            self._reopen(states.at_epoch(session.state(), wanted), epochs if epochs > wanted else 0)

    def _next(self) -> Optional[_Given]:
        """The next batch of the epoch; None at its end."""
        if not self._next_lock.acquire(blocking=False):
            raise RuntimeError("another thread is asking this DataLoader for a batch")
        try:
            raw = self._opened().next(self._arguments.timeout_s)
            if raw is None:
                self._over = True
                return None
            self._left_early = not raw.last_of_epoch
            batch = make_batch(raw, self._readers, self._make_numbers, self._arguments.copy,
                               self._names)
            if self._labels is not None:
                batch = self._relabelled(batch)
        finally:
            self._next_lock.release()
        given: _Given = self._finish(batch)
        return given

    @property
    def _labels(self) -> Optional["array[int]"]:
        folder = self._arguments.folder
        return None if folder is None else folder.labels

    def _relabelled(self, batch: Batch) -> Batch:
        """The batch with the labels of an ImageFolder, where they differ from the service's."""
        assert self._labels is not None
        labels = array("q", [self._labels[key] for key in batch.sample_keys.tolist()])
        made = self._make(labels.buffer_info()[0], arrays.I64, (len(labels),), labels, True)
        return batch.map(lambda field: made if field is batch["label"] else field)

    def _finish(self, batch: Batch) -> Any:
        if self._arguments.collate_fn is not None:
            samples: Any = split(batch, batch.samples)
            result = self._arguments.collate_fn(samples if self._arguments.batch_size else
                                                samples[0])
        elif self._arguments.batch_size is None:
            result = plain_sample(batch, 0)
        else:
            result = batch
        if self._output == "torch":
            if self._arguments.pin_memory:
                result = pin(result)
            if self._arguments.device is not None:
                result = result.to(self._arguments.device, non_blocking=True)
        return result

    # ------------------------------------------------------------------------------ the session --

    def _opened(self) -> Session:
        if self._closed:
            raise RuntimeError("this DataLoader is closed; make another one")
        if self._session is None:
            self._session = self._open(self._state, self._arguments.epochs)
            self._check_expected(self._session)
        elif self._session.process != os.getpid():
            raise RuntimeError(
                f"this DataLoader was opened by process {self._session.process} and is used in "
                f"process {os.getpid()}, which fork() made of it; make a DataLoader in each "
                "process, or start processes with multiprocessing's 'spawn'")
        return self._session

    def _check_expected(self, session: Session) -> None:
        """Checks that the script's dataset and sampler have the samples that the service has."""
        folder, expected = self._arguments.folder, self._arguments.expected
        samples = int(session.info.dataset_samples)
        try:
            if expected is not None:
                expected.check(samples)
            if folder is not None:
                folder.settle(session, samples, self._arguments.order == "sequential")
        except BaseException:
            self._session = None
            session.close()
            raise

    def _options(self, state: states.State, epochs: int) -> Any:
        given = self._arguments
        ranks = given.ranks()
        name = job_name(given.job_name, ranks, self._number, given.dataset)
        # The job before may still be ending, so the name differs. All ranks count alike.
        if name is not None and self._incarnation > 0:
            name = f"{name}.{self._incarnation}"
        options = c.sized(c.Options)
        options.service = _bytes(given.service)
        options.dataset, options.pipeline = _bytes(given.dataset), _bytes(given.pipeline)
        options.reading = _bytes(given.reading)
        options.job = _bytes(name)
        options.batch_samples = given.batch_size or 1
        options.rank, options.world_size = ranks
        options.order = c.ORDERS[given.order]
        if given.shuffle_seed is not None:
            options.has_shuffle_seed, options.shuffle_seed = 1, given.shuffle_seed
        options.drop_last = given.drop_last
        options.epochs, options.credits = epochs, given.credits
        if given.corrupt_ratio_max is not None:
            options.has_corrupt_ratio_max = 1
            options.corrupt_ratio_max = given.corrupt_ratio_max
        # PyTorch's timeout is for batches. To join may take as long as to index a dataset.
        options.timeout_s = max(given.timeout_s, args.DEFAULT_TIMEOUT_S)
        options.copy = given.copy
        if state:
            options.state = states.text(state).encode()
        return options

    def _open(self, state: states.State, epochs: int) -> Session:
        if "imported" in state:
            session = self._open({}, epochs)
            self._adopt(session)
            self._reopen(states.settle(state, session.state()), epochs)
            assert self._session is not None
            return self._session
        self._output, self._make = arrays.choose(self._arguments.output)
        self._make_numbers = arrays.numbers_beside(self._output, self._make)
        if self._arguments.device is not None and self._output != "torch":
            raise ValueError(f"device={self._arguments.device!r} is for PyTorch's tensors, and these "
                             f"batches are {self._output}; import torch, or write output='torch'")
        if self._output in ("torch", "dlpack") and not self._arguments.copy:
            show_where_it_crashes()
        session = embedded.open_session(self._arguments, self._options(state, epochs))
        self._opened_for = epochs
        self._adopt(session)
        if self._scores[0]:
            session.report_scores(*self._scores)
        return session

    def _adopt(self, session: Session) -> None:
        self._session = session
        info = session.info
        self._readers = [FieldReader(info.field[i], self._make, self._make_numbers,
                                     self._arguments.copy) for i in range(info.fields)]
        self._names = tuple(reader.name for reader in self._readers)
        self._left_early = self._over = False

    def _reopen(self, state: states.State, epochs: int) -> None:
        self._state = state  # a Ctrl-C may come before it is open
        self._end_job()
        self._open(state, epochs)

    def _end_job(self) -> None:
        """Ends the job. Its scores are kept for the next job."""
        assert self._session is not None
        if self._arguments.order == "weighted":
            self._scores = self._session.scores()
        self._session.close()
        self._session = None
        self._incarnation += 1

    def close(self) -> None:
        """Ends the job. Batches stay readable for as long as the script keeps them."""
        self._closed = True
        for apart in list(self._apart):
            apart.close()
        if self._session is not None:
            self._session.close()

    def __enter__(self) -> "DataLoader[_Given]":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    # ------------------------------------------------------------------------------ checkpoints --

    def state_dict(self) -> states.State:
        """The state of the job after the batches it has given: small, and plain JSON."""
        state = dict(self._state) if self._session is None else self._opened().state()
        if self._wanted_epoch is not None and not self._left_early:
            state = states.at_epoch(state or states.imported("BatchFlow", 0), self._wanted_epoch)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on from `state`, with any batch size and world size. {}: from the
        start."""
        state = states.check(state)
        if state.get("order", self._arguments.order) != self._arguments.order:
            at_end = state["consumed"] == 0
            if not at_end:
                raise ValueError(
                    f"the state is in the middle of an epoch in the order {state['order']}, and "
                    f"this DataLoader's is {self._arguments.order}; orders change between epochs")
            # Of another order's state only the number of the epoch can be used.
            state = states.imported("BatchFlow", state["epoch"], 0, state.get("samples"))
        if self._session is not None:
            self._opened()
            self._end_job()
        incarnation = self._incarnation
        self._restart(state)
        self._incarnation = incarnation

    def __getstate__(self) -> dict[str, Any]:
        # For a spawned process: the arguments. The job itself stays in this process.
        kept = {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        kept.update(generator=None, worker_init_fn=None)  # the arguments have their effect
        return {"kept": kept, "arguments": self._arguments, "state": self.state_dict()
                if self._session is None else {}}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        self.__dict__.update(pickled["kept"])
        self._arguments = pickled["arguments"]
        self._given_sampler = None
        self._set_up()
        self._restart(pickled["state"])
        self.__initialized = True

    # ------------------------------------------------------------------------------ information --

    @property
    def dataset_samples(self) -> int:
        return int(self._opened().info.dataset_samples)

    @property
    def fields(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The type and shape of a sample's fields, by name."""
        self._opened()
        return {reader.name: (reader.type, reader.shape) for reader in self._readers}

    def sample_name(self, key: int) -> str:
        return self._opened().sample_name(int(key))

    def times(self) -> dict[str, float]:
        """wait_s (waiting for batches), between_s (the loop's own time), batches, samples, copied,
        reconnects."""
        return self._opened().times()

    # -------------------------------------------------------------------------------- importance --

    def report_scores(self, keys: Sequence[int], scores: Sequence[float]) -> None:
        """Reports losses or gradients by sample key. The next epoch is drawn by them, or the first
        epoch if no batch was given yet."""
        if self._arguments.order != "weighted":
            raise RuntimeError("report_scores: scores are what order='weighted' draws by, and this "
                               f"DataLoader's order is {self._arguments.order}")
        self._opened().report_scores(_list(keys), _list(scores))

    def scores(self) -> Scores:
        """Keys, and the last score that this process reported for each. They are not part of the
        state."""
        if self._session is not None and self._arguments.order == "weighted":
            self._scores = self._opened().scores()
        keys, scores = self._scores
        return list(keys), list(scores)

    @contextmanager
    def record_importance(self, keys: Sequence[int]) -> Iterator[Callable[[Sequence[float]], None]]:
        """`with loader.record_importance(batch.sample_keys) as record: ...; record(losses)`."""
        given: list[Any] = []
        yield given.append
        if not given:
            raise ValueError("record_importance: no scores were recorded; call what `as` gives")
        for scores in given:
            self.report_scores(keys, scores)


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _list(values: Any) -> Any:
    """A list of the values of a tensor on any device, an array or a list."""
    values = values.detach() if hasattr(values, "detach") else values
    return values.tolist() if hasattr(values, "tolist") else list(values)
