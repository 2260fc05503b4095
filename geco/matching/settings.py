"""How points are carried from one image to another."""

from dataclasses import dataclass
from typing import Literal

from geco.errors import InputError


@dataclass(frozen=True)
class MatchSettings:
    """Defaults of the paper's inference: cosine, argmax over the upsampled target, one direction."""

    mode: Literal["nearest", "soft", "transport"] = "nearest"
    normalise: Literal["after", "before"] = "after"  # unit length after upsampling (the authors) or before it
    threshold: float = 0.3  # z: a query whose best cosine is below it is "not visible here"
    upsample: bool = True  # False: the prediction is a patch's centre (the authors' APK protocol)
    window: float = 3.0  # soft: side, in patches, of the square around the argmax that is averaged
    temperature: float = 0.02  # soft: of the softmax over that square
    visible_share: float = 1.0  # transport with masks: how much of each object is expected to be visible

    def __post_init__(self) -> None:
        if self.mode not in ("nearest", "soft", "transport"):
            raise InputError(f"mode must be nearest, soft or transport, got {self.mode!r}")
        if self.normalise not in ("after", "before"):
            raise InputError(f"normalise must be after or before, got {self.normalise!r}")
        if self.temperature <= 0 or self.window <= 0:
            raise InputError("window and temperature must be positive")
