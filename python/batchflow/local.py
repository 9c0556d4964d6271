"""A DataLoader for a Dataset that this script loads itself, as PyTorch does.

The service reads files. A Dataset in Python that it cannot take is loaded here: by PyTorch's own
DataLoader, so that every batch is the one that PyTorch would give; where there is no PyTorch, by
`plain_loader.py`. What is added is a position: `state_dict()` and the numbers of epochs.
"""

from __future__ import annotations

import base64
import itertools
import sys
import time
import zlib
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Optional

from . import state as states
from .arguments import say
from .checks import whole
from .loader import DataLoader
from .own_dataset import is_iterable
from .plain_loader import PlainLoader
from .ranks import find_rank
from .stalls import EpochStalls, helps_local

ORDER = "local"  # in states

# PyTorch's arguments, and how its DataLoader has them if they are not given. Only those that were
# given are passed on, since its versions differ in the others.
_OF_TORCH = {
    "batch_size": 1, "shuffle": None, "sampler": None, "batch_sampler": None, "num_workers": 0,
    "collate_fn": None, "pin_memory": False, "drop_last": False, "timeout": 0,
    "worker_init_fn": None, "multiprocessing_context": None, "generator": None,
    "prefetch_factor": None, "persistent_workers": False, "pin_memory_device": "",
    "in_order": True}

_WITHOUT_EFFECT = {
    "service": None, "job_name": None, "corrupt_ratio_max": None, "node_local": False,
    "latency_target": 0, "snapshot_every_n_steps": None, "cache_limit": None,
    "target_workers": "auto", "copy": False, "ideal": False}

# Without these the loop would get other samples than were asked for.
_REFUSED = {
    "pipeline": (None, "let the Dataset do what it says, as its transform"),
    "split": (None, "write torch.utils.data.Subset or random_split"),
    "tokens": (None, "let the Dataset cut what it reads"),
    "packing": (None, "let the Dataset pack what it reads"),
    "packing_seed": (None, "let the Dataset pack what it reads"),
    "end_token": (None, "let the Dataset pack what it reads"),
    "rows": (None, "let the Dataset pack what it reads"),
    "column": (None, "let the Dataset give it as its sample"),
    "label": (None, "let the Dataset give it beside its sample"),
    "draws": (None, "write a WeightedRandomSampler"),
    "drawing": (None, "write a WeightedRandomSampler"),
    "rehearsed": (None, "write a batch_sampler"),
    "exemplars": (None, "write a batch_sampler"),
    "rehearsal": (None, "write a batch_sampler"),
    "receipts": (None, "only the service writes them"),
    "mixing": (None, "call it in a collate_fn, as PyTorch does")}

_SHOWN = tuple(name for name in (*_OF_TORCH, "dataset") if name != "shuffle")


class LocalLoadingWarning(UserWarning):
    """A Dataset is loaded by this script's own workers, and not by the service."""


class LocalDataLoader(DataLoader[Any]):
    """What DataLoader.__init__ makes of itself where the script loads the Dataset. `why`: why the
    service does not load it."""

    def begin(self, given: dict[str, Any], why: str) -> None:
        _check(given, why)
        self._given, self._why = given, why
        self._set_up_local()
        without_effect = [name for name, usual in _WITHOUT_EFFECT.items()
                          if given[name] not in (usual, None)]
        kind = type(given["dataset"]).__name__
        if without_effect or not given["local"]:
            text = f"{kind} is loaded by this script's own workers, as PyTorch would: {why}"
            if without_effect:
                text += f"; so {', '.join(without_effect)} {_have(without_effect)} no effect"
            say(text, LocalLoadingWarning)

    def _set_up_local(self) -> None:
        given = self._given
        imported = "torch" in sys.modules
        passed = {name: given[name] for name, usual in _OF_TORCH.items()
                  if given[name] is not usual and given[name] != usual}
        self._generator, self._seed = None, _seed(given)
        ranks = find_rank(given["rank"], given["world_size"], bool(given["ranks"]))
        self._torch = _torch()
        if self._torch is None:
            self._make: Callable[..., Any] = PlainLoader
            if ranks.world_size > 1:
                raise ValueError(f"ranks: {type(given['dataset']).__name__} is split over ranks by "
                                 "PyTorch's DistributedSampler; install torch, or let the Dataset "
                                 "have this rank's samples alone")
        else:
            self._make = self._torch.utils.data.DataLoader
        self._is_split = ranks.world_size > 1
        if self._is_split:
            passed = _split(passed, given, ranks, self._torch)
        elif self._seed is not None and self._torch is not None:
            self._generator = passed["generator"] = self._torch.Generator()
        elif self._seed is not None:
            passed["seed"] = self._seed
        self._passed = passed
        self._loader = self._made_loader()
        self._output = given["output"]
        if self._output == "auto":
            self._output = "torch" if imported or self._torch is None else "numpy"
        self._begin: Optional[states.State] = None  # at which the next epoch begins
        self._next_epoch = 0
        self._position_of_last: Optional[Position] = None  # of the iteration that began last
        self._times = {"wait_s": 0.0, "between_s": 0.0, "batches": 0.0}

    def _made_loader(self) -> Any:
        return self._make(self._given["dataset"], **self._passed)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    # -------------------------------------------------------------------------------- iteration --

    def __iter__(self) -> Any:
        begin, self._begin = self._begin, None
        number, self._next_epoch = self._next_epoch, self._next_epoch + 1
        self._set_epoch_of_sampler(number)
        if begin is None:
            self._position_of_last = Position(number, 0, self._drawn_from())
        else:
            self._position_of_last = Position(number, begin["consumed"], begin["generators"])
        return self._begin_iteration(self._position_of_last, begin)

    def _begin_iteration(self, position: Position, begin: Optional[states.State]) -> LocalIteration:
        batches = iter(self._loader) if begin is None else self._resumed(begin)
        return LocalIteration(self, batches, position)

    def __len__(self) -> int:
        return len(self._loader)

    def epochs(self) -> Iterator[Any]:
        last = self._given["epochs"]
        while last is None or self._next_epoch < last:
            yield from iter(self)

    def set_epoch(self, epoch: int) -> None:
        self._next_epoch, self._begin = whole("epoch", epoch, 0), None
        for one in (self._loader.dataset, *self._samplers()):
            if hasattr(one, "set_epoch"):
                one.set_epoch(epoch)

    def _set_epoch_of_sampler(self, number: int) -> None:
        if self._torch is None:
            self._loader.epoch = number
        if self._seed is None and not self._is_split:
            return
        if self._generator is not None and self._seed is not None:
            self._generator.manual_seed((self._seed + number) % 2**63)
        for sampler in self._samplers():
            if sampler is not self._given["sampler"] and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(number)

    def _samplers(self) -> list[Any]:
        by_batches = getattr(self._loader, "batch_sampler", None)
        every = (self._loader.sampler, by_batches, getattr(by_batches, "sampler", None))
        return [one for i, one in enumerate(every) if one is not None and one not in every[:i]]

    def check_process(self) -> None:
        pass  # PyTorch's loader may be used in a child of fork()

    def close(self) -> None:
        self._position_of_last = None

    # ------------------------------------------------------------------------------ checkpoints --

    def state_dict(self) -> states.State:
        """The position, in batches, and what the order of the epoch is drawn from."""
        epoch, consumed, generators = self._next_epoch, 0, None
        if self._begin is not None:
            return dict(self._begin)
        running = self._position_of_last
        if running is not None and not running.ended and running.number == epoch - 1:
            epoch, consumed, generators = running.number, running.given, running.generators
        made = {"v": 1, "order": ORDER, "epoch": epoch, "consumed": consumed,
                "samples": self._length(), "batch_size": self._loader.batch_size,
                "generators": self._drawn_from() if generators is None else generators}
        return made if self._torch else {**made, "seed": self._loader.seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        state = states.check(state)
        self._position_of_last = None
        if not state:
            self._next_epoch, self._begin = 0, None
            return
        epoch, consumed = state["epoch"], state["consumed"]
        if state.get("order") != ORDER:
            if consumed:
                raise ValueError(
                    "the state is in the middle of an epoch that another loader began, and its "
                    f"order is not known here: {self._why}; finish it there, or write "
                    "set_epoch() for a whole epoch")
            self._next_epoch, self._begin = epoch, None
            return
        samples, size = self._length(), self._loader.batch_size
        if state["samples"] != samples:
            raise ValueError(f"the state is of a dataset of {state['samples']} samples, this one "
                             f"has {samples}")
        if consumed and state["batch_size"] != size:
            raise ValueError(f"the state is behind {consumed} batches of {state['batch_size']}, and "
                             f"batch_size is {size} here; a position counts batches where the "
                             "script loads the dataset itself, so keep that size until the epoch "
                             "ends")
        if ("seed" in state) is not (self._torch is None):
            raise ValueError("the state's order was drawn " + (
                "without PyTorch, which is installed here" if self._torch else
                "by PyTorch, which is not installed here"))
        if self._torch is None:
            self._loader.seed = state["seed"]
        self._next_epoch, self._begin = epoch, state

    def _length(self) -> Optional[int]:
        dataset = self._loader.dataset
        return len(dataset) if hasattr(dataset, "__len__") else None

    def _generators(self) -> list[Any]:
        """What the next epoch's order is drawn from: generators, None for PyTorch's usual one."""
        found: list[Any] = []
        if self._torch is None or self._generator is not None:
            return found
        for one in (self._loader, *self._samplers()):
            generator = getattr(one, "generator", self)
            is_usual = generator is None and one is not self._loader
            if (is_usual or hasattr(generator, "get_state")) and generator not in found:
                found.append(generator)
        return found

    def _drawn_from(self) -> list[str]:
        torch = self._torch
        return [base64.b64encode(bytes((torch.get_rng_state() if one is None else one.get_state())
                                       .numpy())).decode() for one in self._generators()]

    def _generators_as(self, begin: states.State) -> list[Any]:
        """The generators that the state is of."""
        generators = self._generators()
        if len(generators) != len(begin["generators"]):
            raise ValueError("the state was made with another sampler or generator; give the "
                             "DataLoader the same ones")
        return generators

    def _resumed(self, begin: states.State) -> Iterator[Any]:
        """The batches of the rest of an epoch."""
        consumed, generators = begin["consumed"], self._generators_as(begin)
        loader, rest = self._loader, dict(self._passed)
        if consumed and self._torch is not None and not is_iterable(loader.dataset):
            for name in ("batch_size", "shuffle", "drop_last", "sampler", "batch_sampler"):
                rest.pop(name, None)
            if loader.batch_sampler is not None:
                rest["batch_sampler"] = _Rest(loader.batch_sampler, consumed)
            else:
                rest.update(sampler=_Rest(loader.sampler, consumed), batch_size=None)
            loader, consumed = self._make(loader.dataset, **rest), 0
        with set_to(generators, begin["generators"], self._torch):
            batches = iter(loader)
            first = [next(batches, self) for _ in range(consumed + 1)][-1]
        return batches if first is self else itertools.chain([first], batches)

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given, "why": self._why}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        self._given, self._why = pickled["given"], pickled["why"]
        self._set_up_local()

    # ------------------------------------------------------------------------------ information --

    @property
    def dataset_samples(self) -> int:
        return len(self._loader.dataset)

    @property
    def classes(self) -> Any:
        return self._loader.dataset.classes

    def times(self) -> dict[str, float]:
        """wait_s (waiting for batches), between_s (the loop's own time), batches."""
        return dict(self._times)

    def _count(self, waited_s: float, between_s: float) -> None:
        self._times["wait_s"] += waited_s
        self._times["batches"] += 1
        self._computed(between_s)

    def _computed(self, between_s: float) -> None:
        self._times["between_s"] += between_s

    def _of_the_service(self, *unused: Any, **named: Any) -> Any:
        raise RuntimeError("this is of batches that the service prepares, and "
                           f"{type(self._loader.dataset).__name__} is loaded by this script's own "
                           f"workers: {self._why}")

    report_scores = record_scores = report_exemplars = scores = _of_the_service
    record_features = exemplars = importance = _of_the_service
    record_importance = sample_name = _of_the_service
    fields = receipt = property(_of_the_service)

    def finish(self, batch: Any) -> Any:
        if self._output == "numpy":
            batch = mapped(batch, lambda tensor: tensor.numpy())
        if self._given["device"] is not None:
            batch = mapped(batch, lambda tensor: tensor.to(self._given["device"], non_blocking=True))
        return batch


def _shown(name: str) -> property:
    """An attribute of PyTorch's loader, which refuses what may not be set."""
    return property(lambda self: getattr(self._loader, name),
                    lambda self, value: setattr(self._loader, name, value))


for _name in _SHOWN:
    setattr(LocalDataLoader, _name, _shown(_name))


class Position:
    """`given`: how many batches of the epoch were given. `generators`: what its order was drawn
    from, in their states before. The other attributes are for an order that the service has as a
    list."""

    def __init__(self, number: int, given: int, generators: list[str]):
        self.number, self.given, self.generators, self.ended = number, given, generators, False
        self.sum_given = 0  # a checksum of the indices that were given
        self.sampler_states: list[Any] = []

    def add(self, indices: list[Any]) -> None:
        """Counts a batch of these samples as given."""
        words = [str(int(one) if hasattr(one, "__index__") else one) for one in indices]
        self.sum_given = zlib.crc32(f"{','.join(words)};".encode(), self.sum_given)


class LocalIteration:
    """One epoch."""

    def __init__(self, loader: LocalDataLoader, batches: Iterator[Any], position: Position):
        self._loader, self._batches, self._position = loader, batches, position
        self._asked: Optional[float] = None
        self._stalls = EpochStalls(loader.times) if loader._given["say_stalls"] else None

    def __iter__(self) -> "LocalIteration":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        begin = time.perf_counter()
        try:
            made = next(self._batches)
        except StopIteration:
            self._position.ended = True
            self._batches = iter(())  # PyTorch's workers end
            if self._asked is not None:
                self._loader._computed(begin - self._asked)
            self._say_stalls()
            raise
        self._position.given += 1  # the loop may go on behind a batch that cannot be finished
        batch = self._loader.finish(made)
        now = time.perf_counter()
        self._loader._count(now - begin, 0 if self._asked is None else begin - self._asked)
        if self._asked is None and self._stalls is not None:
            self._stalls.first_came()
        self._asked = now
        return batch

    def _say_stalls(self) -> None:
        stalls, self._stalls = self._stalls, None
        if stalls is not None:
            stalls.say(self._position.number, self._what_helps)

    def _what_helps(self) -> str:
        return helps_local(self._loader._why)


class _Rest:
    """A sampler without the part of an epoch that was given before. It draws when its first index
    is asked for, as PyTorch's do."""

    def __init__(self, sampler: Any, had: int):
        self._sampler, self._had = sampler, had

    def __iter__(self) -> Iterator[Any]:
        every = iter(self._sampler)
        for _ in range(self._had):
            next(every, None)
        yield from every

    def __len__(self) -> int:
        return max(0, len(self._sampler) - self._had)


@contextmanager
def set_to(generators: list[Any], kept: list[str], torch: Any) -> Iterator[None]:
    """Generators go on from what was kept. PyTorch's usual one, which is the script's, goes back to
    where it was."""
    usual = None
    for generator, text in zip(generators, kept):
        wanted = torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
        if generator is None:
            usual = torch.get_rng_state()
            torch.set_rng_state(wanted)
        else:
            generator.set_state(wanted)
    try:
        yield
    finally:
        if usual is not None:
            torch.set_rng_state(usual)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """A batch with its tensors mapped; everything else stays."""
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "numpy"):
        return function(value)
    if isinstance(value, Mapping):
        return {key: mapped(one, function) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(one, function) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(one, function) for one in value)
    return value


def _check(given: dict[str, Any], why: str) -> None:
    kind = type(given["dataset"]).__name__
    for name, (usual, instead) in _REFUSED.items():
        if given[name] is not usual:
            raise ValueError(f"{name} is for what the service loads, and {kind} is loaded by this "
                             f"script's own workers: {why}; leave {name} out: {instead}")
    if given["order"] not in (None, "strict", "relaxed", "sequential"):
        raise ValueError(f"order={given['order']!r} is for what the service loads, and {kind} is "
                         f"loaded by this script's own workers: {why}; write a sampler")
    if given["output"] not in ("auto", "torch", "numpy"):
        raise ValueError(f"output={given['output']!r} is for what the service loads, and {kind} is "
                         f"loaded by this script's own workers: {why}; write 'torch' or 'numpy'")
    if given["order"] in ("strict", "relaxed"):
        given["shuffle"] = True
    given["shuffle"] = bool(given["shuffle"]) or given["shuffle"]


def _seed(given: dict[str, Any]) -> Optional[int]:
    """The seed of all epochs, where the script wants the same order in every run."""
    seed = given["shuffle_seed"]
    if seed is not None and given["generator"] is not None:
        raise ValueError(f"shuffle_seed={seed} and the generator each give a seed; leave one of "
                         "them out")
    if seed is None and given["order"] == "strict" and given["generator"] is None:
        seed = 0
    return None if seed is None else whole("shuffle_seed", seed, 0, 2**64 - 1)


def _split(passed: dict[str, Any], given: dict[str, Any], ranks: Any, torch: Any) -> dict[str, Any]:
    """PyTorch's arguments with a DistributedSampler, as a script would write it."""
    if is_iterable(given["dataset"]):
        raise ValueError("ranks: an IterableDataset decides itself what each rank gets; leave rank, "
                         "world_size and ranks out, and split it there")
    for name in ("sampler", "batch_sampler"):
        if given[name] is not None:
            raise ValueError(f"{name} decides what this rank gets; leave rank, world_size and ranks "
                             "out")
    made = {name: value for name, value in passed.items() if name != "shuffle"}
    made["sampler"] = torch.utils.data.DistributedSampler(
        given["dataset"], ranks.world_size, ranks.rank, bool(given["shuffle"]),
        given["shuffle_seed"] or 0)
    return made


def _torch() -> Any:
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
        import torch.utils.data  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return torch


def _have(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"
