"""Samples of several fields, from tars to arrays; and the example of docs/fields.md."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

import batchflow
from support import DAEMON, HERE, Daemon, Folder, needs

PAGE = HERE.parent.parent / "docs" / "fields.md"
WIDTH, HEIGHT = 48, 36
FIELDS = [{"field": "image", "kind": "picture"},
          {"field": "mask", "kind": "mask", "from": "mask.png", "steps": [{"step": "cast", "to": "i32"}]},
          {"field": "boxes", "kind": "boxes", "from": "boxes.npy", "sanitise": {}},
          {"field": "labels", "kind": "numbers", "from": "json", "key": "labels", "type": "i64", "rows_of": "boxes"},
          {"field": "joints", "kind": "points", "from": "json", "key": "joints", "shape": [2, 3], "ragged": False},
          {"field": "caption", "kind": "bytes", "from": "txt", "most": 32}]
STEPS = [{"step": "decode"}, {"step": "random_resized_crop", "size": 24, "interpolation": "nearest"},
         {"step": "horizontal_flip"}]


def tar_of(path, samples):
    """`samples`: of each a list of (ending, bytes)."""
    with tarfile.open(path, "w") as tar:
        for i, members in enumerate(samples):
            for ending, content in members:
                info = tarfile.TarInfo(f"{i:06}.{ending}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def boxes_of(i):
    return [[float(k), 2.0 + k, 20.0 + k + i % 5, 30.0] for k in range(i % 4)]


def members(i):
    """The picture's pixels say where they were: red is x, green y, blue the sample. The mask says so, too."""
    import numpy
    from PIL import Image
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    picture = numpy.dstack([x, y, numpy.full_like(x, i % 256)]).astype(numpy.uint8)

    def saved(save, *arguments):
        out = io.BytesIO()
        save(out, *arguments)
        return out.getvalue()
    boxes = numpy.array(boxes_of(i), numpy.float32).reshape(-1, 4)
    more = {"labels": [10 * i + k for k in range(i % 4)], "joints": [[1, 2, i], [3, 4, i]]}
    return [("png", saved(Image.fromarray(picture).save, "PNG")),
            ("mask.png", saved(Image.fromarray((x + 256 * y).astype(numpy.uint16)).save, "PNG")),
            ("boxes.npy", saved(lambda out: numpy.save(out, boxes))),
            ("json", json.dumps(more).encode()),
            ("txt", f"sample {i}".encode())]


@needs("PIL")
class Fields(Folder):
    SAMPLES = 96

    def setUp(self):
        super().setUp()
        self.daemon = None

    def serve(self, samples, *arguments):
        shards = self.folder / "shards"
        shards.mkdir()
        tar_of(shards / "part-000000.tar", samples)
        self.daemon = Daemon(self.folder, "--dataset", f"shards={shards}", *arguments)
        self.addCleanup(self.daemon.kill)

    def loader(self, fields=None, steps=None, **options):
        pipeline = batchflow.Pipeline(STEPS if steps is None else steps,
                                      fields=FIELDS if fields is None else fields)
        return batchflow.DataLoader("shards", options.pop("batch_size", 16), pipeline=pipeline,
                                    output="numpy", service=self.daemon.socket, **options)

    def check(self, batch):
        """All fields of a batch belong to its samples, and went the same way."""
        import numpy
        keys = batch.sample_keys.tolist()
        self.assertEqual(batch["mask"].dtype, numpy.int32)
        image = batch["image"].astype(numpy.int32)
        self.assertTrue((batch["mask"] == image[..., 0] + 256 * image[..., 1]).all())
        self.assertEqual(image[:, 0, 0, 2].tolist(), [key % 256 for key in keys])
        self.assertEqual([bytes(text).decode() for text in batch["caption"]],
                         [f"sample {key}" for key in keys])
        self.assertEqual(batch["joints"][:, :, 2].tolist(), [[key, key] for key in keys])
        for key, pixels, boxes, labels in zip(keys, image, batch["boxes"], batch["labels"]):
            self.assertEqual(boxes.shape, (len(labels), 4))
            stored = boxes_of(key)
            across = pixels[0, :, 0]
            flipped = across[0] > across[-1]
            for box, label in zip(boxes.tolist(), labels.tolist()):
                self.assertEqual(label // 10, key)
                # The first column inside of the box shows a pixel inside of the box as it was stored.
                left, right = (box[2], box[0]) if flipped else (box[0], box[2])
                first = across[min(23, int(left) - 1 if flipped else int(left))]
                self.assertGreaterEqual(first + 2, stored[label % 10][0])
                last = across[min(23, max(0, int(right) if flipped else int(right) - 1))]
                self.assertLessEqual(last - 2, stored[label % 10][2])
        return keys

    @staticmethod
    def bytes_of(batch):
        return [(bytes(memoryview(field.values[field.offsets[0]:field.offsets[-1]]).cast("B")
                       if len(field.values) else b"") + bytes(field.offsets.tolist()))
                if isinstance(field, batchflow.Ragged) else field.tobytes() for field in batch]

    def test_each_field_of_each_sample_goes_the_same_way(self):
        self.serve([members(i) for i in range(self.SAMPLES)])
        loader = self.loader(shuffle=True, epochs=2)
        for _ in range(2):
            seen, kept = [], 0
            for batch in loader:
                self.assertEqual(batch.names, ("image", "mask", "boxes", "labels", "joints", "caption"))
                seen += self.check(batch)
                kept += len(batch["labels"].values)
            self.assertEqual(sorted(seen), list(range(self.SAMPLES)))
            self.assertGreater(kept, 30)
        # In the second epoch pictures need not be decoded again.
        self.assertGreater(self.daemon.status()["decoded_hits"], 0)

    def test_strict_jobs_have_the_same_bytes_and_go_on_exactly(self):
        self.serve([members(i) for i in range(self.SAMPLES)])
        whole = [(batch.sample_keys.tolist(), self.bytes_of(batch))
                 for batch in self.loader(order="strict", shuffle_seed=3, shuffle=True, batch_size=10)]
        for stop in (1, 5):
            loader = self.loader(order="strict", shuffle_seed=3, shuffle=True, batch_size=10)
            first = []
            for batch in loader:
                first.append((batch.sample_keys.tolist(), self.bytes_of(batch)))
                if len(first) == stop:
                    state = loader.state_dict()
                    break
            rest = self.loader(order="strict", shuffle_seed=3, shuffle=True, batch_size=10)
            rest.load_state_dict(state)
            first += [(batch.sample_keys.tolist(), self.bytes_of(batch)) for batch in rest]
            self.assertEqual(first, whole)

    def test_samples_that_lack_a_field_or_have_a_wrong_one_are_replaced_and_counted(self):
        samples = [members(i) for i in range(self.SAMPLES)]
        samples[3] = [part for part in samples[3] if part[0] != "boxes.npy"]
        samples[17][4] = ("txt", b"x" * 33)
        samples[40] = samples[40][::-1]  # in another order: that is nothing
        samples[41][3] = ("json", b'{"labels": [1, 2')
        self.serve(samples)
        replaced, wanted = [], []
        for batch in self.loader(shuffle=True, batch_size=8):
            for key, place, mark in zip(batch.sample_keys.tolist(), batch.wanted_keys.tolist(),
                                        batch.marks.tolist()):
                wanted.append(place)
                if mark & 2:
                    replaced.append(place)
                    self.assertNotIn(key, (3, 17, 41))
        self.assertEqual(sorted(wanted), list(range(self.SAMPLES)))
        self.assertEqual(sorted(replaced), [3, 17, 41])
        log = self.daemon.log.read_text()
        self.assertIn("it has no 'boxes.npy', of which field 'boxes' is", log)
        self.assertIn("field 'caption' has 33 rows of 1 bytes, and may have 32", log)
        self.assertIn("field 'labels': it is no JSON", log)

    def test_members_that_stand_apart_are_samples_that_lack_fields(self):
        samples = [members(i) for i in range(self.SAMPLES)]
        shards = self.folder / "shards"
        shards.mkdir()
        tar_of(shards / "part-000000.tar", samples)
        with tarfile.open(shards / "part-000001.tar", "w") as tar:
            for name, part in [("a", 0), ("b", 0), ("a", 1), ("b", 1)]:
                info = tarfile.TarInfo(f"{name}.{samples[0][part][0]}")
                info.size = len(samples[0][part][1])
                tar.addfile(info, io.BytesIO(samples[0][part][1]))
        self.daemon = Daemon(self.folder, "--dataset", f"shards={shards}")
        self.addCleanup(self.daemon.kill)
        lost = [key for batch in self.loader() for key, mark in
                zip(batch.wanted_keys.tolist(), batch.marks.tolist()) if mark & 2]
        self.assertEqual(lost, list(range(self.SAMPLES, self.SAMPLES + 4)))

    def test_a_caption_of_2_gb_is_refused_with_numbers(self):
        with open(self.folder / "large.tar", "wb") as tar:
            for ending, content in members(0):
                info = tarfile.TarInfo(f"0.{ending}")
                info.size = 2 << 30 if ending == "txt" else len(content)
                tar.write(info.tobuf(tarfile.USTAR_FORMAT))
                if ending == "txt":
                    tar.seek(info.size, os.SEEK_CUR)  # a hole, which takes no room
                else:
                    tar.write(content + bytes(-len(content) % 512))
            tar.write(bytes(1024))
        self.daemon = Daemon(self.folder, "--dataset", f"shards={self.folder / 'large.tar'}")
        self.addCleanup(self.daemon.kill)
        with self.assertRaisesRegex(batchflow.RefusedError, r"it needs 20\d\d.\d MiB of memory"):
            next(iter(self.loader(batch_size=1)))

    def test_what_cannot_be_is_refused_when_the_job_joins(self):
        self.serve([members(i) for i in range(8)])

        def refusal(fields, steps=None):
            with self.assertRaises(Exception) as raised:
                next(iter(self.loader(fields, steps)))
            return str(raised.exception)
        self.assertIn("has no field 'segments.png'; its samples have 'boxes.npy', 'json', 'mask.png', 'png', 'txt'",
                      refusal([FIELDS[0], {"field": "mask", "kind": "mask", "from": "segments.png"}]))
        self.assertIn("'tokens' does not work on field 'boxes', which is of kind boxes; write cast there",
                      refusal([FIELDS[0], {**FIELDS[2], "steps": [{"step": "tokens", "length": 3}]}]))
        self.assertIn("pictures would have different sizes", refusal(FIELDS, STEPS[:1]))

    def test_a_function_works_on_the_picture_and_others_stay(self):
        self.serve([members(i) for i in range(20)])

        @batchflow.step
        def corners(image):
            return image[[0, -1], [0, -1], 2].astype("float32")
        for batch in self.loader(steps=[*STEPS, corners], batch_size=10):
            self.assertEqual(batch.names[1:], ("mask", "boxes", "labels", "joints", "caption"))
            keys = batch.sample_keys.tolist()
            self.assertEqual(batch[0].tolist(), [[key, key] for key in keys])
            self.assertEqual([bytes(text).decode() for text in batch["caption"]],
                             [f"sample {key}" for key in keys])

    @needs("torch")
    def test_fields_are_tensors_where_the_script_has_torch(self):
        import torch
        self.serve([members(i) for i in range(20)])
        pipeline = batchflow.Pipeline(STEPS, fields=FIELDS)
        loader = batchflow.DataLoader("shards", 10, True, pipeline=pipeline, output="torch", copy=True,
                                      service=self.daemon.socket)
        batch = next(iter(loader))
        self.assertEqual(batch["mask"].dtype, torch.int32)
        self.assertEqual(batch["boxes"].values.dtype, torch.float32)
        self.assertEqual(batch["boxes"].values.shape[1:], (4,))
        self.assertEqual(batch["labels"].values.dtype, torch.int64)
        self.assertEqual(tuple(batch["joints"].shape), (10, 2, 3))
        self.assertEqual(batch["caption"].values.dtype, torch.uint8)

    def test_views_of_one_picture(self):
        self.serve([members(i) for i in range(20)])
        crop = {"step": "random_resized_crop", "interpolation": "nearest"}
        views = [{"field": "global", "count": 2, "steps": [{**crop, "size": 24, "scale": [0.5, 1]}]},
                 {"field": "local", "count": 6, "steps": [{**crop, "size": 8, "scale": [0.05, 0.2]}]}]
        fields = [{"field": "image", "kind": "picture", "from": "png"},
                  {"field": "caption", "kind": "bytes", "from": "txt"}]
        pipeline = batchflow.Pipeline(STEPS[:1], fields=fields, views=views)
        loader = batchflow.DataLoader("shards", 10, True, pipeline=pipeline, output="numpy",
                                      service=self.daemon.socket)
        seen = []
        for batch in loader:
            self.assertEqual(batch.names, ("global", "local", "caption"))
            self.assertEqual(batch["global"].shape, (10, 2, 24, 24, 3))
            self.assertEqual(batch["local"].shape, (10, 6, 8, 8, 3))
            keys = batch.sample_keys.tolist()
            seen += keys
            for key, large, small, text in zip(keys, batch["global"], batch["local"], batch["caption"]):
                self.assertEqual(bytes(text).decode(), f"sample {key}")
                self.assertTrue((large[..., 2] == key).all() and (small[..., 2] == key).all())
                # Large views show more of the picture than small ones, and no two views the same.
                shown = [int(view[0, -1, 0]) - int(view[0, 0, 0]) for view in [*large, *small]]
                self.assertGreater(min(shown[:2]), 20)
                self.assertEqual(len({view.tobytes() for view in small}), 6)
        self.assertEqual(sorted(seen), list(range(20)))

    def test_the_example_of_the_page(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        self.assertEqual(len(blocks), 1)
        script = self.folder / "script.py"
        script.write_text(blocks[0])
        done = subprocess.run([sys.executable, str(script)], cwd=self.folder, timeout=120,
                              env={**os.environ, "BATCHFLOW_IDLE_S": "1", "BATCHFLOW_DAEMON": DAEMON},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_the_pipelines_of_the_page_as_files(self):
        texts = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        some = [text for text in texts if text.startswith("  - ")]
        texts = [text for text in texts if text.startswith("kind: pipeline")]
        self.assertEqual((len(texts), len(some)), (2, 3))
        texts += [f"name: some\nfields:\n  - {{field: image, kind: picture}}\n{text}"
                  "steps: [{step: decode}, {step: resize, size: [8, 8]}]\n" for text in some]
        files = []
        for i, text in enumerate(texts):
            files.append(str(self.folder / f"{i}.yaml"))
            Path(files[-1]).write_text(text)
        config = self.folder / "node.yaml"
        config.write_text(f"open_datasets: true\npipelines: [{', '.join(files)}]\n")
        done = subprocess.run([DAEMON, "--check", str(config)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        namespace = {}
        code = re.search(r"^pipeline = (.*?\]\))$", PAGE.read_text(), re.DOTALL | re.MULTILINE).group(1)
        exec(f"pipeline = {code}", {"batchflow": batchflow}, namespace)
        namespace["pipeline"].name = "segment"
        self.assertEqual(re.sub(r"\s|\"", "", namespace["pipeline"].yaml()), re.sub(r"\s", "", texts[0]))


if __name__ == "__main__":
    unittest.main()
