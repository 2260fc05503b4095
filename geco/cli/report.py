"""`geco report`: finished runs side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _outputs, _reports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.evaluation import Report

PANEL = "Measuring"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", rich_help_panel=PANEL)(report)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.", show_default=False)],
    out: Annotated[Path | None, _outputs.option("Folder for the comparison: tables, figures, page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Compare runs side by side; keypoint runs on the same pairs also by paired differences to the first.

    With runs of [b]geco bench[/b] among them, quality is drawn against frames per second.

    Example: [bold]geco report runs/dinov2 runs/geco --out runs/comparison[/]
    """
    from geco import evaluation
    from geco.system import provenance

    if out is not None:
        _outputs.folder(out)
        _outputs.spare(out, runs)
    reports = [evaluation.load_report(run) for run in runs]
    on_keypoints = [report for report in reports if report.benchmark == "keypoints"]
    tables = [evaluation.side_by_side(reports)]
    for other in on_keypoints[1:]:
        if other.settings.get("digest") == on_keypoints[0].settings.get("digest"):
            tables.append(evaluation.keypoints.compare(on_keypoints[0], other))
    comparison = evaluation.Report(
        benchmark="comparison",
        label=" and ".join(dict.fromkeys(report.label for report in reports)),
        data=", ".join(dict.fromkeys(report.data for report in reports)),
        measures=tuple(
            measure.of(f"{report.label} on {report.data}") for report in reports for measure in report.measures
        ),
        tables=tuple(tables),
        settings={"runs": [str(run) for run in runs]},
        provenance=provenance.collect(),
    )
    figures = _figures(reports, on_keypoints) if out else None
    _reports.present(comparison, out=out, as_json=as_json, figures=figures)


def _figures(reports: "list[Report]", on_keypoints: "list[Report]") -> "dict[str, Figure]":
    from geco import evaluation, viz

    figures = evaluation.keypoints.draw(on_keypoints) if on_keypoints else {}
    points = evaluation.runtime.speed_points(reports)
    if points:
        figures["pck_against_speed"] = viz.speed(points)
    return figures
