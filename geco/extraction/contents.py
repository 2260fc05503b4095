"""What is stored of an image: its whole map, one vector, or the patches of its foreground, in half precision."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import geometry, matching
from geco.errors import InputError
from geco.extraction import reduction
from geco.extraction.records import Entry, Record, Source, checksum
from geco.extraction.settings import What
from geco.types import FeatureMap, Size

NUMBER, CELL = 2, 4  # bytes of what is stored


def entry(
    source: Source,
    sha256: str,
    features: FeatureMap,
    *,
    what: What,
    projection: Float[Tensor, "k c"] | None = None,
    mask: Bool[Tensor, "h w"] | None = None,
) -> Entry:
    """What is stored of an image; `mask` says which pixels are foreground, otherwise its features have to."""
    whole = FeatureMap(features.values.float(), features.size)
    kept = whole
    if what == "global":
        mean = whole.unit().values.flatten(1).mean(1)
        kept = FeatureMap(torch.nn.functional.normalize(mean, dim=0)[:, None, None], features.size)
    values = (kept if projection is None else reduction.project(kept, projection)).values
    cells = None
    if what == "foreground":
        inside = matching.own_foreground(whole) if mask is None else geometry.touched(mask, whole.grid)
        cells = inside.flatten().nonzero()[:, 0]
        values = values.flatten(1).T[cells]
    half = values.to(torch.float16)
    if not bool(torch.isfinite(half).all()):
        raise InputError(f"{source.name}: its features are not finite or beyond what 16 bits hold; use another layer")
    numbers = half.contiguous().cpu().numpy()
    places = None if cells is None else cells.to(torch.int32).cpu().numpy()
    record = Record(source, features.size, sha256, kept.grid, checksum(numbers, places))
    return Entry(record, numbers, places)


def size_of(*, what: What, dim: int, grid: Size) -> int:
    """Bytes that are stored of an image with such a map; of foreground at most."""
    cells = 1 if what == "global" else grid[0] * grid[1]
    return cells * (NUMBER * dim + (CELL if what == "foreground" else 0))
