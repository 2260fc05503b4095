"""Which images may show a part, by the index: the best patch of each, best image first."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geco import matching
from geco.search.index import PartIndex
from geco.types import FeatureMap

PER_IMAGE = 16  # patches around a part that resemble it, of each image that shows it; more are asked for if need be
# Places along a patch's side: between patches the score is higher than at their centres, by an amount that differs from
# image to image, so that patches alone rank images worse than pixels do.
FINER = 3


def candidates(index: PartIndex, query: Float[Tensor, "c"], count: int, *, probes: float) -> list[int]:
    """Numbers of at most `count` images, those with the most similar patch first; similarities are the index's."""
    asked = PER_IMAGE * count
    while True:
        rows, _ = index.vectors.nearest(query[None].numpy().astype(np.float32), asked, probes=probes)
        known = torch.from_numpy(rows[0])
        images = dict.fromkeys(index.images_of(known[known >= 0]).tolist())  # ordered: best first
        if len(images) >= count or asked >= len(index.vectors) or bool((known < 0).any()):
            return list(images)[:count]
        asked *= 4


def coarsely(
    index: PartIndex, query: Float[Tensor, "c"], numbers: list[int], count: int
) -> list[tuple[str, FeatureMap]]:
    """At most `count` of the numbered images, with their maps: the best by the exact scorer at a few places a patch."""
    best: list[tuple[float, str, FeatureMap]] = []
    for done, number in enumerate(sorted(numbers), 1):  # images of a shard one after the other: it is opened once
        name = index.features.names[number]
        features = index.features[name]
        small = FeatureMap(features.values, (FINER * features.grid[0], FINER * features.grid[1]))
        best.append((float(matching.score_maps(query[None], matching.prepare(small)).max()), name, features))
        if len(best) == 2 * count or done == len(numbers):
            best = sorted(best, key=lambda one: -one[0])[:count]
    return [(name, features) for _, name, features in best]
