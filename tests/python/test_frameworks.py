r"""The loader in what trains with it, and after what other loaders had begun: JAX, Lightning,
Accelerate, mypy; torchdata, MosaicML Streaming, LitData. Where they are installed:

    python3 -m venv build/frameworks
    build/frameworks/bin/pip install "jax[cpu]" lightning accelerate torchdata litdata mosaicml-streaming \
        mypy
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

import batchflow
from batchflow import imports
from support import Folder, Served, free_port, needs, value_at


# Trains in as many processes as it is launched in.
ACCELERATED = """
import json, sys
import accelerate, torch
import batchflow
accelerator = accelerate.Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(16, 1)
loader = batchflow.DataLoader("rows", 50, True, epochs=2, **json.loads(sys.argv[1]))
model, optimiser, prepared = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), 1e-3), loader)
assert prepared is loader
keys = []
for epoch in range(2):
    keys.append([])
    for (rows,) in prepared:
        keys[-1] += [int(row[0]) // 7 for row in rows.tolist()]
        accelerator.backward(model(rows.float() / 1e5).square().mean())
        optimiser.step()
        optimiser.zero_grad()
print(json.dumps({"processes": accelerator.num_processes, "epochs": len(keys), "keys": keys,
                  "weights": [value for one in model.parameters() for value in one.flatten().tolist()]}))
"""


def keys_of(rows):
    return [int(row[0]) // 7 for row in rows]


class Frameworks(Served):
    @needs("jax")
    def test_jax_reads_batches_in_place(self):
        import jax
        jax.config.update("jax_enable_x64", True)
        loader = batchflow.DataLoader("rows", 64, True, output="dlpack")
        add = jax.jit(lambda rows: rows.sum(axis=1))
        keys = []
        for batch in loader:
            rows = jax.dlpack.from_dlpack(batch[0])
            keys += keys_of(rows[:, 0:1].tolist())
            sums = [sum(value_at(key, i) for i in range(16)) for key in keys_of(rows.tolist())]
            self.assertEqual(add(rows).tolist(), sums)
        self.assert_whole(keys)

    @needs("lightning")
    def test_lightning_trains_two_epochs_on_the_loader_itself(self):
        import lightning
        import torch
        seen = {0: [], 1: []}

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(16, 1)

            def training_step(self, batch, _):
                (rows,) = batch
                seen[self.current_epoch] += keys_of(rows.tolist())
                return self.layer(rows.float() / 1e5).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 1e-3)

        loader = batchflow.DataLoader("rows", 64, True, epochs=2)
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False,
                                    enable_checkpointing=False, enable_progress_bar=False,
                                    enable_model_summary=False)
        trainer.fit(Model(), loader)
        for epoch in (0, 1):
            self.assert_whole(seen[epoch])
        self.assertNotEqual(seen[0], seen[1])

    @needs("accelerate")
    def test_accelerate_with_a_loader_that_it_does_not_prepare(self):
        import accelerate
        import torch
        accelerator = accelerate.Accelerator(cpu=True)
        model = torch.nn.Linear(16, 1)
        model, optimiser = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 1e-3))
        loader = batchflow.DataLoader("rows", 64, True, epochs=2)
        for _ in range(2):
            keys = []
            for (rows,) in loader:
                keys += keys_of(rows.tolist())
                accelerator.backward(model(rows.float() / 1e5).square().mean())
                optimiser.step()
                optimiser.zero_grad()
            self.assert_whole(keys)

    @needs("accelerate")
    def test_accelerate_prepares_a_loader_and_leaves_it_as_it_is(self):
        code = self.folder / "train.py"
        code.write_text(ACCELERATED)
        alone = self.accelerated(code, 1, {})
        self.assertEqual((alone[0]["processes"], alone[0]["epochs"]), (1, 2))
        for epoch in range(2):
            self.assert_whole(alone[0]["keys"][epoch])
        ranks = self.accelerated(code, 2, {"ranks": "auto"})
        self.assertEqual([rank["processes"] for rank in ranks], [2, 2])
        for epoch in range(2):
            parts = [rank["keys"][epoch] for rank in ranks]
            self.assertEqual(len(parts[0]), len(parts[1]))
            self.assert_whole(sorted(parts[0] + parts[1]))
        for rank in ranks:  # the model is the same in both
            self.assertEqual(rank["weights"], ranks[0]["weights"])

    def accelerated(self, code, count, options):
        port = free_port()
        jobs = [subprocess.Popen(
            [sys.executable, str(code), json.dumps({"job_name": f"of-{count}", **options})],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                 "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port)}) for rank in range(count)]
        said = [job.communicate(timeout=120) for job in jobs]
        for job, (_, problem) in zip(jobs, said):
            self.assertEqual(job.returncode, 0, problem[-3000:])
        return [json.loads(out.splitlines()[-1]) for out, _ in said]


class Types(Folder):
    @needs("mypy")
    def test_what_a_loader_gives_is_a_batch_or_what_its_collate_fn_makes(self):
        from mypy import api
        os.environ["MYPYPATH"] = str(Path(batchflow.__file__).parent.parent)
        said, problems, ended = api.run(["--strict", "--python-version=3.12",
                                         "--cache-dir=/dev/null", "-c", """
import typing
import batchflow

def collate(samples: list[typing.Any]) -> dict[str, int]:
    return {}

loader = batchflow.DataLoader("rows", 64, True)
for batch in loader:
    typing.assert_type(batch, batchflow.Batch)
    rows, = batch
with loader:
    typing.assert_type(next(iter(loader)).to("cpu"), batchflow.Batch)
collated = batchflow.DataLoader("rows", 64, collate_fn=collate)
typing.assert_type(next(iter(collated)), dict[str, int])
typing.assert_type(len(collated.dataset), int)
"""])
        self.assertEqual((ended, problems), (0, ""), said)


class Continued(Served):
    """A real run of another loader, not shuffled, ends in the middle of an epoch; here it goes on."""

    BATCH = 50

    def assert_continues(self, seen, state):
        self.assertEqual(seen, list(range(len(seen))))
        loader = batchflow.DataLoader("rows", self.BATCH)
        loader.load_state_dict(json.loads(json.dumps(state)))
        rest = [key for batch in loader for key in self.own_keys(batch)]
        self.assertEqual(seen + rest, list(range(self.ROWS)))

    @needs("torchdata")
    def test_torchdata(self):
        from torchdata.stateful_dataloader import StatefulDataLoader
        for workers in (0, 2):
            there = StatefulDataLoader(list(range(self.ROWS)), self.BATCH, num_workers=workers)
            batches = iter(there)
            seen = [key for _ in range(7) for key in next(batches).tolist()]
            self.assert_continues(seen, imports.from_torchdata(there.state_dict(), epoch=0))

    @needs("streaming")
    def test_mosaicml(self):
        import streaming
        shards = str(self.folder / "mds")
        with streaming.MDSWriter(out=shards, columns={"key": "int"}) as writer:
            for key in range(self.ROWS):
                writer.write({"key": key})
        dataset = streaming.StreamingDataset(local=shards, batch_size=self.BATCH, shuffle=False,
                                             num_canonical_nodes=1)
        there = streaming.StreamingDataLoader(dataset, batch_size=self.BATCH)
        batches = iter(there)
        seen = [key for _ in range(7) for key in next(batches)["key"].tolist()]
        self.assert_continues(seen, imports.from_mosaicml(there.state_dict()))

    @needs("litdata")
    def test_litdata(self):
        import litdata
        from litdata.streaming.cache import Cache
        chunks = str(self.folder / "litdata")
        cache = Cache(chunks, chunk_bytes="64MB")
        for key in range(self.ROWS):
            cache[key] = key
        cache.done()
        cache.merge()
        dataset = litdata.StreamingDataset(chunks, shuffle=False)
        there = litdata.StreamingDataLoader(dataset, batch_size=self.BATCH)
        batches = iter(there)
        seen = [key for _ in range(7) for key in next(batches).tolist()]
        self.assert_continues(seen, imports.from_litdata(there.state_dict()))


if __name__ == "__main__":
    unittest.main()
