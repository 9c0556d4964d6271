"""libbatchflow_client.so by ctypes: its path, its structs and functions, its errors.

Structs and functions are those of batchflow.h, in its order.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32,
                    c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from pathlib import Path
from typing import Any

ABI_VERSION = 1

OK, END, TIMEOUT, BAD_ARGUMENT, NO_SERVICE, REFUSED, PROTOCOL, NO_MEMORY, INTERRUPTED = range(9)
ABSENT, CORRUPT = 9, 10
FORMS = {"prepared": 0, "decoded": 1, "encoded": 2}
ORDERS = {"relaxed": 0, "strict": 1, "sequential": 2, "weighted": 3, "mixed": 4,
          "live": 5}
DRAWINGS = {"systematic": 0, "multinomial": 1}


SAID_OF_DATA, SAID_OF_WAIT = range(2)
SAY = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class ServiceError(RuntimeError):
    """The service, or the way to it, failed. The text says what to do."""


class NoServiceError(ServiceError, ConnectionError):
    """No service is there, or it went away for longer than a job waits."""


class RefusedError(ServiceError):
    """The service refuses; the text says why."""


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("service", c_char_p), ("dataset", c_char_p),
                ("pipeline", c_char_p), ("job", c_char_p), ("batch_samples", c_uint32),
                ("rank", c_uint32), ("world_size", c_uint32), ("order", c_int),
                ("has_shuffle_seed", c_int), ("shuffle_seed", c_uint64), ("drop_last", c_int),
                ("epochs", c_uint32), ("steps", c_uint64), ("credits", c_uint32),
                ("weight", c_double), ("state", c_char_p), ("timeout_s", c_double),
                ("reconnect_s", c_double), ("copy", c_int), ("reading", c_char_p),
                ("has_corrupt_ratio_max", c_int), ("corrupt_ratio_max", c_double), ("say", SAY),
                ("say_context", c_void_p), ("drawing", c_int), ("draws", c_uint64),
                ("node_local", c_int), ("rehearsed", c_uint32), ("exemplars", POINTER(c_uint64)),
                ("exemplars_count", c_size_t), ("runs", c_int), ("latency_target_s", c_double),
                ("sources", POINTER(c_char_p)), ("source_weights", POINTER(c_double)),
                ("sources_count", c_size_t), ("sources_in_order", c_int),
                ("weights_change", c_int), ("ideal", c_int), ("buffer_exemplars", c_uint32),
                ("buffer_policy", c_char_p), ("buffer_name", c_char_p),
                ("fills_after_s", c_double), ("fills_from", c_uint64), ("fills_cut", c_int),
                ("from_newest", c_int), ("has_begin_at", c_int),
                ("begin_at", c_uint64), ("schedule_at", POINTER(c_uint64)),
                ("schedule_weights", POINTER(c_double)), ("schedule_count", c_size_t),
                ("weights_policy", c_char_p)]


class FeedOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("folder", c_char_p), ("producer", c_char_p),
                ("schema", c_char_p), ("cannot_wait", c_int), ("timeout_s", c_double)]


class Record(Structure):
    _fields_ = [("struct_size", c_size_t), ("bytes", c_char_p), ("count", c_size_t),
                ("key", c_uint64), ("time_ns", c_int64), ("has_label", c_int), ("label", c_int32)]


class FeedInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("sequence", c_uint64), ("acknowledged", c_uint64),
                ("record_bytes_most", c_uint32), ("waits", c_int)]


class Field(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("ragged", c_int), ("dimensions", c_uint32),
                ("shape", POINTER(c_uint64))]


class Array(Structure):
    _fields_ = [("values", c_void_p), ("offsets", c_void_p)]


class RawBatch(Structure):
    _fields_ = [("struct_size", c_size_t), ("handle", c_uint64), ("step", c_uint64),
                ("epoch", c_uint32), ("last_of_epoch", c_int), ("samples", c_uint32),
                ("fillers", c_uint32), ("rehearsed", c_uint32), ("repeats", c_uint32),
                ("copied", c_int), ("fields", c_uint32), ("arrays", POINTER(Array)),
                ("keys", c_void_p), ("wanted", c_void_p), ("marks", c_void_p), ("again", c_uint32)]
    address: int  # its own


class Info(Structure):
    _fields_ = [("struct_size", c_size_t), ("dataset_samples", c_uint64),
                ("dataset_version", c_uint64), ("steps_per_epoch", c_uint64),
                ("classes", c_uint32), ("credits", c_uint32), ("epoch", c_uint32),
                ("samples_in_epoch", c_uint64), ("fields", c_uint32), ("field", POINTER(Field))]


class StoreOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("service", c_char_p), ("dataset", c_char_p),
                ("pipeline", c_char_p), ("reading", c_char_p), ("form", c_int),
                ("credits", c_uint32), ("timeout_s", c_double), ("reconnect_s", c_double),
                ("copy", c_int)]


class Value(Structure):
    _fields_ = [("handle", c_uint64), ("key", c_uint64), ("status", c_int),
                ("arrays", POINTER(Array))]


class SamplesSum(Structure):
    _fields_ = [("struct_size", c_size_t), ("names", c_uint64), ("labels", c_uint64),
                ("pairs", c_uint64)]


class Times(Structure):
    _fields_ = [("struct_size", c_size_t), ("wait_s", c_double), ("between_s", c_double),
                ("batches", c_uint64), ("samples", c_uint64), ("copied", c_uint64),
                ("reconnects", c_uint64), ("replaced", c_uint64), ("again", c_uint64)]


class RawMixture(Structure):
    _fields_ = [("struct_size", c_size_t), ("drawn", c_uint64), ("sources", c_size_t),
                ("first", POINTER(c_uint64)), ("samples", POINTER(c_uint64)),
                ("taken", POINTER(c_uint64)), ("weights", POINTER(c_double)),
                ("changes", c_size_t), ("changes_at", POINTER(c_uint64)),
                ("changed_weights", POINTER(c_double))]


# A loader is an opaque pointer.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "bf_abi_version": (c_uint32, []),
    "bf_version": (c_char_p, []),
    "bf_last_error": (c_char_p, []),
    "bf_loader_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "bf_loader_info_get": (c_int, [c_void_p, POINTER(Info)]),
    "bf_loader_next": (c_int, [c_void_p, POINTER(RawBatch)]),
    "bf_loader_next_within": (c_int, [c_void_p, c_void_p, c_double]),  # an address, for crossing
    "bf_loader_is_connected": (c_int, [c_void_p]),
    "bf_loader_interrupt": (None, [c_void_p]),
    "bf_batch_release": (None, [c_void_p, c_uint64]),
    "bf_batch_pin": (c_int, [c_void_p, c_uint64, c_int]),
    "bf_loader_state": (c_int, [c_void_p, POINTER(c_char_p)]),
    "bf_loader_times_get": (c_int, [c_void_p, POINTER(Times)]),
    "bf_loader_report_scores": (c_int, [c_void_p, POINTER(c_uint64), POINTER(c_float), c_size_t]),
    "bf_loader_scores": (c_int, [c_void_p, POINTER(POINTER(c_uint64)), POINTER(POINTER(c_float)),
                                 POINTER(c_size_t)]),
    "bf_loader_report_exemplars": (c_int, [c_void_p, POINTER(c_uint64), c_size_t]),
    "bf_loader_report_features": (c_int, [c_void_p, POINTER(c_uint64), c_size_t, POINTER(c_float),
                                          c_size_t, POINTER(c_uint32)]),
    "bf_loader_exemplars": (c_int, [c_void_p, POINTER(POINTER(c_uint64)),
                                    POINTER(POINTER(c_uint32)), POINTER(c_size_t)]),
    "bf_loader_set_weights": (c_int, [c_void_p, POINTER(c_double), c_size_t, c_uint64]),
    "bf_loader_report_losses": (c_int, [c_void_p, POINTER(c_double), c_size_t]),
    "bf_loader_next_change": (c_int, [c_void_p, POINTER(c_uint64), POINTER(POINTER(c_double))]),
    "bf_loader_mixture": (c_int, [c_void_p, POINTER(RawMixture)]),
    "bf_loader_sample_name": (c_int, [c_void_p, c_uint64, POINTER(c_char_p)]),
    "bf_loader_class_name": (c_int, [c_void_p, c_uint32, POINTER(c_char_p)]),
    "bf_loader_samples_sum": (c_int, [c_void_p, c_uint64, c_uint64, POINTER(SamplesSum)]),
    "bf_loader_close": (None, [c_void_p]),
    "bf_feed_open": (c_int, [POINTER(FeedOptions), POINTER(c_void_p)]),
    "bf_feed_put": (c_int, [c_void_p, POINTER(Record)]),
    "bf_feed_flush": (c_int, [c_void_p, c_double]),
    "bf_feed_end": (c_int, [c_void_p]),
    "bf_feed_info_get": (c_int, [c_void_p, POINTER(FeedInfo)]),
    "bf_feed_close": (None, [c_void_p]),
    "bf_store_open": (c_int, [POINTER(StoreOptions), POINTER(c_void_p)]),
    "bf_store_info_get": (c_int, [c_void_p, POINTER(Info)]),
    "bf_store_get": (c_int, [c_void_p, POINTER(c_uint64), c_size_t, POINTER(Value)]),
    "bf_store_find": (c_int, [c_void_p, c_char_p, POINTER(c_uint64)]),
    "bf_store_interrupt": (None, [c_void_p]),
    "bf_value_release": (None, [POINTER(Value)]),
    "bf_store_close": (None, [c_void_p]),
}


def sized(struct: type[Structure]) -> Any:
    """A struct with fields of 0 but for its size, as batchflow.h's _INIT makes it."""
    made = struct()
    made.struct_size = ctypes.sizeof(struct)
    return made


def _candidates() -> list[str]:
    named = os.environ.get("BATCHFLOW_LIBRARY")
    if named:
        return [named]
    beside = Path(__file__).parent / "lib" / "libbatchflow_client.so.1"
    return [str(beside)] * beside.exists() + ["libbatchflow_client.so.1"]


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    problems = []
    for path in _candidates():
        try:
            loaded = ctypes.CDLL(path)
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            problems.append(str(error))
            continue
        if loaded.bf_abi_version() != ABI_VERSION:
            problems.append(f"{path} has ABI {loaded.bf_abi_version()}, not {ABI_VERSION}")
            continue
        return loaded
    raise ImportError(f"libbatchflow_client.so cannot be used ({'; '.join(problems)}); install "
                      "this package and BatchFlow together, or name it by BATCHFLOW_LIBRARY")


def check(status: int) -> None:
    """Raises the error of the last call of this thread, unless `status` is OK."""
    if status == OK:
        return
    text = library().bf_last_error().decode(errors="replace")
    if status == BAD_ARGUMENT:
        raise ValueError(text)
    if status == NO_MEMORY:
        raise MemoryError(text)
    raise {NO_SERVICE: NoServiceError, REFUSED: RefusedError}.get(status, ServiceError)(text)
