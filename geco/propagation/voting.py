"""Voting: where the references put each keypoint of a target, and what speaks against it.

The score map of a keypoint is the mean of the score maps of the references that show it. That mean is again a score
map, of the mean of their descriptors, so many references cost a target no more than one. Means of maps beat the mean of
the places they peak at: two references that disagree do not meet in the middle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from geco import geometry, matching
from geco.propagation.references import Reference
from geco.types import FeatureMap, Skeleton

FINE = 8  # places per side of a patch that a point may lie at
APART = 0.15  # of the map's side: a runner-up further off is another place


@dataclass(frozen=True)
class Votes:
    """What the references say about a target's keypoints, row by row of the skeleton."""

    xy: Float[Tensor, "k 2"]  # in pixels of the target
    score: Float[Tensor, "k"]  # similarity there; −1 for keypoints that no reference shows
    margin: Float[Tensor, "k"]  # … above the best place elsewhere
    twin_margin: Float[Tensor, "k"]  # … above the left or right counterpart at the same place; 1 without counterpart
    known: Bool[Tensor, "k"]  # some reference shows it


class Panel:
    """References that vote; `without` one, it is as if that one had not been labelled."""

    def __init__(self, references: Sequence[Reference], skeleton: Skeleton, *, most: int) -> None:
        self.references, self.most = references, most
        self.twin = torch.tensor(skeleton.twin)
        self._descriptors = torch.stack([one.descriptors for one in references])
        self._visible = torch.stack([one.visible for one in references]).to(self._descriptors.device)
        self._whole = torch.stack([one.whole for one in references])

    def vote(self, target: FeatureMap, *, whole: Float[Tensor, "c"], without: int | None = None) -> Votes:
        """Where each keypoint lies in the target, whose mean descriptor is `whole`."""
        weight = self._weights(whole, without)
        known = (weight > 0).any(0)
        mean = functional.normalize((self._descriptors * weight[..., None]).sum(0), dim=-1)
        maps = score_maps(mean, target)
        score, index = maps.flatten(1).max(1)
        height, width = maps.shape[-2:]
        place = geometry.pixel_centres(index, width=width)
        elsewhere = maps.masked_fill(_near(place, (height, width)), -1.0).flatten(1).amax(1)
        twin = self.twin.to(index.device)
        counterpart = maps.flatten(1)[twin].gather(1, index[:, None])[:, 0]
        alone = (twin == torch.arange(len(twin), device=twin.device)) | ~known[twin]
        return Votes(
            geometry.resize_points(place.float(), size=(height, width), to=target.size).cpu(),
            score.where(known, -1.0).cpu(),
            (score - elsewhere).cpu(),
            (score - counterpart).where(~alone, 1.0).cpu(),
            known.cpu(),
        )

    def _weights(self, whole: Float[Tensor, "c"], without: int | None) -> Float[Tensor, "r k"]:
        """1 for each keypoint that a reference shows, if the reference is among those most alike; else 0.

        A keypoint that none of those shows is voted for by the others.
        """
        visible = self._visible.float()
        if without is not None:
            visible[without] = 0
        if len(visible) <= self.most:
            return visible
        alike = self._whole @ whole
        if without is not None:
            alike[without] = -torch.inf
        chosen = torch.zeros_like(alike)
        chosen[alike.topk(self.most).indices] = 1
        voting = visible * chosen[:, None]
        return torch.where(voting.any(0), voting, visible)


def score_maps(descriptors: Float[Tensor, "k c"], target: FeatureMap) -> Float[Tensor, "k h w"]:
    """Similarity of each descriptor to places of the target, `FINE` times finer than its patches."""
    rows, columns = target.grid
    return matching.score_maps(descriptors, matching.prepare(FeatureMap(target.values, (rows * FINE, columns * FINE))))


def _near(place: Float[Tensor, "k 2"], size: tuple[int, int]) -> Bool[Tensor, "k h w"]:
    height, width = size
    x = torch.arange(width, device=place.device) + 0.5
    y = torch.arange(height, device=place.device) + 0.5
    across = (x - place[:, :1]) / width
    down = (y - place[:, 1:]) / height
    return across[:, None, :] ** 2 + down[:, :, None] ** 2 < APART**2
