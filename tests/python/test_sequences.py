"""Documents that become sequences of N tokens: every token is in one place, by a check that knows
the documents and the rules of docs/order.md alone; and the examples of docs/tokens.md."""

import json
import os
import random
import re
import struct
import subprocess
import sys
import unittest
from array import array
from collections import Counter
from itertools import accumulate
from pathlib import Path
from threading import Thread

import batchflow
import test_cluster
import test_stores
from support import CTL, DAEMON, HERE, Daemon, Folder, needs, wait_until
from test_orders import hash_of, permuted

PAGE = HERE.parent.parent / "docs" / "tokens.md"
END = 65_000


def documents_of(count, seed=0, most=50_000):
    """Lengths as of texts: many short ones, few long ones, some empty."""
    chance = random.Random(seed)
    lengths = [0 if chance.random() < .05 else int(chance.lognormvariate(4, 1.2)) + 1
               for _ in range(count)]
    return [[chance.randrange(1, most) for _ in range(length)] for length in lengths]


def write_megatron(folder, documents, name="corpus"):
    """NAME.bin with tokens of 16 bits, NAME.idx with one sequence for each document."""
    with (folder / f"{name}.bin").open("wb") as out:
        for document in documents:
            out.write(array("H", document).tobytes())
    count, at, offsets = len(documents), 0, []
    for document in documents:
        offsets.append(at)
        at += 2 * len(document)
    with (folder / f"{name}.idx").open("wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count + 1))
        out.write(array("i", map(len, documents)).tobytes() + array("q", offsets).tobytes() +
                  array("q", range(count + 1)).tobytes())


def pieces_of(batch):
    """The runs of one segment, of each row."""
    for tokens, positions, segments in zip(*(batch[name].tolist() for name in
                                             ("tokens", "positions", "segments"))):
        piece, before = [], 1
        for token, position, segment in [*zip(tokens, positions, segments), (0, 0, 0)]:
            if segment != before:
                yield tuple(piece)
                piece, before = [], segment
            if segment == 0:
                continue
            assert position == len(piece), (position, len(piece))
            piece.append(token)


def expected_pieces(documents, length, end=None):
    made = Counter()
    for document in documents:
        whole = [*document, *([end] if end is not None and document else [])]
        made.update(tuple(whole[at:at + length]) for at in range(0, len(whole), length))
    return made


class Sequences(Folder):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "corpus"
        self.data.mkdir()
        self.documents = documents_of(1500)
        write_megatron(self.data, self.documents)
        self.serve()

    def serve(self, *arguments, name="one"):
        (self.folder / name).mkdir(exist_ok=True)
        daemon = Daemon(self.folder / name, "--open-datasets", *arguments)
        self.addCleanup(daemon.kill)
        os.environ["BATCHFLOW_SERVICE"] = daemon.socket
        return daemon

    def loader(self, **named):
        return batchflow.DataLoader(str(self.data), **{"batch_size": 8, "output": "numpy", **named})

    def documents_in_turn(self, version, seed, end):
        """As the rule says, each with its end token."""
        for i in permuted(hash_of(11, version, seed or 0), len(self.documents)):
            document = self.documents[i]
            yield document + ([end] if end is not None and document else [])

    def test_end_to_end_as_the_rule_says(self):
        version = int(self.version_of_documents(), 16)
        for seed, end in ((None, None), (5, END), (5, 2**31 - 1)):
            stream = [token for document in self.documents_in_turn(version, seed, end)
                      for token in document]
            loader = self.loader(tokens=256, packing="concat", packing_seed=seed, end_token=end)
            read = [token for batch in loader for row in batch["tokens"].tolist() for token in row]
            self.assertEqual(read, stream[:len(stream) // 256 * 256])

    def version_of_documents(self):
        daemon = self.serve("--dataset", f"documents={self.data}", name="documents")
        try:
            return wait_until(lambda: daemon.status()["datasets"])[0]["version"]
        finally:
            os.environ["BATCHFLOW_SERVICE"] = str(self.folder / "one" / "b.sock")

    def test_whole_documents(self):
        for end in (None, END):
            loader = self.loader(tokens=300, packing="whole", shuffle=True, end_token=end)
            found, rows, filled = Counter(), 0, 0
            for batch in loader:
                self.assertEqual({str(batch[name].dtype) for name in
                                  ("tokens", "positions", "segments")}, {"int32"})
                found.update(pieces_of(batch))
                rows += len(batch["tokens"])
                filled += int((batch["segments"] > 0).sum())
            self.assertEqual(found, expected_pieces(self.documents, 300, end))
            print(f"whole, 300 tokens, end_token={end}: {filled / rows / 300:.2%} filled")
            self.assertGreater(filled / rows / 300, 0.97)

    def test_two_services_give_the_same_bytes(self):
        def all_of():
            return [tuple(batch[name].tobytes() for name in ("tokens", "positions", "segments"))
                    for batch in self.loader(tokens=128, packing="whole", order="strict",
                                             shuffle_seed=3)]
        first = all_of()
        self.serve(name="two")
        self.assertEqual(all_of(), first)

    def ranks(self, world, steps, state, names, **options):
        """The batches of all ranks in the order of steps, each as its fields without fillers, and the
        state behind them. `steps` of None: to the end of the epoch."""
        loaders = [self.loader(**options, rank=rank, world_size=world) for rank in range(world)]
        parts, states = [[] for _ in loaders], [None] * world

        def run(rank):
            if state is not None:
                loaders[rank].load_state_dict(state)
            for step, batch in enumerate(loaders[rank]):
                own = batch.samples - batch.fillers
                parts[rank].append({name: batch[name][:own].copy() for name in names})
                states[rank] = loaders[rank].state_dict()
                if step + 1 == steps:
                    break
            loaders[rank].close()
        threads = [Thread(target=run, args=(rank,)) for rank in range(world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(len({len(part) for part in parts}), 1)
        return [fields for step in zip(*parts) for fields in step], states[0]

    def test_resumed_at_another_world_size(self):
        options = {"tokens": 128, "packing": "whole", "shuffle": True, "shuffle_seed": 1,
                   "batch_size": 4, "names": ("tokens", "positions", "segments")}
        for order in ("relaxed", "strict"):
            first, state = self.ranks(3, 7, None, **options, order=order, job_name=f"a-{order}")
            rest, _ = self.ranks(2, None, state, **options, order=order, job_name=f"b-{order}")
            found = Counter(piece for fields in first + rest for piece in pieces_of(fields))
            self.assertEqual(found, expected_pieces(self.documents, 128), order)

    def test_end_to_end_goes_on_at_other_world_sizes_in_the_same_sequence(self):
        documents = list(self.documents_in_turn(int(self.version_of_documents(), 16), None, END))
        stream = [token for document in documents for token in document]
        ends = set(accumulate(map(len, documents)))
        rows = [stream[at:at + 64] for at in range(0, len(stream) // 64 * 64, 64)]
        for order in ({"shuffle": False}, {"shuffle": True, "order": "strict", "shuffle_seed": 1}):
            options = {"tokens": 64, "packing": "concat", "end_token": END, **order}
            undisturbed = [row for batch in self.loader(**options)
                           for row in batch["tokens"][:batch.samples - batch.fillers].tolist()]
            if order["shuffle"]:
                self.assertNotEqual(undisturbed, rows)
                self.assertEqual(sorted(undisturbed), sorted(rows))
            else:
                self.assertEqual(undisturbed, rows)
            had, state = [], None
            for world, batch_size, steps in ((3, 4, 7), (2, 5, 6), (1, 16, 3), (4, 3, None)):
                batches, state = self.ranks(world, steps, state, ("tokens",), **options,
                                            batch_size=batch_size, job_name=f"of-{world}-{order['shuffle']}")
                had += [row for fields in batches for row in fields["tokens"].tolist()]
                if steps:  # the job goes on in the middle of a document
                    self.assertEqual(had, undisturbed[:len(had)])
                    self.assertNotIn(64 * len(had), ends)
            self.assertEqual(had, undisturbed)

    def test_split_and_served_by_a_name(self):
        daemon = self.serve("--dataset", f"seq={self.data},tokens=64,packing=whole,"
                            "split=train:0.8,split=val:rest", name="named")
        found = Counter()
        for part in ("seq:train", "seq:val"):
            for batch in batchflow.DataLoader(part, batch_size=32, output="numpy"):
                found.update(pieces_of(batch))
        self.assertEqual(found, expected_pieces(self.documents, 64))
        served = daemon.status()["datasets"]
        self.assertEqual({(one["tokens"], one["packing"]) for one in served}, {(64, "whole")})
        done = subprocess.run([CTL, "--service", daemon.socket, "verify", "seq:train"], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{len(self.documents)} samples".encode(), done.stdout)

    def test_two_names_for_the_same_sequences(self):
        arguments = []
        for name in "abcd":
            arguments += ["--dataset", f"{name}={self.data},tokens=32,packing=whole"]
        daemon = self.serve(*arguments, name="names")
        for name in "abcd":
            found = Counter()
            for batch in batchflow.DataLoader(name, batch_size=64, output="numpy"):
                found.update(pieces_of(batch))
            self.assertEqual(found, expected_pieces(self.documents, 32))
        self.assertEqual(len({one["version"] for one in daemon.status()["datasets"]}), 1)

    def test_sources_that_are_packed_each_for_itself_are_mixed(self):
        all_tokens = {}
        for name, count in (("web", 400), ("code", 150)):
            (self.folder / "raw" / name).mkdir(parents=True)
            documents = documents_of(count, seed=count)
            write_megatron(self.folder / "raw" / name, documents)
            all_tokens[name] = Counter(token for document in documents for token in document)
            subprocess.run([CTL, "pack", str(self.folder / "raw" / name),
                            str(self.folder / "packed" / name), "--tokens", "64", "--packing", "whole"],
                           check=True, stdout=subprocess.DEVNULL)
        loader = batchflow.DataLoader(self.folder / "packed", 8, mixture={"web": 3, "code": 1},
                                      shuffle=True, output="dlpack")
        batches = iter(loader)
        drawn = Counter()
        for batch in batches:
            mixture = loader.mixture()
            drawn.update(mixture.source_of(int(key)) for key in batch.sample_keys)
            self.assertLess(abs(drawn["web"] - 0.75 * drawn.total()), 1)
        one = batchflow.DataLoader(self.folder / "packed", 8, mixture={"code": 1}, output="numpy")
        tokens = Counter()
        for batch in one:
            own = batch.samples - batch.fillers
            for row, segments in zip(batch["tokens"].tolist()[:own], batch["segments"].tolist()[:own]):
                tokens.update(token for token, segment in zip(row, segments) if segment)
        self.assertEqual(tokens, all_tokens["code"])
        with self.assertRaisesRegex(ValueError, "pack each source for itself"):
            batchflow.DataLoader(self.folder / "raw", mixture={"web": 1}, tokens=64, packing="whole",
                                 weights_change=True)

    def test_documents_of_several_sources_are_in_one_sequence(self):
        of_token, documents = {}, {}
        for name, first, count in (("web", 1, 900), ("code", 30_000, 900), ("rest", 60_000, 20)):
            (self.folder / "raw" / name).mkdir(parents=True)
            documents[name] = [[first + i] * len(one) for i, one in
                               enumerate(documents_of(count, seed=count + first))]
            write_megatron(self.folder / "raw" / name, documents[name])
            of_token.update({first + i: name for i in range(count)})
        weights = {"web": 0.75, "code": 0.25}
        longest = max(len(one) for name in weights for one in documents[name])
        loader = batchflow.DataLoader(str(self.folder / "raw"), 8, mixture=weights, tokens=64,
                                      packing="concat", output="numpy")
        stream = []
        for batch in loader:
            stream += batch["tokens"][:batch.samples - batch.fillers].ravel().tolist()
        had, mixed, at = Counter(), 0, 0
        for row in range(0, len(stream), 64):
            mixed += len({of_token[token] for token in stream[row:row + 64]}) == 2
        self.assertGreater(mixed, len(stream) // 64 // 10)
        for index, token in enumerate(stream):
            had[of_token[token]] += 1
            if index + 1 == len(stream) or stream[index + 1] != token:  # a document ends here
                for name, weight in weights.items():
                    self.assertLessEqual(abs(had[name] - weight * (index + 1)), longest)
        # One source ran out, to the end of a last sequence; no document came twice.
        left = {name: sum(map(len, documents[name])) - had[name] for name in weights}
        self.assertLess(min(left.values()), 64 + longest)
        for token, count in Counter(stream).items():
            name = of_token[token]
            first = 1 if name == "web" else 30_000
            self.assertLessEqual(count, len(documents[name][token - first]))
        # By hand, the same sequences.
        made = self.folder / "mixed"
        done = subprocess.run([CTL, "pack", str(self.folder / "raw"), str(made), "--tokens", "64",
                               "--packing", "concat", "--mix", "code:0.25+web:0.75", "--json"],
                              check=True, stdout=subprocess.PIPE, timeout=60)
        by_hand = []
        for batch in batchflow.DataLoader(str(made), 8, output="numpy"):
            by_hand += batch["tokens"][:batch.samples - batch.fillers].ravel().tolist()
        self.assertEqual(by_hand, stream)
        self.assertGreater(json.loads(done.stdout)["unused"], 20)
        with self.assertRaisesRegex(batchflow.RefusedError, "nothing at 'wob'.*code, rest, web"):
            len(batchflow.DataLoader(str(self.folder / "raw"), mixture={"wob": 1}, tokens=64,
                                     packing="whole"))

    def test_samples_of_rows_and_buckets(self):
        expected = expected_pieces(self.documents, 128)
        found = Counter()
        for batch in self.loader(tokens=128, packing="whole", rows=4, shuffle=True, batch_size=2):
            self.assertEqual(batch["tokens"].shape[1:], (4, 128))
            own = batch.samples - batch.fillers
            flat = {name: batch[name][:own].reshape(own, -1) for name in
                    ("tokens", "positions", "segments")}
            for tokens, segments in zip(flat["tokens"], flat["segments"]):
                for segment in range(1, segments.max() + 1):
                    places = (segments == segment).nonzero()[0]
                    self.assertEqual(places[0] // 128, places[-1] // 128)  # in one row
                    found[tuple(tokens[places].tolist())] += 1
        self.assertEqual(found, expected)
        found = Counter()
        for batch in self.loader(tokens=1024, packing="buckets", shuffle=True, batch_size=1):
            [tokens], [segments] = batch["tokens"], batch["segments"]
            width = int((segments == 1).sum())
            rows = len(tokens) // width
            for row, marks in zip(tokens[:rows * width].reshape(rows, width),
                                  segments[:rows * width].reshape(rows, width)):
                self.assertLessEqual(len(set(marks.tolist()) - {0}), 1)
                if marks[0]:
                    found[tuple(row[marks > 0].tolist())] += 1
            self.assertFalse(segments[rows * width:].any())
        self.assertEqual(found, expected_pieces(self.documents, 1024))

    def test_packed_by_hand(self):
        made = self.folder / "made"
        done = subprocess.run([CTL, "pack", str(self.data), str(made), "--tokens", "128",
                               "--packing", "whole", "--end-token", str(END), "--json"],
                              check=True, stdout=subprocess.PIPE, timeout=60)
        counts = json.loads(done.stdout)
        lengths = [len(one) + 1 for one in self.documents if one]
        self.assertEqual({name: counts[name] for name in ("documents", "empty", "cut", "tokens",
                                                          "left_out")},
                         {"documents": len(self.documents), "tokens": sum(lengths), "left_out": 0,
                          "empty": len(self.documents) - len(lengths),
                          "cut": sum(length > 128 for length in lengths)})
        self.assertAlmostEqual(counts["filled"], sum(lengths) / counts["sequences"] / 128)
        by_hand = [batch["tokens"].tobytes() for batch in
                   batchflow.DataLoader(str(made), batch_size=8, output="numpy")]
        self.assertEqual(by_hand, [batch["tokens"].tobytes() for batch in self.loader(
            tokens=128, packing="whole", end_token=END)])
        again = subprocess.run([CTL, "pack", str(self.data), str(self.folder / "no"), "--tokens",
                                "0", "--packing", "whole"], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(again.returncode, 2)
        self.assertIn(b"as tokens=2048", again.stderr)
        self.assertFalse((self.folder / "no").exists())
        for arguments, words in ((("--packing", "whole", "--end-token", str(2**31)), b"2147483647"),
                                 (("--end-token", "1"), b"write also --packing")):
            refused = subprocess.run([CTL, "pack", str(self.data), str(self.folder / "no"), "--tokens",
                                      "8", *arguments], stderr=subprocess.PIPE, timeout=60)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(words, refused.stderr)
            self.assertFalse((self.folder / "no").exists())

    def test_tokens_of_64_bits(self):
        cast = batchflow.Pipeline([{"step": "cast", "to": "i64"}])
        found = Counter()
        for batch in self.loader(tokens=128, packing="whole", pipeline=cast):
            self.assertEqual([str(field.dtype) for field in batch], ["int64", "int32", "int32"])
            found.update(pieces_of(batch))
        self.assertEqual(found, expected_pieces(self.documents, 128))

    def test_what_was_there_before_is_as_it_was(self):
        flat = self.folder / "flat.u16"
        flat.write_bytes(array("H", range(1000)).tobytes())
        rows = [row for batch in batchflow.DataLoader(str(flat), tokens=64, output="numpy")
                for row in batch["tokens"].tolist()]
        self.assertEqual(rows, [list(range(64 * i, 64 * i + 64)) for i in range(15)])

    @needs("pyarrow")
    def test_columns_of_tables(self):
        import pyarrow
        import pyarrow.parquet
        table = pyarrow.table({"text": ["x"] * len(self.documents), "input_ids": self.documents,
                               "attention_mask": [[1] * len(one) for one in self.documents]})
        self.data = self.folder / "table.parquet"
        pyarrow.parquet.write_table(table, self.data)
        os.environ["BATCHFLOW_PYTHON"] = sys.executable
        self.serve(name="tables")
        found = Counter()
        for batch in self.loader(tokens=200, packing="whole"):
            found.update(pieces_of(batch))
        self.assertEqual(found, expected_pieces(self.documents, 200))

    def test_errors_in_the_users_terms(self):
        for text, named in (
                ("packing='bins' is not known; write 'concat'", {"packing": "bins", "tokens": 8}),
                ("packing='whole' needs the tokens of a sequence", {"packing": "whole"}),
                ("tokens should be from 1 to 1048576, but got tokens=0",
                 {"packing": "whole", "tokens": 0}),
                ("tokens should be from 1 to 1048576", {"packing": "concat", "tokens": 2**20 + 1}),
                ("end_token should be from 0", {"packing": "concat", "tokens": 8, "end_token": -1}),
                ("end_token should be from 0 to 2147483647",
                 {"packing": "concat", "tokens": 8, "end_token": 2**31}),
                ("write also packing='concat'", {"tokens": 8, "end_token": 1})):
            with self.assertRaisesRegex(ValueError, re.escape(text)):
                self.loader(**named)
        flat = self.folder / "flat.u16"
        flat.write_bytes(bytes(200))
        with self.assertRaisesRegex(batchflow.RefusedError, "nothing says where documents end"):
            next(iter(batchflow.DataLoader(str(flat), tokens=8, packing="concat")))
        bad = self.data / "corpus.idx"
        bad.write_bytes(bad.read_bytes()[:-8] + struct.pack("<Q", 2**63))
        with self.assertRaisesRegex(batchflow.RefusedError, "corpus.idx: document 1499 ends with sequence"):
            next(iter(self.loader(tokens=8, packing="concat")))


# Prints the pieces that it was given, as text.
PIECES = f"import sys\nsys.path.append({str(HERE)!r})" + """
import json
import batchflow
from test_sequences import pieces_of
options = json.loads(sys.argv[3])
loader = batchflow.DataLoader("rows", batch_size=8, output="numpy", shuffle=True, **options)
print(json.dumps([piece for batch in loader
                  for piece in pieces_of({name: batch[name][:batch.samples - batch.fillers]
                                          for name in ("tokens", "positions", "segments")})]))
"""


class OnNodes(test_cluster.Cluster):
    """Each node packs the documents for itself, to the same sequences."""

    def make_data(self):
        self.documents = documents_of(600)
        write_megatron(self.data, self.documents)
        self.data = f"{self.data},tokens=64,packing=whole,packing_seed=3,end_token={END}"

    def test_ranks_on_two_nodes(self):
        nodes = [self.coordinator, self.agent("a")]
        jobs = [test_cluster.Job(node, code=PIECES, job_name="wide", rank=rank, world_size=2)
                for rank, node in enumerate(nodes)]
        found = Counter(tuple(piece) for job in jobs for piece in job.result())
        self.assertEqual(found, expected_pieces(self.documents, 64, END))
        self.assertTrue(list((self.folder / "a").glob("state/indices/sequences/*/*/*.bfseq")))


class OfStore(test_stores.Stores):
    def test_objects_are_copied_once_for_the_time_of_packing(self):
        documents, data = documents_of(400), self.folder / "corpus"
        data.mkdir()
        write_megatron(data, documents, "a")
        write_megatron(data, documents[:50], "b")
        server = self.serve({f"corpus/{one.name}": one.read_bytes() for one in data.iterdir()})
        self.start()
        found = Counter()
        for batch in batchflow.DataLoader("s3://bucket/corpus", batch_size=8, output="numpy",
                                          tokens=64, packing="whole"):
            found.update(pieces_of(batch))
        self.assertEqual(found, expected_pieces(documents + documents[:50], 64))
        self.assertLess(len(server.ranges), 50)
        self.assertEqual(list(self.folder.glob("state/indices/sequences/*/*/.objects")), [])
        self.assertTrue(list(self.folder.glob("state/indices/sequences/*/*/*.bfseq")))


class Page(Folder):
    @needs("numpy")
    def test_the_examples_run(self):
        blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        self.assertGreaterEqual(len(blocks), 1)
        os.environ.update(BATCHFLOW_IDLE_S="1", BATCHFLOW_DAEMON=DAEMON)
        done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=self.folder, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-3000:])
        self.assertRegex(done.stdout.decode(), r"(9[89]|100)\.\d% of all entries are filled")
        # The command of the page, on the data of its example.
        command = re.search(r"```\n(batchflowctl pack .*?)```", PAGE.read_text(), re.DOTALL)[1]
        words = command.replace("/data/", "").split()
        made = subprocess.run([CTL, *words[1:]], cwd=self.folder, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(made.returncode, 0, made.stderr.decode()[-3000:])
        self.assertRegex(made.stdout.decode(), "3000 documents .* packed into \\d+ sequences of 2048")


if __name__ == "__main__":
    unittest.main()
