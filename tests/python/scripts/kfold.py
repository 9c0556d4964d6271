"""In the shape of a cross validation: for each fold two loaders of one Dataset, with a
SubsetRandomSampler each."""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset, SubsetRandomSampler


class Points(Dataset):
    """Rows of two numbers, the row's own number and its label."""

    def __init__(self, file):
        self.table = np.load(file)

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        row = self.table[index]
        return row[:2], (int(row[2]), int(row[3]))


def folds(samples, k_folds):
    order = np.random.default_rng(0).permutation(samples)
    for part in np.array_split(order, k_folds):
        yield np.setdiff1d(order, part), part


def main(root):
    torch.manual_seed(42)
    dataset, loaders = Points(f"{root}/train.npy"), []
    for fold, (train_ids, test_ids) in enumerate(folds(len(dataset), 3)):
        trainloader = DataLoader(dataset, batch_size=8, sampler=SubsetRandomSampler(train_ids))
        testloader = DataLoader(dataset, batch_size=8, sampler=SubsetRandomSampler(test_ids))
        network = nn.Linear(2, 2)
        optimizer = torch.optim.Adam(network.parameters(), 0.2)
        for epoch in range(2):
            seen = []
            for inputs, (numbers, targets) in trainloader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(inputs), targets).backward()
                optimizer.step()
                seen.append(list(zip(numbers.tolist(), targets.tolist())))
            print(json.dumps({"train": seen, "length": len(trainloader)}))
        seen, right = [], 0
        with torch.no_grad():
            for inputs, (numbers, targets) in testloader:
                right += (network(inputs).argmax(1) == targets).sum().item()
                seen.append(list(zip(numbers.tolist(), targets.tolist())))
        print(json.dumps({"test": seen, "length": len(testloader), "accuracy": right / len(test_ids)}))
        loaders += [type(trainloader).__name__, type(testloader).__name__]
    print(json.dumps({"loaders": loaders}))


if __name__ == "__main__":
    main(sys.argv[1])
