"""In the shape of a CLIP-like training: pairs of a picture and its caption from a table, the caption
as tokens of one length; the loss is over all pairs of a batch."""

import csv
import json
import sys

import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data import Dataset
from torchvision import transforms

CONTEXT = 12


def tokenize(text):
    tokens = torch.zeros(CONTEXT, dtype=torch.long)
    for i, word in enumerate(text.split()[:CONTEXT]):
        tokens[i] = sum(ord(letter) for letter in word) % 999 + 1
    return tokens


class CsvDataset(Dataset):
    def __init__(self, table, transform):
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        self.images = [row["filepath"] for row in rows]
        self.captions = [row["title"] for row in rows]
        self.transforms = transform

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, idx):
        images = self.transforms(Image.open(self.images[idx]).convert("RGB"))
        return images, tokenize(self.captions[idx])


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(3 * 12 * 12, 8)
        self.text = nn.EmbeddingBag(1000, 8, padding_idx=0)

    def forward(self, images, texts):
        images = F.normalize(self.image(images.flatten(1)), dim=-1)
        return images @ F.normalize(self.text(texts), dim=-1).T


def main(root):
    torch.manual_seed(0)
    preprocess = transforms.Compose([transforms.CenterCrop(12), transforms.ToTensor()])
    dataset = CsvDataset(f"{root}/pairs.tsv", preprocess)
    dataloader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1, pin_memory=False,
                            sampler=None, drop_last=True)
    dataloader.num_samples = len(dataset)
    dataloader.num_batches = len(dataloader)
    model = Towers()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for epoch in range(2):
        seen = []
        for i, batch in enumerate(dataloader):
            images, texts = batch
            logits = model(images, texts)
            labels = torch.arange(len(logits))
            loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            corner = (images[:, :, 0, 0] * 255).round().long()
            seen.append(list(zip(corner[:, 0].tolist(), map(tuple, texts.tolist()))))
        print(json.dumps({"train": seen, "length": dataloader.num_batches,
                          "samples": dataloader.num_samples}))
    print(json.dumps({"loaders": [type(dataloader).__name__]}))


if __name__ == "__main__":
    main(sys.argv[1])
