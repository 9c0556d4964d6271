"""FFCV: a file of the pictures in its own format, decoded by threads and compiled steps. Its
writer decodes each JPEG and compresses it anew, at the quality of the pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD
from .stored import folder_of, write_once

TITLE = "FFCV"
PACKAGES = ["ffcv", "torch", "torchvision", "pillow"]
MODULES = ("ffcv", "ffcv.fields", "ffcv.loader", "ffcv.transforms", "torch", "numpy")
WITH_SYSTEM = False
GUARANTEE = "each once an epoch"


class _Numbered:
    def __init__(self, files: list[str]):
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image
        return Image.open(self._files[index]).convert("RGB"), index


def convert(options: dict[str, Any]) -> float:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    import pictures

    def write(folder: Path) -> None:
        folder.mkdir()
        files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))
        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=pictures.QUALITY),
                  "number": IntField()}
        DatasetWriter(str(folder / "pictures.beton"), fields,
                      num_workers=options["cores"]).from_indexed_dataset(_Numbered(files))
    return write_once(folder_of(options, "ffcv"), write)


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import numpy
    from ffcv import transforms as t
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption

    from .torch_transforms import one_thread
    one_thread()
    image = [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), t.RandomHorizontalFlip()]
    if options["float"]:
        mean, std = (255 * numpy.array(values) for values in (MEAN, STD))
        image.append(t.NormalizeImage(mean, std, numpy.float32))
    image += [t.ToTensor(), t.ToTorchImage()]
    loader = Loader(
        str(folder_of(options, "ffcv") / "pictures.beton"), options["batch"],
        num_workers=max(1, options["workers"]), order=OrderOption.RANDOM, os_cache=True,
        drop_last=False, pipelines={"image": image, "number": [IntDecoder(), t.ToTensor()]})
    while True:
        yield ((numbers.ravel().tolist(), images) for images, numbers in loader)
