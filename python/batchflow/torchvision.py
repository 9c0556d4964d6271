"""Turns torchvision's transforms into a pipeline of the service's own steps (docs/pipelines.md).

Transforms that are mapped give the same pictures. For others the error says why they cannot be.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Optional, Sequence

from .steps import NotTakable, Step, entries, entry, is_function


class Pipeline:
    """The steps of a pipeline, in the form of docs/pipelines.md, or functions (batchflow.step). To
    the service, two pipelines with the same steps are the same."""

    def __init__(self, steps: Sequence[Step], name: str = "from-python",
                 field: Optional[str] = None):
        self.name, self.steps, self.field = name, entries(steps), field

    def text(self) -> str:
        """The pipeline on one line, as jobs send it to the service."""
        whole: dict[str, Any] = {"kind": "pipeline", "name": self.name}
        if self.field is not None:
            whole["field"] = self.field
        return json.dumps({**whole, "steps": self.steps})

    def yaml(self) -> str:
        """The pipeline as a file, like those of configs/pipelines."""
        lines = ["kind: pipeline", f"name: {self.name}"]
        if self.field is not None:
            lines.append(f"field: {json.dumps(self.field)}")
        lines.append("steps:")
        for step in self.steps:
            words = ", ".join(f"{key}: {_scalar(value)}" for key, value in step.items())
            lines.append(f"  - {{{words}}}")
        return "\n".join(lines) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.text() == other.text()

    def __repr__(self) -> str:
        return f"Pipeline({self.steps})"


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value)
    return str(value) if plain else json.dumps(value)


class NotMappable(ValueError):
    """A transform that the service has no step for; the text says which and why."""


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


def parts_of(transform: Any) -> list[Any]:
    if isinstance(transform, (list, tuple)):
        parts = list(transform)
    elif _torchvision_kind(transform) == "Compose":
        parts = list(transform.transforms)
    elif (type(transform).__module__, type(transform).__name__) == (
            "torch.nn.modules.container", "Sequential"):
        parts = list(transform)
    else:
        return [transform]
    return [inner for part in parts for inner in parts_of(part)]


def _torchvision_kind(transform: Any) -> Optional[str]:
    """None for a class that is not torchvision's own: a derived class may do something else."""
    kind = type(transform)
    return kind.__name__ if kind.__module__.startswith("torchvision.") else None


def _size(size: Any) -> Any:
    sizes = [size] if isinstance(size, int) else list(size)
    if not sizes or len(sizes) > 2 or not all(isinstance(one, int) for one in sizes):
        raise NotMappable(f"size {size!r} is neither one number nor [height, width]")
    return sizes[0] if len(sizes) == 1 else sizes


def _square(size: Any) -> Any:
    """The size of a crop. One number means a square, in torchvision and in the service."""
    made = _size(size)
    return made[0] if isinstance(made, list) and made[0] == made[1] else made


def _check_bilinear(transform: Any) -> None:
    interpolation = getattr(transform, "interpolation", "bilinear")
    value = getattr(interpolation, "value", interpolation)
    if value not in ("bilinear", 2):
        raise NotMappable(f"its interpolation is {value}, and the service's is bilinear")


def _channels(values: Any) -> list[float]:
    """A number for each channel. torchvision also takes one number for all."""
    try:
        each = [float(value) for value in values]
    except TypeError:
        each = [float(values)]
    return 3 * each if len(each) == 1 else each


def _jitter(value: Any) -> Any:
    return 0 if value is None else [float(value[0]), float(value[1])]


_OF_NUMBERS = ("normalise", "tokens", "cast", "layout", "reshape")


class _Reader:
    """Reads transforms in their order: first those of pictures, then those of numbers."""

    def __init__(self) -> None:
        self._pictures: list[dict[str, Any]] = []
        self._scaled = False  # to 0..1, in float32
        self._normalised: Optional[dict[str, Any]] = None
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
        kind = _torchvision_kind(transform)
        method: Optional[Callable[[Any], None]] = getattr(self, f"_{kind}", None)
        if method is None:
            raise NotMappable(
                "the service has no such step; docs/pipelines.md lists those it has" if kind else
                "it is neither torchvision's own, nor a step, nor a function; write a function "
                "with def and @batchflow.step")
        if self._number_steps:
            raise NotMappable("it comes behind what works on numbers; put it before, or do it in a "
                              "function")
        method(transform)

    def steps(self) -> list[dict[str, Any]]:
        is_decoded = bool(self._pictures) and self._pictures[0].get("step") == "decode"
        made = self._pictures if is_decoded else [{"step": "decode"}, *self._pictures]
        if self._normalised:
            made.append(self._normalised)
        elif self._scaled:
            made.append({"step": "normalise", "mean": [0, 0, 0], "std": [1, 1, 1]})
        if self._half:
            made.append({"step": "cast", "to": self._half})
        if self._planes:
            made.append({"step": "layout", "order": "nchw"})
        return made + self._number_steps

    def _take(self, step: dict[str, Any], of_numbers: bool = False) -> None:
        """A step before the transform that makes a tensor takes pictures, [height, width, 3]."""
        of_numbers |= bool(self._scaled or self._planes or self._normalised or self._number_steps)
        (self._number_steps if of_numbers else self._pictures).append(step)

    def _add(self, **step: Any) -> None:
        self._pictures.append(step)

    def _require_bytes(self, what: str) -> None:
        if self._scaled or self._normalised:
            raise NotMappable(f"it {what} what are not bytes any more; put it before ToTensor")

    # ---------------------------------------------------------------------------------- pictures --

    def _Resize(self, transform: Any) -> None:
        self._require_bytes("resizes")
        if self._planes:
            raise NotMappable("it resizes a tensor, which is not what it does with a picture; put "
                              "it before what makes the tensor")
        _check_bilinear(transform)
        if getattr(transform, "max_size", None) is not None:
            raise NotMappable("max_size is not known to the service")
        self._add(step="resize", size=_size(transform.size))

    def _CenterCrop(self, transform: Any) -> None:
        self._require_bytes("crops")
        self._add(step="centre_crop", size=_square(transform.size))

    def _RandomResizedCrop(self, transform: Any) -> None:
        self._require_bytes("crops")
        if self._planes:
            raise NotMappable("it resizes a tensor; put it before what makes the tensor")
        _check_bilinear(transform)
        self._add(step="random_resized_crop", size=_square(transform.size),
                  scale=[float(one) for one in transform.scale],
                  ratio=[float(one) for one in transform.ratio])

    def _RandomHorizontalFlip(self, transform: Any) -> None:
        # It mirrors numbers as it mirrors bytes, so it may stand anywhere.
        self._add(step="horizontal_flip", probability=float(transform.p))

    def _ColorJitter(self, transform: Any) -> None:
        self._require_bytes("changes the colours of")
        if self._planes:
            raise NotMappable("it rounds tensors otherwise than pictures; put it before what makes "
                              "the tensor")
        self._add(step="colour_jitter",
                  **{name: _jitter(getattr(transform, name))
                     for name in ("brightness", "contrast", "saturation", "hue")})

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

    def _convert(self, dtype: str, scale: bool) -> None:
        dtype = dtype.replace("torch.", "")
        if dtype == "uint8" and not self._scaled:
            return
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
