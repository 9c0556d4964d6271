"""In the shape of nanoGPT: tokens in a file that is mapped, from which windows are taken; the next
token is what is to be said."""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data import Dataset

BLOCK, VOCABULARY = 16, 512


class Windows(Dataset):
    def __init__(self, path):
        self.path = path
        self.tokens = len(np.memmap(path, dtype=np.uint16, mode="r"))

    def __len__(self):
        return (self.tokens - 1) // BLOCK

    def __getitem__(self, index):
        data = np.memmap(self.path, dtype=np.uint16, mode="r")
        at = index * BLOCK
        x = torch.from_numpy(data[at:at + BLOCK].astype(np.int64))
        y = torch.from_numpy(data[at + 1:at + 1 + BLOCK].astype(np.int64))
        return x, y


class Bigrams(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, x, targets):
        return F.cross_entropy(self.table(x).view(-1, VOCABULARY), targets.view(-1))


def main(root):
    torch.manual_seed(0)
    model = Bigrams()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    train = DataLoader(Windows(f"{root}/train.bin"), batch_size=12, shuffle=True, drop_last=True)
    val = DataLoader(Windows(f"{root}/val.bin"), batch_size=12)
    for epoch in range(2):
        seen = []
        for x, y in train:
            optimizer.zero_grad(set_to_none=True)
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            seen.append(list(zip(map(tuple, x.tolist()), map(tuple, y.tolist()))))
        print(json.dumps({"train": seen, "length": len(train)}))
        model.eval()
        seen = []
        with torch.no_grad():
            for x, y in val:
                model(x, y)
                seen.append(list(zip(map(tuple, x.tolist()), map(tuple, y.tolist()))))
        print(json.dumps({"val": seen, "length": len(val)}))
        model.train()
    print(json.dumps({"loaders": [type(one).__name__ for one in (train, val)]}))


if __name__ == "__main__":
    main(sys.argv[1])
