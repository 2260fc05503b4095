"""Settings of masks: what the segmenters need to know."""

from dataclasses import dataclass
from typing import Literal

from geco import checks
from geco.errors import InputError

Maker = Literal["own", "sam", "u2net"]


@dataclass(frozen=True)
class MaskSettings:
    """What the segmenters need to know besides their weights."""

    sam: str = "facebook/sam-vit-huge"  # the paper's; any SAM or SAM 2 folder or hub name
    margin: float = 0.1  # u2net: the crop around the box is wider than the box by this share of its sides
    threshold: float = 0.5  # u2net: saliency, stretched to [0, 1], above which a pixel is foreground
    hold_keypoints: bool = False  # u2net: the mask is made to hold the visible keypoints …
    lowest: float = 0.1  # … by a threshold not below this …
    stroke: float = 0.03  # … and strokes of this radius, as a share of the box, to keypoints that are still outside

    def __post_init__(self) -> None:
        if not isinstance(self.sam, str) or not self.sam:
            raise InputError(f"sam must be a folder or a hub name, got {checks.shown(self.sam)}")
        checks.number(self.margin, "margin", least=0)
        checks.number(self.threshold, "threshold", least=0, most=1)
        checks.number(self.lowest, "lowest", least=0, most=1)
        checks.number(self.stroke, "stroke", least=0, most=1)
