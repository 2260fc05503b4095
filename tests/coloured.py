"""Black images with coloured patches, and an encoder that sees just those."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from geco import images
from geco.propagation import HIDDEN, VISIBLE, Animal, LabelledImage
from geco.types import FeatureMap, Skeleton

PATCH = 4
COLOURS = {"left": (255, 0, 0), "right": (0, 255, 0), "tail": (0, 0, 255)}
SKELETON = Skeleton(tuple(COLOURS), twin=(1, 0, 2), mirror=(1, 0, 2))


class Colours:
    """Features are mean colours of patches of 4 pixels, and a constant for what is black."""

    name, threshold, dim, stride, device = "colours", 0.5, 4, PATCH, torch.device("cpu")

    def __init__(self) -> None:
        self.encoded = 0

    def extract_stream(self, pictures, *, batch_size=8):
        for picture in pictures:
            self.encoded += 1
            values = torch.nn.functional.avg_pool2d(images.read(picture).float() / 255, PATCH)
            yield FeatureMap(torch.cat([values, torch.full_like(values[:1], 0.1)]), tuple(picture.shape[-2:]))

    def fingerprint(self):
        return "colours"


def write_image(path: Path, places: dict[str, tuple[int, int]], size: int = 64) -> Path:
    """A black image with a coloured patch at (column, row) of each name."""
    pixels = np.zeros((size, size, 3), dtype=np.uint8)
    for name, (column, row) in places.items():
        pixels[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH] = COLOURS[name]
    Image.fromarray(pixels).save(path)
    return path


def centre(column: int, row: int) -> list[float]:
    return [(column + 0.5) * PATCH, (row + 0.5) * PATCH]


def labelled(path: Path, places: dict[str, tuple[int, int]], **given) -> LabelledImage:
    write_image(path, places)
    xy = torch.tensor([centre(*places[name]) if name in places else [torch.nan] * 2 for name in COLOURS])
    state = torch.tensor([VISIBLE if name in places else HIDDEN for name in COLOURS])
    return LabelledImage(path, (Animal(xy, state, **given),))
