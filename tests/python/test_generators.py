"""Generators decide a loader's order as they do in PyTorch."""

import json
import pickle
import unittest

import batchflow
from compared import Compared
from support import needs

try:
    import torch
    from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

    from pictures import epoch_of
except ImportError:
    pass


@needs("torchvision")
class Generators(Compared):
    def test_a_seeded_generator_repeats_from_run_to_run(self):
        def run(loader_class):
            loader = loader_class(self.data(), 8, shuffle=True,
                                  generator=torch.Generator().manual_seed(7))
            return [epoch_of(loader) for _ in range(2)]

        for loader_class in (DataLoader, batchflow.DataLoader):
            first, second = run(loader_class), run(loader_class)
            self.assertEqual(first, second)
            self.assertNotEqual(*first)
        other = batchflow.DataLoader(self.data(), 8, shuffle=True,
                                     generator=torch.Generator().manual_seed(8))
        self.assertNotEqual(epoch_of(other), first[0])
        sampled = torch.utils.data.RandomSampler(self.data(),
                                                 generator=torch.Generator().manual_seed(7))
        self.assertEqual(epoch_of(batchflow.DataLoader(self.data(), 8, sampler=sampled)), first[0])

    def loader(self, loader_class=batchflow.DataLoader, generator=None, **more):
        if generator is None:
            generator = torch.Generator().manual_seed(7)
        return loader_class(self.data(), 8, shuffle=True, generator=generator, **more)

    def test_a_generator_that_is_seeded_again_begins_the_order_again(self):
        for loader_class in (DataLoader, batchflow.DataLoader):
            generator = torch.Generator().manual_seed(7)
            loader = self.loader(loader_class, generator)
            made = []
            for _ in range(2):
                generator.manual_seed(7)
                made.append([epoch_of(loader) for _ in range(2)])
            generator.manual_seed(8)
            other = epoch_of(loader)
            self.assertEqual(*made)
            self.assertNotIn(other, made[0])
            self.assertEqual(epoch_of(self.loader(loader_class,
                                                  torch.Generator().manual_seed(8))), other)

    def test_what_is_drawn_in_between_counts(self):
        def run(loader_class, drawn, in_between):
            generator = torch.Generator().manual_seed(7)
            torch.rand(drawn, generator=generator)
            loader = self.loader(loader_class, generator)
            made = [epoch_of(loader)]
            torch.rand(in_between, generator=generator)
            return made + [epoch_of(loader)]

        for loader_class in (DataLoader, batchflow.DataLoader):
            runs = [run(loader_class, drawn, in_between)
                    for drawn, in_between in ((0, 0), (5, 0), (0, 5))]
            self.assertNotEqual(runs[0][0], runs[1][0])
            self.assertEqual(runs[0][0], runs[2][0])
            self.assertNotEqual(runs[0][1], runs[2][1])
            self.assertEqual(run(loader_class, 5, 0), runs[1])
            self.assertEqual(run(loader_class, 0, 5), runs[2])

    def test_two_loaders_with_one_generator_have_different_orders(self):
        def run(loader_class):
            generator = torch.Generator().manual_seed(7)
            loaders = [self.loader(loader_class, generator) for _ in range(2)]
            return [epoch_of(loader) for _ in range(2) for loader in loaders]

        for loader_class in (DataLoader, batchflow.DataLoader):
            made = run(loader_class)
            self.assertEqual(len({str(epoch) for epoch in made}), 4)
            self.assertEqual(run(loader_class), made)

    def test_iterations_at_one_time(self):
        for loader_class in (DataLoader, batchflow.DataLoader):
            loader = self.loader(loader_class)
            pairs = list(zip(loader, loader))
            first, second = (epoch_of(side) for side in zip(*pairs))
            self.assertNotEqual(first, second)

    def test_a_state_says_where_the_order_goes_on(self):
        whole = [epoch_of(one) for one in [self.loader()] for _ in range(3)]
        first = self.loader()
        epoch_of(first)
        iteration = iter(first)
        next(iteration)
        saved = json.loads(json.dumps(first.state_dict()))
        epoch_of(first)
        for loader in (first, self.loader()):
            loader.load_state_dict(saved)
            loader.generator.manual_seed(7)  # as scripts do when they begin
            self.assertEqual(epoch_of(loader), whole[1][1:])
            self.assertEqual(epoch_of(loader), whole[2])

    def test_all_epochs_end_where_each_begins_an_order(self):
        generator = torch.Generator().manual_seed(7)
        loader = self.loader(generator=generator, epochs=3)
        seen = 0
        for batch in loader.epochs():
            seen += batch.samples
            if batch.last_of_epoch:
                generator.manual_seed(7)
        self.assertEqual(seen, 3 * len(loader.dataset))

    def test_what_contradicts_a_generator_is_refused_or_said(self):
        with self.assertRaisesRegex(ValueError, "shuffle_seed=4 and the generator each give a seed"):
            self.loader(shuffle_seed=4)
        with self.assertRaisesRegex(TypeError, "generator should be a torch.Generator, not int"):
            self.loader(generator=7)
        said = self.said_by(lambda: [self.loader(order="relaxed") for _ in range(2)])
        self.assertEqual(len(said), 1, said)
        self.assertIn("generator does not make order='relaxed' the same in every run", said[0])
        self.assertEqual(self.said_by(lambda: self.loader(order="strict")), [])

    def test_a_sampler_has_its_own(self):
        data = self.data()
        wanted = epoch_of(self.loader())
        sampler = RandomSampler(data, generator=torch.Generator().manual_seed(7))
        made = batchflow.DataLoader(data, 8, sampler=sampler,
                                    generator=torch.Generator().manual_seed(8))
        self.assertEqual(epoch_of(made), wanted)
        with self.assertRaisesRegex(ValueError, "shuffle_seed=4 and the generator"):
            batchflow.DataLoader(data, 8, sampler=sampler, shuffle_seed=4)
        sampler = DistributedSampler(data, 1, 0, seed=5)
        made = [epoch_of(batchflow.DataLoader(data, 8, sampler=sampler,
                                              generator=torch.Generator().manual_seed(seed)))
                for seed in (8, 9)]
        self.assertEqual(*made)

    def test_a_spawned_process_gets_the_seed(self):
        again = pickle.loads(pickle.dumps(self.loader()))
        self.assertEqual(epoch_of(again), epoch_of(self.loader()))


if __name__ == "__main__":
    unittest.main()
