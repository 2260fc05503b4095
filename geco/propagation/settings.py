"""How labels of parts are carried from some images to others."""

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
