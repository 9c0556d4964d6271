"""Folders of pictures in which each pixel names its picture, so that a loader's pictures can be
compared with those of PyTorch's loader."""

from PIL import Image

SIDE = 12
CLASSES = ("ant", "bee", "cat", "dog", "elk")


def write_pictures(root, count=43, classes=CLASSES):
    """`count` pictures, PNG, dealt out to the classes in turn."""
    for i in range(count):
        folder = root / classes[i % len(classes)]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (SIDE, SIDE), (i % 256, i // 256, 77)).save(folder / f"{i:04}.png")


def pictures_of(batch):
    """(picture, label) of each sample of a batch in floats or bytes, planes first."""
    images, labels = batch
    scale = 255 if images.dtype.is_floating_point else 1
    corner = (images[:, :, 0, 0] * scale).round().long()
    assert images.shape[1:] == (3, SIDE, SIDE) and (corner[:, 2] == 77).all()
    return list(zip((corner[:, 0] + 256 * corner[:, 1]).tolist(), labels.tolist()))


def epoch_of(loader):
    """The batches of one epoch, each a list of (picture, label)."""
    return [pictures_of(batch) for batch in loader]


def flat(batches):
    return [one for batch in batches for one in batch]
