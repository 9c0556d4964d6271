"""BatchFlow, tuned: one service for all jobs, which runs before they begin; order relaxed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ContextManager, Iterator

TITLE = "BatchFlow, tuned"
PACKAGES: list[str] = []
MODULES = ("numpy", "batchflow")
GUARANTEE = "each once an epoch, fresh draws"


def block_bytes(options: dict[str, Any]) -> int:
    """Blocks of 64 samples: with the usual size so small a dataset would have a few blocks, where
    real datasets have hundreds."""
    return 64 * 3 * 224 * 224 * (4 if options["float"] else 1)


def serve(options: dict[str, Any], memory: str = "4gib",
          staging: str = "256mib") -> ContextManager[Any]:
    from service import Service
    node = Path(options["scratch"]) / "node.yaml"
    # Blocks of rows have their usual size.
    engine = "" if options["rows"] else f", engine: {{block_bytes: {block_bytes(options)}}}"
    node.write_text(f"{{kind: node, memory: {memory}, storage: {{staging: {staging}}}{engine}}}")
    return Service(Path(options["scratch"]), "--config", str(node))


def counts(status: dict[str, Any]) -> dict[str, Any]:
    return {"prepared_samples": status["prepared_samples"], "delivered_samples": status["samples"],
            "decoded_hits": status["decoded_hits"]}


def counted(service: Any) -> dict[str, Any]:
    return counts(service.status())


def _service(options: dict[str, Any], own_service: bool) -> dict[str, Any]:
    return {"service": str(Path(options["scratch"]) / "batchflow.sock")} if own_service else {}


def epochs(options: dict[str, Any], own_service: bool = True) -> Iterator[Any]:
    import batchflow
    loader = batchflow.DataLoader(
        options["data"], options["batch"], True, output="numpy",
        pipeline="imagenet-train-f32" if options["float"] else "imagenet-train",
        **_service(options, own_service))
    while True:
        yield ((batch.sample_keys.tolist()[:batch.samples - batch.fillers],
                batch["image"][:batch.samples - batch.fillers]) for batch in loader)


def rows(options: dict[str, Any], own_service: bool = True) -> Iterator[Any]:
    import batchflow
    loader = batchflow.DataLoader(options["data"], options["batch"], True, output="numpy",
                                  **_service(options, own_service))
    while True:
        yield (batch[0][:batch.samples - batch.fillers] for batch in loader)
