"""In the shape of Hugging Face's examples without a trainer: a table of `datasets` has the rows, and a
collator pads each batch to its longest text. Where `datasets` is not installed, a class in its shape
stands for the table."""

import json
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

try:
    from datasets import Dataset
except ImportError:
    class Dataset:
        """Columns; a row is a dict, several rows a dict of lists."""

        def __init__(self, columns):
            self.columns = columns

        @classmethod
        def from_dict(cls, columns):
            return cls(columns)

        def __len__(self):
            return len(next(iter(self.columns.values())))

        def __getitem__(self, index):
            return {name: column[index] for name, column in self.columns.items()}


class DataCollatorWithPadding:
    def __init__(self, pad_token_id):
        self.pad_token_id = pad_token_id

    def __call__(self, features):
        longest = max(len(feature["input_ids"]) for feature in features)
        batch = {"labels": torch.tensor([feature["label"] for feature in features]),
                 "idx": torch.tensor([feature["idx"] for feature in features])}
        for name, fill in (("input_ids", self.pad_token_id), ("attention_mask", 0)):
            batch[name] = torch.tensor([feature[name] + [fill] * (longest - len(feature[name]))
                                        for feature in features])
        return batch


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask, labels):
        mask = attention_mask.unsqueeze(-1)
        logits = self.out((self.words(input_ids) * mask).sum(1) / mask.sum(1))
        return F.cross_entropy(logits, labels), logits


def tokenized(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    return Dataset.from_dict({"input_ids": [row["tokens"] for row in rows],
                              "attention_mask": [[1] * len(row["tokens"]) for row in rows],
                              "label": [row["label"] for row in rows], "idx": list(range(len(rows)))})


def main(root):
    torch.manual_seed(0)
    data_collator = DataCollatorWithPadding(pad_token_id=0)
    train_dataloader = DataLoader(tokenized(f"{root}/train.jsonl"), shuffle=True,
                                  collate_fn=data_collator, batch_size=6)
    eval_dataloader = DataLoader(tokenized(f"{root}/eval.jsonl"), collate_fn=data_collator,
                                 batch_size=4)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    for epoch in range(2):
        for name, loader in (("train", train_dataloader), ("val", eval_dataloader)):
            seen, right, sides = [], 0, []
            for step, batch in enumerate(loader):
                sides.append(list(batch["input_ids"].shape))
                seen.append(list(zip(batch.pop("idx").tolist(), batch["labels"].tolist())))
                loss, logits = model(**batch)
                right += (logits.argmax(1) == batch["labels"]).sum().item()
                if name == "train":
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
            print(json.dumps({name: seen, "length": len(loader), "sides": sides,
                              "accuracy": right / len(loader.dataset)}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train_dataloader, eval_dataloader)]}))


if __name__ == "__main__":
    main(sys.argv[1])
