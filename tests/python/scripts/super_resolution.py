"""In the shape of PyTorch's super resolution: a Dataset over a folder, where input and target come
from one picture."""

import json
import sys
from math import log10
from os import listdir
from os.path import join

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torch.utils import data
from torchvision.transforms import CenterCrop, Compose, Resize, ToTensor

CROP, UPSCALE = 12, 3


def is_image_file(filename):
    return any(filename.endswith(extension) for extension in [".png", ".jpg", ".jpeg"])


def load_img(filepath):
    img = Image.open(filepath).convert("YCbCr")
    y, _, _ = img.split()
    return y


class DatasetFromFolder(data.Dataset):
    def __init__(self, image_dir, input_transform=None, target_transform=None):
        super().__init__()
        self.image_filenames = sorted(join(image_dir, x) for x in listdir(image_dir)
                                      if is_image_file(x))
        self.input_transform, self.target_transform = input_transform, target_transform

    def __getitem__(self, index):
        input = load_img(self.image_filenames[index])
        target = input.copy()
        if self.input_transform:
            input = self.input_transform(input)
        if self.target_transform:
            target = self.target_transform(target)
        return input, target

    def __len__(self):
        return len(self.image_filenames)


def get_set(image_dir):
    return DatasetFromFolder(
        image_dir, Compose([CenterCrop(CROP), Resize(CROP // UPSCALE), ToTensor()]),
        Compose([CenterCrop(CROP), ToTensor()]))


def main(root):
    torch.manual_seed(123)
    training_data_loader = DataLoader(dataset=get_set(f"{root}/train"), num_workers=1, batch_size=4,
                                      shuffle=True)
    testing_data_loader = DataLoader(dataset=get_set(f"{root}/val"), num_workers=1, batch_size=5,
                                     shuffle=False)
    model = nn.Sequential(nn.Conv2d(1, UPSCALE**2, 3, 1, 1), nn.PixelShuffle(UPSCALE))
    optimizer, criterion = torch.optim.Adam(model.parameters(), lr=0.02), nn.MSELoss()
    for epoch in range(2):
        for name, loader in (("train", training_data_loader), ("val", testing_data_loader)):
            seen, psnr = [], 0.0
            for iteration, batch in enumerate(loader, 1):
                input, target = batch[0], batch[1]
                optimizer.zero_grad()
                loss = criterion(model(input), target)
                if name == "train":
                    loss.backward()
                    optimizer.step()
                psnr += 10 * log10(1 / loss.item()) / len(loader)
                both = zip(input.mean((1, 2, 3)).tolist(), target.mean((1, 2, 3)).tolist())
                seen.append([(round(255 * one), round(255 * other)) for one, other in both])
            # In bels of ten, so that a tolerance of 0.1 is one decibel.
            print(json.dumps({name: seen, "length": len(loader), "accuracy": psnr / 10}))
    print(json.dumps({"loaders": [type(one).__name__ for one in
                                  (training_data_loader, testing_data_loader)]}))


if __name__ == "__main__":
    main(sys.argv[1])
