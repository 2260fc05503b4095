"""Where a model fails: of each category, what its misses hit instead, and sheets of the worst pairs."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from geco import images, viz
from geco.evaluation.keypoints.counts import ALL, side
from geco.evaluation.keypoints.journal import Prediction
from geco.evaluation.report import Cell, Table
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.types import Pair, PairSequence
from geco.viz import Miss, MissedPair, Place

PLACES = {"twin": "twin", "other": "other keypoint", "outside": "off the box"}  # columns; else: elsewhere
QUERIES, MISSED = "queries", "missed"


def misses(
    pairs: PairSequence, predictions: Mapping[int, Prediction], protocol: Protocol, settings: KeypointSettings
) -> tuple[Table, Table]:
    """Of each category the misses by where they went; and which keypoint is most often taken for which other one.

    A miss is a query whose match is visible, but further off than the radius. Predictions of the first way of
    matching are read, that of the first protocol.
    """
    counts: dict[str, Counter[str]] = {}
    confusions: dict[str, Counter[tuple[str, str]]] = {}
    for index, pair in enumerate(pairs):
        missed = _misses(pair, predictions[index], protocol, settings)
        for category in (str(pair.category), ALL):
            counts.setdefault(category, Counter()).update({QUERIES: _queries(pair), MISSED: len(missed)})
            counts[category].update(miss.place for miss in missed)
        taken = ((miss.name, miss.hit) for miss in missed if miss.hit is not None)
        confusions.setdefault(str(pair.category), Counter()).update(taken)
    names = [*sorted(confusions), ALL]
    where = f"radius {settings.main_alpha:g} ({protocol.name})"
    return (
        Table(
            name=f"misses-{protocol.name}",
            title=f"Where misses went, in %, {where}",
            columns=("category", QUERIES, MISSED, *PLACES.values(), "elsewhere"),
            rows=tuple(_row(name, counts[name]) for name in names),
            note="Queries with a visible match; a miss is counted once, in the first column that fits.",
        ),
        Table(
            name=f"confusions-{protocol.name}",
            title=f"Keypoints taken for another one, most often, {where}",
            columns=("category", "keypoint", "taken for", "times"),
            rows=tuple(
                (name, *pair, times) for name in sorted(confusions) for pair, times in confusions[name].most_common(1)
            ),
        ),
    )


def _row(category: str, count: Counter[str]) -> tuple[Cell, ...]:
    shares = [100 * count[place] / count[MISSED] if count[MISSED] else None for place in (*PLACES, "elsewhere")]
    return (category, count[QUERIES], count[MISSED], *shares)


def draw_failures(
    pairs: PairSequence,
    predictions: Mapping[int, Prediction],
    protocol: Protocol,
    settings: KeypointSettings,
    *,
    count: int,
) -> dict[str, Figure]:
    """A sheet of the `count` pairs with the most misses of each category that has any, by file name.

    No target is shown twice, so that one unlucky image does not fill a sheet.
    """
    worst: dict[str, list[tuple[int, int]]] = {}
    for index, pair in enumerate(pairs):
        number = len(_misses(pair, predictions[index], protocol, settings))
        if number:
            worst.setdefault(str(pair.category), []).append((-number, index))
    sheets: dict[str, Figure] = {}
    for category, ranked in sorted(worst.items()):
        shown = [
            _missed_pair(pairs[index], _misses(pairs[index], predictions[index], protocol, settings))
            for index in _distinct_targets(pairs, [index for _, index in sorted(ranked)], count)
        ]
        name = _free(f"failures_{re.sub(r'[^a-z0-9]+', '_', category.lower()).strip('_')}", sheets)
        sheets[name] = viz.miss_sheet(shown, title=f"{category}: the pairs with the most misses")
    return sheets


def _misses(pair: Pair, prediction: Prediction, protocol: Protocol, settings: KeypointSettings) -> list[Miss]:
    """The queries of a pair that missed their visible match."""
    radius, twin, names = settings.main_alpha * side(pair, protocol), pair.table.twin, pair.table.names
    target = pair.target.points
    queries = pair.source.points.visible.nonzero()[:, 0].tolist()
    away = torch.cdist(prediction.xy[0].double(), target.xy.double()).masked_fill(~target.visible, torch.inf)
    missed = []
    for row, keypoint in enumerate(queries):
        if not target.visible[keypoint] or away[row, keypoint] <= radius:
            continue
        place, hit = _place(away[row], radius, twin=None if twin[keypoint] == keypoint else twin[keypoint])
        if place == "elsewhere" and _is_outside(prediction.xy[0, row], pair.target.box):
            place = "outside"
        missed.append(
            Miss(
                name=names[keypoint],
                query=pair.source.points.xy[keypoint],
                match=target.xy[keypoint],
                predicted=prediction.xy[0, row],
                place=place,
                hit=None if hit is None else names[hit],
            )
        )
    return missed


def _place(away: Float[Tensor, "k"], radius: float, *, twin: int | None) -> tuple[Place, int | None]:
    """What lies within the radius of a missed query, and which keypoint that is; the twin goes first."""
    if twin is not None and away[twin] <= radius:
        return "twin", twin
    nearest = int(away.argmin())
    return ("other", nearest) if away[nearest] <= radius else ("elsewhere", None)


def _is_outside(point: Float[Tensor, "2"], box: Float[Tensor, "4"] | None) -> bool:
    return box is not None and bool((point < box[:2]).any() or (point > box[2:]).any())


def _distinct_targets(pairs: PairSequence, indices: Sequence[int], count: int) -> Iterator[int]:
    seen: set[Any] = set()
    for index in indices:
        if len(seen) < count and (label := pairs[index].target.label) not in seen:
            seen.add(label)
            yield index


def _missed_pair(pair: Pair, missed: Sequence[Miss]) -> MissedPair:
    source, target = (images.read_view(view) for view in (pair.source, pair.target))
    return MissedPair(source=source, target=target, misses=tuple(missed), queries=_queries(pair))


def _queries(pair: Pair) -> int:
    """Queries with a visible match."""
    return int((pair.source.points.visible & pair.target.points.visible).sum())


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """The name, with a number if two categories are written alike."""
    return name if name not in taken else next(n for i in range(2, 10_000) if (n := f"{name}_{i}") not in taken)
