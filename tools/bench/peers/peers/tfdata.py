"""tf.data: each job decodes for itself, in threads. Scaled without antialiasing, as its users do,
which is less work than other peers have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

from .crop import MEAN, SIDE, STD

TITLE = "tf.data"
PACKAGES = ["tensorflow-cpu"]
MODULES = ("tensorflow",)
WITH_SYSTEM = False
GUARANTEE = "each once an epoch"
ROW_JOBS_MOST = 8  # each imports TensorFlow and has a copy of the rows


def pictures(options: dict[str, Any]) -> Any:
    """(number, picture), shuffled anew at each pass."""
    import tensorflow as tf
    files = sorted(str(file) for file in Path(options["data"]).glob("*/*.jpg"))

    def load(number: Any, file: Any) -> Any:
        data = tf.io.read_file(file)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), min_object_covered=0.0,
            aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1.0),
            use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIDE, SIDE)))
        if options["float"]:
            image = (image / 255.0 - tf.constant(MEAN)) / tf.constant(STD)
        else:
            image = tf.cast(tf.round(image), tf.uint8)
        return number, tf.transpose(image, (2, 0, 1))

    numbers = tf.range(len(files), dtype=tf.int64)
    return tf.data.Dataset.from_tensor_slices((numbers, files)).shuffle(
        len(files), reshuffle_each_iteration=True).map(load, num_parallel_calls=tf.data.AUTOTUNE)


def epochs(options: dict[str, Any]) -> Iterator[Any]:
    import tensorflow as tf
    data = pictures(options).batch(options["batch"]).prefetch(tf.data.AUTOTUNE)
    while True:
        yield ((ids.numpy(), images.numpy()) for ids, images in data)


def rows(options: dict[str, Any]) -> Iterator[Any]:
    import numpy
    import tensorflow as tf
    data = numpy.load(Path(options["data"]) / "rows.npy", mmap_mode="r")
    batches = tf.data.Dataset.from_tensor_slices(data).shuffle(
        len(data), reshuffle_each_iteration=True).batch(options["batch"]).prefetch(
            tf.data.AUTOTUNE)
    while True:
        yield (batch.numpy() for batch in batches)
