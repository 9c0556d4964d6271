"""jobs.py NAME [JSON...]: one of these functions in a process of its own; prints its result."""

import json
import os
import signal
import sys
import time

import batchflow


def keys_of(dataset, options=None, pause_s=0.0, epochs=1):
    """The keys of each epoch, fillers apart."""
    loader = batchflow.DataLoader(dataset, **{"batch_size": 32, "shuffle": True, **(options or {})})
    made = []
    for _ in range(epochs):
        made.append([])
        for batch in loader:
            made[-1] += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
            time.sleep(pause_s)
    return {"epochs": made, "times": loader.times()}


def until_killed(dataset, options=None):
    """Says so when it has the first batch, and then goes on for ever."""
    loader = batchflow.DataLoader(dataset, **{"batch_size": 32, "shuffle": True, **(options or {})})
    for batch in loader.epochs():
        if batch.step == 5:
            print("begun", flush=True)
        time.sleep(0.001)


def checkpointing(dataset, options, file):
    """After each batch: its keys, and the state to go on from, as one line of `file`."""
    loader = batchflow.DataLoader(dataset, **options)
    with open(file, "w") as lines:
        for batch in loader:
            keys = batch.sample_keys.tolist()[:batch.samples - batch.fillers]
            lines.write(json.dumps([keys, loader.state_dict()]) + "\n")
            lines.flush()
            time.sleep(0.01)


def rank_of(dataset, options, state, batches, gloo, pause_s=0.0):
    """A rank: `batches` batches (None: an epoch), and the state after them."""
    if gloo:
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method=f"file://{gloo}",
                                rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
    loader = batchflow.DataLoader(dataset, **options)
    loader.load_state_dict(state or {})
    keys, counts = [], []
    for i, batch in enumerate(loader):
        time.sleep(pause_s)
        keys += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
        counts.append(batch.samples)
        if gloo:
            # What is trained on together is one step.
            steps = torch.tensor([batch.step])
            dist.all_reduce(steps)
            assert int(steps) == batch.step * dist.get_world_size(), "ranks are at different steps"
        if batches is not None and i + 1 == batches:
            break
    if gloo:
        # A thread of gloo's that frees a tensor while Python ends aborts the process.
        dist.destroy_process_group()
    return {"keys": keys, "counts": counts, "state": loader.state_dict(), "length": len(loader)}


def wait_for_other_rank(dataset, options):
    """Joins, or asks for more batches than one rank can have alone; Ctrl-C must end both."""
    try:
        print("begun", flush=True)
        for _ in batchflow.DataLoader(dataset, **options):
            pass
    except KeyboardInterrupt:
        return "interrupted"
    return "ended"


def memory_over(dataset, options, batches):
    """Kilobytes resident and mapped after a tenth of the batches, and after all of them."""
    loader = batchflow.DataLoader(dataset, **options)
    sizes, seen = [], 0
    for batch in loader.epochs():
        seen += 1
        if seen in (batches // 10, batches):
            with open("/proc/self/status") as status:
                lines = dict(line.split(":", 1) for line in status)
            sizes.append([int(lines["RssAnon"].split()[0]), int(lines["VmSize"].split()[0]),
                          len(os.listdir("/proc/self/fd"))])
        if seen == batches:
            return {"sizes": sizes, "times": loader.times()}
    raise AssertionError("the loader ended")


def slow_rank(dataset, options, pause_s, batches):
    """A rank that computes for `pause_s` in its fifth batch."""
    for i, _ in enumerate(batchflow.DataLoader(dataset, **options)):
        if i == 4:
            time.sleep(pause_s)
        if i + 1 == batches:
            return None
    raise AssertionError("the epoch ended")


def two_epochs(dataset, options):
    """The first is left after three batches; the keys of the second."""
    loader = batchflow.DataLoader(dataset, **options)
    epochs, keys = [], []
    for i, batch in enumerate(loader):
        if i == 3:
            break
    epochs.append(batch.epoch)
    for batch in loader:
        keys += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
    epochs.append(batch.epoch)
    return {"epochs": epochs, "keys": keys}


def spawned_keys(loader, out):
    keys = []
    for batch in loader:
        keys += batch.sample_keys.tolist()[:batch.samples - batch.fillers]
    out.put(keys)


def ddp_script(root, gloo):
    """A data-parallel script, with PyTorch's loaders and with BatchFlow's."""
    import warnings

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler
    from torchvision import datasets, transforms

    from pictures import SIDE, epoch_of, pictures_of
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{gloo}", rank=rank, world_size=world)
    data = datasets.ImageFolder(root, transforms.Compose([transforms.CenterCrop(SIDE),
                                                          transforms.ToTensor()]))
    made = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name, kind in (("theirs", DataLoader), ("ours", batchflow.DataLoader)):
            if rank == 0:  # other ranks make one loader fewer
                alone = epoch_of(kind(data, 8))
            sampler = DistributedSampler(data)
            train, val = kind(data, 4, sampler=sampler), kind(data, 8)
            epochs, numbers = [], []
            for epoch in (0, 1, 1):
                train.sampler.set_epoch(epoch)
                batches = list(train)
                epochs.append([pictures_of(batch) for batch in batches])
                numbers.append(getattr(batches[0], "epoch", None))
            labels = torch.zeros(len(data.classes), dtype=torch.long)
            for _, batch in val:
                labels += batch.bincount(minlength=len(labels))
            made[name] = {"train": epochs, "val": epoch_of(val), "labels": labels.tolist(),
                          "epochs": numbers,
                          "length": [len(train), len(val), len(train.sampler)],
                          "alone": alone if rank == 0 else None}
            dist.barrier()
    dist.destroy_process_group()
    return {**made, "said": [str(one.message) for one in said if "ranks" in str(one.message)]}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    function = globals()[sys.argv[1]]
    print(json.dumps(function(*(json.loads(one) for one in sys.argv[2:]))))
