"""How labels of parts and of keypoints are carried from some images to others, and through videos."""

from dataclasses import dataclass
from typing import Literal

from geco import checks
from geco.system import strict

MOST_FRAMES = 1000  # of a video in memory at once


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
    crop: Literal["whole", "auto"] = "whole"  # where an image without boxes is searched: auto finds its animals first
    mirror: bool = False  # look at the mirror image too: a little more accurate, at twice the cost
    threshold: float | None = None  # similarity below which a point is not visible; None: found on the labels
    radius: float = 0.1  # of the longer side of an animal's window: a point further off is wrong
    held_out: int = 30  # labelled animals at most that threshold and uncertainty are found on

    def __post_init__(self) -> None:
        checks.whole(self.references, "references", least=1)
        checks.whole(self.held_out, "held_out", least=1)
        checks.number(self.margin, "margin", least=0, most=10)
        checks.flag(self.second_look, "second_look")
        checks.flag(self.mirror, "mirror")
        checks.choice(self.crop, "crop", ("whole", "auto"))
        checks.number(self.radius, "radius", above=0, most=1)
        if self.threshold is not None:
            checks.number(self.threshold, "threshold", least=-1, most=1)


@dataclass(frozen=True)
class TrackSettings:
    """Keypoints are looked for in each frame where the animal was, and their places chosen over several frames."""

    follow: bool = True  # encode what surrounds the animal, wherever it goes; otherwise whole frames
    batch: int = 8  # frames that are encoded together; the window around the animal moves from batch to batch
    lag: int = 4  # later frames at least that a place is decided by
    peaks: int = 5  # places that a frame offers for each keypoint
    # Chosen on eight rendered animals in motion (docs/video.md): stronger costs bring no more points to their place.
    motion: float = 0.2  # similarity that a jump from one frame to the next costs; 0: each frame for itself
    speed: float = 3.0  # lengths of the animal per second, above which a movement is a jump
    switch: float = 0.2  # similarity that it costs to begin or to end a gap
    cycle: float = 0.2  # similarity taken off if the way back does not lead to where the point is labelled; 0: no check

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "batch", "peaks", least=1)
        strict.within(self, "batch", most=MOST_FRAMES)
        strict.within(self, "peaks", most=100)
        strict.within(self, "lag", least=0, most=MOST_FRAMES)
        strict.within(self, "motion", "switch", "cycle", least=0, most=2)
        strict.within(self, "speed", above=0, most=1000)
