"""TensorSocket: one PyTorch DataLoader; its batches go to all jobs in step."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import traceback
from pathlib import Path
from typing import Any, Iterator

TITLE = "TensorSocket"
PACKAGES = ["tensorsocket", "torch", "torchvision", "pillow"]
MODULES = ("tensorsocket", "torch", "torchvision")
WITH_SYSTEM = False  # it wants a newer PyTorch
GUARANTEE = "the same batches to all, in step; a job that comes late misses the beginning"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as all_open:
        sockets = [all_open.enter_context(socket.socket()) for _ in range(count)]
        for socket_ in sockets:
            socket_.bind(("127.0.0.1", 0))
        return [socket_.getsockname()[1] for socket_ in sockets]


@contextlib.contextmanager
def serve(options: dict[str, Any]) -> Iterator[None]:
    import torch
    from tensorsocket import TensorProducer, producer
    from torchvision.datasets import ImageFolder

    from .torch_transforms import one_thread, transform

    class Numbered(ImageFolder):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)[0], index

    producer.LOCALHOST = "tcp://127.0.0.1"  # not to all of the network
    one_thread()
    loader = torch.utils.data.DataLoader(
        Numbered(options["data"], transform(options["float"])), options["batch"], shuffle=True,
        num_workers=options["cores"], persistent_workers=True, worker_init_fn=one_thread)
    ports = _free_ports(4)
    (Path(options["scratch"]) / "ports").write_text(json.dumps(ports))
    made = TensorProducer(loader, ports[0], ports[1], (ports[2], ports[3]), producer_batch_size=2)

    def feed() -> None:
        try:
            while True:
                for _ in made:
                    pass
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # or its jobs would wait for ever
    threading.Thread(target=feed, daemon=True).start()
    yield


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    from tensorsocket import TensorConsumer
    ports = json.loads((Path(options["scratch"]) / "ports").read_text())
    consumer = TensorConsumer(ports[0], ports[1], (ports[2], ports[3]),
                              batch_size=options["batch"])
    while True:
        yield ((ids.tolist(), images) for images, ids in consumer)
