"""The report of a keypoint run from its predictions: measures, tables, curves, counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from geco.evaluation.keypoints.counts import ALL, ProtocolCounts, count_protocols
from geco.evaluation.keypoints.journal import Prediction, digest
from geco.evaluation.measures import Estimate, Measure
from geco.evaluation.metrics.keypoints import CASES, SHARES
from geco.evaluation.report import Cell, Curve, Report, Table
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.system import provenance
from geco.types import PairSequence

PGCK_COLUMNS = {  # column → name in PGCK.compute()
    "11 correct": "hat_11",
    "11 clear": "underline_11",
    "11 both": "tilde_11",
    "11 to twin": "overline_11",
    "11 confused": "confused_11",
    "10 correct": "hat_10",
    "1x correct": "hat_1x",
    "01 to twin": "overline_01",
}
# As many as fit into a terminal; what is left out follows from its neighbours.
BY_CATEGORY = {name: key for name, key in PGCK_COLUMNS.items() if key != "confused_11"}
DETECTOR_COLUMNS = {
    "AUC": "auc",
    "AP": "ap",
    "hidden below bin": "detected",
    "visible below bin": "false_alarms",
}


def summarise(
    pairs: PairSequence,
    predictions: Mapping[int, Prediction],
    protocols: Sequence[Protocol],
    *,
    settings: KeypointSettings,
    label: str,
    data: str,
) -> Report:
    """The report of a finished run."""
    counts = count_protocols(pairs, predictions, protocols, settings)
    return Report(
        benchmark="keypoints",
        label=label,
        data=data,
        measures=tuple(measure for count in counts for measure in _measures(count, settings)),
        tables=tuple(_tables(counts, settings)),
        curves=tuple(curve for count in counts for curve in _curves(count, settings)),
        counts={count.protocol.name: _counters(count) for count in counts},
        settings={
            "protocols": [asdict(protocol) for protocol in protocols],
            "settings": asdict(settings),
            "pairs": len(pairs),
            "digest": digest(pairs),
        },
        provenance=provenance.collect(settings.seed),
        samples={count.protocol.name: _samples(count, settings) for count in counts},
    )


# --- measures ---------------------------------------------------------------------------------------------------------


def _measures(count: ProtocolCounts, settings: KeypointSettings) -> list[Measure]:
    """The numbers of all categories together, and the similarity that tells hidden from visible points."""
    threshold = count.hidden.threshold(settings.false_alarms)
    of_threshold = Measure("hidden threshold", threshold, count.protocol.name, unit="similarity")
    return [*_shares(count), of_threshold]


def _shares(count: ProtocolCounts) -> list[Measure]:
    """Every share of all categories together, with its interval: PCK at each radius, PGCK, the detector's."""
    protocol = count.protocol
    columns = {key: column for column, key in PGCK_COLUMNS.items()}
    metrics = [*(("PCK", alpha) for alpha in protocol.alphas), *((columns[key], None) for key in SHARES)]
    metrics += [(f"hidden {name}", None) for name in count.detector]
    estimates = [*count.estimates[ALL], *count.detector.values()]
    return [
        Measure(metric, estimate.value, protocol.name, radius, low=estimate.low, high=estimate.high)
        for (metric, radius), estimate in zip(metrics, estimates, strict=True)
    ]


def _samples(count: ProtocolCounts, settings: KeypointSettings) -> dict[str, Any]:
    """What each pair added to the shares that are sums over pairs, for a paired comparison of two runs."""
    numerator, denominator = count.samples()
    return {
        "measures": [_row_name(measure) for measure in _shares(count)[: numerator.shape[1]]],
        "radius": settings.main_alpha,  # of those that do not name one
        "numerator": numerator.tolist(),
        "denominator": denominator.tolist(),
    }


def _row_name(measure: Measure) -> str:
    """A measure in a table that has a column for each protocol."""
    return Measure(measure.metric, math.nan, radius=measure.radius).key


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(counts: Sequence[ProtocolCounts], settings: KeypointSettings) -> list[Table]:
    tables = [_headline(counts, settings)]
    for count in counts:
        tables += [_pck_table(count, settings), *([_pgck_table(count, settings)] if _has_twins(count) else [])]
    tables += [_imbalance_table(counts[0])] if _has_twins(counts[0]) else []
    tables += [_hidden_table(counts)] if any(_has_hidden(count) for count in counts) else []
    return [*tables, _radius_table(counts, settings)]


def _has_twins(count: ProtocolCounts) -> bool:
    """Whether any query has a twin: without, everything is case 1x, and PGCK is PCK."""
    cases = dict(zip(CASES, count.pgck[ALL].counts.cases.tolist(), strict=True))
    return cases["11"] + cases["10"] + cases["01"] > 0


def _has_hidden(count: ProtocolCounts) -> bool:
    cases = dict(zip(CASES, count.pgck[ALL].counts.cases.tolist(), strict=True))
    return cases["01"] + cases["00"] > 0


def _headline(counts: Sequence[ProtocolCounts], settings: KeypointSettings) -> Table:
    columns = [{_row_name(measure): measure.cell for measure in _shares(count)} for count in counts]
    names = list(dict.fromkeys(name for column in columns for name, cell in column.items() if _is_defined(cell)))
    return Table(
        "headline",
        "All categories together, in %",
        ("", *(count.protocol.name for count in counts)),
        tuple((name, *(column.get(name) for column in columns)) for name in names),
        note=f"11 confused: to twin / (correct + to twin). Radius of the rows without one: {settings.main_alpha:g}. "
        f"Interval: {settings.confidence:.0%}, bootstrap over pairs.",
    )


def _is_defined(cell: Cell) -> bool:
    value = cell.value if isinstance(cell, Estimate) else cell
    return not (isinstance(value, float) and math.isnan(value))


def _pck_table(count: ProtocolCounts, settings: KeypointSettings) -> Table:
    def row(category: str) -> tuple[Cell, ...]:
        points = int(count.pgck[category].counts.cases[:3].sum())
        estimates = count.estimates[category][: len(count.protocol.alphas)]
        return (category, len(count.members[category]), points, *(_in_percent(estimate) for estimate in estimates))

    protocol = count.protocol
    return Table(
        f"pck-{protocol.name}",
        f"PCK in %, protocol {protocol.name}",
        ("category", "pairs", "points", *(f"@{alpha:g}" for alpha in protocol.alphas)),
        tuple(row(category) for category in count.members),
        note=f"{protocol.definition}. Interval: {settings.confidence:.0%}, bootstrap over pairs.",
    )


def _in_percent(estimate: Estimate) -> Estimate:
    return Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)


def _pgck_table(count: ProtocolCounts, settings: KeypointSettings) -> Table:
    def row(category: str) -> tuple[Cell, ...]:
        shares, main = count.pgck[category].compute(), count.at(settings.main_alpha)
        return (category, *(100 * float(shares[key][main]) for key in BY_CATEGORY.values()))

    return Table(
        f"pgck-{count.protocol.name}",
        f"PGCK in % at α = {settings.main_alpha:g}, protocol {count.protocol.name}",
        ("category", *BY_CATEGORY),
        tuple(row(category) for category in count.members),
        note="11: match and twin visible (clear: near the match alone, both: near both, to twin: near the twin "
        "alone), 10: twin hidden, 1x: no twin, 01: only the twin visible.",
    )


def _imbalance_table(count: ProtocolCounts) -> Table:
    def row(category: str) -> tuple[Cell, ...]:
        pgck = count.pgck[category]
        cases = pgck.counts.cases.tolist()
        return (category, sum(cases[:3]), *(100 * value for value in pgck.imbalance().values()), *cases[3:])

    columns = ("category", "points", "11/n", "10/n", "1x/n", "n 01", "n 00")
    rows = tuple(row(category) for category in count.members)
    return Table("imbalance", "What the annotated pairs are, in %", columns, rows)


def _hidden_table(counts: Sequence[ProtocolCounts]) -> Table:
    def row(count: ProtocolCounts) -> tuple[Cell, ...]:
        rates = count.hidden.compute(count.protocol.match.threshold)
        return (count.protocol.name, *(100 * rates[key] for key in DETECTOR_COLUMNS.values()))

    threshold = counts[0].protocol.match.threshold
    return Table(
        "hidden",
        "Detecting hidden points, in %",
        ("protocol", *DETECTOR_COLUMNS),
        tuple(row(count) for count in counts),
        note=f"A query is declared hidden if its best similarity is low; below bin: below the threshold {threshold:g}.",
    )


def _radius_table(counts: Sequence[ProtocolCounts], settings: KeypointSettings) -> Table:
    columns = ["α", *(f"{count.protocol.name} {what}" for count in counts for what in ("PCK", "U-TP"))]
    lines = [line for count in counts for line in _sweep(count, settings).values()]
    rows: list[tuple[Cell, ...]] = [
        (f"{alpha:g}", *(100 * float(line[i]) for line in lines)) for i, alpha in enumerate(settings.radii)
    ]
    return Table("radii", "PCK and unambiguous true positives over the radius, in %", tuple(columns), tuple(rows))


# --- for machines and pictures ----------------------------------------------------------------------------------------


def _counters(count: ProtocolCounts) -> dict[str, Any]:
    """The integers behind the shares, by category."""
    counters: dict[str, Any] = {"alphas": count.alphas}
    for category, pgck in count.pgck.items():
        counts = pgck.counts
        counters[category] = {
            "pairs": len(count.members[category]),
            "n": dict(zip(CASES, counts.cases.tolist(), strict=True)),
            "hat": dict(zip(CASES, counts.hat.T.tolist(), strict=False)),
            "tilde_11": counts.tilde.tolist(),
            "underline_11": counts.underline.tolist(),
            "overline_11": counts.overline.tolist(),
            "overline_01": counts.hidden_to_twin.tolist(),
        }
    return counters


def _sweep(count: ProtocolCounts, settings: KeypointSettings) -> dict[str, torch.Tensor]:
    """Shares of all categories together at each radius of the sweep."""
    columns = [count.at(alpha) for alpha in settings.radii]
    return {"PCK": count.pck(ALL)[columns], "U-TP": count.pgck[ALL].compute()["underline_11"][columns]}


def _curves(count: ProtocolCounts, settings: KeypointSettings) -> list[Curve]:
    curves = [
        Curve(f"{name} ({count.protocol.name})", settings.radii, tuple((100 * line).tolist()))
        for name, line in _sweep(count, settings).items()
    ]
    false_alarms, detected = count.hidden.curve()
    chosen = torch.linspace(0, len(false_alarms) - 1, min(len(false_alarms), 200)).long()  # 200 draw the same line
    rates = (tuple(rate[chosen].tolist()) for rate in (false_alarms, detected))
    return [*curves, Curve(f"ROC of hidden points ({count.protocol.name})", *rates)]
