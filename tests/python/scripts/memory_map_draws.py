"""In the shape of nanoGPT's get_batch: windows of a mapped file that begin anywhere, drawn with
replacement; as a Dataset of all windows, and a sampler that draws so many of them."""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset, RandomSampler

BLOCK, BATCH, VOCABULARY = 16, 12, 64


class Windows(Dataset):
    def __init__(self, data_dir, split):
        self.path = f"{data_dir}/{split}.bin"
        self.tokens = len(np.memmap(self.path, dtype=np.uint16, mode="r"))

    def __len__(self):
        return self.tokens - BLOCK

    def __getitem__(self, i):
        # The map is made anew each time, to avoid a memory leak.
        data = np.memmap(self.path, dtype=np.uint16, mode="r")
        x = torch.from_numpy((data[i:i + BLOCK]).astype(np.int64))
        y = torch.from_numpy((data[i + 1:i + 1 + BLOCK]).astype(np.int64))
        return x, y


def loader_of(data_dir, split, iters):
    dataset = Windows(data_dir, split)
    sampler = RandomSampler(dataset, replacement=True, num_samples=BATCH * iters)
    return DataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=0, pin_memory=False)


def main(root):
    torch.manual_seed(0)
    model = nn.Embedding(VOCABULARY, VOCABULARY)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1, betas=(0.9, 0.95))
    train, val = loader_of(root, "train", 30), loader_of(root, "val", 5)
    for epoch in range(2):
        for name, loader in (("drawn", train), ("drawn", val)):
            seen, right = [], 0
            for x, y in loader:
                logits = model(x)
                loss = nn.functional.cross_entropy(logits.view(-1, VOCABULARY), y.view(-1))
                right += (logits.argmax(-1) == y).float().mean().item() / len(loader)
                if loader is train:
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    optimizer.step()
                seen.append(list(zip(map(tuple, x.tolist()), map(tuple, y.tolist()))))
            print(json.dumps({name: seen, "length": len(loader), "accuracy": right}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train, val)]}))


if __name__ == "__main__":
    main(sys.argv[1])
