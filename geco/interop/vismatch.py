"""A matcher of vismatch (github.com/gmberton/vismatch): mutual patches of two images, and a descriptor of every patch.

Points leave it as vismatch's other matchers and OpenCV count them, from the *centre* of the first pixel: half a pixel
less than everywhere else in geco, where the first pixel's centre is (0.5, 0.5).
"""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geco import api, checks, geometry
from geco.errors import MissingPackageError
from geco.types import FeatureMap

try:
    from vismatch import BaseMatcher
except ImportError as error:
    BaseMatcher, REASON = object, str(error)
else:
    REASON = ""

HALF = 0.5  # pixels between the two ways of counting
MOST = 2048  # matches, as vismatch's other matchers have it


class GecoMatcher(BaseMatcher):
    """Matches of patches that are each other's most similar one, best first, for vismatch.

    `model` is whatever `geco.load` takes, or a loaded model; patches whose similarity stays below `threshold` (None:
    the model's own) are "not visible" and not matched. No homography is fitted: between two animals it means nothing.
    """

    def __init__(
        self,
        device: str = "cpu",
        *,
        model: api.Model = None,
        size: int | None = None,
        threshold: float | None = None,
        max_num_keypoints: int = MOST,
        **options: Any,
    ) -> None:
        if BaseMatcher is object:
            raise MissingPackageError(
                f"GecoMatcher needs vismatch ({REASON}); pip install vismatch, best in an environment of its own"
            )
        super().__init__(device, **options)
        self.skip_ransac = True
        self.most = checks.whole(max_num_keypoints, "max_num_keypoints", least=1)
        is_name = model is None or isinstance(model, str | Path)
        self.encoder: Any = api.load(model, device=device, size=size) if is_name else model  # type: ignore[arg-type]
        self.settings = api.match_settings(self.encoder, threshold=threshold)  # type: ignore[arg-type]

    def _forward(
        self, img0: Float[Tensor, "3 h0 w0"], img1: Float[Tensor, "3 h1 w1"]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Matched points of both images, all points of both, their descriptors, and the similarity of each match."""
        # vismatch lets values leave [0, 1] a little, as resizing makes them.
        source, target = self.encoder.extract_stream([image.clamp(0, 1) for image in (img0, img1)])
        matches = api.match(source, target, model=self.encoder, settings=self.settings)
        kept = matches.visible.nonzero()[: self.most, 0]
        return (
            *(_from_centres(points[kept]) for points in (matches.source, matches.target)),
            *(_from_centres(_patches(features)) for features in (source, target)),
            *(features.unit().values.flatten(1).mT for features in (source, target)),
            matches.score[kept],
        )


def _patches(features: FeatureMap) -> Float[Tensor, "n 2"]:
    """Centres of all patches, in the order of their descriptors."""
    rows, columns = features.grid
    index = torch.arange(rows * columns, device=features.values.device)
    return geometry.cell_centres(index, size=features.size, grid=features.grid)


def _from_centres(xy: Float[Tensor, "n 2"]) -> Float[Tensor, "n 2"]:
    """Points counted from the first pixel's centre; those less than half a pixel from the border lie on it."""
    return (xy - HALF).clamp(min=0)
