"""Errors of 2D–3D matching: distances along the mesh, angles between rotations, left for right; sums per image."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco.evaluation.intervals import bootstrap, draws, interval
from geco.evaluation.measures import Estimate
from geco.evaluation.metrics.keypoints import share

LOST = 180.0  # degrees: the error of an image for which no pose was found


class SurfaceErrors:
    """Geodesic distances between matched and true places, in shares of the mesh's diagonal, image by image."""

    def __init__(self) -> None:
        self.total: list[float] = []
        self.count: list[int] = []
        self.confused: list[int] = []
        self.sided: list[int] = []
        self.near: list[int] = []

    def update(
        self,
        distance: Float[Tensor, "k"],
        *,
        radius: float,
        confused: Bool[Tensor, "k"] | None = None,
        sided: Bool[Tensor, "k"] | None = None,
    ) -> None:
        """Add one image; `confused` of the `sided` points lie nearer to their twin than to themselves."""
        self.total.append(float(distance.double().sum()))
        self.count.append(len(distance))
        self.near.append(int((distance <= radius).sum()))
        self.confused.append(0 if confused is None else int(confused.sum()))
        self.sided.append(0 if sided is None else int(sided.sum()))

    def ratio(self, above: list[float] | list[int], below: list[int], *, resamples: int, seed: int) -> Estimate:
        """A ratio of sums over the images, with its interval over draws of images."""
        top, bottom = (torch.tensor(column, dtype=torch.float64) for column in (above, below))
        drawn = bootstrap(top[None, :, None], bottom[None, :, None], resamples=resamples, seed=seed)[:, 0, 0]
        low, high = interval(drawn)
        return Estimate(float(share(top.sum(), bottom.sum())), float(low), float(high))

    def mean(self, *, resamples: int = 1000, seed: int = 0) -> Estimate:
        """Mean distance over all points of all images."""
        return self.ratio(self.total, self.count, resamples=resamples, seed=seed)

    def within(self, *, resamples: int = 1000, seed: int = 0) -> Estimate:
        """Share of the points within the radius."""
        return self.ratio(self.near, self.count, resamples=resamples, seed=seed)

    def confusion(self, *, resamples: int = 1000, seed: int = 0) -> Estimate:
        """Share of the points that have a twin which lie nearer to it."""
        return self.ratio(self.confused, self.sided, resamples=resamples, seed=seed)


class RotationErrors:
    """Angles between estimated and true rotations in degrees; an image without a pose counts as 180°."""

    def __init__(self) -> None:
        self.angles: list[float] = []

    def update(self, angle: float | None) -> None:
        """Add one image; None: no pose."""
        self.angles.append(LOST if angle is None or math.isnan(angle) else angle)

    def median(self, *, resamples: int = 1000, seed: int = 0) -> Estimate:
        """Median angle with its interval over draws of images."""
        angles = torch.tensor(self.angles, dtype=torch.float64)
        low, high = interval(weighted_medians(angles, resamples=resamples, seed=seed))
        return Estimate(float(angles.quantile(0.5)), float(low), float(high))

    def within(self, degrees: float, *, resamples: int = 1000, seed: int = 0) -> Estimate:
        """Share of the images whose rotation is off by at most this many degrees."""
        hits = (torch.tensor(self.angles, dtype=torch.float64) <= degrees).double()[None, :, None]
        low, high = interval(bootstrap(hits, torch.ones_like(hits), resamples=resamples, seed=seed)[:, 0, 0])
        return Estimate(float(hits.mean()), float(low), float(high))


def weighted_medians(values: Float[Tensor, "n"], *, resamples: int, seed: int) -> Float[Tensor, "s"]:
    """Medians of draws with replacement; runs with the same number of images get the same draws, which pairs them."""
    medians = [
        torch.repeat_interleave(values, times.long()).quantile(0.5)
        for chunk in draws(len(values), resamples=resamples, seed=seed)
        for times in chunk
    ]
    return torch.stack(medians)
