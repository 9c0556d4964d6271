"""BatchFlow for Python: training batches from one data service for all jobs (docs/python.md).

    loader = batchflow.DataLoader("/data/imagenet/train", batch_size=256, shuffle=True)
    for epoch in range(90):
        for images, labels in loader:
            ...
"""

from .batch import FILLER, REHEARSED, REPLACED, Batch, Ragged
from .iterable import iterable_dataset
from .library import NoServiceError, RefusedError, ServiceError
from .live import Feed, Live
from .loader import DataLoader
from .local import LocalLoadingWarning
from .mixing import CutMix, MixUp
from .mixture import Mixture
from .steps import NotTakable, step
from .store import CorruptSampleError, Message, Store, subscribe
from .torchvision import Pipeline, from_torchvision
from .torchvision_steps import NotMappable
from . import imports, installed

installed.refuse_namesake()


def __getattr__(name: str) -> str:
    if name == "__version__":
        return installed.version()
    raise AttributeError(f"module 'batchflow' has no attribute '{name}'")


__all__ = ["DataLoader", "Batch", "Ragged", "FILLER", "REPLACED", "REHEARSED", "ServiceError",
           "NoServiceError", "RefusedError", "LocalLoadingWarning", "Pipeline", "NotMappable",
           "from_torchvision", "iterable_dataset", "imports", "step", "NotTakable", "MixUp",
           "CutMix", "Mixture", "Live", "Feed", "Store", "subscribe", "Message",
           "CorruptSampleError"]
