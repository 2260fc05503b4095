"""Pairing: which two images of a batch are compared. An image is encoded once, however many pairs it is in."""

from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Int
from torch import Tensor

from geco import batching
from geco.types import FeatureMap, Pair


@dataclass(frozen=True)
class Regrouped:
    """Pairs made of the images of other pairs; images count sources first, then targets."""

    pairs: Pair
    source: Int[Tensor, "n"]  # image of each pair's source …
    target: Int[Tensor, "n"]  # … and of its target

    def features(self, source: FeatureMap, target: FeatureMap) -> tuple[FeatureMap, FeatureMap]:
        """Feature maps of the new pairs from those of the old ones."""
        values = torch.cat([source.values, target.values])
        return FeatureMap(values[self.source], source.size), FeatureMap(values[self.target], target.size)


def every_two(pairs: Pair) -> Regrouped:
    """Every two images of a batch whose keypoints mean the same: one category and one skeleton.

    2b images of one category make b(2b − 1) pairs for the price of encoding b; the given pairs are among them. An
    image that is in the batch twice is paired with itself only if it was given so.
    """
    batch = len(pairs.category)
    kinds = list(zip(pairs.category, pairs.skeletons, strict=True)) * 2
    names = (*pairs.source.name, *pairs.target.name)
    two = [
        (i, j)
        for i, j in combinations(range(2 * batch), 2)
        if kinds[i] == kinds[j] and (j == i + batch or names[i] != names[j])
    ]
    views = batching.join(pairs.source, pairs.target)
    source, target = torch.tensor(two, device=views.pixels.device).unbind(1)
    regrouped = Pair(
        batching.pick(views, source),
        batching.pick(views, target),
        skeleton=tuple(kinds[i][1] for i, _ in two),
        category=tuple(kinds[i][0] for i, _ in two),
    )
    return Regrouped(regrouped, source, target)
