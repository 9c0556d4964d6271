"""An ImageFolder as the dataset, also when it was edited: what PyTorch's loader gives, or it is
refused. What the service cannot read itself, Python reads in its processes."""

import functools
import unittest
from unittest import mock

import batchflow
from compared import PICTURES, Compared
from support import needs

try:
    import numpy
    import torch
    from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, random_split
    from torchvision import datasets, transforms as T

    import folders_of_ours as ours
    from pictures import CLASSES, epoch_of, flat
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

    def test_what_is_edited_after_an_epoch_is_followed_or_refused(self):
        class Dark(datasets.ImageFolder):
            def __getitem__(self, index):
                return super().__getitem__(index)

        def put_first(data):
            data.transform.transforms[0] = T.Resize((8, 8))

        def set_size(data):
            data.transform.transforms[0].size = (8, 8)

        changed = "the transform of ImageFolder was changed after the DataLoader was made with it: "
        crop = r"CenterCrop\(size=\(12, 12\)\) became "
        for edit, error in (
                (put_first, changed + crop + r"Resize\(size=\(8, 8\)"),
                (set_size, changed + crop + r"CenterCrop\(size=\(8, 8\)\)"),
                (lambda data: data.transform.transforms.append(T.Normalize([0.5], [0.5])),
                 changed + r"nothing became Normalize\("),
                (lambda data: data.transform.transforms.insert(0, T.RandomPerspective()),
                 changed + "CenterCrop.* became RandomPerspective.*, and cannot be mapped .*RandomP"),
                (lambda data: setattr(data, "transform", None), changed + crop + "nothing"),
                (lambda data: setattr(data, "loader", lambda path: None),
                 "its loader='<lambda>' cannot be carried out"),
                (lambda data: setattr(data, "target_transform", int),
                 "target_transform cannot be carried out"),
                (lambda data: setattr(data, "__class__", Dark), "Dark has a __getitem__"),
                (lambda data: setattr(data, "__class__", datasets.FakeData),
                 "a FakeData is no ImageFolder any more")):
            data = self.data()
            loader = batchflow.DataLoader(data, 8)
            epoch_of(loader)
            edit(data)
            with self.assertRaisesRegex((TypeError, ValueError), error):
                iter(loader)
        data = self.data()
        loader = batchflow.DataLoader(data, 8)
        before = epoch_of(loader)
        data.transform.transforms.append(T.RandomPerspective())
        with self.assertRaisesRegex(ValueError, "RandomPerspective"):
            iter(loader)
        data.transform = self.data().transform  # which means what the first one did
        iteration = iter(loader)
        self.assertEqual((iteration.number, epoch_of(iteration)), (1, before))
        # A transform that was not used may become another.
        data = self.data()
        loader = batchflow.DataLoader(data, 8, pipeline=data.transform)
        data.transform = None
        self.assertEqual(epoch_of(loader), before)

    def test_samples_are_a_plain_list(self):
        class Zeros(list):
            def __getitem__(self, index):
                return list.__getitem__(self, index)[0], 0

        for make, kind in ((Zeros, "Zeros"), (numpy.array, "ndarray")):
            data = self.data()
            data.samples = make(data.samples)
            with self.assertRaisesRegex(ValueError, f"samples of ImageFolder is a {kind}; make it a "
                                        "plain list"):
                iter(batchflow.DataLoader(data, 8))
        data = self.data()
        data.samples = [list(sample) for sample in data.samples]
        theirs, ours = self.both(data, 8)
        for label in (4, 3):
            data.samples[5][1] = label
            self.assertEqual(epoch_of(ours), epoch_of(theirs))

    def test_labels_are_whole_numbers_of_any_kind(self):
        for kind in (torch.tensor, numpy.int64):
            data = self.data()
            data.samples = [(path, kind(9 - label)) for path, label in data.samples]
            theirs, ours = self.both(data, 8)
            for _ in range(2):
                self.assertEqual(epoch_of(ours), epoch_of(theirs))
        for label in (torch.tensor([1, 0]), torch.tensor(1.0), torch.tensor([1]),
                      torch.tensor(True), numpy.array([0, 1]), 1.0, "1", True):
            data = self.data()
            loader = batchflow.DataLoader(data, 8)
            epoch_of(loader)
            data.samples[3] = (data.samples[3][0], label)
            with self.assertRaisesRegex(ValueError, "a target .* is not a whole number"):
                iter(loader)


@needs("torchvision")
class ReadByPython(Compared):
    ARGUMENTS = ("--workers", "2")
    MEMORY = "2gib"

    def check_same(self, made, data):
        theirs = list(DataLoader(data, 8))
        batches = list(made)
        self.assertEqual(len(batches), len(theirs))
        for batch, other in zip(batches, theirs):
            self.assertEqual(len(batch), len(other))
            self.assertTrue(all(map(torch.equal, batch, other)), (batch, other))

    def check_served(self, data, why):
        """Checks that Python reads it in the service's processes, and that it is said why."""
        kind = type(data).__name__
        with self.assertWarnsRegex(UserWarning, f"{kind} is read by Python, in the service's "
                                   f"processes: .*{why}"):
            made = batchflow.DataLoader(data, 8)
        self.assertIs(type(made), batchflow.DataLoader)
        self.check_same(made, data)
        return made

    def check_loaded_here(self, data, why):
        """Checks that the script's own workers load it, as PyTorch does, and that it is said why."""
        with self.assertWarnsRegex(batchflow.LocalLoadingWarning, why):
            made = batchflow.DataLoader(data, 8)
        self.check_same(made, data)

    def made_samples(self):
        return sum(step["samples"] for step in self.daemon.status()["plugins"])

    def test_a_loader_or_getitem_of_its_own(self):
        transform = self.data().transform
        self.check_served(self.data(loader=ours.read_inverted),
                          "its loader='read_inverted' cannot be carried out by the service")
        self.check_served(self.data(target_transform=ours.shifted),
                          "target_transform cannot be carried out")
        pairs = ours.Together(str(self.root), transform)
        made = self.check_served(pairs, "Together has a __getitem__ of its own")
        self.assertEqual(made.classes, pairs.classes)
        self.assertEqual(self.made_samples(), 3 * PICTURES)
        list(made)
        list(batchflow.DataLoader(pairs, 8, True))
        self.assertEqual(self.made_samples(), 3 * PICTURES)  # they were kept
        with self.assertRaisesRegex(ValueError, "pipeline is for what the service loads.* Pairs has"):
            batchflow.DataLoader(ours.Pairs(str(self.root)), 8, pipeline="imagenet-val")
        pairs.transform = T.ToTensor()
        with self.assertRaisesRegex(ValueError, "the Together was changed after the DataLoader"):
            next(iter(made))

    def test_a_transform_that_is_not_mapped(self):
        data = self.data()
        data.transform.transforms.insert(1, T.Grayscale())
        self.check_served(data, "transform 1, Grayscale: num_output_channels is 1")

    def test_a_folder_of_other_files(self):
        for i in range(11):
            (self.folder / "arrays" / CLASSES[i % 2]).mkdir(parents=True, exist_ok=True)
            numpy.save(self.folder / "arrays" / CLASSES[i % 2] / f"{i:02}.npy", numpy.full((2, 3), i))
        data = datasets.DatasetFolder(str(self.folder / "arrays"), numpy.load, ("npy",))
        self.check_served(data, "its loader='load' cannot be carried out")

    def test_parts(self):
        data = self.data()
        split = r"split=, as \{'fraction': 0.9\}"
        self.check_served(Subset(data, range(5)), split)
        kept, rest = random_split(data, [30, 13])
        self.check_served(kept, split)
        self.check_served(rest, split)

    def test_lists_of_samples(self):
        data, why = self.data(), "the service takes no list of samples for a folder that it reads"
        with self.assertWarnsRegex(UserWarning, f"ImageFolder is read by Python.*{why}"):
            made = batchflow.DataLoader(data, 8, sampler=[5, 3, 3, 40])
        self.assertEqual(flat(epoch_of(made)), flat(epoch_of(DataLoader(data, 8, sampler=[5, 3, 3, 40]))))
        part = SubsetRandomSampler(range(0, PICTURES, 2))
        made = batchflow.DataLoader(data, 8, sampler=part)
        self.assertIs(type(made), batchflow.DataLoader)
        self.assertEqual(sorted(flat(epoch_of(made))), sorted(flat(epoch_of(DataLoader(data, 8, sampler=part)))))

    def test_a_part_in_an_order_of_its_own(self):
        part, batches = Subset(self.data(), range(20, 40)), [[3], [1, 2], [19, 0]]
        made = batchflow.DataLoader(part, batch_sampler=batches)
        self.assertEqual(type(made).__name__, "OwnOrderDataLoader")
        self.assertEqual(epoch_of(made), epoch_of(DataLoader(part, batch_sampler=batches)))

    def test_what_cannot_be_taken_is_loaded_here(self):
        def read(path):
            return ours.read_inverted(path)

        self.check_loaded_here(self.data(loader=read), "its loader='read' cannot be carried out by the "
                               "service.*; and as a Dataset in Python: it cannot be pickled")
        self.check_loaded_here(self.data(target_transform=lambda label: label + 5),
                               "target_transform cannot be carried out.*a lambda cannot be taken")
        data = self.data()
        data.transform.transforms.append(T.Lambda(lambda picture: 1 - picture))
        self.check_loaded_here(data, "ImageFolder is loaded.*transform 2, .*a lambda cannot be taken")
        self.check_loaded_here(Subset(data, range(5)), "Subset is loaded.*split=.*a lambda cannot be")

    def test_each_way_in_which_pytorch_reads_a_sample_is_looked_at(self):
        self.check_loaded_here(
            ours.Many(str(self.root), self.data().transform), "Many has a __getitems__ of its own.*its "
            "__getitems__, by which PyTorch reads, gives another sample 0 than its __getitem__")
        data = self.data()
        data.__getitems__ = lambda indices: [(torch.ones(3, 2, 2), 0) for _ in indices]
        self.check_loaded_here(data, "ImageFolder has a __getitems__ of its own")
        like = functools.wraps(datasets.ImageFolder.__getitem__)
        for patched in (lambda self, index: (index, 0), like(lambda self, index: (index, 0))):
            with mock.patch.object(datasets.ImageFolder, "__getitem__", patched):
                self.check_loaded_here(
                    self.data(), "ImageFolder has a __getitem__ of its own.*sample 0 is int64.* in this "
                    "script and float32.* in a confined process")
        usual = datasets.folder.default_loader
        loader = functools.wraps(usual)(lambda path: usual(path).rotate(90))
        self.check_loaded_here(self.data(loader=loader),
                               "its loader='default_loader' cannot be carried out.*cannot be pickled")

    def test_what_the_service_reads_itself_is_followed_closely(self):
        data = self.data()
        made = batchflow.DataLoader(data, 8)
        data.transform = T.ToTensor()
        with self.assertRaisesRegex(ValueError, "the transform of ImageFolder was changed"):
            next(iter(made))


if __name__ == "__main__":
    unittest.main()
