"""tf.data service with its cross-trainer cache: one worker prepares, all jobs read its window."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any, Iterator

from .tfdata import MODULES, PACKAGES, WITH_SYSTEM, pictures

TITLE = "tf.data service"
GUARANTEE = "none: an endless stream, of which a job that is slow or late misses a part"
__all__ = ["MODULES", "PACKAGES", "WITH_SYSTEM"]


@contextlib.contextmanager
def serve(options: dict[str, Any]) -> Iterator[None]:
    import tensorflow as tf
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    (Path(options["scratch"]) / "address").write_text(dispatcher.target)
    try:
        yield
    finally:
        del worker


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import tensorflow as tf
    service = tf.data.experimental.service
    data = pictures(options).repeat().batch(options["batch"], drop_remainder=True).apply(
        service.distribute(
            processing_mode=service.ShardingPolicy.OFF, job_name="shared",
            service=(Path(options["scratch"]) / "address").read_text(), compression=None,
            cross_trainer_cache=service.CrossTrainerCache(trainer_id=f"job {options['job']}")))
    batches = iter(data)
    # It has no epochs: as many batches as an epoch would have.
    count = -(-options["pictures"] // options["batch"])
    while True:
        yield ((ids.numpy(), images.numpy())
               for ids, images in itertools.islice(batches, count))
