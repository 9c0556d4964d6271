"""Ray Data: one Ray for all jobs, each with a pipeline of its own."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any, Iterator

TITLE = "Ray Data"
PACKAGES = ["ray[data]"]
MODULES = ("ray.data", "torch", "torchvision")
GUARANTEE = "each once an epoch"


@contextlib.contextmanager
def serve(options: dict[str, Any]) -> Iterator[None]:
    import ray
    # Its actors and tasks want a core each; jobs shall not wait for each other's.
    context = ray.init(num_cpus=max(options["cores"], 2 * options["jobs"]), include_dashboard=False,
                       object_store_memory=4 << 30, _node_ip_address="127.0.0.1",
                       log_to_driver=False)
    (Path(options["scratch"]) / "address").write_text(context.address_info["gcs_address"])
    try:
        yield
    finally:
        ray.shutdown()


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import ray
    ray.init(address=(Path(options["scratch"]) / "address").read_text(), log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
    as_float = options["float"]

    def prepare(row: dict[str, Any]) -> dict[str, Any]:
        from pathlib import Path as Place

        from peers.torch_transforms import one_thread, open_picture, transform
        one_thread()
        image = transform(as_float)(open_picture(Place(row["file"]).read_bytes()))
        return {"number": row["number"], "image": image.numpy()}

    while True:
        items = [{"number": number, "file": file} for number, file in enumerate(files)]
        random.shuffle(items)
        data = ray.data.from_items(items, override_num_blocks=16).map(prepare)
        yield ((batch["number"], batch["image"])
               for batch in data.iter_batches(batch_size=options["batch"], batch_format="numpy"))
