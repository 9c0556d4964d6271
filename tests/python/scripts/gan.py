"""In the shape of PyTorch's DCGAN example: one batch to look at, then pictures without their labels
against those of a generator."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets as dset
from torchvision import transforms

SIDE, NZ = 12, 4


def main(root):
    torch.manual_seed(0)
    dataset = dset.ImageFolder(root=f"{root}/train", transform=transforms.Compose(
        [transforms.Resize(SIDE), transforms.CenterCrop(SIDE), transforms.ToTensor(),
         transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]))
    dataloader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1)
    real_batch = next(iter(dataloader))
    netG = nn.Sequential(nn.ConvTranspose2d(NZ, 3, SIDE), nn.Tanh())
    netD = nn.Sequential(nn.Conv2d(3, 1, SIDE), nn.Flatten(0), nn.Sigmoid())
    criterion = nn.BCELoss()
    optimizerD = torch.optim.Adam(netD.parameters(), 2e-4, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), 2e-4, betas=(0.5, 0.999))
    shape = list(real_batch[0].shape)
    for epoch in range(2):
        seen = []
        for i, data in enumerate(dataloader, 0):
            netD.zero_grad()
            real_cpu = data[0].to("cpu")
            batch_size = real_cpu.size(0)
            label = torch.full((batch_size,), 1.0, dtype=real_cpu.dtype)
            criterion(netD(real_cpu), label).backward()
            fake = netG(torch.randn(batch_size, NZ, 1, 1))
            label.fill_(0.0)
            criterion(netD(fake.detach()), label).backward()
            optimizerD.step()
            netG.zero_grad()
            label.fill_(1.0)
            criterion(netD(fake), label).backward()
            optimizerG.step()
            corner = ((real_cpu[:, 0, 0, 0] + 1) * 127.5).round().long()
            seen.append(list(zip(corner.tolist(), data[1].tolist())))
        print(json.dumps({"train": seen, "length": len(dataloader), "shape": shape}))
    print(json.dumps({"loaders": [type(dataloader).__name__]}))


if __name__ == "__main__":
    main(sys.argv[1])
