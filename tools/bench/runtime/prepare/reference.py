"""Prepares the JPEGs of a folder as PyTorch users do; prints pictures a CPU second on one core.

usage: reference.py FOLDER SECONDS u8|f32
"""
import io
import pathlib
import sys
import time

import torch
from PIL import Image
from torchvision import transforms

BATCH = 64

folder, seconds, kind = sys.argv[1], float(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
if kind == "u8":
    steps.append(transforms.PILToTensor())
else:
    steps += [transforms.ToTensor(),
              transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
transform = transforms.Compose(steps)
files = [path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())]


def prepare(i):
    return transform(Image.open(io.BytesIO(files[i % len(files)])).convert("RGB"))


prepare(0)
done = 0
start = time.process_time()
while time.process_time() - start < seconds:
    torch.stack([prepare(done + i) for i in range(BATCH)])
    done += BATCH
print(done / (time.process_time() - start))
