"""Batches of a Dataset that the service loads for a script: in the form that PyTorch gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

from .arguments import say
from .batch import REPLACED, Batch, Ragged
from .served_dataset import ServedDataset
from .step_dataset import array_of, is_open, opened, put_together

if TYPE_CHECKING:
    from .arguments import Arguments


class NamedBatch(dict[str, Any]):
    """A batch of samples that are dicts, with what is known of every batch."""

    sample_keys, wanted_keys, marks = Batch.sample_keys, Batch.wanted_keys, Batch.marks


class BroughtBatches:
    """`output`: torch or numpy."""

    def __init__(self, dataset: ServedDataset, output: str):
        self._layout, self._is_plain = dataset.layout, dataset.is_plain
        self._is_open = is_open(self._layout)
        self._output = output
        self._names = () if self._is_open else _names(self._layout)
        self._kind, self._has_said = dataset.kind, False

    def finish(self, batch: Batch, arguments: "Arguments") -> Any:
        """What the script gets. Parts are copied out of their samples' bytes."""
        if self._is_open:
            return self._finish_open(batch, arguments)
        if arguments.batch_size is None:
            return self._sample([column[0] for column in self._columns(batch)], True)
        if self._is_plain:
            return batch[0]
        # As PyTorch puts samples together, tuples become lists; but the whole is a Batch.
        fields = put_together(self._layout["tree"], [self._made(column)
                                                     for column in self._columns(batch)], list)
        return self._named(fields, batch, self._names)

    def samples(self, batch: Batch) -> list[Any]:
        """As the Dataset gave them, for a collate_fn."""
        if self._is_open:
            return [put_together(*opened(row, self._made)) for row in self._rows(batch)]
        return [self._sample(values, False) for values in zip(*self._columns(batch))]

    def _finish_open(self, batch: Batch, arguments: "Arguments") -> Any:
        """The same for samples that each say their own parts."""
        samples = [opened(row, self._made) for row in self._rows(batch)]
        if arguments.batch_size is None:
            tree, leaves = samples[0]
            return put_together(tree, [self._converted(leaf) for leaf in leaves])
        tree = samples[0][0]
        if any(one[0] != tree for one in samples):
            raise RuntimeError(f"samples of {self._kind} are of different parts, of which no batch can "
                               "be put together; write collate_fn=, which gets a list of samples")
        columns = [self._column(leaf, values)
                   for leaf, values in enumerate(zip(*(leaves for _, leaves in samples)))]
        if isinstance(tree, int):
            return columns[0]
        fields = put_together(tree, columns, list)
        return self._named(fields, batch, tuple(f"field{i}" for i in range(len(fields))))

    def _column(self, leaf: int, values: Sequence[Any]) -> Any:
        """A leaf of all samples, as PyTorch puts it together. PyTorch refuses a leaf with lengths
        that differ from sample to sample; here it becomes a Ragged."""
        varies = self._layout["varies"] or ()
        if any(one is None or isinstance(one, (str, bytes)) for one in values):
            return list(values)
        if leaf not in varies:
            return self._collate(list(values))
        import numpy
        arrays = [array_of(value) for value in values]
        if any(one.shape[1:] != arrays[0].shape[1:] or not one.shape for one in arrays):
            raise RuntimeError(f"arrays of {self._kind} differ in more than their first dimension, of "
                               "which no batch can be put together; write collate_fn=, which gets a "
                               "list of samples")
        offsets = numpy.cumsum([0, *map(len, arrays)], dtype=numpy.int64)
        return Ragged(self._made(numpy.concatenate(arrays)), self._made(offsets))

    def _collate(self, values: list[Any]) -> Any:
        if self._output == "torch":
            from torch.utils.data import default_collate  # type: ignore[import-not-found, unused-ignore]
            return default_collate(values)
        from .plain_loader import collate
        return collate(values)

    def _converted(self, leaf: Any) -> Any:
        import numpy
        return self._made(leaf) if isinstance(leaf, numpy.ndarray) else leaf

    @staticmethod
    def _named(fields: Any, batch: Batch, names: tuple[str, ...]) -> Any:
        if isinstance(fields, list):
            made: Any = Batch(fields)
            made.__dict__.update(batch.__dict__, names=names)
        elif isinstance(fields, dict):
            made = NamedBatch(fields)
            made.__dict__.update(batch.__dict__, names=tuple(fields))
        else:
            return fields
        return made

    def say_what_is_replaced(self, batch: Batch) -> None:
        """Once."""
        if self._has_said:
            return
        places = [place for place, mark in enumerate(batch.marks.tolist()) if mark & REPLACED]
        if places:
            self._has_said = True
            corrupt = batch.wanted_keys.tolist()[places[0]]
            say(f"sample {corrupt} of {self._kind} could not be made, and another sample stands for "
                "it, as for each further one up to corrupt_ratio_max; the service's log says why. With "
                "local=True the script loads the Dataset: samples may differ then, and what they raise "
                "ends it")

    def mapped(self, batch: Any, function: Callable[[Any], Any]) -> Any:
        """A batch with its tensors mapped."""
        if isinstance(batch, Batch):
            return batch.map(lambda one: self.mapped(one, function))
        if isinstance(batch, dict):
            made = type(batch)({key: self.mapped(one, function) for key, one in batch.items()})
            getattr(made, "__dict__", {}).update(getattr(batch, "__dict__", {}))
            return made
        if isinstance(batch, (tuple, list)):
            return type(batch)(self.mapped(one, function) for one in batch)
        return function(batch) if hasattr(batch, "to") else batch

    def _rows(self, batch: Batch) -> Any:
        import numpy
        return batch[0].numpy() if self._output == "torch" else numpy.asarray(batch[0])

    def _columns(self, batch: Batch) -> list[Any]:
        """A NumPy array for each part of the samples."""
        rows = self._rows(batch)
        if self._is_plain:
            return [rows]
        return [_column(rows, part) for part in self._layout["parts"]]

    def _made(self, column: Any) -> Any:
        if self._output != "torch":
            return column
        from torch import from_numpy  # type: ignore[import-not-found, unused-ignore]
        return from_numpy(column)

    def _sample(self, values: Any, converts: bool) -> Any:
        """A sample as the Dataset gave it; `converts`: its arrays become what batches have."""
        made = []
        for value, part in zip(values, self._layout["parts"]):
            if part["kind"] == "number":
                value = value.item()
            elif part["kind"] == "tensor" or converts and part["kind"] == "array":
                import numpy
                value = self._made(numpy.array(value))
            made.append(value)
        return put_together(self._layout["tree"], made)


def _column(rows: Any, part: dict[str, Any]) -> Any:
    import numpy
    kind = numpy.dtype(part["type"])
    count = 1
    for side in part["shape"]:
        count *= side
    piece = numpy.ascontiguousarray(rows[:, part["at"]:part["at"] + count * kind.itemsize])
    return piece.view(kind).reshape(len(rows), *part["shape"])


def _names(layout: dict[str, Any]) -> tuple[str, ...]:
    parts = layout["parts"]
    if len(parts) == 2 and parts[1]["type"].startswith("int") and not parts[1]["shape"]:
        return "data", "label"
    tree = layout["tree"]
    return tuple(f"field{i}" for i in range(1 if tree == 0 else len(tree[1])))
