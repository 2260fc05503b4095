"""How training pairs are altered before the encoder sees them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AugmentSettings:
    """The authors' recipe. `flip`, `jitter`, `blur` and `solarise` are probabilities."""

    size: int = 518  # pixels; every view leaves as a square of this side
    plain: tuple[str, ...] = ("pfpascal",)  # datasets that are only resized, as the authors do

    flip: float = 0.5
    scale: tuple[float, float] = (0.5, 0.98)  # of the image's area that a crop keeps
    ratio: tuple[float, float] = (0.9, 1.1)  # width / height of a crop …
    ratio_of: Literal["image", "pixels"] = "image"  # … relative to the image's own, or in pixels
    rotate: float = 0.0  # degrees a view is turned at most, either way; the authors turn nothing

    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1  # of the whole circle, either way

    blur: float = 0.1
    kernel: int = 9
    sigma: tuple[float, float] = (0.1, 2.0)

    solarise: float = 0.2
    threshold: int = 128  # of 255; brighter pixels are inverted

    def __post_init__(self) -> None:
        for name in ("flip", "jitter", "blur", "solarise"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, expected 0 to 1, got {getattr(self, name)}")
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(
                f"scale is (smallest, largest) share of the area, expected 0 < a ≤ b ≤ 1, got {self.scale}"
            )
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio is (narrowest, widest), expected 0 < a ≤ b, got {self.ratio}")
        if not 0 <= self.rotate <= 180:
            raise ValueError(f"rotate is the largest angle in degrees, expected 0 to 180, got {self.rotate}")
        if self.kernel % 2 == 0:
            raise ValueError(f"the blur's kernel has a centre, expected an odd side, got {self.kernel}")
