"""A sample of a Dataset as this script's process makes it, to compare with what others make."""

from __future__ import annotations

import pickle
import random
import sys
import warnings
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from .step_dataset import alike, shown_of
from .steps import NotTakable


def shown_here(pickled: bytes, buffers: Sequence[memoryview], seed: int) -> dict[str, Any]:
    """Sample 0 of a copy of the Dataset, which may keep what it makes. `raised`: what it raised."""
    try:
        import numpy  # noqa: F401
    except ImportError as problem:
        raise NotTakable(f"the service's processes need NumPy ({problem})") from None
    with _as_before(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        dataset = pickle.loads(pickled, buffers=[one.toreadonly() for one in buffers])
        _seed(seed)
        try:
            shown = shown_of(dataset[0])
        except Exception as problem:
            return {"raised": f"{type(problem).__name__}: {problem}"}
        if "problem" not in shown and getattr(dataset, "__getitems__", None):
            _check_together(dataset, seed, shown)
        return shown


def _check_together(dataset: Any, seed: int, alone: dict[str, Any]) -> None:
    """PyTorch reads a batch by __getitems__ where a Dataset has that, and the service reads samples
    one by one."""
    _seed(seed)
    try:
        together = shown_of(dataset.__getitems__([0])[0])
    except Exception as problem:
        raise NotTakable(f"its __getitems__ raises {type(problem).__name__}: {problem}") from None
    if "problem" in together or not alike(together, alone):
        raise NotTakable("its __getitems__, by which PyTorch reads, gives another sample 0 than its "
                         "__getitem__")


@contextmanager
def _as_before() -> Iterator[None]:
    """The script draws on as if nothing had been drawn."""
    import numpy
    torch = sys.modules.get("torch")
    states = random.getstate(), numpy.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        if torch is not None:
            torch.set_rng_state(states[2])


def _seed(seed: int) -> None:
    """As a confined process is seeded (step_dataset.seed_all). Generators of a GPU stay as they
    are."""
    import numpy
    random.seed(seed)
    numpy.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)
