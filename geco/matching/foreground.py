"""What two images have in common, by their features alone: the object without its background."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import geometry
from geco.matching.patches import similarity
from geco.matching.scorer import check_finite, unbatched
from geco.matching.settings import MatchSettings
from geco.types import FeatureMap

SHARE = 4  # a patch is compared with the most similar quarter of the border


def common_foreground(
    source: FeatureMap, target: FeatureMap, settings: MatchSettings = MatchSettings()
) -> tuple[Bool[Tensor, "h w"], Bool[Tensor, "h2 w2"]]:
    """Masks, in pixels of each image, of what is more like the other image than like its own border.

    Each patch has a number: its similarity to the most similar patch of the other image, minus the mean of those to the
    most similar quarter of the patches along its own image's border. Otsu's threshold splits these numbers in two. It
    takes images that show the same kind of object, most of it inside the frame.
    """
    first, second = unbatched(source), unbatched(target)
    shared = similarity(first, second, settings)
    check_finite(shared)
    grids = [_foreground(first, shared.amax(1), settings), _foreground(second, shared.amax(0), settings)]
    masks = [geometry.resize_labels(grid, features.size) for grid, features in zip(grids, (first, second), strict=True)]
    return masks[0], masks[1]


def own_foreground(features: FeatureMap, settings: MatchSettings = MatchSettings()) -> Bool[Tensor, "h w"]:
    """Which patches of one image are unlike its border, by its features alone.

    Each patch has a number: the mean similarity to the most similar quarter of the patches along the border. Otsu's
    threshold splits these numbers in two, and the less similar ones are foreground: at least one patch, all if they do
    not differ. It needs an image whose object is mostly inside the frame; nothing was learned for this.
    """
    single = unbatched(features)
    check_finite(single.values)
    return _foreground(single, single.values.new_zeros(single.grid[0] * single.grid[1]), settings)


def _foreground(features: FeatureMap, shared: Float[Tensor, "n"], settings: MatchSettings) -> Bool[Tensor, "h w"]:
    border = torch.ones(features.grid, dtype=torch.bool, device=shared.device)
    border[1:-1, 1:-1] = False
    own = similarity(features, features, settings)[:, border.flatten()]
    nearest = own.topk(max(1, own.shape[1] // SHARE), dim=1).values.mean(1)
    contrast = shared - nearest
    return (contrast > otsu(contrast)).unflatten(0, features.grid)


def otsu(values: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    """The value that parts the others, lower or equal and higher, with the largest variance between the two classes.

    Below every value if all are the same, so that all of them are higher (Otsu 1979).
    """
    ordered = values.double().sort().values
    lower = torch.arange(1, len(ordered), device=values.device)
    sums = ordered.cumsum(0)
    gap = (sums[-1] - sums[:-1]) / (len(ordered) - lower) - sums[:-1] / lower
    between = lower * (len(ordered) - lower) * gap.square()
    between = between.where(ordered[1:] > ordered[:-1], 0.0)  # equal values are not parted
    if not bool((between > 0).any()):
        return values.min() - 1
    return ordered[between.argmax()].to(values.dtype)
