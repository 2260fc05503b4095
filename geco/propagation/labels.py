"""Part labels from a few labelled photographs to new ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from PIL import Image as Pillow
from PIL import UnidentifiedImageError
from torch import Tensor

from geco.errors import InputError, MissingFileError
from geco.images import Readable
from geco.propagation.centroids import Samples, collect, fit_samples, label_map
from geco.propagation.settings import CentroidSettings
from geco.types import Encoder, Size

PIXELS = CentroidSettings(unit="pixel")


def label(
    encoder: Encoder,
    labelled: Iterable[tuple[Readable, Int[Tensor, "_ _"]]],
    pictures: Iterable[Readable],
    settings: CentroidSettings = PIXELS,
) -> Iterator[Int[Tensor, "_ _"]]:
    """Label maps of the pictures, one after the other, from a few images with label maps of the same size.

    Background, label 0, has a centroid of its own, like part i with label i.
    """
    samples: Samples = {}
    for number, (picture, labels) in enumerate(labelled, 1):
        (features,) = encoder.extract_stream([picture], batch_size=1)
        if tuple(labels.shape) != tuple(features.size):
            shapes = "{}×{} (height×width), but the image is {}×{}".format(*labels.shape, *features.size)
            raise InputError(f"label map {number} is {shapes}; every pixel needs a label")
        collect(samples, features, labels, settings, background=True)
    if not samples:
        raise InputError("there is no labelled image; give at least one with its label map")
    centroids = fit_samples(samples, settings)
    maps = encoder.extract_stream(pictures, batch_size=1)
    return (label_map(features, centroids, settings.unit) for features in maps)


def read_labels(path: str | Path, size: Size) -> Int[Tensor, "h w"]:
    """Part numbers of the pixels in a one-channel label image, whose photograph has this size."""
    try:
        with Pillow.open(path) as opened:
            values = np.array(opened)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; expected a label image") from None
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image; expected a PNG of part numbers") from None
    except (OSError, SyntaxError) as error:  # Pillow raises both for damaged files
        raise InputError(f"{path} is damaged or cut short: {error}; get the file again") from None
    if values.ndim != 2:
        raise InputError(f"{path} must have one channel of part numbers (grey or palette), got {values.shape[2]}")
    if values.shape != tuple(size):
        shapes = "{}×{} (height×width), its photo {}×{}".format(*values.shape, *size)
        raise InputError(f"{path} is {shapes}; a label image has its photo's size")
    return torch.from_numpy(values.astype(np.int64))
