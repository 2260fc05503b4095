"""From the predictions of a keypoint run to its report: tables, curves, figures, paired comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from matplotlib.figure import Figure

from geco import figures, report
from geco.benchmarks._journal import Prediction, digest
from geco.benchmarks._keypoint_counts import ALL, Judged, judge_all
from geco.config.evaluation import KeypointSettings, Protocol
from geco.intervals import bootstrap, interval
from geco.metrics import CASES, SHARES, share
from geco.report import Curve, Estimate, Report, Table
from geco.types import Pair

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
    pairs: Sequence[Pair],
    predictions: Mapping[int, Prediction],
    protocols: Sequence[Protocol],
    *,
    settings: KeypointSettings,
    label: str,
    data: str,
) -> Report:
    """The report of a finished run."""
    judged = judge_all(pairs, predictions, protocols, settings)
    values: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for one in judged:
        for name, estimate in _measures(one).items():
            key = f"{one.protocol.name} {name}"
            values[key], intervals[key] = estimate.value, (estimate.low, estimate.high)
        values[f"{one.protocol.name} hidden threshold"] = one.hidden.threshold(settings.false_alarms)
    return Report(
        benchmark="keypoints",
        label=label,
        data=data,
        values=values,
        intervals=intervals,
        tables=tuple(_tables(judged, settings)),
        curves=tuple(_curves(judged, settings)),
        counts={one.protocol.name: _counts(one) for one in judged},
        settings={
            "protocols": [asdict(protocol) for protocol in protocols],
            "settings": asdict(settings),
            "pairs": len(pairs),
            "digest": digest(pairs),
        },
        provenance=report.provenance(settings.seed),
        samples={
            one.protocol.name: {
                "measures": _sampled(one.protocol),
                "radius": settings.main_alpha,  # of those that do not name one
                **dict(zip(("numerator", "denominator"), (part.tolist() for part in one.samples()), strict=True)),
            }
            for one in judged
        },
    )


def _sampled(protocol: Protocol) -> list[str]:
    """Names of what every pair adds to, in the order of `Judged.samples` and of its estimates."""
    name_of = {key: name for name, key in PGCK_COLUMNS.items()}
    return [*(f"PCK@{alpha:g}" for alpha in protocol.alphas), *(name_of[key] for key in SHARES)]


def _measures(one: Judged) -> dict[str, Estimate]:
    """Every measure of all categories together, as shares."""
    detected = {f"hidden {name}": estimate for name, estimate in one.detector.items()}
    return {**dict(zip(_sampled(one.protocol), one.estimates[ALL], strict=True)), **detected}


# --- tables -------------------------------------------------------------------------------------------------


def _tables(judged: Sequence[Judged], settings: KeypointSettings) -> list[Table]:
    tables = [_headline(judged, settings)]
    for one in judged:
        name, definition = one.protocol.name, one.protocol.definition
        tables.append(
            Table(
                f"pck-{name}",
                f"PCK in %, protocol {name}",
                ("category", "pairs", "points", *(f"@{alpha:g}" for alpha in one.protocol.alphas)),
                tuple(_pck_row(one, category) for category in one.members),
                note=f"{definition}. Interval: {settings.confidence:.0%}, bootstrap over pairs.",
            )
        )
        tables.append(
            Table(
                f"pgck-{name}",
                f"PGCK in % at α = {settings.main_alpha:g}, protocol {name}",
                ("category", *BY_CATEGORY),
                tuple(_pgck_row(one, category, settings) for category in one.members),
                note="11: match and twin visible (clear: near the match alone, both: near both, to twin: near the twin "
                "alone), 10: twin hidden, 1x: no twin, 01: only the twin visible.",
            )
        )
    rows = tuple(_imbalance_row(judged[0], category) for category in judged[0].members)
    columns = ("category", "points", "11/n", "10/n", "1x/n", "n 01", "n 00")
    tables.append(Table("imbalance", "What the annotated pairs are, in %", columns, rows))
    detected: tuple[tuple[report.Cell, ...], ...] = tuple(
        (one.protocol.name, *(_percent(found[key]) for key in DETECTOR_COLUMNS.values()))
        for one in judged
        if (found := one.hidden.compute(one.protocol.match.bin))
    )
    note = f"A query is declared hidden if its best similarity is low; bin {judged[0].protocol.match.bin:g}."
    tables.append(Table("hidden", "Detecting hidden points, in %", ("protocol", *DETECTOR_COLUMNS), detected, note))
    tables.append(_radius_table(judged, settings))
    return tables


def _headline(judged: Sequence[Judged], settings: KeypointSettings) -> Table:
    found = [_measures(one) for one in judged]
    names = list(dict.fromkeys(name for measures in found for name in measures))
    rows = tuple(
        (name, *(_in_percent(measures[name]) if name in measures else None for measures in found)) for name in names
    )
    return Table(
        "headline",
        "All categories together, in %",
        ("", *(one.protocol.name for one in judged)),
        rows,
        note=f"11 confused: to twin / (correct + to twin). Radius of the rows without one: {settings.main_alpha:g}. "
        f"Interval: {settings.confidence:.0%}, bootstrap over pairs.",
    )


def _in_percent(estimate: Estimate) -> Estimate:
    return Estimate(*(_percent(part) for part in (estimate.value, estimate.low, estimate.high)))


def _pck_row(one: Judged, category: str) -> tuple[report.Cell, ...]:
    points = int(one.pgck[category].counts.cases[:3].sum())
    found = one.estimates[category][: len(one.protocol.alphas)]
    return (category, len(one.members[category]), points, *(_in_percent(estimate) for estimate in found))


def _pgck_row(one: Judged, category: str, settings: KeypointSettings) -> tuple[report.Cell, ...]:
    found = one.pgck[category].compute()
    main = one.at(settings.main_alpha)
    return (category, *(_percent(float(found[key][main])) for key in BY_CATEGORY.values()))


def _imbalance_row(one: Judged, category: str) -> tuple[report.Cell, ...]:
    cases = one.pgck[category].counts.cases.tolist()
    shares = [_percent(value) for value in one.pgck[category].imbalance().values()]
    return (category, sum(cases[:3]), *shares, *cases[3:])


def _radius_table(judged: Sequence[Judged], settings: KeypointSettings) -> Table:
    columns = ["α", *(f"{one.protocol.name} {what}" for one in judged for what in ("PCK", "U-TP"))]
    unambiguous = [one.pgck[ALL].compute()["underline_11"] for one in judged]
    rows = []
    for alpha in settings.radii:
        row: list[report.Cell] = [f"{alpha:g}"]
        for one, true_positives in zip(judged, unambiguous, strict=True):
            row += [
                _percent(float(one.pck(ALL)[one.at(alpha)])),
                _percent(float(true_positives[one.at(alpha)])),
            ]
        rows.append(tuple(row))
    return Table("radii", "PCK and unambiguous true positives over the radius, in %", tuple(columns), tuple(rows))


def _percent(value: float) -> float:
    return 100 * value


# --- for machines and pictures ------------------------------------------------------------------------------


def _counts(one: Judged) -> dict[str, Any]:
    counted: dict[str, Any] = {"alphas": one.alphas}
    for category, pgck in one.pgck.items():
        counts = pgck.counts
        counted[category] = {
            "pairs": len(one.members[category]),
            "n": dict(zip(CASES, counts.cases.tolist(), strict=True)),
            "hat": dict(zip(CASES, counts.hat.T.tolist(), strict=False)),
            "tilde_11": counts.tilde.tolist(),
            "underline_11": counts.underline.tolist(),
            "overline_11": counts.overline.tolist(),
            "overline_01": counts.hidden_to_twin.tolist(),
        }
    return counted


def _curves(judged: Sequence[Judged], settings: KeypointSettings) -> list[Curve]:
    curves = []
    for one in judged:
        columns = [one.at(alpha) for alpha in settings.radii]
        both = {"PCK": one.pck(ALL), "U-TP": one.pgck[ALL].compute()["underline_11"]}
        for name, line in both.items():
            y = tuple((100 * line[columns]).tolist())
            curves.append(Curve(f"{name} ({one.protocol.name})", settings.radii, y))
        x, y_rate = one.hidden.curve()
        keep = torch.linspace(0, len(x) - 1, min(len(x), 200)).long()  # 200 points draw the same line
        rates = (tuple(axis[keep].tolist()) for axis in (x, y_rate))
        curves.append(Curve(f"ROC of hidden points ({one.protocol.name})", *rates))
    return curves


def draw(reports: Sequence[Report]) -> dict[str, Figure]:
    """Curves of one or several reports on the same axes, and the first's imbalance, by file name."""
    drawn: dict[str, Figure] = {}
    for name in dict.fromkeys(curve.figure for one in reports for curve in one.curves):
        lines = {one.label: (curve.x, curve.y) for one in reports for curve in one.curves if curve.figure == name}
        is_roc = name.startswith("ROC")
        axes = ("visible called hidden", "hidden called hidden") if is_roc else ("radius α", "%")
        file = "".join(sign if sign.isalnum() else "_" for sign in name.lower()).strip("_")
        drawn[file] = figures.curves(lines, title=name, x_label=axes[0], y_label=axes[1])
    for counted in list(reports[0].counts.values())[:1]:
        shares = {category: _shares(counted[category]["n"]) for category in counted if category not in ("alphas",)}
        drawn["imbalance"] = figures.imbalance(shares)
    return drawn


def _shares(cases: Mapping[str, int]) -> dict[str, float]:
    total = sum(cases[case] for case in CASES[:3])
    return {case: cases[case] / total if total else float("nan") for case in CASES[:3]}


def compare(first: Report, second: Report, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0) -> Table:
    """PCK and PGCK of two runs on the same pairs, and their difference; pairs are drawn for both together."""
    if first.settings.get("digest") is None or first.settings["digest"] != second.settings.get("digest"):
        raise ValueError(
            f"{first.label} and {second.label} were not judged on the same pairs, so they cannot be paired; "
            "evaluate both on the same data"
        )
    shared = [name for name in first.samples if name in second.samples]
    if not shared:
        raise ValueError(f"{first.label} and {second.label} share no protocol; evaluate both under the same one")
    rows: list[tuple[report.Cell, ...]] = []
    for name in shared:
        runs = [one.samples[name] for one in (first, second)]
        if len({(run.get("radius"), *run.get("measures", ())) for run in runs}) > 1 or "measures" not in runs[0]:
            raise ValueError(
                f"{first.label} and {second.label} were not counted alike under {name}; evaluate both again"
            )
        numerator = torch.tensor([run["numerator"] for run in runs], dtype=torch.float64)
        denominator = torch.tensor([run["denominator"] for run in runs], dtype=torch.float64)
        drawn = bootstrap(numerator, denominator, resamples=resamples, seed=seed)
        low, high = interval(drawn[:, 1] - drawn[:, 0], confidence)
        value = share(numerator.sum(1), denominator.sum(1))
        for column, measure in enumerate(runs[0]["measures"]):
            a, b = (100 * float(value[run, column]) for run in (0, 1))
            difference = Estimate(b - a, 100 * float(low[column]), 100 * float(high[column]))
            rows.append((f"{name} {measure}", a, b, difference))
    return Table(
        "difference",
        "Paired difference in %",
        ("", first.label, second.label, "difference"),
        tuple(rows),
        note=f"Interval: {confidence:.0%}, bootstrap over pairs, the same draws for both.",
    )
