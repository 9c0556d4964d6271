"""The arguments of a DataLoader, PyTorch's and BatchFlow's: checked, in one object.

An argument that has a meaning here takes effect or is refused. One that has no meaning here is
accepted, with a warning the first time.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

from . import orders
from .arrays import check_output
from .checks import check_collate_fn, check_like_torch, check_timeout, whole
from .generator import Generator, check_generator
from .image_folder import ImageFolder, is_image_folder
from .library import ORDERS
from .mixing import Mixing, check_mixing
from .ranks import Rank, find_rank, launched
from .torchvision import pipeline_name, pipeline_of

if TYPE_CHECKING:
    from .served_dataset import ServedDataset

ALIASES = {"max_cache_size": "cache_limit", "seed": "shuffle_seed", "input_dir": "dataset",
           "remote": "dataset", "prefetch_batches": "prefetch_factor",
           "batches_ahead": "prefetch_factor"}
DEFAULT_TIMEOUT_S = 300.0  # as in batchflow.h
SPLIT_RULES = ("fraction", "part", "keys", "classes", "bytes", "folder")
# With this many credits, the records that a loader may write before the service reads them fill
# half of a ring.
PREFETCH_MOST = 545

_UNITS = {"": 1, **{prefix + "b": 1000**i for i, prefix in enumerate(["", "k", "m", "g", "t"])},
          **{prefix + "ib": 1024**i for i, prefix in enumerate(["k", "m", "g", "t"], 1)}}
_said: set[str] = set()
# By their modules: frameworks that split the loader of a script over ranks.
_SPLIT_PYTORCHS = {
    "accelerate": "since Accelerate's prepare() splits none but PyTorch's own loader",
    "lightning.pytorch": "since Lightning splits none but PyTorch's own loader",
    "pytorch_lightning": "since Lightning splits none but PyTorch's own loader"}


def say_once(what: str, why: str) -> None:
    if what in _said:
        return
    _said.add(what)
    say(f"{what} {why}")


def say(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning that names the user's line, however deep this was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"batchflow.DataLoader: {text}", category, stacklevel=level)


def parse_bytes(value: Union[int, str]) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
    size = int(float(match[1]) * _UNITS.get(match[2], 0)) if match else 0
    if isinstance(value, bool) or size == 0:
        raise ValueError(f"cache_limit={value!r} is not a size; write a number of bytes, '64gb' "
                         "(10^9) or '64gib' (2^30)")
    return size


@dataclasses.dataclass
class Expected:
    """How many samples a sampler of PyTorch goes over."""

    sampler: str
    samples: int

    def check(self, samples: int) -> None:
        if samples != self.samples:
            raise ValueError(f"the {self.sampler} goes over {self.samples} samples, and the "
                             f"service finds {samples}; write split= for a part of them, as "
                             "{'fraction': 0.9}")


@dataclasses.dataclass
class Arguments:
    """The checked arguments. They are plain values, so that they can be pickled for another
    process."""

    dataset: str
    reading: Optional[str]  # how a path is read, as in bf_loader_options
    batch_size: Optional[int]
    order: str
    order_options: orders.OrderOptions
    weights: Optional[orders.Scores]  # of a sampler: scores from the beginning
    shuffle_seed: Optional[int]
    drop_last: bool
    timeout: float  # as it was given
    timeout_s: float
    collate_fn: Optional[Callable[[Any], Any]]
    pin_memory: bool
    device: Optional[str]
    pipeline: Optional[str]
    epochs: int
    service: Optional[str]
    rank: Optional[int]  # as it was given
    world_size: Optional[int]
    ranks_are_launched: bool  # ranks="auto"
    credits: int
    cache_limit: Optional[int]
    target_workers: Optional[int]
    copy: bool
    output: str
    job_name: Optional[str]
    corrupt_ratio_max: Optional[float]
    latency_target_s: float
    receipts: Optional[str]  # a folder
    folder: Optional[ImageFolder]  # where the dataset is one of torchvision's
    expected: Optional[Expected]
    brought: Optional[ServedDataset]  # where the dataset is one of the script's own
    generator: Optional[Generator] = None  # where it decides the order
    say_stalls: bool = True
    ideal: bool = False
    mixing: Optional[Mixing] = None

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch's generators stay in their process; the seed goes along.
        return {**self.__dict__, "generator": None}

    @property
    def is_path(self) -> bool:
        return self.dataset.startswith(("/", ".")) or is_url(self.dataset)

    @property
    def is_split_over_ranks(self) -> bool:
        return self.ranks_are_launched or self.rank is not None

    def ranks(self) -> Rank:
        """The rank of this process, which may not be the process that made the loader."""
        return find_rank(self.rank, self.world_size, self.ranks_are_launched)


def _text(name: str, value: Any) -> Optional[str]:
    if value is None:
        return None
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} should be a text, not {type(value).__name__}")
    if "\0" in text:
        raise ValueError(f"{name}={text!r} has a NUL in it, where it would end; leave that out")
    return text


def _folder(name: str, value: Any) -> Optional[str]:
    folder = _text(name, value)
    if folder == "":
        raise ValueError(f"{name} is empty; write the path of a folder, or leave it out")
    return None if folder is None else os.path.abspath(os.path.expanduser(folder))


SCHEMES = ("s3", "gs", "https", "http")


def is_url(dataset: str) -> bool:
    return "://" in dataset


def _dataset(dataset: Any) -> str:
    if not isinstance(dataset, (str, os.PathLike)):
        raise TypeError(
            "dataset should be the path of a folder or file, a name at the service, or a Dataset "
            f"with __getitem__ and __len__, not {type(dataset).__name__}")
    is_path = isinstance(dataset, os.PathLike)
    name = _text("dataset", dataset)
    if not name:
        raise ValueError("dataset is empty; write a path or a name")
    if is_url(name) and not is_path:
        scheme = name.split("://", 1)[0]
        if scheme not in SCHEMES:
            raise ValueError(f"dataset={name!r}: nothing reads {scheme}://; write a URL that begins "
                             f"with {', '.join(f'{one}://' for one in SCHEMES)}, or mount or copy "
                             "that, and write its path here")
        return name
    name = os.path.expanduser(name)
    if is_path or name.startswith(("/", ".")):
        name = os.path.abspath(name)
    return name


PACKINGS = ("concat", "whole", "buckets")
SEQUENCE_MOST = 1 << 20  # tokens
END_TOKEN_MOST = 2**31 - 1  # tokens are i32


def _packed(given: Mapping[str, Any]) -> list[str]:
    """How documents become sequences, in the form of batchflowd's --dataset."""
    packing, tokens = given["packing"], given["tokens"]
    if packing is None:
        for name in ("packing_seed", "end_token", "rows"):
            if given[name] is not None:
                raise ValueError(f"{name} says how documents become sequences; write also "
                                 "packing='concat' or packing='whole'")
        return []
    if packing not in PACKINGS:
        raise ValueError(f"packing={packing!r} is not known; write 'concat' (documents end to end, "
                         "cut every `tokens`), 'whole' (each document in one sequence) or 'buckets' "
                         "(documents of like length, each in a row)")
    if tokens is None:
        raise ValueError(f"packing={packing!r} needs the tokens of a sequence; write tokens=2048")
    whole("tokens", tokens, 1, SEQUENCE_MOST)
    parts = [f"packing={packing}"]
    if given["packing_seed"] is not None:
        parts.append(f"packing_seed={whole('packing_seed', given['packing_seed'], 0, 10**18)}")
    if given["rows"] is not None:
        if packing != "whole":
            raise ValueError(f"rows= is for packing='whole', and this is {packing!r}; leave it out")
        parts.append(f"rows={whole('rows', given['rows'], 1, SEQUENCE_MOST // tokens)}")
    if given.get("mix") is not None:
        parts.append(f"mix={given['mix']}")
    if given["end_token"] is not None:
        parts.append(f"end_token={whole('end_token', given['end_token'], 0, END_TOKEN_MOST)}")
    return parts


def _column(name: str, value: Any) -> str:
    column = _text(name, value)
    if not column or "," in column:
        raise ValueError(f"{name}={value!r} cannot be written here; write the name of a column, or "
                         "have the dataset served by a name (docs/datasets.md)")
    return f"{name}={column}"


def _takes_clips(pipeline: Optional[str]) -> bool:
    """Whether a pipeline that is brought is for video: files are read as video only where it is."""
    if pipeline is None or not pipeline.startswith("{"):
        return False
    return any(one.get("step") in ("clip", "random_clip") for one in json.loads(pipeline)["steps"])


def _reading(dataset: str, given: Mapping[str, Any], is_video: bool) -> Optional[str]:
    """How a path is read, in the form of batchflowd's --dataset."""
    split, tokens, packed = given["split"], given["tokens"], _packed(given)
    columns = [name for name in ("column", "label") if given[name] is not None]
    is_video = is_video and (dataset.startswith("/") or is_url(dataset))
    if split is None and tokens is None and not columns and not is_video:
        return None
    if not dataset.startswith("/") and not is_url(dataset):
        raise ValueError(f"split, tokens, column and label are for a path, and '{dataset}' is a name "
                         f"at the service, which has its own: '{dataset}:train' is a split of it")
    parts = [] if tokens is None else [f"tokens={whole('tokens', tokens, 1, 999_999_999)}"]
    parts += packed
    if is_video:
        parts.append("format=video")
    parts += [_column(name, given[name]) for name in columns]
    if split is not None:
        if not isinstance(split, Mapping) or not split or not set(split) <= set(SPLIT_RULES):
            raise ValueError(f"split={split!r}: write a rule, as {{'fraction': 0.9}} and for what "
                             "that leaves {'fraction': 0.9, 'part': 'rest'}, or {'keys': '0-999'}; "
                             f"it may say {', '.join(SPLIT_RULES)} (docs/datasets.md)")
        rules = []
        for name, value in split.items():
            values = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value
            texts = [str(_text(f"split: {name}", str(one))) for one in values]
            if any(set(text) & set(",:+") for text in texts):
                raise ValueError(f"split: {name}={value!r} has a comma, colon or plus in it; have the "
                                 "split served by a name (docs/datasets.md)")
            rules.append(f"{name}={'+'.join(texts)}")
        parts.append("split=part:" + ":".join(rules))
    return ",".join(parts)


def meant_by(sampler: Any) -> tuple[dict[str, Any], Expected]:
    """The arguments that mean the same as a sampler of PyTorch, where it only decides the order."""
    kind = type(sampler).__name__
    drawn = orders.with_replacement(sampler)
    if drawn is not None:
        meant, samples = drawn
    elif kind == "SequentialSampler":
        meant, samples = {"shuffle": False}, len(sampler)
    elif kind == "RandomSampler" and len(sampler) == len(sampler.data_source):
        meant, samples = {"shuffle": True}, len(sampler)
    elif is_distributed(sampler):
        if sampler.drop_last and len(sampler.dataset) % sampler.num_replicas:
            say_once("drop_last of a DistributedSampler",
                     "leaves nothing out here: ranks get equal counts by repeating samples, fewer "
                     "than there are ranks, as with drop_last=False")
        meant = {"shuffle": sampler.shuffle, "shuffle_seed": sampler.seed, "rank": sampler.rank,
                 "world_size": sampler.num_replicas}
        samples = len(sampler.dataset)
    else:
        raise ValueError(
            f"sampler: the service cannot use a {kind}, since it decides the order itself; "
            "write shuffle=True, order='weighted' with report_scores(), or split=, as "
            "{'keys': '0-999'}")
    return meant, Expected(kind, samples)


def is_distributed(sampler: Any) -> bool:
    return type(sampler).__name__ in ("DistributedSampler", "StatefulDistributedSampler")


def _is_whole(sampler: Any, batch_size: Any) -> bool:
    """Whether PyTorch's last batch has all of its samples, with those that fill up a rank."""
    return not sampler.drop_last and bool(batch_size) and sampler.num_samples % batch_size == 0


def _say_how_ranks_take_turns(sampler: Any) -> None:
    if not sampler.shuffle and sampler.num_replicas > 1:
        say_once("a DistributedSampler that does not shuffle",
                 "lets ranks take turns by whole batches here, and by single samples in PyTorch: what "
                 "is put back in order by ranks, such as predictions, needs local=True")


def _pipeline(pipeline: Any) -> Optional[str]:
    if pipeline is None or isinstance(pipeline, (str, os.PathLike)):
        name = _text("pipeline", pipeline)
        return name and pipeline_name(name)
    from .step_memory import with_memory  # which needs this module
    made = copy.copy(pipeline_of(pipeline))
    made.steps = [with_memory(step) for step in made.steps]
    return made.text()


def _order(order: Optional[str], shuffle: Any) -> str:
    if shuffle not in (None, True, False, "runs"):
        raise ValueError(f"shuffle should be a boolean or 'runs', but got shuffle={shuffle!r}")
    if order is None:
        return "relaxed" if shuffle else "sequential"
    if order == "live":
        raise ValueError("order='live' is that of a feed; write DataLoader(batchflow.Live('NAME'))")
    if order not in ORDERS or order == "mixed":
        raise ValueError(f"order={order!r}: write strict, relaxed or weighted")
    if (shuffle is False and order != "sequential") or (shuffle and order == "sequential"):
        raise ValueError(f"order={order!r} contradicts shuffle={shuffle}; leave one of them out")
    if shuffle == "runs" and order != "relaxed":
        raise ValueError(f"shuffle='runs' is a relaxed order, and order={order!r}; leave one of "
                         "them out")
    return order


def _seeded(given: dict[str, Any], own_seed: Any) -> tuple[str, Any, Optional[Generator]]:
    """The order, its seed, and the generator that it follows. A strict order repeats from run to
    run, as PyTorch's does with a generator."""
    if given.get("live") is not None:
        return "live", own_seed, None
    if given["mixture"] is not None:
        return _seeded_mixture(given, own_seed)
    order, seed = _order(given["order"], given["shuffle"]), given["shuffle_seed"]
    if given["generator"] is not None:
        check_generator(given["generator"])  # as PyTorch does, where it decides nothing too
    if given["generator"] is None or order == "sequential":
        return order, seed, None
    if own_seed is not None:
        raise ValueError(f"shuffle_seed={own_seed} and the generator each give a seed; leave one "
                         "of them out")
    if given["shuffle"] == "runs":
        say_once("generator", "does not make shuffle='runs' the same in every run; write "
                 "shuffle=True")
        return order, seed if seed is not None else Generator(given["generator"]).seed, None
    if given["order"] == "relaxed":
        say_once("generator", "does not make order='relaxed' the same in every run; leave order "
                 "out, or write order='strict'")
    order = given["order"] or "strict"
    if seed is not None:  # a DistributedSampler's, which takes no generator
        return order, seed, None
    generator = Generator(given["generator"])
    return order, generator.seed, None if order == "relaxed" else generator


def _seeded_mixture(given: dict[str, Any],
                    own_seed: Any) -> tuple[str, Any, Optional[Generator]]:
    """A mixture goes on from epoch to epoch, so a generator gives its seed once."""
    if given["shuffle"] not in (None, True, False, "runs"):
        raise ValueError(f"shuffle should be a boolean, but got shuffle={given['shuffle']!r}")
    if given["generator"] is None:
        return "mixed", own_seed, None
    check_generator(given["generator"])
    if own_seed is not None:
        raise ValueError(f"shuffle_seed={own_seed} and the generator each give a seed; leave one "
                         "of them out")
    return "mixed", Generator(given["generator"]).seed if given["shuffle"] else None, None


def _launched(ranks: Any) -> bool:
    if ranks not in (None, "auto"):
        raise ValueError(f"ranks={ranks!r}: write 'auto' for a part of the data for each rank that "
                         "was launched, or nothing for all of it in each")
    return bool(ranks)


def _say_that_each_rank_gets_all() -> None:
    try:
        ranks = launched()
    except ValueError:
        return
    splits = [words for module, words in _SPLIT_PYTORCHS.items() if module in sys.modules]
    if ranks.world_size > 1:
        say_once("without a DistributedSampler", f"each of the {ranks.world_size} ranks gets all "
                 f"samples, {splits[0] if splits else 'as in PyTorch'}; write ranks='auto' for a part "
                 "in each")


def _ratio(name: str, value: Any) -> Optional[float]:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name} should be a part of all samples, from 0 to 1, but got "
                         f"{name}={value!r}")
    return float(value)


def _seconds(name: str, value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{name} should be 0 to {most:g} seconds, but got {name}={value!r}")
    return float(value)


def _allows_ideal(ideal: Optional[bool]) -> bool:
    """Whether `batchflowctl doctor --ideal` may have batches given again."""
    return os.environ.get("BATCHFLOW_IDEAL", "0") not in ("", "0") if ideal is None else bool(ideal)


_OF_COLLATE_FN = ("num_workers", "worker_init_fn", "multiprocessing_context", "persistent_workers")


def say_what_has_no_meaning(given: dict[str, Any]) -> None:
    collates = given["collate_fn"] is not None and given["num_workers"] > 0
    prepared = "has no meaning here: the service's workers prepare for all jobs"
    for name, default, why in (
            ("num_workers", 0, prepared), ("worker_init_fn", None, prepared),
            ("multiprocessing_context", None, prepared), ("persistent_workers", False, prepared),
            ("pin_memory_device", "", "has no meaning here: the current device is meant"),
            ("in_order", True, "has no meaning here: batches come in the order of the epoch"),
            ("snapshot_every_n_steps", None, "has no meaning here: states are exact at each step")):
        if given[name] not in (default, None) and not (collates and name in _OF_COLLATE_FN):
            say_once(name, why)


def _check_device(device: Any) -> None:
    torch = sys.modules.get("torch")
    if device is None or torch is None:
        return
    try:
        torch.device(device)
    except (RuntimeError, TypeError) as problem:
        raise ValueError(f"device={device!r}: {problem}") from None


def changed(arguments: Arguments, **attributes: Any) -> Arguments:
    """Changes attributes that PyTorch allows to be set on a DataLoader, from the next batch on."""
    check_timeout(attributes.get("timeout", 0))
    check_collate_fn(attributes.get("collate_fn"))
    if "timeout" in attributes:
        attributes["timeout_s"] = float(attributes["timeout"]) or DEFAULT_TIMEOUT_S
    return dataclasses.replace(arguments, **attributes)


def with_exemplars(arguments: Arguments, keys: Any) -> Arguments:
    exemplars = orders.keys_of("report_exemplars", keys)
    return dataclasses.replace(arguments, order_options=dataclasses.replace(
        arguments.order_options, exemplars=exemplars))


def take_aliases(given: dict[str, Any], aliases: dict[str, Any]) -> None:
    """`given`: the arguments of DataLoader.__init__ by name."""
    for alias, value in aliases.items():
        name = ALIASES.get(alias)
        if name is None:
            raise TypeError(f"DataLoader.__init__() got an unexpected keyword argument '{alias}'")
        if given[name] is not None:
            raise TypeError(f"'{alias}' means the same as '{name}', which is given, too")
        given[name] = value
    if given["dataset"] is None:
        raise TypeError("DataLoader.__init__() missing 1 required positional argument: 'dataset'")


def read(given: dict[str, Any], brought: Optional[ServedDataset] = None) -> Arguments:
    """`given`: the arguments of DataLoader.__init__ by name, without other words for them.
    `brought`: the dataset, where it is one of the script's own that the service loads."""
    check_like_torch(given)
    if brought is None:  # else the script may load it in the end, and they have one
        say_what_has_no_meaning(given)
    dataset, pipeline, folder, expected = given["dataset"], given["pipeline"], None, None
    if brought is not None:
        if given["column"] is not None or given["label"] is not None:
            raise ValueError("column and label are for files with tables")
        dataset = Path(brought.path)
        expected = Expected(type(given["dataset"]).__name__, brought.samples)
    elif is_image_folder(dataset):
        folder = ImageFolder(dataset, pipeline is None)
        dataset, pipeline = folder.root, folder.pipeline if pipeline is None else pipeline
    dataset, own_seed = _dataset(dataset), given["shuffle_seed"]
    drop_last = bool(given["drop_last"])
    if given["sampler"] is not None:
        meant, expected = meant_by(given["sampler"])
        if given["rank"] is None and is_distributed(given["sampler"]):
            drop_last = drop_last and not _is_whole(given["sampler"], given["batch_size"])
            _say_how_ranks_take_turns(given["sampler"])
        if brought is not None:
            expected.check(brought.samples)
        # In PyTorch a loader's generator says nothing to a sampler that has one.
        given["generator"] = getattr(given["sampler"], "generator", None) or given["generator"]
        for name, value in meant.items():
            # An argument that the user gives goes before the sampler's.
            if given[name] in (None, False):
                given[name] = value
    order, seed, generator = _seeded(given, own_seed)
    order_options = orders.read(given, order)
    workers = given["target_workers"]
    if given["output"] == "dlpack" and given["collate_fn"] is not None:
        raise ValueError("collate_fn takes samples, and output='dlpack' gives only whole fields")
    if given["device"] is not None and given["collate_fn"] is not None:
        raise ValueError("device: only collate_fn knows what it makes; move that in it, or in the "
                         "training loop")
    check_output(given["output"])
    check_mixing(given["mixing"], given["batch_size"], given["output"])
    _check_device(given["device"])
    ahead = given["prefetch_factor"]
    steps = _pipeline(pipeline) if brought is None else brought.pipeline()
    arguments = Arguments(
        dataset=dataset,
        reading=_reading(dataset, given, _takes_clips(steps)),
        batch_size=None if given["batch_size"] is None else whole("batch_size",
                                                                  given["batch_size"], 1),
        order=order,
        order_options=order_options,
        weights=orders.scores_of(given["sampler"]),
        shuffle_seed=None if seed is None else whole("shuffle_seed", seed, 0, 2**64 - 1),
        drop_last=drop_last,
        timeout=given["timeout"],
        timeout_s=float(given["timeout"]) or DEFAULT_TIMEOUT_S,
        collate_fn=given["collate_fn"],
        pin_memory=bool(given["pin_memory"]),
        device=None if given["device"] is None else str(given["device"]),
        pipeline=steps,
        epochs=0 if given["epochs"] is None else whole("epochs", given["epochs"], 1),
        service=_text("service", given["service"]),
        rank=given["rank"],
        world_size=given["world_size"],
        ranks_are_launched=_launched(given["ranks"]),
        # The loop holds one batch while others are ahead of it.
        credits=0 if ahead is None else whole("prefetch_factor", ahead, 0, PREFETCH_MOST) + 1,
        cache_limit=None if given["cache_limit"] is None else parse_bytes(given["cache_limit"]),
        target_workers=None if workers in (None, "auto") else whole("target_workers", workers, 1,
                                                                    4096),
        copy=bool(given["copy"]),
        output=given["output"],
        job_name=_text("job_name", given["job_name"]),
        corrupt_ratio_max=_ratio("corrupt_ratio_max", given["corrupt_ratio_max"]),
        latency_target_s=_seconds("latency_target", given["latency_target"], 3600),
        receipts=_folder("receipts", given["receipts"]),
        folder=folder,
        expected=expected,
        brought=brought,
        generator=generator,
        say_stalls=bool(given["say_stalls"]),
        ideal=_allows_ideal(given["ideal"]),
        mixing=given["mixing"])
    arguments.ranks()  # what is wrong is an error now, and not at the first batch
    if not arguments.is_split_over_ranks and not (brought and brought.is_listed):
        _say_that_each_rank_gets_all()
    return arguments
