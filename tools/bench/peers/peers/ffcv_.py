"""FFCV: one file of its own format with the JPEGs, decoded and cropped by its compiled loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD
from .stored import folder_of, write_once

TITLE = "FFCV"
# It depends on opencv-python, which has windows and would overwrite files of the package below.
WITHOUT_DEPENDENCIES = ["ffcv"]
PACKAGES = ["numba", "pillow", "opencv-python-headless", "pytorch_pfn_extras", "fastargs",
            "assertpy", "tqdm", "psutil", "terminaltables"]
MODULES = ("ffcv", "torch")
# It is built from source: libraries by their names in pkg-config, and the packages they are in.
BUILT_WITH = {"opencv4": "libopencv-dev", "libturbojpeg": "libturbojpeg0-dev"}
GUARANTEE = "each once an epoch"


class Files:
    def __init__(self, files: list[Path]):
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image
        with Image.open(self.files[index]) as opened:
            return int(self.files[index].stem), opened.convert("RGB")


def convert(options: dict[str, Any]) -> float:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    def write(folder: Path) -> None:
        folder.mkdir()
        fields = {"number": IntField(), "image": RGBImageField(write_mode="jpg", jpeg_quality=90)}
        writer = DatasetWriter(str(folder / "pictures.beton"), fields, num_workers=options["cores"])
        writer.from_indexed_dataset(Files(sorted(Path(options["data"]).glob("*/*.jpg"))))
    return write_once(folder_of(options, "ffcv"), write)


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import numpy
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import (NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor,
                                 ToTorchImage)
    normalised = [NormalizeImage(255 * numpy.array(MEAN), 255 * numpy.array(STD), numpy.float32)]
    picture = [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip(),
               *normalised * options["float"], ToTensor(),
               ToTorchImage(channels_last=False)]
    loader = Loader(str(folder_of(options, "ffcv") / "pictures.beton"),
                    batch_size=options["batch"], num_workers=options["workers"],
                    order=OrderOption.RANDOM, os_cache=True, drop_last=False, seed=options["job"],
                    pipelines={"number": [IntDecoder(), ToTensor(), Squeeze(1)], "image": picture})
    while True:
        yield ((numbers.tolist(), images) for numbers, images in loader)
