"""Images of a session: uploaded bytes → pixels in memory, and what an encoder makes of them, computed once."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from jaxtyping import UInt8
from PIL import Image as Pillow
from torch import Tensor

from geco import geometry, images
from geco.demo.settings import AppSettings
from geco.errors import InputError
from geco.images import ImageLimits
from geco.matching import Target, prepare
from geco.matching.settings import MatchSettings
from geco.types import Encoder, FeatureMap, Size

NAME_LENGTH = 60  # characters of the name of an image
QUALITY = 90  # of the JPEG that a browser is shown

Kept = TypeVar("Kept")


@dataclass
class SessionImage:
    """One image, scaled down if it is large; `size` is its own, in which points count."""

    name: str
    size: Size
    pixels: UInt8[Tensor, "3 _ _"]
    kept: dict[tuple[object, ...], object] = field(default_factory=dict)  # what has been computed of it

    def features(self, encoder: Encoder, *, mirrored: bool = False) -> FeatureMap:
        """Features of the image, or of its mirror image."""

        def extract() -> FeatureMap:
            pixels = self.pixels.flip(-1) if mirrored else self.pixels
            return next(iter(encoder.extract_stream([pixels])))

        return self._once(("features", id(encoder), mirrored), extract)

    def target(self, encoder: Encoder, settings: MatchSettings) -> Target:
        """The image ready to be asked about points; of encoders whose maps can be compared as they are."""
        return self._once(("target", id(encoder)), lambda: prepare(self.features(encoder), settings))

    def jpeg(self) -> bytes:
        """What a browser is shown."""

        def encode() -> bytes:
            buffer = io.BytesIO()
            Pillow.fromarray(self.pixels.permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=QUALITY)
            return buffer.getvalue()

        return self._once(("jpeg",), encode)

    def _once(self, key: tuple[object, ...], compute: Callable[[], Kept]) -> Kept:
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]  # type: ignore[return-value]

    @property
    def shown(self) -> Size:
        """(height, width) of the pixels that are kept."""
        return self.pixels.shape[-2], self.pixels.shape[-1]


def admit(content: bytes, name: str, settings: AppSettings) -> SessionImage:
    """The image in an uploaded file, if it is one and within the limits; `name` is shown, and never a path."""
    name = label_of(name)
    if not content:
        raise InputError(f"{name} is empty; choose an image")
    if len(content) > settings.megabytes * 1e6:
        raise InputError(
            f"{name} has {len(content) / 1e6:.0f} MB, above the limit of {settings.megabytes:g} MB; save it smaller"
        )
    limits = ImageLimits(megapixels=settings.megapixels)
    try:
        pixels = images.read(content, limits=limits, name=name)
    except InputError as error:
        raise InputError(str(error).removesuffix(", or raise ImageLimits.megapixels")) from None
    return of_pixels(pixels, name, settings)


def of_pixels(pixels: UInt8[Tensor, "3 _ _"], name: str, settings: AppSettings) -> SessionImage:
    """An image of these pixels, scaled down if it is large."""
    size = pixels.shape[-2], pixels.shape[-1]
    if max(size) > settings.side:
        scale = settings.side / max(size)
        height, width = (max(8, round(side * scale)) for side in size)
        smaller = geometry.resize_image(pixels.float() / 255, (height, width)).clamp(0, 1)
        pixels = (smaller * 255).round().to(torch.uint8)
    return SessionImage(name, size, pixels)


def label_of(name: str) -> str:
    """The name of an uploaded file as it is shown and written into tables: its last part, one printable line."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    text = " ".join("".join(c if c.isprintable() else " " for c in last).split()).lstrip(". ")
    if len(text) > NAME_LENGTH:
        text = f"{text[: NAME_LENGTH - 9]}…{text[-8:]}"
    return text or "image"
