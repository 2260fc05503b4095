"""How labels of parts and of keypoints are carried from some images to others."""

from dataclasses import dataclass
from typing import Literal

from geco import checks


@dataclass(frozen=True)
class CentroidSettings:
    """Median centroid per part, nearest centroid wins; the defaults are the paper's."""

    unit: Literal["patch", "pixel"] = "patch"  # what is labelled: patches, or pixels of the upsampled features
    components: int | None = None  # of a PCA before the centroids (the authors' code: 32)
    distance: Literal["euclid", "cosine"] = "euclid"
    pixels: int = 256  # sampled of a part in each labelled image, if the unit is a pixel

    def __post_init__(self) -> None:
        checks.choice(self.unit, "unit", ("patch", "pixel"))
        checks.choice(self.distance, "distance", ("euclid", "cosine"))
        checks.whole(self.pixels, "pixels", least=1)
        if self.components is not None:
            checks.whole(self.components, "components", least=1)


@dataclass(frozen=True)
class KeypointSettings:
    """Keypoints of a target are voted for by the labelled animals that look most like it."""

    references: int = 20  # labelled animals that vote at most, those most alike
    margin: float = 0.25  # of its longer side that a box is grown by on each side before it is cut out
    second_look: bool = False  # encode again what surrounds the points that were found: for small animals
    threshold: float | None = None  # similarity below which a point is not visible; None: found on the labels
    radius: float = 0.1  # of the longer side of an animal's window: a point further off is wrong
    held_out: int = 30  # labelled animals at most that threshold and uncertainty are found on

    def __post_init__(self) -> None:
        checks.whole(self.references, "references", least=1)
        checks.whole(self.held_out, "held_out", least=1)
        checks.number(self.margin, "margin", least=0, most=10)
        checks.flag(self.second_look, "second_look")
        checks.number(self.radius, "radius", above=0, most=1)
        if self.threshold is not None:
            checks.number(self.threshold, "threshold", least=-1, most=1)
