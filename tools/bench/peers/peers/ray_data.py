"""Ray Data: one Ray for all jobs, each with a pipeline of its own."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
from pathlib import Path
from typing import Any, Iterator

TITLE = "Ray Data"
PACKAGES = ["ray[data]", "pillow", "numpy"]
MODULES = ("ray.data", "PIL", "numpy")
WITH_SYSTEM = False  # it wants a newer NumPy than PyTorch may have
GUARANTEE = "each once an epoch"


def prepare(options: dict[str, Any]) -> None:
    """Ray listens on all interfaces and accepts clients with the token, which its import reads."""
    file = Path(options["scratch"]) / "token"
    if not file.exists():
        file.touch(0o600)
        file.write_text(secrets.token_hex(32))
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=file.read_text())


@contextlib.contextmanager
def serve(options: dict[str, Any]) -> Iterator[None]:
    import ray
    # Each task wants a core, and each job has several; jobs must not wait for tasks of others.
    context = ray.init(num_cpus=options["cores"] + 2 * options["jobs"], include_dashboard=False,
                       _node_ip_address="127.0.0.1", log_to_driver=False)
    (Path(options["scratch"]) / "address").write_text(context.address_info["gcs_address"])
    try:
        yield
    finally:
        ray.shutdown()


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import ray
    ray.init(address=(Path(options["scratch"]) / "address").read_text(), log_to_driver=False,
             _node_ip_address="127.0.0.1")
    ray.data.DataContext.get_current().enable_progress_bars = False
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
    as_float = options["float"]

    def prepare(row: dict[str, Any]) -> dict[str, Any]:
        from peers.crop import augmented
        return {"number": row["number"], "image": augmented(row["file"], as_float)}

    while True:
        items = [{"number": number, "file": file} for number, file in enumerate(files)]
        random.shuffle(items)
        data = ray.data.from_items(items, override_num_blocks=16).map(prepare)
        yield ((batch["number"], batch["image"])
               for batch in data.iter_batches(batch_size=options["batch"], batch_format="numpy"))
