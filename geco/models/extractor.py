"""From photographs to feature maps: everything an encoder does but the encoding itself."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image as Pillow
from torch import Tensor

from geco import images
from geco.errors import InputError
from geco.system import devices, documents
from geco.types import FeatureMap


class Extractor(ABC):
    """Reads images of any size and kind, encodes them in batches, gives each map the size of its image.

    A subclass supplies `encode`.
    """

    @abstractmethod
    def encode(self, pictures: Sequence[UInt8[Tensor, "3 _ _"]]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each image of a batch, in float32."""

    def extract(self, image: images.Readable) -> FeatureMap:
        """Features (c, h, w) of one image of any size and kind, in float32, with the image's own size."""
        return self.extract_batch([_one_image(image)])[0]

    def extract_batch(self, pictures: Iterable[images.Readable], *, batch_size: int = 8) -> list[FeatureMap]:
        """Features of many images, encoded `batch_size` at a time."""
        return list(self.extract_stream(pictures, batch_size=batch_size))

    def extract_stream(self, pictures: Iterable[images.Readable], *, batch_size: int = 8) -> Iterator[FeatureMap]:
        """The same, one at a time in order, never holding more than a batch of images."""
        if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
            raise InputError(f"batch_size must be a whole number above 0, got {documents.shown(batch_size)}")
        return self._stream(_several_images(pictures), int(batch_size))

    def _stream(self, remaining: Iterator[images.Readable], batch_size: int) -> Iterator[FeatureMap]:
        while group := [images.read(_one_image(picture)) for picture in islice(remaining, batch_size)]:
            try:
                with torch.inference_mode():
                    maps = self.encode(group)
            except (RuntimeError, MemoryError) as error:
                if not devices.is_out_of_memory(error):
                    raise
                raise InputError(
                    f"not enough memory to encode {len(group)} images at once; give a smaller batch_size or size"
                ) from None
            for values, picture in zip(maps, group, strict=True):
                yield FeatureMap(values.clone(), (picture.shape[-2], picture.shape[-1]))


def _one_image(image: images.Readable) -> images.Readable:
    """The image, if it is a kind that can be read."""
    if isinstance(image, str | os.PathLike | bytes | Pillow.Image | np.ndarray | Tensor):
        return Path(image) if isinstance(image, os.PathLike) else image
    several = "; for several images call extract_batch" if isinstance(image, Iterable) else ""
    raise InputError(
        f"an image is a path, bytes, a PIL image, an array or a tensor, got {documents.shown(image)}{several}"
    )


def _several_images(pictures: Iterable[images.Readable]) -> Iterator[images.Readable]:
    """The images one after the other; a single one is not taken for a list of its letters or rows."""
    single = isinstance(pictures, str | os.PathLike | bytes | Pillow.Image)
    pixels = isinstance(pictures, np.ndarray | Tensor) and pictures.ndim < 4
    if single or pixels or not isinstance(pictures, Iterable):
        raise InputError(f"expected a list of images, got {documents.shown(pictures)}; for one image call extract")
    return iter(pictures)
