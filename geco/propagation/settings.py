"""How labels of parts are carried from some images to others."""

from dataclasses import dataclass
from typing import Literal

from geco.errors import InputError


@dataclass(frozen=True)
class CentroidSettings:
    """Median centroid per part, nearest centroid wins; the defaults are the paper's."""

    unit: Literal["patch", "pixel"] = "patch"  # what is labelled: patches, or pixels of the upsampled features
    components: int | None = None  # of a PCA before the centroids (the authors' code: 32)
    distance: Literal["euclid", "cosine"] = "euclid"
    pixels: int = 256  # sampled of a part in each labelled image, if the unit is a pixel

    def __post_init__(self) -> None:
        if self.unit not in ("patch", "pixel"):
            raise InputError(f"unit must be patch or pixel, got {self.unit!r}")
        if self.distance not in ("euclid", "cosine"):
            raise InputError(f"distance must be euclid or cosine, got {self.distance!r}")
