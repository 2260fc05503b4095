"""Where a part occurs in a collection: images by the index, places and scores by the exact scorer on their own maps."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from geco import images, matching
from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.search.index import PartIndex
from geco.search.querying import candidates, coarsely
from geco.search.settings import SearchSettings
from geco.types import Encoder, FeatureMap, Size


@dataclass(frozen=True)
class Hit:
    """An image that shows the part, and where: the same place and score as those of `matching.transfer`."""

    name: str
    path: Path | None  # None if it was a part of an archive
    xy: tuple[float, float]  # pixels of the image
    score: float
    size: Size


@dataclass(frozen=True)
class Found:
    """The answer to a search: one place in each image that shows the part, best first; perhaps none."""

    hits: tuple[Hit, ...]
    nearest: Hit  # the best of all images, be it above the threshold or not
    threshold: float
    searched: int  # images


@torch.inference_mode()
def find(
    index: PartIndex,
    encoder: Encoder,
    image: images.Readable | FeatureMap,
    point: tuple[float, float],
    settings: SearchSettings = SearchSettings(),
) -> Found:
    """The images, and the places in them, that show what is at a point (x, y) of an image; or of its features."""
    check_encoder(index, encoder)
    source = image if isinstance(image, FeatureMap) else next(iter(encoder.extract_stream([image])))
    source = index.features.reduce(FeatureMap(source.values.float().cpu(), source.size))
    threshold = encoder.threshold if settings.threshold is None else settings.threshold
    return find_by_features(index, source, point, replace(settings, threshold=threshold))


def find_by_features(
    index: PartIndex, source: FeatureMap, point: tuple[float, float], settings: SearchSettings
) -> Found:
    """The same for a map as the collection holds them, above the threshold of the settings."""
    match = MatchSettings() if settings.threshold is None else MatchSettings(threshold=settings.threshold)
    xy = matching.as_points([point], source.size)
    (query,) = matching.queries(source, xy, match)
    matching.check_finite(query)
    refined = max(settings.refined, 2 * settings.count)
    shortlist = max(settings.shortlist, 10 * settings.count, refined)
    numbers = candidates(index, query, shortlist, probes=settings.probes)
    hits = []
    for name, target in coarsely(index, query, numbers, refined):
        (place,) = matching.transfer(source, target, xy, match)
        hits.append(Hit(name, index.features.path(name), place.target, place.score, target.size))
    hits.sort(key=lambda hit: -hit.score)  # stable: of equal scores the one that was coarsely better
    above = tuple(hit for hit in hits if hit.score >= match.threshold)[: settings.count]
    return Found(above, hits[0], match.threshold, len(index))


def check_encoder(index: PartIndex, encoder: Encoder) -> None:
    """Refuse an encoder whose features do not compare with those of the index."""
    matching.check_single(encoder)
    if getattr(encoder, "similarity", "cosine") == "dot":
        raise InputError(f"{encoder.name} compares by dot products, an index by cosines; use another model")
    if encoder.fingerprint() != index.features.fingerprint:
        raise InputError(
            f"the index is of {index.features.model} ({index.features.fingerprint[:8]}), this is {encoder.name} "
            f"({encoder.fingerprint()[:8]}): another model, size or layer; give the one of the index, or index again"
        )
