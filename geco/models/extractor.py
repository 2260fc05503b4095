"""From images to feature maps: everything an encoder does but the encoding itself."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image as Pillow
from torch import Tensor

from geco import checks, images
from geco.errors import InputError
from geco.models.settings import EncoderConfig
from geco.system import ahead, devices, documents
from geco.types import FeatureMap, Size


class Staged(NamedTuple):
    """An image on its way to the encoder: whatever of it `_encode_staged` takes, and the size of the image itself."""

    content: Any
    size: Size


class Extractor(ABC):
    """Reads images of any size and kind, encodes them in batches, gives each map the size of its image.

    A subclass supplies `encode`, and says what it is; one that can prepare images before they are encoded also
    supplies `_stage` and `_encode_staged`.
    """

    name: str
    note: str  # where its weights come from, for people
    adapted: bool  # whether an adapter was trained, merged or not
    config: EncoderConfig

    @property
    @abstractmethod
    def dim(self) -> int:
        """Channels of a feature map."""

    @property
    @abstractmethod
    def stride(self) -> int:
        """Side of a patch in pixels of the encoder's input."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Similarity below which its matches are "not visible"."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where feature maps are made, and stay."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """Precision that it computes in."""

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Side of the square the images are squashed to."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Equal for encoders that give equal features."""

    @abstractmethod
    def encode(self, pictures: Sequence[UInt8[Tensor, "3 _ _"]]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each image of a batch, in float32."""

    def _stage(self, pixels: UInt8[Tensor, "3 h w"], size: Size) -> Staged:
        """The image prepared as far as that can be done while others are encoded; `size` is that of its file."""
        return Staged(pixels, size)

    def _encode_staged(self, pictures: Sequence[Staged]) -> Sequence[Float[Tensor, "c _ _"]]:
        """A map for each staged image of a batch, in float32."""
        return self.encode([picture.content for picture in pictures])

    def _least_side(self) -> int | None:
        """Pixels that a side needs for a JPEG to be decoded at a fraction of its size; None: always decode all."""
        return None

    def extract(self, image: images.Readable) -> FeatureMap:
        """Features (c, h, w) of one image of any size and kind, in float32, with the image's own size."""
        return self.extract_batch([_one_image(image)])[0]

    def extract_batch(
        self, pictures: Iterable[images.Readable], *, batch_size: int = 8, draft: bool = False
    ) -> list[FeatureMap]:
        """Features of many images, encoded `batch_size` at a time; `draft` as for `extract_stream`."""
        return list(self.extract_stream(pictures, batch_size=batch_size, draft=draft))

    def extract_stream(
        self, pictures: Iterable[images.Readable], *, batch_size: int = 8, draft: bool = False
    ) -> Iterator[FeatureMap]:
        """The same, one at a time in order; the next batch is read and resized while one is encoded.

        Never more than two batches of images are held. `draft` decodes large JPEG files at a fraction of their size,
        at least twice the encoder's input: faster, and features differ a little (docs/encoders.md has the numbers).
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
            raise InputError(f"batch_size must be a whole number above 0, got {documents.shown(batch_size)}")
        checks.flag(draft, "draft")
        return self._stream(_several_images(pictures), int(batch_size), draft)

    def _stream(self, remaining: Iterator[images.Readable], batch_size: int, draft: bool) -> Iterator[FeatureMap]:
        with ahead.groups(remaining, lambda picture: self._read(picture, draft), count=batch_size) as groups:
            for group in groups:
                try:
                    with torch.inference_mode():
                        maps = self._encode_staged(group)
                except (RuntimeError, MemoryError) as error:
                    if not devices.is_out_of_memory(error):
                        raise
                    raise InputError(
                        f"not enough memory to encode {len(group)} images at once; give a smaller batch_size or size"
                    ) from None
                for values, picture in zip(maps, group, strict=True):
                    yield FeatureMap(values.clone(), picture.size)

    def _read(self, picture: images.Readable, draft: bool) -> Staged:
        """The image read and staged; called in threads."""
        image, least = _one_image(picture), self._least_side() if draft else None
        if least is not None and isinstance(image, str | Path | bytes):
            size = images.size_of(image)
            pixels = images.read_reduced(image, least=(least, least))
        else:
            pixels = images.read(image)
            size = (pixels.shape[-2], pixels.shape[-1])
        with torch.inference_mode():
            return self._stage(pixels, size)


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
