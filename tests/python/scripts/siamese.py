"""In the shape of PyTorch's Siamese example: a Dataset gives the sample of an index and another one
that it draws, of the same class or of another."""

import json
import random
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


class Matcher(Dataset):
    def __init__(self, file):
        table = np.load(file)
        self.data, self.targets = torch.from_numpy(table[:, :3]), table[:, 3].astype(np.int64)
        self.grouped_examples = {one: np.where(self.targets == one)[0] for one in (0, 1)}

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        label = self.targets[index]
        if random.random() < 0.5:
            other, target = random.choice(self.grouped_examples[label]), 1.0
        else:
            other, target = random.choice(self.grouped_examples[1 - label]), 0.0
        return self.data[index], self.data[other], torch.tensor(target)


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower, self.fc = nn.Linear(2, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, one, other):
        return self.fc((self.tower(one[:, :2]) - self.tower(other[:, :2])).abs()).squeeze(1)


def main(root):
    torch.manual_seed(0)
    train_dataset, test_dataset = Matcher(f"{root}/train.npy"), Matcher(f"{root}/val.npy")
    train_loader = DataLoader(train_dataset, batch_size=8, shuffle=True, num_workers=1)
    test_loader = DataLoader(test_dataset, batch_size=9, num_workers=1)
    classes = {"train": train_dataset.targets, "random": test_dataset.targets}
    model, criterion = SiameseNetwork(), nn.BCELoss()
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    for epoch in range(2):
        for name, loader in (("train", train_loader), ("random", test_loader)):
            seen, right = [], 0
            for batch_idx, (images_1, images_2, targets) in enumerate(loader):
                outputs = model(images_1, images_2)
                if name == "train":
                    optimizer.zero_grad()
                    criterion(outputs, targets).backward()
                    optimizer.step()
                right += ((outputs > 0.5) == (targets > 0.5)).sum().item()
                one, other = images_1[:, 2].long(), images_2[:, 2].long()
                same = torch.from_numpy(classes[name][one] == classes[name][other])
                seen.append(list(zip(one.tolist(), (same == (targets > 0.5)).tolist())))
            print(json.dumps({name: seen, "length": len(loader),
                              "accuracy": right / len(loader.dataset)}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train_loader, test_loader)]}))


if __name__ == "__main__":
    main(sys.argv[1])
