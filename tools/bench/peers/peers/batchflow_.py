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
    # Blocks of 64 samples: with the usual ones so small a data set would be a few blocks, where
    # those in use have hundreds.
    block = 64 * 3 * 224 * 224 * (4 if options["float"] else 1)
    node = Path(options["scratch"]) / "node.yaml"
    node.write_text(
        f"{{kind: node, memory: {options['memory']}, engine: {{block_bytes: {block}}}}}")
    return Service(Path(options["scratch"]), "--config", str(node))


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import batchflow
    loader = batchflow.DataLoader(
        options["data"], options["batch"], True, output="numpy",
        service=str(Path(options["scratch"]) / "batchflow.sock"),
        pipeline="imagenet-train-f32" if options["float"] else "imagenet-train")
    while True:
        yield ((batch.sample_keys.tolist()[:batch.samples - batch.fillers],
                batch["image"][:batch.samples - batch.fillers]) for batch in loader)
