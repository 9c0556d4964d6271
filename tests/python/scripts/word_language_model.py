"""In the shape of PyTorch's word language model: columns of one long text, of which each step takes
the next rows; the last one has fewer."""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset

BPTT, NTOKENS = 5, 32


class Rows(Dataset):
    """What batchify and get_batch of the example make."""

    def __init__(self, path, bsz):
        data = torch.from_numpy(np.fromfile(path, np.uint16).astype(np.int64))
        self.source = data[:len(data) // bsz * bsz].view(bsz, -1).t().contiguous()

    def __len__(self):
        return -(-(len(self.source) - 1) // BPTT)

    def __getitem__(self, index):
        i = index * BPTT
        seq_len = min(BPTT, len(self.source) - 1 - i)
        return self.source[i:i + seq_len], self.source[i + 1:i + 1 + seq_len].reshape(-1)


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(NTOKENS, 16), nn.GRU(16, 16)
        self.decoder = nn.Linear(16, NTOKENS)

    def forward(self, data, hidden):
        output, hidden = self.rnn(self.encoder(data), hidden)
        return self.decoder(output).view(-1, NTOKENS), hidden


def main(root):
    torch.manual_seed(1111)
    train = DataLoader(Rows(f"{root}/train.bin", 4), batch_size=None)
    val = DataLoader(Rows(f"{root}/val.bin", 3), batch_size=None)
    model = RNNModel()
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    for epoch in range(2):
        for name, loader in (("train", train), ("val", val)):
            seen, total, hidden = [], 0.0, None
            for data, targets in loader:
                hidden = None if hidden is None else hidden.detach()
                output, hidden = model(data, hidden)
                loss = nn.functional.cross_entropy(output, targets)
                if name == "train":
                    model.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
                    optimizer.step()
                total += loss.item() * len(data)
                seen.append([(data.tolist(), targets.tolist())])
            print(json.dumps({name: seen, "length": len(loader), "loss": total}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train, val)]}))


if __name__ == "__main__":
    main(sys.argv[1])
