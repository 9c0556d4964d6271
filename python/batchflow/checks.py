"""Checks of arguments: of whole numbers, and those that PyTorch makes too, in its words."""

from __future__ import annotations

from typing import Any

TIMEOUT_MOST_S = 1e8


def whole(name: str, value: Any, least: int, most: int = 2**32 - 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} should be an integer, not {type(value).__name__}")
    number: int = value.__index__()
    if not least <= number <= most:
        raise ValueError(f"{name} should be from {least} to {most}, but got {name}={number}")
    return number


def check_timeout(timeout: float) -> None:
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not timeout <= TIMEOUT_MOST_S:
        raise ValueError(f"timeout should be at most {TIMEOUT_MOST_S:.0f} seconds, but got "
                         f"timeout={timeout}")


def check_batch_size(batch_size: Any) -> None:
    is_whole = hasattr(batch_size, "__index__") and not isinstance(batch_size, bool)
    if not is_whole or batch_size.__index__() <= 0:
        raise ValueError("batch_size should be a positive integer value, but got "
                         f"batch_size={batch_size}")


def check_collate_fn(collate_fn: Any) -> None:
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError("collate_fn should be a function that takes a list of samples")


def check_like_torch(given: dict[str, Any]) -> None:
    if given["num_workers"] < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable "
                         "multiprocessing.")
    check_timeout(given["timeout"])
    if given["prefetch_factor"] is not None and given["prefetch_factor"] < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if given["sampler"] is not None and given["shuffle"]:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if given["batch_sampler"] is not None:
        if (given["batch_size"] != 1 or given["shuffle"] or given["sampler"] is not None or
                given["drop_last"]):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, "
                             "sampler, and drop_last")
        raise ValueError("batch_sampler: the service decides what is in a batch; write "
                         "batch_size=, shuffle= and drop_last=")
    if given["batch_size"] is None and given["drop_last"]:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive "
                         "with drop_last")
    if given["batch_size"] is not None:
        check_batch_size(given["batch_size"])
    check_collate_fn(given["collate_fn"])
