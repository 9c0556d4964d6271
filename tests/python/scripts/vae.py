"""In the shape of PyTorch's VAE example: MNIST of torchvision, with a loader's arguments in a dict."""

import json
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(784, 16), nn.Linear(16, 2), nn.Linear(16, 2)
        self.fc3, self.fc4 = nn.Linear(2, 16), nn.Linear(16, 784)

    def forward(self, x):
        h1 = F.relu(self.fc1(x.view(-1, 784)))
        mu, logvar = self.fc21(h1), self.fc22(h1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
    return BCE - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def main(root):
    torch.manual_seed(1)
    kwargs = {"num_workers": 1, "pin_memory": False}
    train_loader = DataLoader(datasets.MNIST(root, train=True, transform=transforms.ToTensor()),
                              batch_size=8, shuffle=True, **kwargs)
    test_loader = DataLoader(datasets.MNIST(root, train=False, transform=transforms.ToTensor()),
                             batch_size=8, shuffle=False, **kwargs)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for name, loader in (("train", train_loader), ("val", test_loader)):
            seen, total = [], 0.0
            for batch_idx, (data, labels) in enumerate(loader):
                optimizer.zero_grad()
                loss = loss_function(*((found := model(data))[0], data, *found[1:]))
                if name == "train":
                    loss.backward()
                    optimizer.step()
                total += loss.item()
                numbers = (data[:, 0, 0, 0] * 255).round().long().tolist()
                seen.append(list(zip(numbers, labels.tolist())))
            # 784 pixels at their worst have a loss of 543.
            print(json.dumps({name: seen, "length": len(loader), "batches": batch_idx + 1,
                              "accuracy": 1 - total / len(loader.dataset) / 543}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train_loader, test_loader)]}))


if __name__ == "__main__":
    main(sys.argv[1])
