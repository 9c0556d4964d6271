"""States of other loaders, for `DataLoader.load_state_dict`.

A state at the end of an epoch is taken over exactly, and so is one in the middle of an epoch that
was not shuffled. One in the middle of a shuffled epoch cannot be, since BatchFlow's order differs:
it is refused or, with whole_epochs=True, the next epoch begins.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from .state import State


def _imported(loader: str, epoch: int, consumed: int, samples: Optional[int],
              whole_epochs: bool) -> State:
    if epoch < 0 or consumed < 0:
        raise ValueError(f"a {loader} state of epoch {epoch} after {consumed} samples")
    if whole_epochs and consumed:
        epoch, consumed = epoch + 1, 0
    return {"imported": loader, "epoch": epoch, "consumed": consumed, "samples": samples}


def _number(loader: str, state: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = state.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    raise ValueError(f"this is not a {loader} state: it has no number {' or '.join(names)}")


def _torchdata_rank(state: Mapping[str, Any]) -> int:
    """Samples that one rank has yielded in its epoch."""
    if "_snapshot" in state:  # with workers
        main = state["_snapshot"].get("_main_snapshot", {})
        steps = _number("torchdata", state, "_steps_since_snapshot")
        state = dict(main)
        if steps:
            raise ValueError(
                f"this torchdata state was taken {steps} batches after its last snapshot; save it "
                "with snapshot_every_n_steps=1")
    sampler = state.get("_sampler_iter_state") or {}
    yielded = sampler.get("samples_yielded") if isinstance(sampler, Mapping) else None
    if isinstance(yielded, int):
        return yielded
    if state.get("_num_yielded", state.get("_sampler_iter_yielded")) == 0:
        return 0
    raise ValueError("this torchdata state does not say how many samples were yielded (its "
                     "sampler kept no state); use whole_epochs=True with the epoch's number")


def from_torchdata(states: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]], *, epoch: int,
                   samples: Optional[int] = None, whole_epochs: bool = False) -> State:
    """`states` are those of StatefulDataLoader.state_dict(), one for each rank.

    They do not say their epoch, so `epoch` is needed. `samples` is how many the dataset has: a
    dataset with another number is refused.
    """
    all_states = [states] if isinstance(states, Mapping) else list(states)
    if not all_states:
        raise ValueError("no torchdata state; give that of each rank")
    if all(state.get("_iterator_finished") is True for state in all_states):
        return _imported("torchdata", epoch + 1, 0, samples, False)
    try:
        yielded = {_torchdata_rank(state) for state in all_states}
        if len(yielded) > 1:
            raise ValueError("the ranks' torchdata states are not of one step: "
                             f"{sorted(yielded)} samples were yielded")
    except ValueError:
        if not whole_epochs:
            raise
        yielded = {1}  # in the middle, wherever that is
    return _imported("torchdata", epoch, yielded.pop() * len(all_states), samples, whole_epochs)


def from_mosaicml(state: Mapping[str, Any], *, samples: Optional[int] = None,
                  whole_epochs: bool = False) -> State:
    """`state` is that of streaming's StreamingDataset or StreamingDataLoader."""
    for name in ("num_canonical_nodes", "shuffle_seed", "initial_physical_nodes"):
        if name not in state:
            raise ValueError(f"this is not a MosaicML state: it has no {name}")
    return _imported("MosaicML", _number("MosaicML", state, "epoch"),
                     _number("MosaicML", state, "sample_in_epoch"), samples, whole_epochs)


def from_litdata(state: Mapping[str, Any], *, samples: Optional[int] = None,
                 whole_epochs: bool = False) -> State:
    """`state` is that of litdata's StreamingDataset or StreamingDataLoader, which count epochs from
    1."""
    state = state.get("dataset", state)
    if isinstance(state, Mapping) and "0" in state and "current_epoch" not in state:
        state = state["0"]
    yielded = state.get("num_samples_yielded")
    ranks = _number("LitData", state, "world_size") if "world_size" in state else 1
    if isinstance(yielded, Mapping):  # by worker
        yielded = sum(yielded.values())
    if not isinstance(yielded, int):
        raise ValueError("this is not a LitData state: it has no number num_samples_yielded")
    return _imported("LitData", max(0, _number("LitData", state, "current_epoch") - 1),
                     yielded * ranks, samples, whole_epochs)
