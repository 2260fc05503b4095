"""From photographs to feature maps: everything an encoder does but the encoding itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geco import images
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
        return self.extract_batch([image])[0]

    def extract_batch(self, pictures: Iterable[images.Readable], *, batch_size: int = 8) -> list[FeatureMap]:
        """Features of many images, encoded `batch_size` at a time."""
        return list(self.extract_stream(pictures, batch_size=batch_size))

    def extract_stream(self, pictures: Iterable[images.Readable], *, batch_size: int = 8) -> Iterator[FeatureMap]:
        """The same, one at a time in order, never holding more than a batch of images."""
        remaining = iter(pictures)
        while group := [images.read(picture) for picture in islice(remaining, batch_size)]:
            with torch.inference_mode():
                maps = self.encode(group)
            for values, picture in zip(maps, group, strict=True):
                yield FeatureMap(values.clone(), (picture.shape[-2], picture.shape[-1]))
