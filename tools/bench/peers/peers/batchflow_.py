"""BatchFlow: one service for all jobs, order relaxed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ContextManager, Iterator

TITLE = "BatchFlow"
PACKAGES: list[str] = []
MODULES = ("numpy",)
GUARANTEE = "each once an epoch, fresh draws"


def serve(options: dict[str, Any]) -> ContextManager[Any]:
    from service import Service
    return Service(Path(options["scratch"]), "--memory", options["memory"])


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import batchflow
    loader = batchflow.DataLoader(
        options["data"], options["batch"], True, output="numpy",
        service=str(Path(options["scratch"]) / "batchflow.sock"),
        pipeline="imagenet-train-f32" if options["float"] else "imagenet-train")
    while True:
        yield ((batch.sample_keys.tolist()[:batch.samples - batch.fillers],
                batch["image"][:batch.samples - batch.fillers]) for batch in loader)
