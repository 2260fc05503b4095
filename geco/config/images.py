"""Limits on what may be read as an image, and the normalisation the backbones were trained with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageLimits:
    """What is refused before it is decoded."""

    megapixels: float = 80.0  # above any camera in common use, below what would fill a laptop's memory
    shortest_side: int = 8  # pixels; smaller files are icons or mistakes, there is nothing to match in them


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
