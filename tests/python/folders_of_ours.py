"""Folders of pictures that only Python can read, for test_image_folder.py, in a module that the
service's processes can import."""

import torch
from PIL import ImageOps
from torchvision import datasets


def read_inverted(path):
    return ImageOps.invert(datasets.folder.default_loader(path))


def shifted(label):
    return label + 5


class Pairs(datasets.ImageFolder):
    def __getitem__(self, index):
        return super().__getitem__(index) + (index,)


class Many(datasets.ImageFolder):
    """PyTorch has batches of it that its samples do not show."""

    def __getitems__(self, indices):
        return [(torch.zeros(3, 2, 2), 0) for _ in indices]


class Together(Pairs):
    """Its batches are its samples."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]
