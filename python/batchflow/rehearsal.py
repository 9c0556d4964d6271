"""Rehearsal from a buffer that the service fills."""

from __future__ import annotations

import dataclasses
from array import array
from typing import Any, Mapping, Optional, Sequence

from .checks import whole

KEYS = ("policy", "samples", "rehearsed", "name")
SAMPLES_MOST = 65536  # BF_EXEMPLARS_MOST
FEATURES_MOST = 512  # BF_FEATURES_MOST
NO_CLASS = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Buffer:
    policy: str
    samples: int  # at most
    name: Optional[str]


class Exemplars:
    """What an epoch rehearses from: keys, ascending, and the part of the draws that each gets."""

    def __init__(self, keys: Sequence[int], weights: Sequence[int]):
        self.keys = list(keys)
        total = sum(weights)
        self.parts = [weight / total if total else 1 / len(self.keys) for weight in weights]
        self._part_of = dict(zip(self.keys, self.parts))

    def __len__(self) -> int:
        return len(self.keys)

    def importance(self, keys: Sequence[int], beta: float) -> list[float]:
        """(n P(i))^-beta over the greatest such number in the buffer; 1 for a key that is not in
        it."""
        least = min((part for part in self.parts if part > 0), default=1.0)
        return [(self._part_of[key] / least) ** -beta if self._part_of.get(key, 0) > 0 else 1.0
                for key in keys]


def read(given: dict[str, Any]) -> tuple[Optional[Buffer], int]:
    """The buffer that `rehearsal=` asks for, and how many samples of each batch are rehearsed."""
    asked = given["rehearsal"]
    if asked is None:
        return None, whole("rehearsed", given["rehearsed"] or 0, 0)
    if not isinstance(asked, Mapping):
        raise TypeError(f"rehearsal should be a dict, not {type(asked).__name__}")
    if not set(asked) <= set(KEYS) or "samples" not in asked or "rehearsed" not in asked:
        raise ValueError(f"rehearsal={dict(asked)!r}: write how many samples the buffer has, and how "
                         "many of each batch are rehearsed, as {'policy': 'reservoir', 'samples': "
                         f"200, 'rehearsed': 8}}; it may say {', '.join(KEYS)}")
    for other in ("rehearsed", "exemplars"):
        if given[other] is not None:
            raise ValueError(f"{other}= is for a buffer that the script fills, and rehearsal= for one "
                             "that the service fills; leave one of them out")
    policy, name = asked.get("policy", "reservoir"), asked.get("name")
    if not isinstance(policy, str) or not policy:
        raise TypeError(f"rehearsal: policy should be a text, as 'reservoir', not {policy!r}")
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"rehearsal: name should be a text, not {name!r}")
    return (Buffer(policy, whole("rehearsal: samples", asked["samples"], 1, SAMPLES_MOST), name),
            whole("rehearsal: rehearsed", asked["rehearsed"], 1))


def features_of(features: Any, samples: int) -> tuple["array[float]", int]:
    """All values in turn, and how many values a sample has."""
    rows = features.detach() if hasattr(features, "detach") else features
    rows = rows.tolist() if hasattr(rows, "tolist") else [list(row) for row in rows]
    if len(rows) != samples:
        raise ValueError(f"{samples} keys and features of {len(rows)} samples; write as many")
    width = len(rows[0]) if rows else 0
    if any(len(row) != width for row in rows) or width > FEATURES_MOST:
        raise ValueError(f"features should be as many for each sample, at most {FEATURES_MOST}")
    values = array("f")
    for row in rows:
        values.extend(row)
    return values, width


def classes_of(labels: Any, samples: int) -> Optional["array[int]"]:
    if labels is None:
        return None
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(values) != samples:
        raise ValueError(f"{samples} keys and {len(values)} classes; write a class for each")
    return array("I", (NO_CLASS if value is None else value for value in values))
