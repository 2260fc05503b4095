"""From the predictions of a keypoint run to counts: all queries judged at once, under one protocol after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geco.benchmarks._journal import Prediction, keypoints_of
from geco.config.evaluation import KeypointSettings, Protocol
from geco.intervals import bootstrap, bootstrap_detector, interval
from geco.metrics import IN_PCK, PCK, PGCK, HiddenDetector, Outcome, contributions, judge, share
from geco.report import Estimate
from geco.types import Keypoints, Pair

ALL = "all"  # the row of all categories together


@dataclass(frozen=True)
class Judged:
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
        some = [self.at(alpha) for alpha in self.protocol.alphas]
        of_pck = self.denominator[:, None].expand(-1, len(some))
        return (
            torch.cat([self.numerator[:, some], self.shares[0]], 1),
            torch.cat([of_pck, self.shares[1]], 1),
        )

    def pck(self, category: str) -> Float[Tensor, "a"]:
        """PCK of a category at every α, under the protocol's own average."""
        chosen = self.members[category]
        numerator = self.numerator[chosen].sum(0)
        return share(numerator, self.denominator[chosen].sum().expand_as(numerator))


def judge_all(
    pairs: Sequence[Pair],
    predictions: Mapping[int, Prediction],
    protocols: Sequence[Protocol],
    settings: KeypointSettings,
) -> list[Judged]:
    """What each protocol counts; the predictions hold one way of matching after another, as the protocols name them."""
    how = list(dict.fromkeys(protocol.match for protocol in protocols))
    queries = _queries(pairs)
    outcomes = {way: _outcome(queries, predictions, position) for position, way in enumerate(how)}
    judged = [_judge(pairs, queries, outcomes[protocol.match], protocol, settings) for protocol in protocols]
    return _with_estimates(judged, settings)


@dataclass(frozen=True)
class Queries:
    """Keypoints of all pairs one after the other, so that they are judged at once."""

    source: Keypoints
    target: Keypoints
    twin: list[int]  # counts on from pair to pair
    pair: Int[Tensor, "k"]  # of each query


def _queries(pairs: Sequence[Pair]) -> Queries:
    source: list[Keypoints] = []
    target: list[Keypoints] = []
    twin: list[int] = []
    asked: list[int] = []
    for pair in pairs:
        assert not isinstance(pair.skeleton, tuple), "pairs are judged one by one, not in batches"
        start = len(twin)
        twin += [start + j for j in pair.skeleton.twin]
        source.append(keypoints_of(pair.source))
        target.append(keypoints_of(pair.target))
        asked.append(int(source[-1].visible.sum()))
    return Queries(
        _joined(source),
        _joined(target),
        twin,
        torch.arange(len(pairs)).repeat_interleave(torch.tensor(asked)),
    )


def _joined(several: Sequence[Keypoints]) -> Keypoints:
    return Keypoints(torch.cat([one.xy.double() for one in several]), torch.cat([one.visible for one in several]))


def _outcome(queries: Queries, predictions: Mapping[int, Prediction], position: int) -> Outcome:
    made = [predictions[index] for index in range(len(predictions))]
    xy = torch.cat([one.xy[position] for one in made])
    score = torch.cat([one.score[position] for one in made])
    return judge(xy, score, source=queries.source, target=queries.target, twin=queries.twin)


def _judge(
    pairs: Sequence[Pair], queries: Queries, outcome: Outcome, protocol: Protocol, settings: KeypointSettings
) -> Judged:
    alphas = sorted({*protocol.alphas, *settings.radii, settings.main_alpha})
    size = torch.tensor([_size(pair, protocol) for pair in pairs], dtype=torch.float64)
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
    added = PCK(alphas, protocol.average).contributions(outcome, size, queries.pair)
    shares = contributions(outcome, settings.main_alpha, size, queries.pair)
    everything = {**members, ALL: list(range(len(pairs)))}
    detector = _detector(hidden, outcome, queries.pair, len(pairs), settings)
    return Judged(protocol, alphas, everything, *added, shares, {**pgck, ALL: total}, hidden, detector, {})


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
    found = hidden.compute(0.0)
    return {name: Estimate(found[name], float(low[i]), float(high[i])) for i, name in enumerate(("auc", "ap"))}


def _size(pair: Pair, protocol: Protocol) -> float:
    """The side that α is a share of, in pixels of the target."""
    if protocol.threshold == "image":
        return float(max(pair.target.size))
    if pair.target.box is None:
        raise ValueError(f"protocol {protocol.name} needs boxes, {pair.target.name} has none; use another protocol")
    x0, y0, x1, y1 = pair.target.box.tolist()
    return max(x1 - x0, y1 - y0)


def _with_estimates(judged: Sequence[Judged], settings: KeypointSettings) -> list[Judged]:
    """Bootstrap intervals over the pairs of each category; the draws are shared by all protocols."""
    numerators, denominators = zip(*(one.samples() for one in judged), strict=True)
    numerator, denominator = torch.cat(numerators, 1), torch.cat(denominators, 1)
    ends = [0, *accumulate(samples.shape[1] for samples in numerators)]
    estimates: list[dict[str, list[Estimate]]] = [{} for _ in judged]
    for category, chosen in judged[0].members.items():
        parts = numerator[chosen], denominator[chosen]
        drawn = bootstrap(parts[0][None], parts[1][None], resamples=settings.resamples, seed=settings.seed)
        value = share(parts[0].sum(0), parts[1].sum(0))
        low, high = interval(drawn[:, 0], settings.confidence)
        found = [Estimate(*three) for three in zip(value.tolist(), low.tolist(), high.tolist(), strict=True)]
        for i in range(len(judged)):
            estimates[i][category] = found[ends[i] : ends[i + 1]]
    return [replace(one, estimates=found) for one, found in zip(judged, estimates, strict=True)]
