"""In the shape of torchvision's reference for segmentation, in several ranks: picture and mask go
through the same random transform, and the evaluation has a part in each rank."""

import json
import os
import sys

import torch
import torch.distributed
from PIL import Image
from torch import nn
from torch.utils.data import Dataset, DistributedSampler
from torch.utils.data import DataLoader
from torchvision.transforms import functional as F


class RandomCropAndFlip:
    def __init__(self, size, is_training):
        self.size, self.is_training = size, is_training

    def __call__(self, image, target):
        top = left = 0
        if self.is_training:
            top, left = torch.randint(0, image.size[0] - self.size + 1, (2,)).tolist()
        image = F.crop(image, top, left, self.size, self.size)
        target = F.crop(target, top, left, self.size, self.size)
        if self.is_training and torch.rand(1) < 0.5:
            image, target = F.hflip(image), F.hflip(target)
        return F.to_tensor(image), F.pil_to_tensor(target).squeeze(0).long()


class Segmentation(Dataset):
    def __init__(self, root, transforms):
        self.images = sorted(f"{root}/images/{one}" for one in os.listdir(f"{root}/images"))
        self.masks = sorted(f"{root}/masks/{one}" for one in os.listdir(f"{root}/masks"))
        self.transforms = transforms

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        img = Image.open(self.images[index]).convert("RGB")
        return self.transforms(img, Image.open(self.masks[index]))


def collate_fn(batch):
    images, targets = list(zip(*batch))
    return torch.stack(images), torch.stack(targets)


def seen_in(image, target):
    """Red is the number of the picture, and blue is where the mask is."""
    numbers = (image[:, 0, 0, 0] * 255).round().long().tolist()
    fits = ((image[:, 2] > 0.5).long() == target).flatten(1).all(1).tolist()
    return list(zip(numbers, fits))


def main(root):
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = Segmentation(f"{root}/train", RandomCropAndFlip(12, True))
    dataset_test = Segmentation(f"{root}/val", RandomCropAndFlip(12, False))
    train_sampler = DistributedSampler(dataset)
    test_sampler = DistributedSampler(dataset_test, shuffle=False)
    data_loader = DataLoader(dataset, batch_size=8, sampler=train_sampler, num_workers=1,
                             collate_fn=collate_fn, drop_last=True)
    data_loader_test = DataLoader(dataset_test, batch_size=1, sampler=test_sampler, num_workers=1,
                                  collate_fn=collate_fn)
    model = nn.Conv2d(3, 2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1.0, momentum=0.9)
    for epoch in range(2):
        train_sampler.set_epoch(epoch)
        seen = []
        for image, target in data_loader:
            loss = nn.functional.cross_entropy(model(image), target, ignore_index=255)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(seen_in(image, target))
        print(json.dumps({"train": seen, "length": len(data_loader)}))
        seen, right, pixels = [], 0, 0
        with torch.inference_mode():
            for image, target in data_loader_test:
                right += (model(image).argmax(1) == target).sum().item()
                pixels += target.numel()
                seen.append(seen_in(image, target))
        print(json.dumps({"val": seen, "length": len(data_loader_test), "accuracy": right / pixels}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (data_loader, data_loader_test)]}))


if __name__ == "__main__":
    main(sys.argv[1])
