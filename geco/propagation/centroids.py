"""Centroids: the median feature of each annotated part; the nearest centroid labels the rest (GECO, feature space).

A label is linear in the unit feature x: argmax over parts of w·x + b. So a PCA, both distances and upsampling to
pixels are all the same few operations, and no map of C channels is ever upsampled.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from geco import geometry, images, matching
from geco.propagation.settings import CentroidSettings
from geco.types import Encoder, FeatureMap, View

AS_IN_THE_PAPER = CentroidSettings()

Samples = dict[int, list[Tensor]]  # label → unit features (k, c) under it, image by image


@dataclass(frozen=True)
class Centroids:
    """One category's parts as a linear rule: a unit feature x gets labels[argmax(weight @ x + bias)]."""

    labels: Int[Tensor, "n"]
    weight: Float[Tensor, "n c"]
    bias: Float[Tensor, "n"]


def fit(
    encoder: Encoder, views: Iterable[View], settings: CentroidSettings = AS_IN_THE_PAPER, *, batch_size: int = 8
) -> Centroids | None:
    """Centroids of the parts in these views; None if they show no part."""
    return fit_encoded(encode_views(encoder, views, batch_size=batch_size), settings)


def fit_encoded(
    encoded: Iterable[tuple[View, FeatureMap]], settings: CentroidSettings = AS_IN_THE_PAPER
) -> Centroids | None:
    """Centroids of the parts in views whose features are there already; None if they show no part."""
    samples: Samples = {}
    for view, features in encoded:
        collect(samples, features, view.part_map, settings)
    return fit_samples(samples, settings) if samples else None


def collect(
    samples: Samples,
    features: FeatureMap,
    labels: Int[Tensor, "h w"],
    settings: CentroidSettings = AS_IN_THE_PAPER,
    *,
    background: bool = False,
) -> None:
    """Add the unit features under each label of one image; label 0 only if it has a meaning of its own."""
    if settings.unit == "patch":
        flat = geometry.resize_labels(labels, features.grid).flatten()
        vectors = features.unit().values.flatten(1).mT
        for part in flat.unique().tolist():
            if part > 0 or (background and part == 0):
                samples.setdefault(part, []).append(vectors[(flat == part).to(vectors.device)].cpu())
        return
    for part in labels.unique().tolist():
        if part > 0 or (background and part == 0):
            pixels = (labels == part).flatten().nonzero()[:, 0]
            pixels = pixels[:: max(1, len(pixels) // settings.pixels)]  # neighbours say nothing new
            xy = geometry.pixel_centres(pixels, width=labels.shape[1]).to(features.values)
            vectors = geometry.sample(features.values, xy, size=features.size)
            samples.setdefault(part, []).append(functional.normalize(vectors, dim=-1).cpu())


def fit_samples(samples: Samples, settings: CentroidSettings = AS_IN_THE_PAPER) -> Centroids:
    """Centroids of what has been collected."""
    return fit_centroids({part: torch.cat(vectors) for part, vectors in samples.items()}, settings)


def fit_centroids(
    vectors: Mapping[int, Float[Tensor, "_ c"]], settings: CentroidSettings = AS_IN_THE_PAPER
) -> Centroids:
    """The linear rule of the nearest median of each label's unit features, after a PCA if the settings say so."""
    labels = sorted(vectors)
    mean = torch.zeros(vectors[labels[0]].shape[1])
    basis = torch.eye(len(mean))  # (c, d)
    if settings.components is not None:
        together = torch.cat([vectors[part] for part in labels])
        mean = together.mean(0)
        _, _, directions = torch.linalg.svd(together - mean, full_matrices=False)
        basis = directions[: settings.components].mT
    middle = torch.stack([median((vectors[part] - mean) @ basis) for part in labels])  # (n, d)
    if settings.distance == "cosine":
        middle = functional.normalize(middle, dim=-1)
        bias = torch.zeros(len(labels))
    else:
        bias = -0.5 * (middle * middle).sum(-1)
    weight = middle @ basis.mT
    return Centroids(torch.tensor(labels), weight, bias - weight @ mean)


def median(values: Float[Tensor, "k d"]) -> Float[Tensor, "d"]:
    """Median of each column; of an even number, the mean of the two in the middle (torch.median takes the lower)."""
    ordered = values.sort(0).values
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def label_map(
    features: FeatureMap, centroids: Centroids, unit: Literal["patch", "pixel"] = "patch"
) -> Int[Tensor, "h w"]:
    """Label of every patch, or of every pixel of the image."""
    weight, bias = centroids.weight.to(features.values), centroids.bias.to(features.values)
    if unit == "pixel":
        scores = matching.score_maps(weight, matching.prepare(features))
    else:
        scores = torch.einsum("nc,chw->nhw", weight, features.unit().values)
    return centroids.labels[(scores + bias[:, None, None]).argmax(0).cpu()]


def encode_views(encoder: Encoder, views: Iterable[View], *, batch_size: int = 8) -> Iterator[tuple[View, FeatureMap]]:
    """The views with their images read, each with its features; `batch_size` of them are in memory at once."""
    matching.check_single(encoder)
    remaining = iter(views)
    while group := [images.load_view(view) for view in islice(remaining, batch_size)]:
        maps = encoder.extract_stream([view.pixels for view in group], batch_size=batch_size)
        yield from zip(group, maps, strict=True)
