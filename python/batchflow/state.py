"""The states of `state_dict()`: positions as the library writes them (docs/python.md,
Checkpoints)."""

from __future__ import annotations

import base64
import json
from typing import Any, Mapping, Optional

State = dict[str, Any]

# Keys of an epoch that has begun; each order has some of them.
_OF_THE_EPOCH = ("weights", "draws", "buffer", "rehearsed")
_NONE_LEFT_OUT = base64.b64encode(b"\0").decode()  # an empty list of the library's


def at_epoch(state: Mapping[str, Any], epoch: int) -> State:
    """The state at the beginning of `epoch`. The passes of lanes stay, since what was drawn is not
    drawn again."""
    made = {key: value for key, value in state.items() if key not in _OF_THE_EPOCH}
    made.update(epoch=epoch, consumed=0)
    if "mixture" in state:  # which goes on from epoch to epoch
        made["draws"] = state["draws"]
    if "had" in made:
        made["had"] = base64.b64encode(bytes(len(base64.b64decode(made["had"])))).decode()
        made.update(open=[], cursor=[])
    if "left_out" in made:
        made["left_out"] = _NONE_LEFT_OUT
    return made


def check(state: Any) -> State:
    if not isinstance(state, Mapping):
        raise TypeError("load_state_dict takes what state_dict() gave, a dict, "
                        f"not {type(state).__name__}")
    if state and "imported" not in state and not {"v", "order", "epoch", "consumed"} <= set(state):
        found = ", ".join(map(str, state)) if len(state) < 20 else f"{len(state)} keys"
        raise ValueError(f"this is not a state of batchflow.DataLoader (it has {found}); states of "
                         "other loaders are read by batchflow.imports")
    return dict(state)


def imported(loader: str, epoch: int, consumed: int = 0, samples: Optional[int] = None) -> State:
    """What is known of a position without the service; `settle` makes a state of it."""
    return {"imported": loader, "epoch": epoch, "consumed": consumed, "samples": samples}


def settle(wanted: State, beginning: State) -> State:
    """Completes an imported state from `beginning`, the state at which this job begins."""
    epoch, consumed = wanted["epoch"], wanted["consumed"]
    if wanted["samples"] not in (None, beginning["samples"]):
        raise ValueError(f"the {wanted['imported']} state is of a dataset of {wanted['samples']} "
                         f"samples, this one has {beginning['samples']}")
    if consumed >= beginning["samples"]:
        epoch, consumed = epoch + 1, 0
    if consumed and beginning["order"] != "sequential":
        raise ValueError(
            f"the {wanted['imported']} state is in the middle of epoch {epoch}, and a shuffled "
            "epoch that another loader began cannot be continued; finish it there, or begin "
            "the next one: the importer's whole_epochs=True")
    made = at_epoch(beginning, epoch)
    made["consumed"] = consumed
    return made


def text(state: Mapping[str, Any]) -> str:
    return json.dumps(state, separators=(",", ":"))
