"""Answers: where points of one image lie in another, and their mirror twins; similarity maps; painted parts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from PIL import Image as Pillow
from PIL import ImageDraw
from torch import Tensor

from geco import api, geometry, matching, propagation
from geco.demo.board import Spot
from geco.demo.uploads import SessionImage
from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.propagation.settings import CentroidSettings
from geco.types import Encoder, FeatureMap, Matches

PIXELS = CentroidSettings(unit="pixel")


@dataclass(frozen=True)
class Answer:
    """Where a point lies in a target image, in its own pixels; `visible` says whether it does at all."""

    x: float
    y: float
    score: float
    visible: bool


def settings_of(encoder: Encoder, threshold: float | None = None) -> MatchSettings:
    """How this encoder's maps are compared, with its threshold or the given one."""
    return matching.suited(api.match_settings(encoder, threshold=threshold), encoder)


def locate(
    encoder: Encoder,
    settings: MatchSettings,
    pair: tuple[SessionImage, SessionImage],
    spots: Sequence[Spot],
    *,
    twins: bool = False,
) -> list[Answer]:
    """Where the points of the first image lie in the second.

    `twins`: where their counterparts on the other side lie instead. What is on the left of an animal is on the right
    of its mirror image, so the descriptor of a left eye, taken from the mirrored image, is that of a right eye.
    """
    source, target = pair
    if not spots:
        return []
    with _compared(encoder, settings, pair, mirrored=twins) as (features, ready):
        matches = matching.transfer(features, ready, _points(source, spots, mirrored=twins), settings)
    places = geometry.resize_points(matches.target, size=target.shown, to=target.size).tolist()
    columns = zip(places, matches.score.tolist(), matches.visible.tolist(), strict=True)
    return [Answer(x, y, score, visible) for (x, y), score, visible in columns]


def heat(
    encoder: Encoder, settings: MatchSettings, pair: tuple[SessionImage, SessionImage], spot: Spot
) -> Float[Tensor, "_ _"]:
    """Similarity of every pixel of the second image to a point of the first."""
    with _compared(encoder, settings, pair) as (features, ready):
        query = matching.queries(features, _points(pair[0], [spot]), settings)
        scores = matching.score_maps(query, ready)[0]
    matching.check_finite(scores)
    return scores


def as_matches(pair: tuple[SessionImage, SessionImage], spots: Sequence[Spot], answers: Sequence[Answer]) -> Matches:
    """Points and answers in the pixels of the images as they are kept, for pictures."""
    source, target = pair
    places = torch.tensor([(answer.x, answer.y) for answer in answers]).reshape(-1, 2)
    return Matches(
        _points(source, spots),
        geometry.resize_points(places, size=target.size, to=target.shown),
        torch.tensor([answer.score for answer in answers]),
        torch.tensor([answer.visible for answer in answers], dtype=torch.bool),
    )


@contextmanager
def _compared(
    encoder: Encoder, settings: MatchSettings, pair: tuple[SessionImage, SessionImage], *, mirrored: bool = False
) -> Iterator[tuple[FeatureMap, matching.Target]]:
    """The source's features and the target ready for queries."""
    source, target = pair
    with torch.inference_mode():
        features = source.features(encoder, mirrored=mirrored)
        if matching.compares_pairs(encoder):
            features, other = matching.paired(encoder, features, target.features(encoder))
            yield features, matching.prepare(other, settings)
        else:
            yield features, target.target(encoder, settings)


def _points(image: SessionImage, spots: Sequence[Spot], *, mirrored: bool = False) -> Float[Tensor, "k 2"]:
    width = image.size[1]
    xy = torch.tensor([(width - spot.x if mirrored else spot.x, spot.y) for spot in spots]).reshape(-1, 2)
    return geometry.resize_points(xy, size=image.size, to=image.shown)


# --- parts ------------------------------------------------------------------------------------------------------------

BACKGROUND = 0


@dataclass(frozen=True)
class Stroke:
    """A line painted over an image, in its pixels: a part (1, 2, …) or background (0)."""

    part: int
    radius: float
    points: tuple[tuple[float, float], ...]


def painted(image: SessionImage, strokes: Sequence[Stroke]) -> Int[Tensor, "h w"]:
    """The label under every pixel that is kept, -1 where nothing is painted; later strokes cover earlier ones."""
    height, width = image.shown
    scale = width / image.size[1], height / image.size[0]
    canvas = Pillow.new("L", (width, height), 255)
    draw = ImageDraw.Draw(canvas)
    for stroke in strokes:
        places = [(x * scale[0], y * scale[1]) for x, y in stroke.points]
        reach = max(1.0, stroke.radius * scale[0])
        draw.line(places, fill=stroke.part, width=max(1, round(2 * reach)))
        for x, y in places:
            draw.ellipse((x - reach, y - reach, x + reach, y + reach), fill=stroke.part)
    values = torch.frombuffer(bytearray(canvas.tobytes()), dtype=torch.uint8).view(height, width).long()
    return values.where(values != 255, -1)


def parts(
    encoder: Encoder, image: SessionImage, strokes: Sequence[Stroke], others: Sequence[SessionImage]
) -> list[Int[Tensor, "_ _"]]:
    """Part labels of every pixel of the images, from the parts that are painted on one.

    Where no background is painted, all that is not painted counts as background.
    """
    matching.check_single(encoder)
    labels = painted(image, strokes)
    if not bool((labels > 0).any()):
        raise InputError("no part is painted yet; choose a part and paint over it")
    if not bool((labels == BACKGROUND).any()):
        labels = labels.clamp_min(BACKGROUND)
    samples: dict[int, list[Tensor]] = {}
    with torch.inference_mode():
        propagation.collect(samples, image.features(encoder), labels, PIXELS, background=True)
        centroids = propagation.fit_centroids({part: torch.cat(v) for part, v in samples.items()}, PIXELS)
        return [propagation.label_map(other.features(encoder), centroids, "pixel") for other in others]
