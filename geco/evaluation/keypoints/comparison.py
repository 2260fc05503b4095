"""The paired comparison of two keypoint runs: pairs are drawn for both together."""

import torch

from geco.errors import InputError
from geco.evaluation.intervals import bootstrap, interval
from geco.evaluation.measures import Estimate
from geco.evaluation.metrics.keypoints import share
from geco.evaluation.report import Cell, Report, Table, reading


def compare(first: Report, second: Report, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0) -> Table:
    """PCK and PGCK of two runs on the same pairs, and their difference with its interval."""
    if first.settings.get("digest") is None or first.settings["digest"] != second.settings.get("digest"):
        raise InputError(
            f"{first.label} and {second.label} were not evaluated on the same pairs, so they cannot be paired; "
            "evaluate both on the same data"
        )
    shared = [protocol for protocol in first.samples if protocol in second.samples]
    if not shared:
        raise InputError(f"{first.label} and {second.label} share no protocol; evaluate both under the same one")
    rows: list[tuple[Cell, ...]] = []
    for protocol in shared:
        with reading(first, "samples"), reading(second, "samples"):
            rows += _rows(first, second, protocol, resamples=resamples, confidence=confidence, seed=seed)
    return Table(
        "difference",
        "Paired difference in %",
        ("", first.label, second.label, "difference"),
        tuple(rows),
        note=f"Interval: {confidence:.0%}, bootstrap over pairs, the same draws for both.",
    )


def _rows(
    first: Report, second: Report, protocol: str, *, resamples: int, confidence: float, seed: int
) -> list[tuple[Cell, ...]]:
    """Each measure of a protocol: of the first run, of the second, and their difference."""
    runs = [report.samples[protocol] for report in (first, second)]
    if len({(run.get("radius"), *run.get("measures", ())) for run in runs}) > 1 or "measures" not in runs[0]:
        raise InputError(
            f"{first.label} and {second.label} were not counted alike under {protocol}; evaluate both again"
        )
    columns = len(runs[0]["measures"])
    numerator = torch.tensor([run["numerator"] for run in runs], dtype=torch.float64)
    denominator = torch.tensor([run["denominator"] for run in runs], dtype=torch.float64)
    if numerator.shape != denominator.shape or numerator.ndim != 3 or numerator.shape[2] != columns:
        raise InputError(f"the samples of {first.label} and {second.label} are of other shapes; evaluate both again")
    drawn = bootstrap(numerator, denominator, resamples=resamples, seed=seed)
    low, high = interval(drawn[:, 1] - drawn[:, 0], confidence)
    value = share(numerator.sum(1), denominator.sum(1))
    rows: list[tuple[Cell, ...]] = []
    for column, measure in enumerate(runs[0]["measures"]):
        a, b = (100 * float(value[run, column]) for run in (0, 1))
        difference = Estimate(b - a, 100 * float(low[column]), 100 * float(high[column]))
        rows.append((f"{protocol} {measure}", a, b, difference))
    return rows
