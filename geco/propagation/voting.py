"""Voting: where the references put each keypoint of a target, and what speaks against it.

The score map of a keypoint is the mean of the score maps of the references that show it. That mean is again a score
map, of the mean of their descriptors, so a target costs the same whatever the number of references. Means of maps beat
the mean of the places they peak at: two references that disagree do not meet in the middle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from geco import geometry, matching
from geco.propagation.references import Reference
from geco.types import FeatureMap, Size, Skeleton

FINE = 8  # places per side of a patch that a point may lie at
APART = 0.15  # of the map's side: a runner-up further off is another place
SOFTNESS = 0.05  # of similarity: a place that is so much worse counts e times less


@dataclass(frozen=True)
class Votes:
    """What the references say about a target's keypoints, row by row of the skeleton."""

    xy: Float[Tensor, "k 2"]  # in pixels of the target
    score: Float[Tensor, "k"]  # similarity there; −1 for keypoints that no reference shows
    margin: Float[Tensor, "k"]  # … above the best place elsewhere
    twin_margin: Float[Tensor, "k"]  # … above the left or right counterpart at the same place; 1 without counterpart
    known: Bool[Tensor, "k"]  # some reference shows it
    peak: Float[Tensor, "k"]  # share of the score map's weight (a softmax) around the place


class Panel:
    """References that vote; `without` one, it is as if that one had not been labelled."""

    def __init__(self, references: Sequence[Reference], skeleton: Skeleton, *, most: int) -> None:
        self.references, self.most = references, most
        self.twin = torch.tensor(skeleton.twin)
        self.mirror = None if skeleton.mirror is None else torch.tensor(skeleton.mirror)
        self._descriptors = torch.stack([one.descriptors for one in references])
        self._visible = torch.stack([one.visible for one in references]).to(self._descriptors.device)
        self.looks = torch.stack([one.whole for one in references])

    def vote(
        self,
        target: FeatureMap,
        *,
        whole: Float[Tensor, "c"],
        without: int | None = None,
        mirrored: FeatureMap | None = None,
    ) -> Votes:
        """Where each keypoint lies in the target, whose mean descriptor is `whole`.

        The features of the target's mirror image have a vote of their own: there, left looks like right.
        """
        maps, known = self.maps(target, whole=whole, without=without, mirrored=mirrored)
        return self.votes_at(maps, maps.flatten(1).argmax(1), known, size=target.size)

    def maps(
        self,
        target: FeatureMap,
        *,
        whole: Float[Tensor, "c"],
        without: int | None = None,
        mirrored: FeatureMap | None = None,
    ) -> tuple[Float[Tensor, "k h w"], Bool[Tensor, "k"]]:
        """The score map of each keypoint, and which keypoints some reference shows."""
        weight = self._weights(whole, without)
        mean = functional.normalize((self._descriptors * weight[..., None]).sum(0), dim=-1)
        maps = score_maps(mean, target)
        if mirrored is not None:
            assert self.mirror is not None
            maps = (maps + score_maps(mean[self.mirror.to(mean.device)], mirrored).flip(-1)) / 2
        return maps, (weight > 0).any(0)

    def votes_at(
        self, maps: Float[Tensor, "k h w"], index: Int[Tensor, "k"], known: Bool[Tensor, "k"], *, size: Size
    ) -> Votes:
        """What the maps of a target of this size say of one place for each keypoint, an index into its flat map."""
        height, width = maps.shape[-2:]
        score = maps.flatten(1).gather(1, index[:, None])[:, 0]
        place = geometry.pixel_centres(index, width=width)
        near = _near(place, (height, width))
        elsewhere = maps.masked_fill(near, -1.0).flatten(1).amax(1)
        twin = self.twin.to(index.device)
        counterpart = maps.flatten(1)[twin].gather(1, index[:, None])[:, 0]
        alone = (twin == torch.arange(len(twin), device=twin.device)) | ~known[twin]
        softly = ((maps - score[:, None, None]) / SOFTNESS).clamp(max=1).exp()
        return Votes(
            geometry.resize_points(place.float(), size=(height, width), to=size).cpu(),
            score.where(known, -1.0).cpu(),
            (score - elsewhere).cpu(),
            (score - counterpart).where(~alone, 1.0).cpu(),
            known.cpu(),
            ((softly * near).sum((1, 2)) / softly.sum((1, 2))).cpu(),
        )

    def voting(self, whole: Float[Tensor, "c"]) -> list[Reference]:
        """The references most like a target, at most `most` of them."""
        order = (self.looks @ whole).argsort(descending=True, stable=True)[: self.most].tolist()
        return [self.references[number] for number in order]

    def _weights(self, whole: Float[Tensor, "c"], without: int | None) -> Float[Tensor, "r k"]:
        """1 for each keypoint that a reference shows, if the reference is among those most alike; else 0.

        A keypoint that none of those shows is voted for by the others.
        """
        visible = self._visible.float()
        if without is not None:
            visible[without] = 0
        if len(visible) <= self.most:
            return visible
        alike = self.looks @ whole
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
