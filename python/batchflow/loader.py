"""batchflow.DataLoader: PyTorch's DataLoader over a BatchFlow service."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from contextlib import contextmanager
from typing import (TYPE_CHECKING, Any, Callable, Generic, Iterator, Mapping, Optional, Sequence,
                    TypeVar, Union)

from . import arguments as args
from . import live
from . import mixture as mixtures
from . import rehearsal as rehearsals
from . import state as states
from .alone import alone
from .attributes import FROZEN, Attributes
from .batch import Batch
from .checks import whole
from .collate_ahead import Collating
from .iteration import Iteration
from .job import Job
from .library import ServiceError
from .orders import Scores
from .own_dataset import served
from .ranks import job_name
from .receipts import Receipts
from .score_recording import ScoreRecording
from .served_dataset import ServedDataset
from .session import CLOSED

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

    One iteration is one epoch. The job begins with `iter(loader)`, or with the first question that
    only the service can answer (len, classes). With several ranks it begins when all have joined.
    """

    __initialized = False

    def __init__(self, dataset: Any = None, batch_size: Optional[int] = 1,
                 shuffle: Union[bool, str, None] = None, sampler: Any = None,
                 batch_sampler: Any = None, num_workers: int = 0,
                 collate_fn: Optional[Callable[[Any], _Given]] = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Any = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: Optional[int] = None,
                 persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True, pipeline: Any = None, epochs: Optional[int] = None,
                 service: Optional[str] = None, job_name: Optional[str] = None,
                 rank: Optional[int] = None, world_size: Optional[int] = None,
                 ranks: Optional[str] = None, corrupt_ratio_max: Optional[float] = None,
                 order: Optional[str] = None, shuffle_seed: Optional[int] = None,
                 draws: Optional[int] = None, drawing: Optional[str] = None,
                 node_local: bool = False, rehearsed: Optional[int] = None, exemplars: Any = None,
                 latency_target: float = 0,
                 snapshot_every_n_steps: Optional[int] = None, cache_limit: Any = None,
                 target_workers: Any = "auto", copy: bool = False, output: str = "auto",
                 device: Any = None, split: Optional[Mapping[str, Any]] = None,
                 tokens: Optional[int] = None, packing: Optional[str] = None,
                 packing_seed: Optional[int] = None, end_token: Optional[int] = None,
                 column: Optional[str] = None, label: Optional[str] = None,
                 receipts: Any = None, local: bool = False, say_stalls: bool = True,
                 mixing: Any = None, mixture: Optional[Mapping[str, float]] = None,
                 weights_change: bool = False, ideal: Optional[bool] = None,
                 rehearsal: Optional[Mapping[str, Any]] = None, weights_at: Any = None,
                 weights_policy: Optional[str] = None, rows: Optional[int] = None, **aliases: Any):
        given = {name: value for name, value in locals().items()
                 if name not in ("self", "aliases", "__class__")}
        args.take_aliases(given, aliases)
        live.take_apart(given)
        mixtures.take_apart(given)
        how = served(given)
        if isinstance(how, str):
            self._load_here(given, how)
            return
        if isinstance(how, ServedDataset):
            try:
                if how.sampler_kind:
                    self._take_own_order(given, how)
                    return
                self._arguments = args.read({**given, **how.meant}, how)
            except ValueError as problem:  # of the order, mostly: PyTorch can do more, or says it too
                self._load_here(given, str(problem))
                return
        else:
            self._arguments = args.read(given)
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self._given_sampler, self._given_batch_sampler = sampler, batch_sampler
        self.num_workers, self.worker_init_fn = num_workers, worker_init_fn
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self.pin_memory_device, self.generator = pin_memory_device, generator
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self.epochs_hint = epochs
        self._set_up({})
        self.__initialized = True
        if isinstance(how, ServedDataset):
            try:
                self._ask_service()
            except ServiceError as problem:
                self._load_here(given, str(problem))
                return
            args.say_what_has_no_meaning(given)
            how.say_that_python_reads()

    def _ask_service(self) -> None:
        """Opens the job, to see whether the service takes the script's Dataset. Ranks have to agree,
        so they do not ask."""
        if not self._arguments.is_split_over_ranks:
            self._opened()
            self._only_asked = True

    def _load_here(self, given: dict[str, Any], why: str) -> None:
        from .local import LocalDataLoader  # which derives from this class
        self._become(LocalDataLoader)
        begin: Any = LocalDataLoader.begin
        begin(self, given, why)

    def _take_own_order(self, given: dict[str, Any], how: ServedDataset) -> None:
        from .own_order import OwnOrderDataLoader  # which derives from this class
        self._become(OwnOrderDataLoader)
        begin: Any = OwnOrderDataLoader.begin_served
        begin(self, given, how)

    def _become(self, kind: "type[DataLoader[Any]]") -> None:
        own = self.__dict__.get("_own_class", type(self))  # as the script has it
        self.__dict__.clear()
        self.__dict__["_own_class"] = own
        self.__class__ = kind if own is DataLoader else type(own.__name__, (own, kind), {})

    def _set_up(self, state: states.State) -> None:
        self._number = next(_numbers) if self._arguments.is_split_over_ranks else 0
        self._lock = threading.RLock()  # of all below; a signal handler may come in, too
        self._follows_sampler = False
        self._closed = False
        self._only_asked = False  # its job was opened only to see whether the service takes it
        self._asked_job: Optional[Job] = None  # of the process that made this loader
        self._jobs: list[weakref.ref[Job]] = []
        self._incarnation = 0  # counts the jobs
        self._scores: Scores = self._arguments.weights or ((), ())
        self._recording: Optional[ScoreRecording] = None
        self._receipts: Optional[Receipts] = None
        self._collating = Collating()
        self._restart(state)

    def _restart(self, state: states.State) -> None:
        self._job: Optional[Job] = None  # of the iteration that began last
        self._state = state  # at which the next job begins
        self._wanted_epoch: Optional[int] = None
        self._epoch: Optional[int] = None  # of the iteration that began last
        self._running: Callable[[], Optional[Iteration[_Given]]] = lambda: None  # the last iteration

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in FROZEN:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is "
                             "initialized")
        super().__setattr__(name, value)

    # -------------------------------------------------------------------------------- iteration --

    @alone
    def __iter__(self) -> "Iteration[_Given]":
        self._only_asked = False
        self._part_with(self._running())
        self._follow_sampler()
        self._follow_generator()
        number = self._begin_epoch()
        self._epoch = number
        epoch = Iteration(self, self._opened(), number)
        self._running = weakref.ref(epoch)
        return epoch

    def _part_with(self, running: "Optional[Iteration[_Given]]") -> None:
        """PyTorch allows several iterations at a time. The earlier one keeps the job; the next one
        gets another job, which begins with the next epoch."""
        if running is None or running.job is not self._opened():
            return
        if self._receipts is not None and not running.ended:
            raise RuntimeError("receipts are of one iteration at a time, and one is under way; finish "
                               "it or drop it, or make another DataLoader, with another folder")
        parted = running.job.part(running)
        if parted is not None:
            state, self._scores = parted
            wanted = self._wanted_epoch
            self._restart(states.at_epoch(state, running.number + 1))
            self._incarnation, self._wanted_epoch = self._incarnation + 1, wanted

    def _follow_sampler(self) -> None:
        """A script that calls DistributedSampler.set_epoch says the epoch of each iteration. In a
        script that never does, each iteration is the next epoch."""
        if not args.is_distributed(self._given_sampler):
            return
        self._follows_sampler = self._follows_sampler or self._given_sampler.epoch != 0
        if self._follows_sampler:
            self.set_epoch(self._given_sampler.epoch)

    def _follow_generator(self) -> None:
        """A generator that was seeded or used since the last epoch began makes another order."""
        generator = self._arguments.generator
        seed = None if generator is None else generator.begin_epoch()
        if seed is None:
            return
        if seed == self._arguments.shuffle_seed:
            self._wanted_epoch = self._wanted_epoch or 0
            return
        self._arguments = args.changed(self._arguments, shuffle_seed=seed)
        if self._job is not None:
            self._end_job()
        self._state = {}

    @alone
    def __len__(self) -> int:
        if self._arguments.order == "live":
            raise TypeError("a live DataLoader has no length: nothing says when its feed ends")
        return self._opened().session.steps_per_epoch()

    def epochs(self) -> Iterator[_Given]:
        """The batches of all epochs (`epochs=`; without it, for ever), without a gap between
        epochs."""
        for given in itertools.count(1):
            iteration = iter(self)
            yield from iteration
            # A generator that is seeded anew begins with epoch 0 again.
            done = max(given, iteration.number + 1)
            if iteration.job.over or 0 < self._arguments.epochs <= done:
                return

    @alone
    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, as DistributedSampler.set_epoch does. Without it,
        each iteration is the next epoch."""
        self._wanted_epoch = whole("epoch", epoch, 0)

    def _begin_epoch(self) -> int:
        job = self._opened()
        job.check_dataset()
        here = job.epoch()
        wanted, self._wanted_epoch = self._wanted_epoch, None
        if wanted is None:
            wanted = here + 1 if job.left_early else here
        used_up = 0 < job.opened_for <= wanted
        if wanted != here or job.left_early or job.is_ahead or used_up or job.over:
            epochs = self._arguments.epochs  # a hint for look-ahead
            self._reopen(states.at_epoch(job.state(), wanted),
                         epochs if epochs > wanted else 0)
        return wanted

    # ---------------------------------------------------------------------------------- the job --

    def check_process(self) -> None:
        job = self._job
        if job is not None and self._only_asked and job.session.process != os.getpid():
            self._asked_job, self._job = job, None  # a child of fork() has a job of its own
        elif job is not None:
            job.session.check_process()

    @alone
    def _opened(self) -> Job:
        if self._closed:
            raise RuntimeError(CLOSED)
        if self._job is None:
            self._check(self._open(self._state, self._arguments.epochs))
        assert self._job is not None
        return self._job

    def _check(self, job: Job) -> None:
        try:
            job.check_dataset()
        except BaseException:
            self._job = None
            job.session.close()
            raise

    def _open(self, state: states.State, epochs: int) -> Job:
        if "imported" in state:
            beginning = self._open({}, epochs).session.state()
            return self._reopen(states.settle(state, beginning), epochs)
        given = self._arguments
        name = job_name(given.job_name, given.ranks(), self._number, given.dataset)
        # The job before may still be ending, so the name differs. All ranks count alike.
        if name is not None and self._incarnation > 0:
            name = f"{name}.{self._incarnation}"
        if given.receipts is not None and self._receipts is None:
            self._receipts = Receipts(given.receipts, given.ranks().rank)
        job = Job(given, name, state, epochs, self._scores, self._receipts)
        self._jobs = [*(one for one in self._jobs if one() is not None), weakref.ref(job)]
        if self._closed:  # by another thread, meanwhile
            job.session.close()
        self._job = job
        return job

    def _reopen(self, state: states.State, epochs: int) -> Job:
        self._state = state  # a Ctrl-C may come before it is open
        self._end_job()
        return self._open(state, epochs)

    def _end_job(self, why: str = CLOSED) -> None:
        """Ends the job. Its scores are kept for the next job."""
        assert self._job is not None
        self._scores = self._job.scores()
        self._job.session.close(why)
        self._job = None
        self._incarnation += 1

    def close(self) -> None:
        """Ends the job. Batches stay readable for as long as the script keeps them."""
        self._closed = True
        self._collating.close()
        for reference in self._jobs:
            job = reference()
            if job is not None:
                job.session.close()
        if self._recording is not None:
            self._recording.close()
        if self._receipts is not None:
            self._receipts.close()

    def __enter__(self) -> "DataLoader[_Given]":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    # ------------------------------------------------------------------------------ checkpoints --

    @alone
    def state_dict(self) -> states.State:
        """The state of the job after the batches it has given: small, and plain JSON."""
        job = None if self._job is None else self._opened()
        state = dict(self._state) if job is None else job.state()
        if self._wanted_epoch is not None and not (job is not None and job.left_early):
            state = states.at_epoch(state or states.imported("BatchFlow", 0), self._wanted_epoch)
        if self._receipts is not None:
            self._receipts.sync()
        return state

    @alone
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
        if self._job is not None:
            self._opened()
            self._end_job("this DataLoader was set to another state since this iteration began, "
                          "which ended it; iterate over it again")
        if self._arguments.generator is not None:
            self._arguments.generator.leave_order()
        if self._receipts is not None:
            self._receipts.goes_on = False
        self._restart(state)

    def __getstate__(self) -> dict[str, Any]:
        # For a spawned process: the arguments. The job itself stays in this process.
        kept = {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        kept.update(generator=None, worker_init_fn=None)  # the arguments have their effect
        return {"kept": kept, "arguments": self._arguments, "state": self.state_dict()
                if self._job is None else {}}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        self.__dict__.update(pickled["kept"])
        self._arguments = pickled["arguments"]
        self._given_sampler = self._given_batch_sampler = None
        self._set_up(pickled["state"])
        self.__initialized = True

    # ------------------------------------------------------------------------------ information --

    @property
    def dataset_samples(self) -> int:
        return int(self._opened().session.info.dataset_samples)

    @property
    def fields(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The type and shape of a sample's fields, by name."""
        return {reader.name: (reader.type, reader.shape) for reader in self._opened().readers}

    @alone
    def sample_name(self, key: int) -> str:
        return self._opened().session.sample_name(int(key))

    @alone
    def times(self) -> dict[str, float]:
        """wait_s (waiting for batches), between_s (the loop's own time), batches, samples, copied,
        reconnects, replaced (samples that stood for corrupt ones), again (batches that were given
        again, which count in none of the others)."""
        return self._opened().times()

    @property
    def receipt(self) -> Optional[str]:
        """The hash at which this rank's receipts stand; None without receipts=, or before the job
        begins. It vouches for all that was handed over up to here, so write it where the folder's
        writers cannot."""
        return None if self._receipts is None else self._receipts.link

    # ----------------------------------------------------------------------------------- mixture --

    def _sources(self, method: str) -> list[str]:
        sources = self._arguments.order_options.sources
        if not sources:
            raise RuntimeError(f"{method}: this DataLoader has no mixture; write mixture=")
        return list(sources)

    @alone
    def set_weights(self, weights: Mapping[str, float], at: int = 0) -> None:
        """Gives the sources of a mixture other weights, for all ranks: from sample `at` on (see
        mixture().drawn), or from the first sample that is not prepared yet. One rank calls it."""
        names = self._sources("set_weights")
        if not self._arguments.order_options.weights_change:
            raise RuntimeError("set_weights: the weights of this DataLoader stay as they are; write "
                               "weights_change=True")
        self._opened().session.set_weights(mixtures.weights_of(names, self._arguments.dataset, weights),
                                           whole("at", at, 0, 2**62))

    @alone
    def report_losses(self, losses: Mapping[str, float]) -> None:
        """Reports this rank's losses on sources of the mixture, by which weights_policy= changes
        the weights. Each rank may report any of the sources, at any step."""
        names = self._sources("report_losses")
        if self._arguments.order_options.weights_policy is None:
            raise RuntimeError("report_losses: the weights of this DataLoader go by no losses; write "
                               "weights_policy='excess-loss', or another policy of mixtures")
        self._opened().session.report_losses(
            mixtures.losses_of(names, self._arguments.dataset, losses))

    @alone
    def mixture(self) -> mixtures.Mixture:
        """Where the mixture is, after the batches that were given."""
        return self._opened().session.mixture(self._sources("mixture"))

    # -------------------------------------------------------------------------------- importance --

    @alone
    def report_scores(self, keys: Sequence[int], scores: Sequence[float]) -> None:
        """Reports losses or gradients by sample key. The next epoch is drawn by them, or the first
        epoch if no batch was given yet."""
        self._check_draws("report_scores")
        all_keys, all_scores = _list(keys), _list(scores)
        self._opened().session.report_scores(all_keys, all_scores)
        if self._recording is not None:
            self._recording.add(self._epoch_of_scores(), all_keys, all_scores)

    def _epoch_of_scores(self) -> int:
        """The epoch of the iteration that began last; before the first iteration, that of the
        first."""
        if self._epoch is not None:
            return self._epoch
        first = self._wanted_epoch
        return int(self._opened().session.info.epoch) if first is None else first

    @alone
    def record_scores(self, file: Union[str, "os.PathLike[str]"]) -> None:
        """Writes all scores that are reported from now on to a new file, each with its epoch. The
        simulator plays such a file back."""
        self._check_draws("record_scores")
        if self._recording is not None:
            raise RuntimeError(f"record_scores: scores are written to {self._recording.name} already")
        self._recording = ScoreRecording(file, self.dataset_samples)

    def _check_draws(self, method: str) -> None:
        if self._arguments.order != "weighted" and not self._has_buffer():
            raise RuntimeError(f"{method}: scores are what order='weighted' draws by, and what "
                               "rehearsal= may choose by; this DataLoader's order is "
                               f"{self._arguments.order}, and it has no such buffer")

    # --------------------------------------------------------------------------------- rehearsal --

    def _has_buffer(self) -> bool:
        """A live job has none: chance alone says what it rehearses."""
        return self._arguments.order_options.buffer is not None and self._arguments.order != "live"

    def _check_buffer(self, method: str) -> None:
        if not self._has_buffer():
            raise RuntimeError(f"{method}: this DataLoader has no buffer that the service fills; "
                               "write rehearsal=")

    @alone
    def record_features(self, keys: Sequence[int], features: Any = None, labels: Any = None) -> None:
        """Reports the features that the network makes of samples, a row for each, and their classes
        where the dataset has none. They decide about samples of the batch in hand; call it before
        the next batch."""
        self._check_buffer("record_features")
        all_keys = _list(keys)
        values, width = rehearsals.features_of([[]] * len(all_keys) if features is None else features,
                                               len(all_keys))
        self._opened().session.report_features(all_keys, values, width,
                                               rehearsals.classes_of(labels, len(all_keys)))

    @alone
    def exemplars(self) -> rehearsals.Exemplars:
        """The exemplars that the epoch under way rehearses from; empty before the first such
        epoch."""
        self._check_buffer("exemplars")
        return self._opened().session.exemplars()

    def importance(self, batch: Batch, beta: float = 0.4) -> list[float]:
        """For each sample of a batch, the weight that makes up for how often it is drawn: 1 for
        samples of the epoch; (n P(i))^-beta, over the greatest such number, for rehearsed ones."""
        exemplars = self.exemplars()
        keys = batch.sample_keys.tolist()
        new = batch.samples - batch.rehearsed
        return [1.0] * new + exemplars.importance(keys[new:], beta)

    @alone
    def report_exemplars(self, keys: Any) -> None:
        """Replaces the buffer that `rehearsed` samples of each batch come from, by sample keys. It
        counts from the next epoch of which the service has prepared nothing yet, or from the first
        if no batch was given yet. All ranks report the same."""
        if self._has_buffer():
            raise RuntimeError("report_exemplars: the service fills the buffer of this DataLoader; "
                               "write rehearsed= in place of rehearsal=")
        if self._arguments.order == "live":
            raise RuntimeError("report_exemplars: exemplars are for datasets that do not grow; a live "
                               "job rehearses records that it has had")
        if not self._arguments.order_options.rehearsed:
            raise RuntimeError("report_exemplars: exemplars are what rehearsed= draws from, and this "
                               "DataLoader rehearses nothing")
        self._arguments = args.with_exemplars(self._arguments, keys)
        if self._job is not None:
            self._job.session.report_exemplars(self._arguments.order_options.exemplars)

    @alone
    def scores(self) -> Scores:
        """Keys, and the last score that this process reported for each. They are not part of the
        state."""
        if self._job is not None:
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


def _list(values: Any) -> Any:
    """A list of the values of a tensor on any device, an array or a list."""
    values = values.detach() if hasattr(values, "detach") else values
    return values.tolist() if hasattr(values, "tolist") else list(values)
