"""A seeded generator of PyTorch, which decides a loader's order.

PyTorch draws from a loader's generator at each epoch. So an order depends on what the script and
other loaders do with it in between. Here an epoch draws one number from it, only to notice that.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, Optional


class Generator:
    """`seed` is that of the order. It is the generator's own where nothing was drawn from it."""

    def __init__(self, generator: Any):
        check_generator(generator)
        self._generator = generator
        self.seed = seed_of(generator)
        self._seen: Optional[bytes] = _state_of(generator)

    def leave_order(self) -> None:
        """The next epoch's order is that of a state which was loaded."""
        self._seen = None

    def begin_epoch(self) -> Optional[int]:
        """The seed of a new order, where something else has drawn from the generator or seeded it;
        None where the order goes on."""
        torch = sys.modules["torch"]
        goes_on = self._seen in (None, _state_of(self._generator))
        if not goes_on:
            self.seed = seed_of(self._generator)
        torch.empty((), dtype=torch.int64, device=self._generator.device).random_(
            generator=self._generator)
        self._seen = _state_of(self._generator)
        return None if goes_on else self.seed


def check_generator(generator: Any) -> None:
    if not hasattr(generator, "initial_seed") or not hasattr(generator, "get_state"):
        raise TypeError("generator should be a torch.Generator, not "
                        f"{type(generator).__name__}; a seed alone is shuffle_seed=")


def _state_of(generator: Any) -> bytes:
    return bytes(generator.get_state().numpy())


def seed_of(generator: Any) -> int:
    """That which it was given, or one that its state decides."""
    seed: int = generator.initial_seed() % 2**64
    fresh = type(generator)(device=generator.device).manual_seed(seed)
    state = _state_of(generator)
    if state == _state_of(fresh):
        return seed
    return int.from_bytes(hashlib.sha256(state).digest()[:8], "little")
