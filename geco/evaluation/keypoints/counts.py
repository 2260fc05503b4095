"""From the predictions of a keypoint run to counts: all queries at once, under one protocol after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geco.errors import InputError
from geco.evaluation.intervals import bootstrap, bootstrap_detector, interval
from geco.evaluation.keypoints.journal import Prediction
from geco.evaluation.measures import Estimate
from geco.evaluation.metrics.hidden import HiddenDetector
from geco.evaluation.metrics.keypoints import IN_PCK, PCK, PGCK, Outcome, contributions, evaluate, share
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.types import Keypoints, Pair, PairSequence

ALL = "all"  # the row of all categories together


@dataclass(frozen=True)
class ProtocolCounts:
    """Everything counted under one protocol; categories in alphabetical order, then all of them together."""

    protocol: Protocol
    alphas: list[float]  # of the protocol and of the sweep
    members: dict[str, list[int]]  # pairs of each category
    numerator: Float[Tensor, "p a"]  # what each pair adds to PCK
    denominator: Float[Tensor, "p"]
    shares: tuple[Float[Tensor, "p f"], Float[Tensor, "p f"]]  # what each pair adds to SHARES at the main α
    pgck: dict[str, PGCK]
    hidden: HiddenDetector
    detector: dict[str, Estimate]  # its "auc" and "ap"
    estimates: dict[str, list[Estimate]]  # of each category: PCK at the protocol's α, then SHARES

    def at(self, alpha: float) -> int:
        """Column of an α."""
        return self.alphas.index(alpha)

    def samples(self) -> tuple[Float[Tensor, "p m"], Float[Tensor, "p m"]]:
        """What each pair adds to PCK at the protocol's α and to SHARES: numerators, denominators."""
        columns = [self.at(alpha) for alpha in self.protocol.alphas]
        of_pck = self.denominator[:, None].expand(-1, len(columns))
        return (
            torch.cat([self.numerator[:, columns], self.shares[0]], 1),
            torch.cat([of_pck, self.shares[1]], 1),
        )

    def pck(self, category: str) -> Float[Tensor, "a"]:
        """PCK of a category at every α, under the protocol's own average."""
        chosen = self.members[category]
        numerator = self.numerator[chosen].sum(0)
        return share(numerator, self.denominator[chosen].sum().expand_as(numerator))


def count_protocols(
    pairs: PairSequence,
    predictions: Mapping[int, Prediction],
    protocols: Sequence[Protocol],
    settings: KeypointSettings,
) -> list[ProtocolCounts]:
    """What each protocol counts; the predictions hold one way of matching after another, as the protocols name them."""
    ways = list(dict.fromkeys(protocol.match for protocol in protocols))
    queries = _queries(pairs)
    outcomes = {way: _outcome(queries, predictions, position) for position, way in enumerate(ways)}
    counts = [_count(pairs, queries, outcomes[protocol.match], protocol, settings) for protocol in protocols]
    return _with_estimates(counts, settings)


@dataclass(frozen=True)
class Queries:
    """Keypoints of all pairs one after the other, so that they are evaluated at once."""

    source: Keypoints
    target: Keypoints
    twin: list[int]  # counts on from pair to pair
    pair: Int[Tensor, "k"]  # of each query


def _queries(pairs: PairSequence) -> Queries:
    sources: list[Keypoints] = []
    targets: list[Keypoints] = []
    twin: list[int] = []
    for pair in pairs:  # once: a dataset may put its pairs together anew each time
        start = len(twin)
        twin += [start + j for j in pair.table.twin]
        sources.append(pair.source.points)
        targets.append(pair.target.points)
    number = torch.tensor([int(points.visible.sum()) for points in sources])
    return Queries(_joined(sources), _joined(targets), twin, torch.arange(len(sources)).repeat_interleave(number))


def _joined(keypoints: Sequence[Keypoints]) -> Keypoints:
    return Keypoints(
        torch.cat([points.xy.double() for points in keypoints]), torch.cat([points.visible for points in keypoints])
    )


def _outcome(queries: Queries, predictions: Mapping[int, Prediction], position: int) -> Outcome:
    in_order = [predictions[index] for index in range(len(predictions))]
    xy = torch.cat([prediction.xy[position] for prediction in in_order])
    score = torch.cat([prediction.score[position] for prediction in in_order])
    return evaluate(xy, score, source=queries.source, target=queries.target, twin=queries.twin)


def _count(
    pairs: PairSequence, queries: Queries, outcome: Outcome, protocol: Protocol, settings: KeypointSettings
) -> ProtocolCounts:
    alphas = sorted({*protocol.alphas, *settings.radii, settings.main_alpha})
    size = torch.tensor([side(pair, protocol) for pair in pairs], dtype=torch.float64)
    categories = [str(pair.category) for pair in pairs]
    names = sorted(set(categories))
    number = torch.tensor([names.index(category) for category in categories])
    members = {name: (number == i).nonzero()[:, 0].tolist() for i, name in enumerate(names)}
    pgck, total = {name: PGCK(alphas) for name in names}, PGCK(alphas)
    for i, name in enumerate(names):
        chosen = number[queries.pair] == i
        pgck[name].update(outcome.only(chosen), size[queries.pair][chosen])
        total.merge(pgck[name])
    hidden = HiddenDetector()
    hidden.update(outcome)
    numerator, denominator = PCK(alphas, protocol.average).contributions(outcome, size, queries.pair)
    return ProtocolCounts(
        protocol=protocol,
        alphas=alphas,
        members={**members, ALL: list(range(len(pairs)))},
        numerator=numerator,
        denominator=denominator,
        shares=contributions(outcome, settings.main_alpha, size, queries.pair),
        pgck={**pgck, ALL: total},
        hidden=hidden,
        detector=_detector(hidden, outcome, queries.pair, len(pairs), settings),
        estimates={},
    )


def _detector(
    hidden: HiddenDetector, outcome: Outcome, pair: Tensor, pairs: int, settings: KeypointSettings
) -> dict[str, Estimate]:
    drawn = bootstrap_detector(
        outcome.score,
        outcome.case >= IN_PCK,
        pair,
        pairs=pairs,
        resamples=settings.resamples,
        seed=settings.seed,
    )
    low, high = interval(drawn, settings.confidence)
    value = hidden.compute(0.0)
    return {name: Estimate(value[name], float(low[i]), float(high[i])) for i, name in enumerate(("auc", "ap"))}


def side(pair: Pair, protocol: Protocol) -> float:
    """The side that α is a share of, in pixels of the target."""
    if protocol.threshold == "image":
        return float(max(pair.target.size))
    if pair.target.box is None:
        raise InputError(f"protocol {protocol.name} needs boxes, {pair.target.label} has none; use another protocol")
    x0, y0, x1, y1 = pair.target.box.tolist()
    return max(x1 - x0, y1 - y0)


def _with_estimates(counts: Sequence[ProtocolCounts], settings: KeypointSettings) -> list[ProtocolCounts]:
    """Bootstrap intervals over the pairs of each category; the draws are shared by all protocols."""
    numerators, denominators = zip(*(count.samples() for count in counts), strict=True)
    numerator, denominator = torch.cat(numerators, 1), torch.cat(denominators, 1)
    ends = [0, *accumulate(samples.shape[1] for samples in numerators)]
    estimates: list[dict[str, list[Estimate]]] = [{} for _ in counts]
    for category, chosen in counts[0].members.items():
        parts = numerator[chosen], denominator[chosen]
        drawn = bootstrap(parts[0][None], parts[1][None], resamples=settings.resamples, seed=settings.seed)
        value = share(parts[0].sum(0), parts[1].sum(0))
        low, high = interval(drawn[:, 0], settings.confidence)
        together = [Estimate(*numbers) for numbers in zip(value.tolist(), low.tolist(), high.tolist(), strict=True)]
        for i in range(len(counts)):
            estimates[i][category] = together[ends[i] : ends[i + 1]]
    return [replace(count, estimates=own) for count, own in zip(counts, estimates, strict=True)]
