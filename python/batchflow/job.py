"""A job of a DataLoader at the service: its session, and what becomes of its batches.

Iterations of one loader that are under way at a time have a job each.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import arguments as args
from . import arrays, embedded
from . import library as c
from . import live
from . import mixture as mixtures
from . import state as states
from .alone import alone
from .batch import Batch, BatchMaker, plain_sample
from .brought_batches import BroughtBatches
from .collate_workers import Collate
from .device_copies import DeviceCopies
from .mixing import mix
from .orders import Scores
from .receipts import Receipts

if TYPE_CHECKING:
    from .iteration import Iteration


class Taken(NamedTuple):
    """A batch that was taken ahead of the loop. `state`: that of the job behind it, or why it has
    none."""

    batch: Batch
    state: Union[bytes, ValueError]


class Job:
    """`name`: by which the ranks of the job find each other. `epochs`: how many epochs the service
    is told to expect; 0: any number."""

    def __init__(self, arguments: args.Arguments, name: Optional[str], state: states.State,
                 epochs: int, scores: Scores, receipts: Optional[Receipts] = None):
        self.opened_for = epochs
        self.left_early = False  # some batches of the epoch were given, not all
        self.over = False  # all epochs that the job was opened for are over
        self._is_parted = False  # it ends with the iteration that has it
        self._arguments = arguments
        self._output, self._make = arrays.choose(arguments.output)
        make_numbers = arrays.numbers_beside(self._output, self._make)
        if arguments.device is not None and self._output != "torch":
            raise ValueError(f"device={arguments.device!r} is for PyTorch's tensors, and these "
                             f"batches are {self._output}; import torch, or write output='torch'")
        if arguments.mixing is not None and self._output != "torch":
            raise ValueError("mixing is for PyTorch's tensors: import torch")
        if self._output in ("torch", "dlpack") and not arguments.copy:
            show_where_it_crashes()
        self.session = embedded.open_session(arguments, _options(arguments, name, state, epochs))
        self._lock = self.session._lock
        self.check_process = self.session.check_process
        info = self.session.info
        self._maker = BatchMaker([info.field[i] for i in range(info.fields)], self._output,
                                 self._make, make_numbers, arguments.copy)
        self.readers = self._maker.readers
        self._brought = (None if arguments.brought is None else
                         BroughtBatches(arguments.brought, self._output))
        self._copies: Optional[DeviceCopies] = None
        if scores[0]:
            self.session.report_scores(*scores)
        self._ahead = 0  # batches that were taken and not given
        self._given_state: Union[bytes, ValueError] = b""  # where some were
        self.waited_ahead_s = 0.0  # for collate_fn in other processes
        self._receipts = receipts
        if receipts is not None:
            receipts.begin(self.session, arguments)

    def check_dataset(self) -> None:
        """Checks that the script's dataset and sampler have the samples that the service has."""
        folder, expected = self._arguments.folder, self._arguments.expected
        if self._arguments.brought is not None:
            self._arguments.brought.check_unchanged()
        samples = int(self.session.info.dataset_samples)
        if expected is not None:
            expected.check(samples)
        if folder is not None:
            folder.settle(self.session, samples, self._arguments.order == "sequential")

    @alone
    def part(self, epoch: "Iteration[Any]") -> Optional[tuple[states.State, Scores]]:
        """Leaves the job to an iteration that goes on; gives what another job begins with."""
        if epoch.ended:
            return None
        made = self.state(), self.scores()
        self._is_parted = True
        return made

    @alone
    def end(self, epoch: "Iteration[Any]") -> None:
        epoch.ended = True
        if self._brought is None:
            self._say_what_is_replaced(epoch.number)
        if self._is_parted:
            self.session.close()  # its length can still be asked

    def _say_what_is_replaced(self, epoch: int) -> None:
        """Says it, since with PyTorch a script ends with the error that a broken file raises."""
        count = int(self.session.times()["replaced"])
        if count > 0:
            args.say_once(f"corrupt samples of {self._arguments.dataset}",
                          f"were replaced by others: {count} up to the end of epoch {epoch}, and up to "
                          "corrupt_ratio_max of all samples may be; 'batchflowctl verify' names them, "
                          "and so do the batches' wanted_keys")

    def scores(self) -> Scores:
        return self.session.scores() if self._arguments.order == "weighted" else ((), ())

    # ---------------------------------------------------------------------------------- batches --

    def next(self, timeout_s: float) -> Optional[Batch]:
        """The next batch; None after the last one of the job."""
        batch = self._take(timeout_s)
        self._count(batch)
        return batch

    def take_ahead(self, timeout_s: float) -> Optional[Taken]:
        """The next batch, which counts as given from `give` on."""
        if not self.is_ahead:
            self._given_state = self._state_or_problem()
        batch = self._take(timeout_s)
        self._ahead += 1
        return None if batch is None else Taken(batch, self._state_or_problem())

    def give(self, taken: Optional[Taken]) -> None:
        self._ahead -= 1
        if taken is not None:
            self._given_state = taken.state
        self._count(None if taken is None else taken.batch)

    @property
    def is_ahead(self) -> bool:
        """Whether batches were taken that the loop has not had."""
        return self._ahead > 0

    def _state_or_problem(self) -> Union[bytes, ValueError]:
        try:
            return self.session.state_text()
        except ValueError as problem:  # of so many ranks that a batch cannot describe the step of all
            return problem

    def state(self) -> states.State:
        """That behind the last batch which was given."""
        if not self.is_ahead:
            return self.session.state()
        if isinstance(self._given_state, ValueError):
            raise self._given_state
        made: states.State = json.loads(self._given_state)
        return made

    def epoch(self) -> int:
        """The epoch of the next batch that is given."""
        return int(self.state()["epoch"] if self.is_ahead else self.session.refresh().epoch)

    def times(self) -> dict[str, float]:
        """Those of the session, where a wait for collate_fn in other processes is the loop's own
        time."""
        made, waited_s = self.session.times(), self.waited_ahead_s
        if waited_s > 0:
            made["wait_s"] += waited_s
            made["between_s"] = max(0.0, made["between_s"] - waited_s)
        return made

    def _take(self, timeout_s: float) -> Optional[Batch]:
        if self._copies is not None:
            self._copies.settle()
        raw = self.session.next(timeout_s)
        if raw is None:
            return None
        batch = self._maker.make(raw)
        known = batch.__dict__
        if raw.again:  # only the first time counts
            known["again"] = raw.again
        elif self._receipts is not None:
            known["_receipt"] = self._receipts.line(self.session, batch, raw)
        labels = None if self._arguments.folder is None else self._arguments.folder.labels
        return batch if labels is None else self._relabelled(batch, labels)

    def _count(self, batch: Optional[Batch]) -> None:
        """Counts a batch as given."""
        if batch is None:
            self.over = True
            return
        self.left_early = not batch.last_of_epoch
        if batch._receipt and self._receipts is not None:
            self._receipts.add(batch._receipt, batch.last_of_epoch)

    def without_fields(self, batch: Batch) -> Batch:
        """What is needed of a batch when its fields have gone to another process: their memory goes
        back to the service."""
        if self._brought is not None:
            self._brought.say_what_is_replaced(batch)
        made, keys = Batch(), None
        if self._arguments.mixing is not None:
            keys = batch.sample_keys.clone()
        made.__dict__.update(batch.__dict__, _handle=None, _about={"keys": keys}.get)
        return made

    def _relabelled(self, batch: Batch, by_key: "array[int]") -> Batch:
        """The batch with the labels of an ImageFolder, where they differ from the service's."""
        labels = array("q", [by_key[key] for key in batch.sample_keys.tolist()])
        made = self._make(labels.buffer_info()[0], arrays.I64, (len(labels),), labels, True)
        return batch.map(lambda field: made if field is batch["label"] else field)

    def finish(self, batch: Batch, arguments: args.Arguments) -> Any:
        """What the script gets for a batch. Some of the arguments may have changed since the job
        began."""
        result: Any = batch
        if self._brought is not None:
            self._brought.say_what_is_replaced(batch)
        if arguments.collate_fn is not None:
            result = self.collate(arguments)(batch)
        elif self._brought is not None:
            result = self._brought.finish(batch, arguments)
        elif arguments.batch_size is None:
            result = plain_sample(batch, 0)
        return self.finish_result(result, batch, arguments)

    def collate(self, arguments: args.Arguments) -> Collate:
        assert arguments.collate_fn is not None
        return Collate(arguments.collate_fn, arguments.batch_size is None, self._brought)

    def finish_result(self, result: Any, batch: Batch, arguments: args.Arguments) -> Any:
        """The same where `result` is what collate_fn made of the batch."""
        if self._output == "torch":
            if arguments.device is None:
                result = self._mixed(result, batch, arguments)
            if arguments.pin_memory:
                result = pin(result, self._brought)
            if arguments.device is not None:
                result = self._mixed(self._to_device(result, arguments.device), batch, arguments)
        return result

    def _mixed(self, given: Any, batch: Batch, arguments: args.Arguments) -> Any:
        if arguments.mixing is None:
            return given
        return mix(arguments.mixing, given, batch, arguments.shuffle_seed)

    def _to_device(self, batch: Any, device: str) -> Any:
        if self._brought is not None:
            return self._brought.mapped(batch, lambda one: one.to(device, non_blocking=True))
        if not isinstance(batch, Batch) or self._arguments.batch_size is None:
            return batch.to(device, non_blocking=True)
        if self._copies is None:
            self._copies = DeviceCopies(device, sys.modules["torch"])
        return self._copies.copy(batch)


def _options(given: args.Arguments, name: Optional[str], state: states.State, epochs: int) -> Any:
    options = c.sized(c.Options)
    options.service = _bytes(given.service)
    options.dataset, options.pipeline = _bytes(given.dataset), _bytes(given.pipeline)
    options.reading = _bytes(given.reading)
    options.job = _bytes(name)
    options.batch_samples = given.batch_size or 1
    options.rank, options.world_size = given.ranks()
    options.order = c.ORDERS[given.order]
    asked = given.order_options
    options.drawing, options.draws = c.DRAWINGS[asked.drawing], asked.draws
    options.node_local, options.runs = asked.node_local, asked.runs
    options.rehearsed = asked.rehearsed
    if asked.buffer is not None:
        options.buffer_exemplars = asked.buffer.samples
        options.buffer_policy = _bytes(asked.buffer.policy)
        options.buffer_name = _bytes(asked.buffer.name)
    if asked.live is not None:
        live.fill(options, asked.live, asked.buffer is not None)
    if asked.sources:
        mixtures.fill(options, asked.sources, asked.sources_in_order, asked.weights_change)
        mixtures.fill_changes(options, asked.schedule, asked.weights_policy)
    if asked.exemplars:
        count = len(asked.exemplars)
        options.exemplars = (ctypes.c_uint64 * count).from_buffer(asked.exemplars)
        options.exemplars_count = count
    if given.shuffle_seed is not None:
        options.has_shuffle_seed, options.shuffle_seed = 1, given.shuffle_seed
    options.drop_last = given.drop_last
    options.epochs, options.credits = epochs, given.credits
    if given.corrupt_ratio_max is not None:
        options.has_corrupt_ratio_max = 1
        options.corrupt_ratio_max = given.corrupt_ratio_max
    options.latency_target_s = given.latency_target_s
    # PyTorch's timeout is for batches. To join may take as long as to index a dataset.
    options.timeout_s = max(given.timeout_s, args.DEFAULT_TIMEOUT_S)
    options.copy = given.copy
    options.ideal = given.ideal
    if state:
        options.state = states.text(state).encode()
    return options


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def show_where_it_crashes() -> None:
    """PyTorch has no read-only tensors. So a script that writes to a batch ends; this prints the
    line."""
    if (os.environ.get("BATCHFLOW_FAULTHANDLER", "1") != "0" and not faulthandler.is_enabled() and
            signal.getsignal(signal.SIGSEGV) == signal.SIG_DFL):
        faulthandler.enable(2)


def pin(batch: Any, brought: Optional[BroughtBatches] = None) -> Any:
    torch = sys.modules["torch"]
    if not torch.cuda.is_available():
        args.say_once("pin_memory", "is set, and there is no accelerator to pin memory for")
        return batch
    if brought is not None and isinstance(batch, (Batch, dict)):  # it may have texts in it
        return brought.mapped(batch, lambda one: one.pin_memory())
    if isinstance(batch, Batch):
        return batch.pin_memory()
    return torch.utils.data._utils.pin_memory.pin_memory(batch)
