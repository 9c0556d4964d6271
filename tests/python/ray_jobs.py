"""What tests/python/test_ray.py runs on the nodes of a Ray cluster."""

import json
import tempfile
import time
from pathlib import Path

import batchflow


def keys_of(mark, epochs=1, pause=0.0, **options):
    """The samples of each epoch as they came, and the socket of the service. Makes the file `mark` after the
    first batch."""
    loader = batchflow.DataLoader("rows", batch_size=16, epochs=epochs, shuffle=True, **options)
    found = []
    for _ in range(epochs):
        found.append([])
        for batch in loader:
            assert all(row[0] == key * 7 for row, key in zip(batch[0].tolist(),
                                                             batch.sample_keys.tolist()))
            found[-1] += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
            Path(mark).touch()
            time.sleep(pause)
    return found


def train(config):
    """A training function: one epoch, a checkpoint every 25 steps. Each rank writes down what it has had
    by then, and from which step it went on."""
    import ray.train
    context = ray.train.get_context()
    folder, rank, world = Path(config["folder"]), context.get_world_rank(), context.get_world_size()
    loader = batchflow.DataLoader("rows", batch_size=16, shuffle=True, epochs=1, ranks="auto")
    begun, last = 0, ray.train.get_checkpoint()
    if last is not None:
        with last.as_directory() as saved:
            place = json.loads((Path(saved) / "place").read_text())
        begun = place["step"]
        loader.load_state_dict(place["state"])
    keys = []
    for step, batch in enumerate(loader, begun + 1):
        keys += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
        time.sleep(config["pause"])
        if step % 25 == 0:  # a report takes Ray two seconds
            file = folder / f"{world}-{begun}-{rank}-{step}.json"
            file.write_text(json.dumps(keys))
            with tempfile.TemporaryDirectory() as saving:
                made = None
                if rank == 0:
                    place = {"step": step, "state": loader.state_dict()}
                    (Path(saving) / "place").write_text(json.dumps(place))
                    made = ray.train.Checkpoint.from_directory(saving)
                ray.train.report({"step": step, "world": world}, checkpoint=made)
    (folder / f"{world}-{begun}-{rank}-end.json").write_text(json.dumps(keys))
