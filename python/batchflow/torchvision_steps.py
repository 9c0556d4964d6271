"""What torchvision's transforms of pictures are as steps of the service (docs/pipelines.md).

Each function here takes one transform, of `transforms` or of `v2`, and answers its steps. It raises
NotMappable where the transform asks for what the service does not do.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

_Step = dict[str, Any]


class NotMappable(ValueError):
    """A transform that the service has no step for; the text says which and why."""


def torchvision_kind(transform: Any) -> Optional[str]:
    """None for a class that is not torchvision's own: a derived class may do something else."""
    kind = type(transform)
    return kind.__name__ if kind.__module__.startswith("torchvision.") else None


def parts_of(transform: Any) -> list[Any]:
    """The transforms of a Compose, a Sequential or a list, however deep they stand in it."""
    if isinstance(transform, (list, tuple)):
        parts = list(transform)
    elif torchvision_kind(transform) == "Compose":
        parts = list(transform.transforms)
    elif (type(transform).__module__, type(transform).__name__) == (
            "torch.nn.modules.container", "Sequential"):
        parts = list(transform)
    else:
        return [transform]
    return [inner for part in parts for inner in parts_of(part)]


def is_of_pictures(transform: Any) -> bool:
    return torchvision_kind(transform) in _STEPS


def steps_of(transform: Any, is_tensor: bool) -> list[_Step]:
    """The steps of a transform of pictures. `is_tensor`: what it works on is a tensor of bytes, for
    which torchvision has other arithmetic."""
    kind = torchvision_kind(transform) or ""
    if is_tensor and kind in _OTHERWISE_ON_TENSORS:
        raise NotMappable("it moves the pixels of tensors otherwise than those of pictures; put it "
                          "before what makes the tensor")
    return _STEPS[kind](transform, is_tensor)


def size_of(size: Any) -> Any:
    sizes = [size] if isinstance(size, int) else list(size or [])
    if not sizes or len(sizes) > 2 or not all(isinstance(one, int) for one in sizes):
        raise NotMappable(f"size {size!r} is neither one number nor [height, width]")
    return sizes[0] if len(sizes) == 1 else sizes


def square_of(size: Any) -> Any:
    """The size of a crop. One number means a square, in torchvision and in the service."""
    made = size_of(size)
    return made[0] if isinstance(made, list) and made[0] == made[1] else made


# Also by the numbers that Pillow gives them.
_FILTERS = {"bilinear": "bilinear", 2: "bilinear", "bicubic": "bicubic", 3: "bicubic",
            "nearest": "nearest", 0: "nearest", "nearest-exact": "nearest"}


def _written_filter(transform: Any) -> Any:
    interpolation = getattr(transform, "interpolation", "bilinear")
    return getattr(interpolation, "value", interpolation)


def filter_of(transform: Any, is_tensor: bool = False) -> _Step:
    """The parameter `interpolation`, where it is not the bilinear one."""
    value = _written_filter(transform)
    made = _FILTERS.get(value)
    if made is None:
        raise NotMappable(f"its interpolation is {value}, and the service has bilinear, bicubic and "
                          "nearest")
    if is_tensor and value in ("nearest", 0):
        raise NotMappable("its interpolation is nearest, which takes other pixels of a tensor than "
                          "of a picture; write NEAREST_EXACT")
    if is_tensor and made != "nearest" and getattr(transform, "antialias", None) is not True:
        raise NotMappable("it resizes a tensor without antialias, as the service never does; write "
                          "antialias=True, or put it before what makes the tensor")
    return {} if made == "bilinear" else {"interpolation": made}


def _warp_style(transform: Any) -> _Step:
    value = _written_filter(transform)
    made = _FILTERS.get(value)
    if made is None:
        raise NotMappable(f"its interpolation is {value}, and the service has bilinear, bicubic and "
                          "nearest")
    return {"interpolation": made, "fill": _fill(transform.fill)}


def _whole(values: Sequence[Any]) -> list[int]:
    if any(value != int(value) for value in values):
        raise NotMappable(f"{list(values)} has values that are not whole")
    return [int(value) for value in values]


def _fill(fill: Any) -> Any:
    """The colour of what lies outside a picture."""
    if fill is None:
        return 0
    if isinstance(fill, dict):
        raise NotMappable("its fill differs by type; write one number or [red, green, blue]")
    if isinstance(fill, (int, float)):
        return _whole([fill])[0]
    colour = _whole(fill)
    return colour[0] if len(colour) == 1 else colour


def _floats(values: Sequence[Any]) -> list[float]:
    return [float(value) for value in values]


def _resize(transform: Any, is_tensor: bool) -> list[_Step]:
    if getattr(transform, "max_size", None) is not None:
        raise NotMappable("max_size is not known to the service")
    return [{"step": "resize", "size": size_of(transform.size), **filter_of(transform, is_tensor)}]


def _centre_crop(transform: Any, _: bool) -> list[_Step]:
    return [{"step": "centre_crop", "size": square_of(transform.size)}]


def _random_resized_crop(transform: Any, is_tensor: bool) -> list[_Step]:
    return [{"step": "random_resized_crop", "size": square_of(transform.size),
             "scale": _floats(transform.scale), "ratio": _floats(transform.ratio),
             **filter_of(transform, is_tensor)}]


def _pad_style(transform: Any) -> _Step:
    mode = str(transform.padding_mode)
    return {"fill": _fill(transform.fill)} if mode == "constant" else {"padding_mode": mode}


def _padding(padding: Any) -> Any:
    values = _whole([padding] if isinstance(padding, int) else padding)
    if any(value < 0 for value in values):
        raise NotMappable(f"its padding {values} takes pixels away; write a crop")
    return values[0] if len(values) == 1 else values


def _random_crop(transform: Any, _: bool) -> list[_Step]:
    padding, if_needed = transform.padding, bool(transform.pad_if_needed)
    is_second = ".v2" in type(transform).__module__
    if padding and if_needed and is_second and transform.padding_mode in ("reflect", "symmetric"):
        raise NotMappable("padding and pad_if_needed mirror a picture once in v2, and twice in the "
                          "service and in transforms; write one of them")
    return [{"step": "random_crop", "size": square_of(transform.size),
             **({"padding": _padding(padding)} if padding else {}),
             **({"pad_if_needed": True} if if_needed else {}),
             **(_pad_style(transform) if padding or if_needed else {})}]


def _pad(transform: Any, _: bool) -> list[_Step]:
    return [{"step": "pad", "padding": _padding(transform.padding), **_pad_style(transform)}]


def _check_in_place(transform: Any) -> None:
    if getattr(transform, "expand", False):
        raise NotMappable("expand is not known to the service; pad the picture before it")
    if transform.center is not None:
        raise NotMappable("center is not known to the service, which turns around the middle")


def _random_rotation(transform: Any, _: bool) -> list[_Step]:
    _check_in_place(transform)
    return [{"step": "random_rotation", "degrees": _floats(transform.degrees),
             **_warp_style(transform)}]


def _random_affine(transform: Any, _: bool) -> list[_Step]:
    _check_in_place(transform)
    optional = {name: _floats(getattr(transform, name)) for name in ("translate", "scale", "shear")
                if getattr(transform, name) is not None}
    return [{"step": "random_affine", "degrees": _floats(transform.degrees), **optional,
             **_warp_style(transform)}]


def _jitter(value: Any) -> Any:
    return 0 if value is None else [float(value[0]), float(value[1])]


def _colour_jitter(transform: Any, is_tensor: bool) -> list[_Step]:
    if is_tensor and transform.hue is not None and any(transform.hue):
        raise NotMappable("it turns the hue of tensors by other arithmetic than that of pictures; "
                          "put it before what makes the tensor")
    return [{"step": "colour_jitter",
             **{name: _jitter(getattr(transform, name))
                for name in ("brightness", "contrast", "saturation", "hue")}}]


def _greyscale(transform: Any, _: bool) -> list[_Step]:
    if transform.num_output_channels != 3:
        raise NotMappable("num_output_channels is 1, and pictures have three channels here; write 3")
    return [{"step": "greyscale"}]


def _gaussian_blur(transform: Any, _: bool) -> list[_Step]:
    return [{"step": "gaussian_blur", "kernel_size": _whole(transform.kernel_size),
             "sigma": _floats(transform.sigma)}]


def _with_probability(step: str, **parameters: str) -> Callable[[Any, bool], list[_Step]]:
    """`parameters`: the step's, by the names that torchvision has for them."""
    def steps(transform: Any, _: bool) -> list[_Step]:
        return [{"step": step, **{name: getattr(transform, attribute)
                                  for name, attribute in parameters.items()},
                 "probability": float(transform.p)}]
    return steps


def _rand_augment(transform: Any, _: bool) -> list[_Step]:
    return [{"step": "rand_augment", "operations": transform.num_ops,
             "magnitude": transform.magnitude, "bins": transform.num_magnitude_bins,
             **_warp_style(transform)}]


def _trivial_augment(transform: Any, _: bool) -> list[_Step]:
    return [{"step": "trivial_augment_wide", "bins": transform.num_magnitude_bins,
             **_warp_style(transform)}]


def _auto_augment(transform: Any, _: bool) -> list[_Step]:
    return [{"step": "auto_augment", "policy": transform.policy.value, **_warp_style(transform)}]


def _inner(transforms: Any, is_tensor: bool) -> list[_Step]:
    made: list[_Step] = []
    for transform in parts_of(transforms):
        if not is_of_pictures(transform):
            raise NotMappable(f"{type(transform).__name__} stands inside of it, where the service "
                              "has only steps that change pictures")
        try:
            made += steps_of(transform, is_tensor)
        except NotMappable as problem:
            raise NotMappable(f"{type(transform).__name__} inside of it: {problem}") from None
    return made


def _random_apply(transform: Any, is_tensor: bool) -> list[_Step]:
    return [{"step": "random_apply", "probability": float(transform.p),
             "steps": _inner(list(transform.transforms), is_tensor)}]


def _random_choice(transform: Any, is_tensor: bool) -> list[_Step]:
    choices = [_inner(choice, is_tensor) for choice in transform.transforms]
    weights = getattr(transform, "p", None)
    return [{"step": "random_choice",
             "steps": [steps[0] if len(steps) == 1 else
                       {"step": "random_apply", "probability": 1, "steps": steps}
                       for steps in choices],
             **({} if weights is None else {"probabilities": _floats(weights)})}]


_STEPS: dict[str, Callable[[Any, bool], list[_Step]]] = {
    "Resize": _resize,
    "CenterCrop": _centre_crop,
    "RandomResizedCrop": _random_resized_crop,
    "RandomCrop": _random_crop,
    "Pad": _pad,
    "RandomHorizontalFlip": _with_probability("horizontal_flip"),
    "RandomVerticalFlip": _with_probability("vertical_flip"),
    "RandomRotation": _random_rotation,
    "RandomAffine": _random_affine,
    "ColorJitter": _colour_jitter,
    "Grayscale": _greyscale,
    "RandomGrayscale": _with_probability("random_greyscale"),
    "GaussianBlur": _gaussian_blur,
    "RandomAdjustSharpness": _with_probability("sharpness", factor="sharpness_factor"),
    "RandomInvert": _with_probability("invert"),
    "RandomPosterize": _with_probability("posterize", bits="bits"),
    "RandomSolarize": _with_probability("solarize", threshold="threshold"),
    "RandomAutocontrast": _with_probability("autocontrast"),
    "RandomEqualize": _with_probability("equalize"),
    "RandAugment": _rand_augment,
    "TrivialAugmentWide": _trivial_augment,
    "AutoAugment": _auto_augment,
    "RandomApply": _random_apply,
    "RandomChoice": _random_choice,
}

# On tensors torchvision finds other pixels for these. What else it does to a tensor of bytes differs
# from what it does to a picture by 1 at most; a bicubic enlargement, which overshoots, by some more.
_OTHERWISE_ON_TENSORS = ("RandomRotation", "RandomAffine", "RandAugment", "TrivialAugmentWide",
                         "AutoAugment")
