"""Generators decide a loader's order as they do in PyTorch."""

import unittest

import batchflow
from compared import Compared
from support import needs

try:
    import torch
    from torch.utils.data import DataLoader

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


if __name__ == "__main__":
    unittest.main()
