"""A folder of pictures, for tests that compare BatchFlow's loader with PyTorch's."""

import os
import warnings

import batchflow
from batchflow import arguments
from support import Daemon, Folder

try:
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms as T

    from pictures import SIDE, flat, write_pictures
except ImportError:
    pass  # the tests are skipped

PICTURES = 43


class Compared(Folder):
    ARGUMENTS = ()
    MEMORY = "512mib"

    def setUp(self):
        super().setUp()
        self.root = self.folder / "pictures"
        write_pictures(self.root, PICTURES)
        daemon = Daemon(self.folder, "--open-datasets", "--corrupt-ratio-allowed", "50%",
                        *self.ARGUMENTS, memory=self.MEMORY)
        self.addCleanup(daemon.kill)
        self.daemon = daemon
        os.environ["BATCHFLOW_SERVICE"] = daemon.socket
        arguments._said.clear()

    def data(self, root=None, **more):
        return datasets.ImageFolder(str(root or self.root),
                                    T.Compose([T.CenterCrop(SIDE), T.ToTensor()]), **more)

    def both(self, data, *positional, **named):
        """PyTorch's, then BatchFlow's."""
        return (DataLoader(data, *positional, **named),
                batchflow.DataLoader(data, *positional, **named))

    def assert_same_samples(self, theirs, ours):
        """Counts of batches alike, and each sample with its label."""
        self.assertEqual([len(batch) for batch in ours], [len(batch) for batch in theirs])
        self.assertEqual(sorted(flat(ours)), sorted(flat(theirs)))

    def said_by(self, use):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            use()
        return [str(one.message) for one in said]
