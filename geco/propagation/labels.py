"""Part labels from a few labelled images to new ones."""

import os
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Shaped
from PIL import Image as Pillow
from torch import Tensor

from geco import checks, decoding
from geco.errors import InputError
from geco.images import ImageLimits, Readable, check_size
from geco.matching import check_single
from geco.propagation.centroids import Samples, collect, fit_samples, label_map
from geco.propagation.settings import CentroidSettings
from geco.types import Encoder, Size

PIXELS = CentroidSettings(unit="pixel")
LabelMap = Shaped[Tensor, "_ _"] | Shaped[np.ndarray, "_ _"]  # whole numbers, or truth values
MOST = 65535  # labels: what a 16-bit label image can hold


def label(
    encoder: Encoder,
    labelled: Iterable[tuple[Readable, LabelMap]],
    pictures: Iterable[Readable],
    settings: CentroidSettings = PIXELS,
) -> Iterator[Int[Tensor, "_ _"]]:
    """Label maps of the pictures, one after the other, from a few images with label maps of the same size.

    Background, label 0, has a centroid of its own, like part i with label i.
    """
    check_single(encoder)
    _check_several(labelled, "labelled images")
    _check_several(pictures, "pictures")
    samples: Samples = {}
    numbers: dict[str, int] = {}
    for number, (picture, given) in enumerate(map(_two, labelled), 1):
        _check_new(picture, number, numbers)
        labels = as_labels(given, f"label map {number}")
        (features,) = encoder.extract_stream([picture], batch_size=1)
        if tuple(labels.shape) != tuple(features.size):
            shapes = "{}×{} (height×width), but the image is {}×{}".format(*labels.shape, *features.size)
            raise InputError(f"label map {number} is {shapes}; every pixel needs a label")
        collect(samples, features, labels, settings, background=True)
    if not samples:
        raise InputError("there is no labelled image; give at least one with its label map")
    if not any(part > 0 for part in samples):
        raise InputError("no label map shows a part: all labels are 0, background; give parts the numbers 1, 2, …")
    centroids = fit_samples(samples, settings)
    maps = encoder.extract_stream(pictures, batch_size=1)
    return (label_map(features, centroids, settings.unit) for features in maps)


def as_labels(labels: Any, what: str) -> Int[Tensor, "h w"]:
    """A label map as a tensor of whole numbers, checked to be one."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iub":
        labels = torch.from_numpy(labels.astype(np.int64))
    if not isinstance(labels, Tensor) or labels.layout != torch.strided or labels.is_meta:
        raise InputError(f"{what} must be a tensor or array (height, width) of whole numbers, got {_brief(labels)}")
    if labels.ndim != 2 or not labels.numel() or labels.is_floating_point() or labels.is_complex():
        shape = f"{tuple(labels.shape)} of {labels.dtype}"
        raise InputError(f"{what} must be (height, width) of whole numbers, got {shape}")
    labels = labels.to(torch.int64)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high > MOST:
        raise InputError(f"{what} holds {low if low < 0 else high}; labels are 0 (background) and 1 … {MOST} (parts)")
    return labels


def read_labels(path: str | Path, size: Size) -> Int[Tensor, "h w"]:
    """Part numbers of the pixels in a one-channel label image, whose image has this size."""
    with decoding.opened(path, str(path), what="a label image") as opened:
        check_size(opened.size, str(path), ImageLimits(shortest_side=1))
        values = np.array(opened)
    if values.ndim != 2:
        raise InputError(f"{path} must have one channel of part numbers (grey or palette), got {values.shape[2]}")
    if values.shape != tuple(size):
        shapes = "{}×{} (height×width), its image {}×{}".format(*values.shape, *size)
        raise InputError(f"{path} is {shapes}; a label image has the size of its image")
    return as_labels(values, str(path))


def _brief(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else checks.shown(value)


def _check_several(images: Any, what: str) -> None:
    """Raise if this is one image, whose rows or letters would be taken for images, or none at all."""
    if isinstance(images, str | bytes | Path | Pillow.Image | Tensor | np.ndarray) or not isinstance(images, Iterable):
        raise InputError(f"{what} must be a list, got {checks.shown(images)}; put a single one in brackets")
    if isinstance(images, Sized) and not len(images):
        raise InputError(f"there are no {what}; give at least one")


def _two(entry: Any) -> tuple[Any, Any]:
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise InputError(f"a labelled image must be a pair (image, label map), got {checks.shown(entry)}")
    return entry[0], entry[1]


def _check_new(picture: Any, number: int, numbers: dict[str, int]) -> None:
    """Raise if this file has been labelled already: two label maps of one image contradict each other."""
    if isinstance(picture, str | Path):
        before = numbers.setdefault(os.path.realpath(picture), number)
        if before != number:
            raise InputError(f"{picture} is labelled twice, by label maps {before} and {number}; give it one")
