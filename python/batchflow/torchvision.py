"""Turns torchvision's transforms into a pipeline of the service's own steps (docs/pipelines.md).

Transforms that are mapped give the same pictures. For others the error says why they cannot be.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Optional, Sequence

from .steps import NotTakable, Step, entries, entry, is_function
from .torchvision_steps import (NotMappable, filter_of, is_of_pictures, parts_of, size_of, square_of,
                                steps_of, torchvision_kind)


class Pipeline:
    """The steps of a pipeline, in the form of docs/pipelines.md, or functions (batchflow.step), and
    its fields and views, in the form of docs/fields.md. To the service, two pipelines with the same
    steps, fields and views are the same."""

    def __init__(self, steps: Sequence[Step], name: str = "from-python",
                 field: Optional[str] = None,
                 fields: Optional[Sequence[dict[str, Any]]] = None,
                 views: Optional[Sequence[dict[str, Any]]] = None):
        self.name, self.steps, self.field = name, entries(steps), field
        self.fields = None if fields is None else [dict(one) for one in fields]
        self.views = None if views is None else [dict(one) for one in views]

    def text(self) -> str:
        """The pipeline on one line, as jobs send it to the service."""
        whole: dict[str, Any] = {"kind": "pipeline", "name": self.name}
        if self.field is not None:
            whole["field"] = self.field
        if self.fields is not None:
            whole["fields"] = self.fields
        if self.views is not None:
            whole["views"] = self.views
        return json.dumps({**whole, "steps": self.steps})

    def yaml(self) -> str:
        """The pipeline as a file, like those of configs/pipelines."""
        lines = ["kind: pipeline", f"name: {self.name}"]
        if self.field is not None:
            lines.append(f"field: {json.dumps(self.field)}")
        for key, listed in (("fields", self.fields), ("steps", self.steps), ("views", self.views)):
            if listed is None:
                continue
            lines.append(f"{key}:")
            for one in listed:
                words = ", ".join(f"{name}: {_scalar(value)}" for name, value in one.items())
                lines.append(f"  - {{{words}}}")
        return "\n".join(lines) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.text() == other.text()

    def __repr__(self) -> str:
        return f"Pipeline({self.steps})"


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value)
    return str(value) if plain else json.dumps(value)


def pipeline_name(name: str) -> str:
    """Checks the name of a pipeline that the service has. The service reads no file of a job."""
    if "\n" in name or name.endswith((".yaml", ".yml")):
        what = "YAML" if "\n" in name else f"the file {name}"
        raise ValueError(f"pipeline: {what} is for the service (pipelines: of its node file); here "
                         "write a name, or the steps themselves, as [{'step': 'decode'}, ...]")
    return name


def pipeline_of(pipeline: Any) -> Pipeline:
    """The pipeline of a DataLoader's argument: torchvision's transforms, steps, functions, or
    lists of these."""
    if isinstance(pipeline, Pipeline):
        return pipeline
    parts = parts_of(pipeline)
    if parts and all(isinstance(part, dict) or is_function(part) for part in parts):
        return Pipeline(parts)
    return from_torchvision(parts)


def from_torchvision(transform: Any, name: str = "from-torchvision") -> Pipeline:
    """`transform` is a Compose, a Sequential, a list, or one transform of torchvision.transforms or
    its v2. It may also contain functions (batchflow.step) and steps of docs/pipelines.md."""
    reader = _Reader()
    reader.read_all(parts_of(transform))
    return Pipeline(reader.steps(), name)


def _channels(values: Any) -> list[float]:
    """A number for each channel. torchvision also takes one number for all."""
    try:
        each = [float(value) for value in values]
    except TypeError:
        each = [float(values)]
    return 3 * each if len(each) == 1 else each


def _erased_value(value: Any) -> Any:
    """v2 has None for `random`."""
    if value is None or value == "random":
        return "random"
    values = [float(one) for one in (value if isinstance(value, (list, tuple)) else [value])]
    return values[0] if len(values) == 1 else values


# These do to numbers what they do to bytes.
_ANYWHERE = ("RandomHorizontalFlip", "RandomVerticalFlip")
_BEHIND_ERASING = ("ConvertImageDtype", "ToDtype", "Identity", "ToPureTensor")
_OF_NUMBERS = ("normalise", "random_erasing", "tokens", "cast", "layout", "reshape")


class _Reader:
    """Reads transforms in their order: first those of pictures, then those of numbers."""

    def __init__(self) -> None:
        self._pictures: list[dict[str, Any]] = []
        self._scaled = False  # to 0..1, in float32
        self._normalised: Optional[dict[str, Any]] = None
        self._erasing: Optional[dict[str, Any]] = None
        self._planes = False
        self._half: Optional[str] = None
        self._number_steps: list[dict[str, Any]] = []  # functions and steps that take numbers

    def read_all(self, transforms: Sequence[Any]) -> None:
        problems = []
        for i, transform in enumerate(transforms):
            try:
                self._read(transform)
            except (NotMappable, NotTakable) as problem:
                problems.append(f"transform {i}, {type(transform).__name__}: {problem}")
        if problems:
            raise NotMappable("; ".join(problems))

    def _read(self, transform: Any) -> None:
        if isinstance(transform, dict):
            return self._take(dict(transform), transform.get("step") in _OF_NUMBERS)
        if is_function(transform):
            return self._take(entry(transform))
        kind = torchvision_kind(transform)
        method: Optional[Callable[[Any], None]] = getattr(self, f"_{kind}", None)
        if method is None and not is_of_pictures(transform):
            raise NotMappable(
                "the service has no such step; docs/pipelines.md lists those it has" if kind else
                "it is neither torchvision's own, nor a step, nor a function; write a function "
                "with def and @batchflow.step")
        if self._number_steps:
            raise NotMappable("it comes behind what works on numbers; put it before, or do it in a "
                              "function")
        if self._erasing and kind not in _BEHIND_ERASING:
            raise NotMappable("it comes behind RandomErasing, which the service does last; put it "
                              "before")
        if method is not None:
            method(transform)
        else:
            self._take_picture_steps(transform, kind in _ANYWHERE)

    def _take_picture_steps(self, transform: Any, anywhere: bool) -> None:
        if self._scaled and not anywhere:
            raise NotMappable("it changes bytes, and these are numbers already; put it before "
                              "ToTensor, or what else scales to 0..1")
        self._pictures += steps_of(transform, self._planes and not anywhere)

    def steps(self) -> list[dict[str, Any]]:
        is_decoded = bool(self._pictures) and self._pictures[0].get("step") == "decode"
        made = self._pictures if is_decoded else [{"step": "decode"}, *self._pictures]
        if self._normalised:
            made.append(self._normalised)
        elif self._scaled:
            made.append({"step": "normalise", "mean": [0, 0, 0], "std": [1, 1, 1]})
        if self._erasing:
            made.append(self._erasing)
        if self._half:
            made.append({"step": "cast", "to": self._half})
        if self._planes:
            made.append({"step": "layout", "order": "nchw"})
        return made + self._number_steps

    def _take(self, step: dict[str, Any], of_numbers: bool = False) -> None:
        """A step before the transform that makes a tensor takes pictures, [height, width, 3]."""
        of_numbers |= bool(self._scaled or self._planes or self._normalised or self._number_steps)
        (self._number_steps if of_numbers else self._pictures).append(step)

    def _ImageClassification(self, transform: Any) -> None:
        """The transforms that torchvision has for its own weights."""
        if self._pictures or self._planes or self._scaled:
            raise NotMappable("it is a whole pipeline; write nothing before it")
        self._pictures += [
            {"step": "resize", "size": size_of(transform.resize_size), **filter_of(transform)},
            {"step": "centre_crop", "size": square_of(transform.crop_size)}]
        self._scaled = self._planes = True
        self._Normalize(transform)

    # ----------------------------------------------------------------------------------- numbers --

    def _ToTensor(self, transform: Any) -> None:
        del transform
        self._scaled = self._planes = True

    def _PILToTensor(self, transform: Any) -> None:
        del transform
        self._planes = True

    def _ToImage(self, transform: Any) -> None:
        del transform
        self._planes = True

    def _ConvertImageDtype(self, transform: Any) -> None:
        self._convert(str(transform.dtype), True)

    def _ToDtype(self, transform: Any) -> None:
        self._convert(str(transform.dtype), bool(getattr(transform, "scale", False)))

    def _RandomErasing(self, transform: Any) -> None:
        if not self._planes:
            raise NotMappable("it takes tensors; put it behind what makes one")
        self._erasing = {
            "step": "random_erasing", "probability": float(transform.p),
            "scale": [float(one) for one in transform.scale],
            "ratio": [float(one) for one in transform.ratio],
            "value": _erased_value(transform.value)}

    def _convert(self, dtype: str, scale: bool) -> None:
        dtype = dtype.replace("torch.", "")
        if dtype == "uint8" and not self._scaled:
            return
        if self._erasing and not self._scaled:
            raise NotMappable("it scales to 0..1 what RandomErasing has made; put it before that")
        if not scale:
            raise NotMappable("it converts without scaling to 0..1; write scale=True")
        if dtype not in ("float32", "float16", "bfloat16"):
            raise NotMappable(f"it converts to {dtype}; the service has float32, float16, bfloat16")
        if dtype != "float32" and not self._normalised:
            raise NotMappable(f"it converts to {dtype} before Normalize; put it behind")
        self._scaled = True
        self._half = {"float16": "f16", "bfloat16": "bf16"}.get(dtype)

    def _Normalize(self, transform: Any) -> None:
        if not self._scaled:
            raise NotMappable("it comes before ToTensor, or ToDtype(torch.float32, scale=True)")
        if self._normalised:
            raise NotMappable("it stands twice")
        mean, std = _channels(transform.mean), _channels(transform.std)
        if len(mean) != 3 or len(std) != 3:
            raise NotMappable(f"it has {len(mean)} means and {len(std)} deviations; pictures have "
                              "three channels here")
        self._normalised = {"step": "normalise", "mean": mean, "std": std}

    def _Identity(self, transform: Any) -> None:
        del transform

    def _ToPureTensor(self, transform: Any) -> None:
        del transform

    def _RGB(self, transform: Any) -> None:
        """Pictures are red, green and blue when they are decoded."""
        del transform
