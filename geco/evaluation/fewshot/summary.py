"""The report of a few-shot run: PCK, left/right and hidden points over references; what the uncertainty is worth.

Intervals are a bootstrap over images, each with all of its draws.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco.evaluation.fewshot.draws import Draw, digest
from geco.evaluation.fewshot.points import Points, Predictions, added, collect, image_names
from geco.evaluation.intervals import bootstrap, bootstrap_detector, interval
from geco.evaluation.measures import Estimate, Measure
from geco.evaluation.metrics import review
from geco.evaluation.metrics.hidden import HiddenDetector
from geco.evaluation.metrics.keypoints import IN_PCK, share
from geco.evaluation.report import Cell, Report, Table
from geco.evaluation.settings import FewShotProtocol
from geco.system import provenance

METRICS = {
    "PCK": "of the visible keypoints, those placed within {alpha:g} of the image's longer side",
    "confused": "of the points that landed near their place or their left/right twin's, those near the twin's",
    "hidden AP": "average precision of a low score as a sign that a keypoint is not visible",
}
METHODS = {
    "votes": "votes of the references",
    "transfer": "transfer from the most alike reference that shows the point",
    "centroids": "place nearest to the median descriptor of the references",
}
SHOWN = 101  # points of a reviewer's curve


def summarise(
    draws: Sequence[Draw],
    predictions: Sequence[Predictions],
    protocol: FewShotProtocol,
    *,
    label: str = "model",
    data: str = "pairs",
) -> Report:
    """The report of what was predicted."""
    sizes = sorted({size for predicted in predictions for _, size in predicted})
    points = {
        (method, size): collect(draws, predictions, method, size, alpha=protocol.alpha)
        for method in METHODS
        for size in sizes
    }
    count = len(image_names(draws))
    series = _series(points, sizes, protocol, images=count)
    at = max((size for size in sizes if size <= protocol.headline), default=min(sizes))
    measures = [
        Measure(metric, e.value, method, protocol.alpha if metric == "PCK" else None, _case(size), e.low, e.high)
        for (metric, method, size), e in series.items()
    ]
    reviewed = {size: _review(points["votes", size], protocol) for size in sizes}
    gains = _gains(draws, predictions, sizes, protocol)
    measures += [Measure("gain", e.value, "votes", None, _case(size), e.low, e.high) for size, e in gains.items()]
    measures += [
        Measure(metric, value, "votes", None, _case(size))
        for size, values in reviewed.items()
        for metric, value in values.items()
    ]
    tables = [_table(metric, series, sizes, protocol) for metric in METRICS]
    tables += [_draw_table(points, sizes, gains, protocol), _review_table(reviewed, protocol)]
    headline = points["votes", at]
    tables.append(_reliability_table(headline, at, protocol))
    return Report(
        benchmark="few-shot",
        label=label,
        data=data,
        measures=tuple(measures),
        tables=tuple(tables),
        counts=_counts(series, sizes, headline, at, protocol),
        settings={
            "protocol": asdict(protocol),
            "digest": digest(draws),
            "images": count,
            "categories": _categories(draws, protocol),
        },
        provenance=provenance.collect(protocol.seed),
    )


def _case(size: int) -> str:
    return f"{size} reference{'s' * (size > 1)}"


def _categories(draws: Sequence[Draw], protocol: FewShotProtocol) -> dict[str, Any]:
    """How many animals of each category were references at most, and targets in all draws."""
    names = list(dict.fromkeys(draw.category for draw in draws))
    return {
        name: {
            "references": max(max(draw.sizes(protocol)) for draw in draws if draw.category == name),
            "targets": sum(len(draw.targets) for draw in draws if draw.category == name),
        }
        for name in names
    }


# --- numbers ----------------------------------------------------------------------------------------------------------

Series = dict[tuple[str, str, int], Estimate]  # metric, method, references


def _series(
    points: dict[tuple[str, int], Points], sizes: Sequence[int], protocol: FewShotProtocol, *, images: int
) -> Series:
    series: Series = {}
    for method in METHODS:
        for size in sizes:
            some = points[method, size]
            numerator, denominator = added(some, protocol.alpha, images=images)
            drawn = bootstrap(numerator[None], denominator[None], resamples=protocol.resamples, seed=protocol.seed)[
                :, 0
            ]
            low, high = interval(drawn, protocol.confidence)
            value = share(numerator.sum(0), denominator.sum(0))
            for column, metric in enumerate(("PCK", "confused")):
                series[metric, method, size] = Estimate(*(float(x[column]) for x in (value, low, high)))
            series["hidden AP", method, size] = _hidden(some, protocol, images=images)
    return series


def _hidden(points: Points, protocol: FewShotProtocol, *, images: int) -> Estimate:
    detector = HiddenDetector()
    detector.update(points.outcome)
    value = detector.compute(0.0)["ap"]
    hidden = points.outcome.case >= IN_PCK
    drawn = bootstrap_detector(
        points.outcome.score, hidden, points.image, pairs=images, resamples=protocol.resamples, seed=protocol.seed
    )
    low, high = interval(drawn, protocol.confidence)
    return Estimate(value, float(low[1]), float(high[1]))


def _gains(
    draws: Sequence[Draw], predictions: Sequence[Predictions], sizes: Sequence[int], protocol: FewShotProtocol
) -> dict[int, Estimate]:
    """PCK of votes minus that of transfer from the fewest references, on the same draws and keypoints."""
    fewest, images = sizes[0], len(image_names(draws))

    def counted(method: str, size: int, among: Sequence[int]) -> tuple[Tensor, Tensor]:
        some = collect(
            [draws[i] for i in among],
            [predictions[i] for i in among],
            method,
            size,
            alpha=protocol.alpha,
            known_to=fewest,
        )
        return added(some, protocol.alpha, images=images)

    gains = {}
    for size in sizes:
        among = [i for i, predicted in enumerate(predictions) if ("votes", size) in predicted]
        both = [counted("transfer", fewest, among), counted("votes", size, among)]
        numerator, denominator = (torch.stack([side[i][:, :1] for side in both]) for i in (0, 1))
        drawn = bootstrap(numerator, denominator, resamples=protocol.resamples, seed=protocol.seed)[..., 0]
        low, high = interval(drawn[:, 1] - drawn[:, 0], protocol.confidence)
        value = share(numerator.sum(1), denominator.sum(1))[:, 0]
        gains[size] = Estimate(float(value[1] - value[0]), float(low), float(high))
    return gains


def _review(points: Points, protocol: FewShotProtocol) -> dict[str, float]:
    """What the uncertainty of votes is worth, of all points and of those said to be visible."""
    u, wrong, visible = points.uncertainty, points.wrong, points.said_visible
    bins = review.reliability(u, wrong, bins=protocol.bins)
    return {
        "wrong": float(share(wrong.sum(), torch.tensor(len(wrong)))),
        "calibration error": review.calibration_error(bins),
        "errors found": review.share_found(u, wrong, reviewed=protocol.reviewed),
        "errors found at best": review.oracle(wrong, reviewed=protocol.reviewed),
        "errors found among visible": review.share_found(u[visible], wrong[visible], reviewed=protocol.reviewed),
        "review": review.effort(u, wrong, right=protocol.right),
        "review at random": review.effort_at_random(wrong, right=protocol.right),
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def _per_cent(estimate: Estimate) -> Estimate:
    return Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)


def _table(metric: str, series: Series, sizes: Sequence[int], protocol: FewShotProtocol) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (str(size), *(_per_cent(series[metric, method, size]) for method in METHODS)) for size in sizes
    ]
    title = f"{metric}@{protocol.alpha:g} in %" if metric == "PCK" else f"{metric} in %"
    methods = "; ".join(f"{name}: {about}" for name, about in METHODS.items())
    note = METRICS[metric].format(alpha=protocol.alpha) + (f"; {methods}" if metric == "PCK" else "")
    return Table(metric.lower().replace(" ", "-"), title, ("references", *METHODS), tuple(rows), note=note)


def _draw_table(
    points: dict[tuple[str, int], Points], sizes: Sequence[int], gains: dict[int, Estimate], protocol: FewShotProtocol
) -> Table:
    rows = []
    for size in sizes:
        some = points["votes", size]
        values = []
        for number in some.draw.unique().tolist():
            chosen = some.draw == number
            visible = chosen & (some.outcome.case < IN_PCK)
            near = some.outcome.to_match <= protocol.alpha * some.side
            values.append(100 * float(share((near & visible).sum(), visible.sum())))
        images = len(some.image.unique())
        rows.append((str(size), images, len(some.image), min(values), max(values), _per_cent(gains[size])))
    columns = ("references", "images", "points", "lowest draw", "highest draw", "gain")
    note = (
        f"PCK@{protocol.alpha:g} of votes in the draws where it is lowest and highest; gain: PCK of votes "
        f"minus that of transfer from {_case(sizes[0])}, of the same points. Categories with fewer animals than "
        "twice the references are left out."
    )
    return Table("draws", "Draws of references", columns, tuple(rows), note=note)


def _review_table(reviewed: dict[int, dict[str, float]], protocol: FewShotProtocol) -> Table:
    columns = ("references", *next(iter(reviewed.values())))
    rows: list[tuple[Cell, ...]] = [
        (str(size), *(100 * value for value in values.values())) for size, values in reviewed.items()
    ]
    note = (
        "wrong: misplaced, or visible and hidden mixed up; calibration error: mean distance of uncertainty and share "
        f"wrong; errors found: in the {protocol.reviewed:.0%} of the points that are most uncertain, at best (at "
        "most one error for each point reviewed), and the same among points said to be visible; review: points to "
        f"correct until {protocol.right:.0%} are right, the most uncertain first, and at random."
    )
    return Table("uncertainty", "What the uncertainty of votes is worth, in %", columns, tuple(rows), note=note)


def _reliability_table(points: Points, size: int, protocol: FewShotProtocol) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (f"{row.low:g}–{row.high:g}", row.count, 100 * row.expected, 100 * row.wrong)
        for row in review.reliability(points.uncertainty, points.wrong, bins=protocol.bins)
    ]
    columns = ("uncertainty", "points", "expected", "wrong")
    title = f"Points by uncertainty, {_case(size)}: expected and true share of errors in %"
    return Table("reliability", title, columns, tuple(rows))


def _counts(
    series: Series, sizes: Sequence[int], headline: Points, at: int, protocol: FewShotProtocol
) -> dict[str, Any]:
    """What the charts are drawn from."""
    lines = {
        metric: {method: [asdict(series[metric, method, size]) for size in sizes] for method in METHODS}
        for metric in METRICS
    }
    bins = review.reliability(headline.uncertainty, headline.wrong, bins=protocol.bins)
    return {
        "references": list(sizes),
        "lines": lines,
        "headline": at,
        "reliability": [asdict(row) for row in bins if row.count],
        "review": {
            "by uncertainty": _curve(headline.uncertainty, headline.wrong),
            "at random": _curve(torch.zeros_like(headline.uncertainty), headline.wrong),
            "by the truth": _curve(headline.wrong.double(), headline.wrong),
        },
    }


def _curve(uncertainty: Float[Tensor, "n"], wrong: Bool[Tensor, "n"]) -> list[float]:
    """Share of right points after reviewing 0, 1, …, 100 % of them."""
    found = review.errors_found(uncertainty, wrong)
    places = torch.linspace(0, len(found) - 1, SHOWN).round().long()
    return (1 - (found[-1] - found[places]) / max(1, len(wrong))).tolist()
