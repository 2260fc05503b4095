"""Settings of masks: what the segmenters need to know."""

from dataclasses import dataclass
from typing import Literal

Maker = Literal["own", "sam", "u2net"]


@dataclass(frozen=True)
class MaskSettings:
    """What the segmenters need to know besides their weights."""

    sam: str = "facebook/sam-vit-huge"  # the paper's; any SAM or SAM 2 folder or hub name
    margin: float = 0.1  # u2net: the crop around the box is wider than the box by this share of its sides
    threshold: float = 0.5  # u2net: saliency, stretched to [0, 1], above which a pixel is foreground
