"""In the shape of timm's create_loader: all arguments of the loader in a dict, a collate function for
bytes, a prefetcher that normalises, and persistent workers if the loader takes them."""

import json
import sys
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets


class ToNumpy:
    def __call__(self, image):
        return np.rollaxis(np.array(image, dtype=np.uint8), 2)


def fast_collate(batch):
    targets = torch.tensor([sample[1] for sample in batch], dtype=torch.int64)
    images = torch.zeros((len(batch), *batch[0][0].shape), dtype=torch.uint8)
    for i, sample in enumerate(batch):
        images[i] += torch.from_numpy(sample[0])
    return images, targets


def seed_worker(worker_id, seed):
    np.random.seed(seed + worker_id)


class Prefetcher:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for images, targets in self.loader:
            yield images.float().sub_(127).div_(64), images, targets

    def __len__(self):
        return len(self.loader)


def create_loader(dataset, batch_size, is_training):
    loader_args = dict(batch_size=batch_size, shuffle=is_training, num_workers=1, sampler=None,
                       collate_fn=fast_collate, pin_memory=False, drop_last=is_training,
                       worker_init_fn=partial(seed_worker, seed=42), persistent_workers=True)
    try:
        loader = DataLoader(dataset, **loader_args)
    except TypeError:
        loader_args.pop("persistent_workers")
        loader = DataLoader(dataset, **loader_args)
    return Prefetcher(loader)


def main(root):
    torch.manual_seed(0)
    train = create_loader(datasets.ImageFolder(f"{root}/train", ToNumpy()), 8, True)
    val = create_loader(datasets.ImageFolder(f"{root}/val", ToNumpy()), 5, False)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 5))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(2):
        for name, loader in (("train", train), ("val", val)):
            seen, right = [], 0
            for inputs, images, target in loader:
                output = model(inputs)
                loss = nn.functional.cross_entropy(output, target)
                right += (output.argmax(1) == target).sum().item()
                if name == "train":
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                corner = images[:, :, 0, 0].long()
                seen.append(list(zip((corner[:, 0] + 256 * corner[:, 1]).tolist(), target.tolist())))
            print(json.dumps({name: seen, "length": len(loader),
                              "accuracy": right / sum(map(len, seen))}))
    print(json.dumps({"loaders": [type(one.loader).__name__ for one in (train, val)]}))


if __name__ == "__main__":
    main(sys.argv[1])
