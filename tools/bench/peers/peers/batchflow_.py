"""BatchFlow: one service for all jobs, order relaxed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ContextManager, Iterator

TITLE = "BatchFlow"
PACKAGES: list[str] = []
MODULES = ("numpy",)
GUARANTEE = "each once an epoch, fresh draws"


def block_bytes(options: dict[str, Any]) -> int:
    """Blocks of 64 samples: with the usual size so small a dataset would have a few blocks, where
    real datasets have hundreds."""
    return 64 * 3 * 224 * 224 * (4 if options["float"] else 1)


def serve(options: dict[str, Any], memory: str = "4gib",
          staging: str = "256mib") -> ContextManager[Any]:
    from service import Service
    node = Path(options["scratch"]) / "node.yaml"
    node.write_text(f"{{kind: node, memory: {memory}, storage: {{staging: {staging}}}, "
                    f"engine: {{block_bytes: {block_bytes(options)}}}}}")
    return Service(Path(options["scratch"]), "--config", str(node))


def counted(service: Any) -> dict[str, Any]:
    status = service.status()
    return {"prepared_samples": status["prepared_samples"], "delivered_samples": status["samples"],
            "decoded_hits": status["decoded_hits"]}


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import batchflow
    loader = batchflow.DataLoader(
        options["data"], options["batch"], True, output="numpy",
        service=str(Path(options["scratch"]) / "batchflow.sock"),
        pipeline="imagenet-train-f32" if options["float"] else "imagenet-train")
    while True:
        yield ((batch.sample_keys.tolist()[:batch.samples - batch.fillers],
                batch["image"][:batch.samples - batch.fillers]) for batch in loader)
