"""Charts of few-shot runs: numbers over references, the reliability diagram, the reviewer's curve."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from geco import viz
from geco.evaluation.report import Report, reading
from geco.viz import Band


def draw(reports: Sequence[Report]) -> dict[str, Figure]:
    """The charts of one or several reports on the same axes, by file name; the diagrams are of the first report."""
    figures: dict[str, Figure] = {}
    with reading(reports[0], "counts"):
        counts = reports[0].counts
        for metric in counts["lines"]:
            figures[metric.lower().replace(" ", "_")] = viz.bands(
                _lines(reports, metric), x_label="references", y_label=f"{metric} in %"
            )
        rows = [(row["expected"], row["wrong"], row["count"]) for row in counts["reliability"]]
        title = f"{reports[0].label}, {counts['headline']} references"
        figures["reliability"] = viz.reliability(rows, title=title)
        reviewed = {name: (list(range(len(y))), [100 * value for value in y]) for name, y in counts["review"].items()}
        figures["review"] = viz.curves(reviewed, title=title, x_label="points reviewed in %", y_label="right in %")
    return figures


def _lines(reports: Sequence[Report], metric: str) -> dict[str, Band]:
    lines = {}
    for report in reports:
        with reading(report, "counts"):
            for method, estimates in report.counts["lines"][metric].items():
                name = method if len(reports) == 1 else f"{report.label}, {method}"
                ends = ([100 * float(_number(e[end])) for e in estimates] for end in ("value", "low", "high"))
                lines[name] = Band([float(size) for size in report.counts["references"]], *ends)
    return lines


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
