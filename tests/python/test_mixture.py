"""Mixtures through the service: each batch is compared with the rule (docs/order.md, "Mixtures"),
which is written down here once more."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
import unittest
from itertools import accumulate
from random import Random

import batchflow
from support import HERE, ServedFolders, write_rows
from test_orders import hash_of, permuted

VERIFIER = HERE.parent.parent / "tools" / "verify_receipts.py"
WHOLE = 2**32
# Blocks of these rows are prepared far ahead, and weights change behind them.
DRAWS, AT = 48_000, 30_000
SIZES = {"code": 40, "math": 9, "web": 300}  # in the order of their keys


def parts_of(weights):
    """Whole parts of 2^-32. What rounding down leaves goes to those that lost most."""
    most = max(weights)
    total = sum(weight / most for weight in weights)
    exact = [weight / most / total * WHOLE for weight in weights]
    parts = [int(one) for one in exact]
    lost = sorted((part - one, i) for i, (part, one) in enumerate(zip(parts, exact)) if weights[i])
    for k in range(WHOLE - sum(parts)):
        parts[lost[k % len(lost)][1]] += 1
    return parts


class Rule:
    """The keys of a mixture, one after the other."""

    def __init__(self, dataset, seed, weights, in_order=False, sizes=SIZES):
        weights = dict(sorted(weights.items()))
        self.names = list(weights)
        firsts = dict(zip(sizes, accumulate(sizes.values(), initial=0)))
        self.first = [firsts[name] for name in self.names]
        self.sizes = [sizes[name] for name in self.names]
        self.root = (int(dataset, 16), seed)
        self.in_order = in_order
        self.parts = parts_of(list(weights.values()))
        self.taken = [0] * len(weights)
        self.due = [0] * len(weights)  # less what was taken
        self.now = 0
        self.changes = []
        self.orders = {}

    def change(self, at, weights):
        self.changes.append((at, parts_of([weights[name] for name in self.names])))

    def _apply(self, parts):
        freed = 0
        for i, part in enumerate(parts):
            self.parts[i] = part
            if part == 0:
                freed, self.due[i] = freed + self.due[i], 0
        rest = freed
        for i, part in enumerate(parts):
            share = abs(freed) * part // WHOLE * (1 if freed > 0 else -1)  # towards 0
            self.due[i], rest = self.due[i] + share, rest - share
        self.due[next(i for i, part in enumerate(parts) if part)] += rest

    def __next__(self):
        for at, parts in self.changes:
            if at == self.now:
                self._apply(parts)
        may = [i for i, part in enumerate(self.parts) if part and self.due[i] + part > 0]
        best = min(may, key=lambda i: (max(-self.now, -((self.due[i] - WHOLE) // self.parts[i])), i))
        size = self.sizes[best]
        visit, index = divmod(self.taken[best], size)
        if not self.in_order:
            if (best, visit) not in self.orders:
                key = hash_of(10, *self.root, self.first[best], visit)
                self.orders[best, visit] = permuted(key, size)
            index = self.orders[best, visit][index]
        self.taken[best] += 1
        self.due[best] -= WHOLE
        self.due = [due + part for due, part in zip(self.due, self.parts)]
        self.now += 1
        return self.first[best] + index


class Mixed(ServedFolders):
    SERVED_AS, SIZES = "mix", SIZES

    def loader(self, weights, **more):
        more = {"batch_size": 16, "shuffle": True, "output": "dlpack", "draws": 1000, **more}
        return batchflow.DataLoader("mix", mixture=weights, **more)

    def rule_of(self, loader, weights, **more):
        len(loader)  # opens its job
        state = loader.state_dict()
        return Rule(state["dataset"], state["seed"], weights, sizes=self.SIZES, **more)


def keys_of(batch):
    return list(batch.sample_keys)[:batch.samples - batch.fillers]


class OneRank(Mixed):
    def test_batches_follow_the_rule_over_epochs(self):
        for more in ({}, {"shuffle": False}, {"shuffle_seed": 5}):
            weights = {"web": 0.7, "code": 0.2, "math": 0.1}
            loader = self.loader(weights, **more)
            rule = self.rule_of(loader, weights, in_order=not more.get("shuffle", True))
            self.assertEqual(len(loader), 63)
            for epoch in range(3):
                batches = [keys_of(batch) for batch in loader]
                self.assertEqual([len(keys) for keys in batches], [16] * 62 + [8])
                for keys in batches:
                    self.assertEqual(keys, [next(rule) for _ in keys], (more, epoch))
            mixture = loader.mixture()
            self.assertEqual(mixture.drawn, 3000)
            self.assertEqual(sum(source.drawn for source in mixture.sources.values()), 3000)
            for name, source in mixture.sources.items():
                self.assertLessEqual(abs(source.drawn - 3000 * weights[name]), 1)
                self.assertEqual(source.samples, SIZES[name])
                self.assertEqual(mixture.source_of(source.first_key), name)
                self.assertEqual(mixture.source_of(source.first_key + source.samples - 1), name)
            with self.assertRaisesRegex(ValueError, "of no source"):
                mixture.source_of(10**6)

    def test_weights_change_and_a_state_goes_on_anywhere(self):
        first, second = {"web": 1, "code": 1, "math": 1}, {"web": 0, "code": 5, "math": 1}
        loader = self.loader(first, weights_change=True, draws=DRAWS, batch_size=100)
        rule = self.rule_of(loader, first)
        batches = iter(loader)
        seen = [keys_of(next(batches)) for _ in range(5)]
        loader.set_weights(second, at=AT)
        loader.set_weights(first, at=AT + 777)
        while len(loader.mixture().changes) < 2:
            seen.append(keys_of(next(batches)))
        changes = loader.mixture().changes
        self.assertEqual([change.at for change in changes], [AT, AT + 777])
        self.assertAlmostEqual(changes[0].weights["code"], 5 / 6)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        given = 100 * len(seen)
        rule.change(AT, second)
        rule.change(AT + 777, first)
        expected = [next(rule) for _ in range(DRAWS)]
        self.assertEqual([key for keys in seen for key in keys], expected[:given])
        rest = [key for batch in batches for key in keys_of(batch)]
        self.assertEqual(rest, expected[given:])
        # In another service, that has other batches.
        loader.close()
        self.daemon.kill()
        self.daemon.start()
        again = self.loader(first, weights_change=True, batch_size=333, draws=DRAWS)
        again.load_state_dict(state)
        rest = [key for batch in again for key in keys_of(batch)]
        self.assertEqual(rest, expected[given:])
        self.assertEqual([round(source.weight, 3) for source in again.mixture().sources.values()],
                         [0.333, 0.333, 0.333])

    def test_a_schedule_holds_from_its_samples_on(self):
        weights, later = {"web": 1, "code": 1, "math": 1}, {"web": 0, "code": 5, "math": 1}
        schedule = {500: later, 777: {"web": 2, "code": 0, "math": 1}}
        loader = self.loader(weights, weights_at=schedule)
        rule = self.rule_of(loader, weights)
        self.assertEqual([change.at for change in loader.mixture().changes], [500, 777])
        for at, changed in schedule.items():
            rule.change(at, changed)
        batches = iter(loader)
        seen = [key for _ in range(40) for key in keys_of(next(batches))]
        state = loader.state_dict()
        loader.close()
        again = self.loader(weights, batch_size=9)  # the state has what is to come
        again.load_state_dict(state)
        seen += [key for batch in again for key in keys_of(batch)]
        self.assertEqual(seen, [next(rule) for _ in seen])
        self.assertEqual(len(seen), 1000)
        self.assertEqual(again.mixture().changes, [])

    def test_a_policy_changes_weights_by_losses(self):
        policy = "excess-loss:every=4000:change=0.2:least=0.1"
        losses = {"web": 0.5, "code": 2.5, "math": 1.0}
        weights = {"web": 8, "code": 1, "math": 1}
        more = {"weights_policy": policy, "draws": 10**6, "batch_size": 250}
        state, shares = None, []
        for world in (1, 2, 1):
            made = [None] * world

            def run(rank):
                loader = self.loader(weights, rank=rank, world_size=world, job_name=f"policy{world}",
                                     receipts=str(self.folder / "receipts"), **more)
                if state is not None:
                    loader.load_state_dict(state)
                batches = iter(loader)
                for step in range(60):
                    next(batches)
                    loader.report_losses(losses if rank == 0 else {"code": 2.5})
                    if rank == 0 and step == 30:
                        self.daemon.kill()
                        self.daemon.start()
                made[rank] = loader.state_dict(), loader.mixture()
                loader.close()

            threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertTrue(all(made))
            self.assertEqual(len({str(one) for one in made}), 1)
            state, mixture = made[0]
            known = mixture.changes[-1].weights if mixture.changes else {
                name: source.weight for name, source in mixture.sources.items()}
            shares.append(known)
        self.assertGreater(shares[0]["code"], 0.1 + 0.19)
        self.assertGreater(shares[-1]["code"], shares[0]["code"])
        self.assertGreaterEqual(min(shares[-1].values()), 0.1 - 1e-6)
        # The program works out each sample from what the receipts say of weights.
        done = subprocess.run([sys.executable, str(VERIFIER), "--partial", str(self.folder / "receipts")],
                              timeout=120, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("60000 draws from 349 samples; 60 steps of 1 rank, 60 steps of 2 ranks, 60 steps of "
                      "1 rank", done.stdout)
        self.assertIn("order mixed, worked out again", done.stdout)

    def test_weights_that_are_asked_for_now_count_soon(self):
        loader = self.loader({"web": 1, "code": 1}, weights_change=True, draws=10**6)
        batches = iter(loader)
        next(batches)
        loader.set_weights({"web": 0, "code": 1})
        drawn = 0
        for batch in batches:
            drawn += batch.samples
            if loader.mixture().sources["web"].weight == 0:
                break
            self.assertLess(drawn, 100_000)
        self.assertTrue(all(key < 40 for key in keys_of(next(batches))))

    def test_a_service_that_is_killed_changes_nothing(self):
        weights = {"web": 3, "code": 2, "math": 1}
        loader = self.loader(weights, weights_change=True, draws=DRAWS, batch_size=500)
        rule = self.rule_of(loader, weights)
        seen = []
        for count, batch in enumerate(loader):
            seen += keys_of(batch)
            if count == 4:
                loader.set_weights({"web": 1, "code": 0, "math": 1}, at=AT)
            if count in (5, 40, 60):
                self.daemon.kill()
                self.daemon.start()
        rule.change(AT, {"web": 1, "code": 0, "math": 1})
        self.assertEqual(seen, [next(rule) for _ in range(DRAWS)])

    def test_dicts_of_paths(self):
        os.environ.pop("BATCHFLOW_SERVICE")
        paths = {self.data / "web": 0.5, str(self.data / "math"): 0.5}
        loader = batchflow.DataLoader(paths, 8, shuffle=True, output="dlpack", draws=100)
        os.environ["BATCHFLOW_SERVICE"] = self.daemon.socket
        self.assertEqual(sum(len(keys_of(batch)) for batch in loader), 100)
        self.assertEqual(set(loader.mixture().sources), {"web", "math"})
        with self.assertRaisesRegex(ValueError, "should lie below one folder"):
            batchflow.DataLoader({"/a": 1, "/b": 1})
        with self.assertRaisesRegex(ValueError, "the same folder or file"):
            batchflow.DataLoader({"/tmp/a/": 1, "/tmp/a": 1})
        with self.assertRaisesRegex(ValueError, "named below their common prefix"):
            batchflow.DataLoader({"s3://b/a": 1, "s3://b/c": 1})


class ManySources(Mixed):
    """A thousand of them, which have one to five rows each."""

    SIZES = {f"s{n:03}": 1 + n % 5 for n in range(1000)}

    def test_weights_of_a_thousand_sources_change_and_a_state_goes_on(self):
        first = {name: 1 / (1 + n) for n, name in enumerate(self.SIZES)}
        second = {name: n % 3 for n, name in enumerate(self.SIZES)}
        more = {"weights_change": True, "draws": 10**6}
        loader = self.loader(first, batch_size=100, **more)
        rule = self.rule_of(loader, first)
        batches = iter(loader)
        seen = keys_of(next(batches))
        loader.set_weights(second)
        while not (changes := loader.mixture().changes) and loader.mixture().sources["s000"].weight:
            seen += keys_of(next(batches))
        change, = changes
        mixture, total = loader.mixture(), sum(first.values())
        for name, source in mixture.sources.items():
            self.assertLessEqual(abs(source.drawn - mixture.drawn * first[name] / total), 1, name)
        rule.change(change.at, second)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        loader.close()
        self.daemon.kill()
        self.daemon.start()
        steps = (change.at - len(seen)) // 100 + 20
        made = [None, None]

        def run(rank):
            again = self.loader(first, batch_size=50, rank=rank, world_size=2, job_name="again", **more)
            again.load_state_dict(state)
            made[rank] = [keys_of(batch) for _, batch in zip(range(steps), again)]
            again.close()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertTrue(all(made))
        self.assertEqual([len(keys) for keys in made], [steps, steps])
        seen += [key for step in zip(*made) for keys in step for key in keys]
        self.assertGreater(len(seen), change.at + 1500)
        self.assertEqual(seen, [next(rule) for _ in seen])


class ManyRanks(Mixed):
    def test_each_step_has_the_same_samples_at_any_world_size(self):
        weights = {"web": 0.6, "code": 0.3, "math": 0.1}
        steps = {}
        for world in (1, 2, 4):
            made = [None] * world

            def run(rank):
                loader = self.loader(weights, batch_size=240 // world, rank=rank, world_size=world,
                                     job_name=f"job{world}", weights_change=True, draws=DRAWS)
                batches = iter(loader)
                keys = [keys_of(next(batches)) for _ in range(2)]
                if rank == world - 1:
                    loader.set_weights({"web": 0, "code": 1, "math": 1}, at=AT)
                keys += [keys_of(batch) for batch in batches]
                made[rank] = keys, loader.mixture(), loader.state_dict()

            threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertTrue(all(made))
            self.assertEqual(len({str(mixture) for _, mixture, _ in made}), 1)
            self.assertEqual(len({str(state) for _, _, state in made}), 1)
            steps[world] = [sum((keys[step] for keys, _, _ in made), [])
                            for step in range(DRAWS // 240)]
        self.assertEqual(steps[1], steps[2])
        self.assertEqual(steps[1], steps[4])


class Faults(Mixed):
    """Rounds of a job, each at another world size and batch size, in which the service may be killed
    and weights change. All of it is one sequence, that of the rule."""

    AHEAD = 400_000  # samples: no round comes so far, and no block is prepared so far ahead

    def run_round(self, random, state, rule):
        world, batch_size = random.randint(1, 3), random.randint(300, 900)
        steps = random.randint(5, 60)
        changes_at = random.randrange(steps) if random.random() < 0.7 else None
        kills = sorted(random.sample(range(steps), random.choice([0, 1, 2])))
        asks, weights = random.randrange(world), {name: random.randint(0, 3) for name in SIZES}
        weights["web"] += not any(weights.values())
        made = [None] * world
        begun = rule.now

        def run(rank):
            loader = self.loader({"web": 3, "code": 2, "math": 1}, weights_change=True, draws=10**9,
                                 batch_size=batch_size, rank=rank, world_size=world,
                                 job_name=f"round{begun}")
            if state is not None:
                loader.load_state_dict(state)
            keys, batches = [], iter(loader)
            for step in range(steps):
                if rank == 0 and step in kills:
                    self.daemon.kill()
                    self.daemon.start()
                if rank == asks and step == changes_at:
                    loader.set_weights(weights, at=begun + self.AHEAD)
                keys.append(keys_of(next(batches)))
            while changes_at is not None and not any(
                    change.at == begun + self.AHEAD for change in loader.mixture().changes):
                keys.append(keys_of(next(batches)))
            made[rank] = keys, loader.state_dict()
            loader.close()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertTrue(all(made), (world, batch_size, steps, changes_at, kills))
        if changes_at is not None:
            rule.change(begun + self.AHEAD, weights)
        # All ranks hear of a change before the same step, so they end after the same one.
        self.assertEqual(len({len(keys) for keys, _ in made}), 1)
        for step in zip(*(keys for keys, _ in made)):
            for keys in step:
                self.assertEqual(keys, [next(rule) for _ in keys])
        self.assertEqual(len({str(state) for _, state in made}), 1)
        return made[0][1]

    def test_kills_sizes_and_weights_change_nothing_of_the_sequence(self):
        seed = int(os.environ.get("BATCHFLOW_SEED", "1"))
        random, state = Random(seed), None
        opened = self.loader({"web": 3, "code": 2, "math": 1}, weights_change=True, draws=10**9)
        rule = self.rule_of(opened, {"web": 3, "code": 2, "math": 1})
        opened.close()
        for number in range(int(os.environ.get("BATCHFLOW_FAULTS", "8"))):
            with self.subTest(f"BATCHFLOW_SEED={seed}, round {number}"):
                state = self.run_round(random, state, rule)


class Refused(Mixed):
    def test_what_no_mixture_can_be(self):
        for kind, text, named in (
                (ValueError, "web: the weight is -1", {"mixture": {"web": -1}}),
                (ValueError, "web: the weight is nan", {"mixture": {"web": float("nan")}}),
                (TypeError, "web: the weight should be a number", {"mixture": {"web": "0.5"}}),
                (ValueError, "web: the weight is inf", {"mixture": {"web": 10**400}}),
                (TypeError, "weights_change should be a boolean",
                 {"mixture": {"web": 1}, "weights_change": "no"}),
                (ValueError, "all weights of the mixture are 0", {"mixture": {"web": 0, "code": 0}}),
                (ValueError, "mixture has 0 sources", {"mixture": {}}),
                (TypeError, "mixture should be a dict", {"mixture": ["web"]}),
                (ValueError, "two sources of the mixture are the same",
                 {"mixture": {"web": 1, "./web": 1}}),
                (ValueError, "order='strict' contradicts mixture=",
                 {"mixture": {"web": 1}, "order": "strict"}),
                (ValueError, "shuffle='runs' is a relaxed order",
                 {"mixture": {"web": 1}, "shuffle": "runs"}),
                (ValueError, "rehearsed=4 of batch_size=4 leaves no room",
                 {"mixture": {"web": 1}, "rehearsed": 4, "batch_size": 4}),
                (ValueError, "a schedule of the weights, and weights_policy changes them",
                 {"mixture": {"web": 1}, "weights_at": {5: {"web": 2}}, "weights_policy": "ucb"}),
                (ValueError, "weights_at: 5: 'code' has no weight",
                 {"mixture": {"web": 1, "code": 1}, "weights_at": {5: {"web": 2}}}),
                (ValueError, "weights_at: 5: there is no source 'wob'",
                 {"mixture": {"web": 1}, "weights_at": {5: {"wob": 2}}}),
                (ValueError, "weights_at should say from which samples on",
                 {"mixture": {"web": 1}, "weights_at": {-1: {"web": 2}}}),
                (TypeError, "weights_at should say from which samples on",
                 {"mixture": {"web": 1}, "weights_at": 7}),
                (TypeError, "weights_policy should be the name", {"mixture": {"web": 1}, "weights_policy": 7}),
                (ValueError, "weights_policy='ucb' is for a mixture", {"weights_policy": "ucb"}),
                (ValueError, "weights_change=True is for a mixture", {"weights_change": True}),
                (ValueError, "write strict, relaxed or weighted", {"order": "mixed"})):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                batchflow.DataLoader("mix", **named)
        with self.assertRaisesRegex(TypeError, "not for a list"):
            batchflow.DataLoader([1, 2, 3], mixture={"web": 1})

    def test_a_state_is_refused_where_a_source_has_shrunk_or_is_gone(self):
        loader = self.loader({"web": 1, "code": 1})
        next(iter(loader))
        state = loader.state_dict()
        loader.close()
        version = state["dataset"]
        for shrinks in (True, False):
            self.daemon.kill()
            if shrinks:
                write_rows(self.data / "web" / "rows.npy", SIZES["web"] - 1)
            else:
                shutil.rmtree(self.data / "web")
            self.daemon.start()
            again = self.loader({"web": 1, "code": 1})
            again.load_state_dict(state)
            with self.subTest(shrinks=shrinks), self.assertRaisesRegex(
                    batchflow.RefusedError, f"another version of the dataset .{version}, here is"):
                next(iter(again))
            other = self.loader({"code": 1, "math": 1}, draws=100)
            self.assertEqual(sum(len(keys_of(batch)) for batch in other), 100)

    def test_the_service_says_what_there_is(self):
        with self.assertRaisesRegex(batchflow.RefusedError, "nothing at 'wob'.*code, math, web"):
            len(self.loader({"wob": 1}))
        with self.assertRaisesRegex(batchflow.RefusedError, "two sources have samples in common"):
            len(self.loader({"web": 1, "web/rows.npy": 1}))
        loader = self.loader({"web": 1, "code": 1})
        with self.assertRaisesRegex(batchflow.RefusedError, "unknown mixture policy 'ubc'; write 'ucb'"):
            len(self.loader({"web": 1}, weights_policy="ubc"))
        with self.assertRaisesRegex(ValueError, "a schedule of 65 other weights"):
            len(self.loader({"web": 1}, weights_at={at: {"web": 1} for at in range(65)}))
        judged = self.loader({"web": 1, "code": 1}, weights_policy="softmax")
        with self.assertRaisesRegex(ValueError, "report_losses: there is no source 'wob'"):
            judged.report_losses({"wob": 1})
        with self.assertRaisesRegex(TypeError, "the loss should be a number"):
            judged.report_losses({"web": "1"})
        with self.assertRaisesRegex(RuntimeError, "go by no losses"):
            self.loader({"web": 1}).report_losses({"web": 1})
        with self.assertRaisesRegex(RuntimeError, "write weights_change=True"):
            loader.set_weights({"web": 1, "code": 2})
        next(iter(loader))
        state = loader.state_dict()
        other = self.loader({"web": 1, "math": 1})
        other.load_state_dict(state)
        with self.assertRaisesRegex(batchflow.RefusedError, "a mixture of other sources"):
            next(iter(other))
        again = self.loader({"code": 1, "web": 1}, draws=17)
        again.load_state_dict(state)
        with self.assertRaisesRegex(batchflow.RefusedError, "1000 draws, and the job asks for 17"):
            next(iter(again))
        with self.assertRaisesRegex(ValueError, "the names of the sources have"):
            len(self.loader({"x" * 200 + str(i): 1 for i in range(1000)}))
        changing = self.loader({"web": 1, "code": 1}, weights_change=True)
        for _ in range(64):
            changing.set_weights({"web": 1, "code": 1}, at=10**9)
        with self.assertRaisesRegex(ValueError, "ask again when some of them"):
            changing.set_weights({"web": 1, "code": 1}, at=10**9)
        for text, weights in (("no source 'wob'", {"wob": 1}), ("'code' has no weight", {"web": 1}),
                              ("all weights", {"web": 0, "code": 0}),
                              ("not below 0", {"web": -2, "code": 0})):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                changing.set_weights(weights)
        plain = batchflow.DataLoader("mix", 8, output="dlpack")
        with self.assertRaisesRegex(RuntimeError, "has no mixture"):
            plain.mixture()


if __name__ == "__main__":
    unittest.main()
