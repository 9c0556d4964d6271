"""An ImageFolder as the dataset, also when it was edited: what PyTorch's loader gives, or it is
refused."""

import unittest

import batchflow
from compared import PICTURES, Compared
from support import needs

try:
    from torchvision import datasets, transforms as T

    from pictures import epoch_of, flat
except ImportError:
    pass


@needs("torchvision")
class ImageFolders(Compared):
    def test_labels_that_were_edited_are_those_that_are_given(self):
        data = self.data()
        data.samples = [(path, (label + 2) % 5 // 2) for path, label in data.samples]
        data.classes, data.class_to_idx = ["x", "y", "z"], {"x": 0, "y": 1, "z": 2}
        theirs, ours = self.both(data, 8, shuffle=False)
        self.assertEqual(epoch_of(ours), epoch_of(theirs))
        self.assertEqual(ours.classes, ["x", "y", "z"])
        self.assertEqual(ours.dataset.class_to_idx, theirs.dataset.class_to_idx)
        theirs, ours = self.both(data, 8, shuffle=True)
        self.assert_same_samples(epoch_of(theirs), epoch_of(ours))
        # In the middle of the script, too.
        data.samples = [(path, 9 - label) for path, label in data.samples]
        self.assert_same_samples(epoch_of(theirs), epoch_of(ours))
        for output in ("numpy", "memoryview"):
            made = batchflow.DataLoader(data, 8, output=output)
            self.assertEqual([label for _, labels in made for label in labels.tolist()],
                             [label for _, label in data.samples])

    def test_what_pytorch_does_not_look_at_changes_nothing(self):
        data = self.data()
        data.targets = [0] * len(data.targets)
        data.class_to_idx = {name: 0 for name in data.classes}
        theirs, ours = self.both(data, 8, shuffle=False)
        self.assertEqual(epoch_of(ours), epoch_of(theirs))

    def test_a_subclass_that_finds_its_own_classes(self):
        class Ours(datasets.ImageFolder):
            def find_classes(self, directory):
                return ["dog", "cat", "ant", "bee", "elk"], {
                    "dog": 0, "cat": 1, "ant": 2, "bee": 3, "elk": 4}

        data = Ours(str(self.root), self.data().transform)
        theirs, ours = self.both(data, 8, shuffle=False)
        self.assertEqual(epoch_of(ours), epoch_of(theirs))
        self.assertEqual((flat(epoch_of(ours))[0], ours.classes), ((0, 2), data.classes))

    def test_other_samples_or_another_order_of_them_are_refused(self):
        data = self.data()
        data.samples = data.samples[:30]
        with self.assertRaisesRegex(ValueError, "ImageFolder has 30 samples of 5 classes .*, and "
                                    "the service finds 43 .*split= for a part"):
            next(iter(batchflow.DataLoader(data, 8, True)))
        data = self.data()
        data.samples = data.samples[::-1]
        with self.assertRaisesRegex(ValueError, "sample 0 of ImageFolder is elk/0039.png, and that "
                                    "of the service ant/0000.png; the service goes through a folder "
                                    "by ascending paths.*shuffle=True"):
            next(iter(batchflow.DataLoader(data, 8)))
        self.assert_same_samples(*map(epoch_of, self.both(data, 8, shuffle=True)))
        data = self.data()
        data.samples[17] = data.samples[16]  # one twice, another not
        for shuffle in (False, True):
            with self.assertRaisesRegex(ValueError, "sample 17 of ImageFolder is bee/0036.png, and "
                                        "that of the service bee/0041.png"):
                next(iter(batchflow.DataLoader(data, 8, shuffle)))
        data = self.data()
        data.samples = [(str(self.folder / "elsewhere.png"), 0)] * PICTURES
        with self.assertRaisesRegex(ValueError, "elsewhere.png, which is not in its root"):
            next(iter(batchflow.DataLoader(data, 8, True)))

    def test_a_loader_or_getitem_of_its_own_is_refused(self):
        def read(path):
            return None

        with self.assertRaisesRegex(ValueError, "its loader='read' cannot be carried out by the "
                                    "service"):
            batchflow.DataLoader(self.data(loader=read), 8)
        with self.assertRaisesRegex(ValueError, "target_transform cannot be carried out"):
            batchflow.DataLoader(self.data(target_transform=int), 8)

        class Pairs(datasets.ImageFolder):
            def __getitem__(self, index):
                return super().__getitem__(index) + (index,)

        with self.assertRaisesRegex(TypeError, "Pairs has a __getitem__ of its own"):
            batchflow.DataLoader(Pairs(str(self.root)), 8)
        data = self.data()
        loader = batchflow.DataLoader(data, 8)
        data.transform = T.ToTensor()
        with self.assertRaisesRegex(ValueError, "the transform of ImageFolder was changed"):
            next(iter(loader))


if __name__ == "__main__":
    unittest.main()
