"""In the shape of Hugging Face's example for text: features as dicts, padded to one length, and a
collator for training that puts them together by name."""

import json
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data import Dataset

LENGTH = 10


class Features(Dataset):
    """As tokenised beforehand: dicts of lists of numbers."""

    def __init__(self, path):
        with open(path) as file:
            self.rows = [json.loads(line) for line in file]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        tokens = row["tokens"][:LENGTH]
        padded = tokens + [0] * (LENGTH - len(tokens))
        return {"input_ids": padded, "attention_mask": [int(one > 0) for one in padded],
                "label": row["label"], "idx": index}


def default_data_collator(features):
    batch = {"labels": torch.tensor([feature["label"] for feature in features])}
    for name in ("input_ids", "attention_mask", "idx"):
        batch[name] = torch.tensor([feature[name] for feature in features])
    return batch


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, input_ids, attention_mask, labels):
        mask = attention_mask.unsqueeze(-1)
        mean = (self.words(input_ids) * mask).sum(1) / mask.sum(1)
        logits = self.out(mean)
        return F.cross_entropy(logits, labels), logits


def rows_of(batch):
    """What the features of a batch are, with their labels."""
    return [[(index, tuple(ids), tuple(mask)), label] for index, ids, mask, label in
            zip(*(batch[name].tolist() for name in ("idx", "input_ids", "attention_mask", "labels")))]


def main(root):
    torch.manual_seed(0)
    train_dataloader = DataLoader(Features(f"{root}/train.jsonl"), shuffle=True,
                                  collate_fn=default_data_collator, batch_size=6)
    eval_dataloader = DataLoader(Features(f"{root}/eval.jsonl"), collate_fn=default_data_collator,
                                 batch_size=4)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for epoch in range(2):
        model.train()
        seen = []
        for step, batch in enumerate(train_dataloader):
            seen.append(rows_of(batch))
            batch.pop("idx")
            loss, _ = model(**batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(json.dumps({"train": seen, "length": len(train_dataloader)}))
        model.eval()
        seen, right = [], 0
        for step, batch in enumerate(eval_dataloader):
            seen.append(rows_of(batch))
            batch.pop("idx")
            with torch.no_grad():
                _, logits = model(**batch)
            right += (logits.argmax(1) == batch["labels"]).sum().item()
        print(json.dumps({"val": seen, "length": len(eval_dataloader),
                          "accuracy": right / len(eval_dataloader.dataset)}))
    print(json.dumps({"loaders": [type(one).__name__ for one in (train_dataloader, eval_dataloader)]}))


if __name__ == "__main__":
    main(sys.argv[1])
