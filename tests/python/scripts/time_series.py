"""In the shape of a forecast: a Dataset gives windows of a series, and what comes after each."""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


class Windows(Dataset):
    def __init__(self, root_path, flag, size=(12, 4)):
        self.seq_len, self.pred_len = size
        series = np.load(f"{root_path}/series.npy")
        border = len(series) * 7 // 10
        self.mean, self.std = series[:border].mean(), series[:border].std()
        part = series[:border] if flag == "train" else series[border - self.seq_len:]
        self.data = (part - self.mean) / self.std

    def __getitem__(self, index):
        s_end = index + self.seq_len
        return self.data[index:s_end], self.data[s_end:s_end + self.pred_len], index

    def __len__(self):
        return len(self.data) - self.seq_len - self.pred_len + 1


def data_provider(root, flag):
    data_set = Windows(root, flag)
    return data_set, DataLoader(data_set, batch_size=16, shuffle=flag == "train", num_workers=1,
                                drop_last=flag == "train")


def main(root):
    torch.manual_seed(2021)
    train_data, train_loader = data_provider(root, "train")
    val_data, val_loader = data_provider(root, "val")
    model = nn.Linear(12, 4).double()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for epoch in range(2):
        for name, loader in (("train", train_loader), ("val", val_loader)):
            seen, total = [], 0.0
            for i, (batch_x, batch_y, index) in enumerate(loader):
                loss = nn.functional.mse_loss(model(batch_x), batch_y)
                if name == "train":
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item() / len(loader)
                seen.append(list(zip(index.tolist(), batch_y[:, 0].tolist())))
            print(json.dumps({name: seen, "length": len(loader), "accuracy": 1 - total}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train_loader, val_loader)]}))


if __name__ == "__main__":
    main(sys.argv[1])
