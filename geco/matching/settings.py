"""How points are carried from one image to another."""

from dataclasses import dataclass
from typing import Literal

from geco import checks


@dataclass(frozen=True)
class MatchSettings:
    """Defaults of the paper's inference: cosine, argmax over the upsampled target, one direction."""

    mode: Literal["nearest", "soft", "transport"] = "nearest"
    normalise: Literal["after", "before", "none"] = "after"  # unit length after upsampling (the authors), before it, or
    # never: plain dot products, for the encoders that are made for them
    threshold: float = 0.3  # z: a query whose best cosine is below it is "not visible here"
    upsample: bool = True  # False: the prediction is a patch's centre (the authors' APK protocol)
    window: float = 3.0  # soft: side, in patches, of the square around the argmax that is averaged
    temperature: float = 0.02  # soft: of the softmax over that square
    visible_share: float = 1.0  # transport with masks: how much of each object is expected to be visible

    def __post_init__(self) -> None:
        checks.choice(self.mode, "mode", ("nearest", "soft", "transport"))
        checks.choice(self.normalise, "normalise", ("after", "before", "none"))
        checks.number(self.threshold, "threshold")
        checks.flag(self.upsample, "upsample")
        checks.number(self.window, "window", above=0)
        checks.number(self.temperature, "temperature", above=0)
        checks.number(self.visible_share, "visible_share", above=0, most=1)
