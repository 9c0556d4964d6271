"""A job of a DataLoader at the service: its session, and what becomes of its batches.

Iterations of one loader that are under way at a time have a job each.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
from array import array
from typing import TYPE_CHECKING, Any, Optional

from . import arguments as args
from . import arrays, embedded
from . import library as c
from . import live
from . import mixture as mixtures
from . import state as states
from .alone import alone
from .batch import Batch, BatchMaker, plain_sample, split
from .brought_batches import BroughtBatches
from .device_copies import DeviceCopies
from .mixing import mix
from .orders import Scores
from .receipts import Receipts

if TYPE_CHECKING:
    from .iteration import Iteration


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
        made = self.session.state(), self.scores()
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
        if self._copies is not None:
            self._copies.settle()
        raw = self.session.next(timeout_s)
        if raw is None:
            self.over = True
            return None
        self.left_early = not raw.last_of_epoch
        batch = self._maker.make(raw)
        if raw.again:  # only the first time counts
            batch.__dict__["again"] = raw.again
        elif self._receipts is not None:
            self._receipts.add(self.session, batch, raw)
        labels = None if self._arguments.folder is None else self._arguments.folder.labels
        return batch if labels is None else self._relabelled(batch, labels)

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
            result = self._brought.finish(batch, arguments)
        elif arguments.collate_fn is not None:
            samples = split(batch, batch.samples)
            result = arguments.collate_fn(samples if arguments.batch_size else samples[0])
        elif arguments.batch_size is None:
            result = plain_sample(batch, 0)
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
        live.fill(options, asked.live)
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
