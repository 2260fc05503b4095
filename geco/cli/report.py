"""`geco report`: finished runs side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.report import Report


PANEL = "Measuring"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", rich_help_panel=PANEL)(report)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the comparison: tables, figures, page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Compare runs side by side; keypoint runs on the same pairs also by paired differences to the first.

    With runs of [b]geco bench[/b] among them, quality is drawn against frames per second.

    Example: [bold]geco report runs/dinov2 runs/geco --out runs/comparison[/]
    """
    from geco import report as reports
    from geco.benchmarks import keypoints
    from geco.cli import _evaluation as shared

    found = [reports.load(run) for run in runs]
    judged = [one for one in found if one.benchmark == "keypoints"]
    tables = [reports.side_by_side(found)]
    for other in judged[1:]:
        if other.settings.get("digest") == judged[0].settings.get("digest"):
            tables.append(keypoints.compare(judged[0], other))
    whole = reports.Report(
        benchmark="comparison",
        label=" and ".join(dict.fromkeys(one.label for one in found)),
        data=", ".join(dict.fromkeys(one.data for one in found)),
        values={f"{one.label} on {one.data}: {key}": value for one in found for key, value in one.values.items()},
        tables=tuple(tables),
        settings={"runs": [str(run) for run in runs]},
        provenance=reports.provenance(),
    )
    shared.present(whole, out=out, as_json=as_json, figures=_figures(found, judged) if out else None)


def _figures(found: "list[Report]", judged: "list[Report]") -> "dict[str, Figure]":
    from geco import figures
    from geco.benchmarks import keypoints

    drawn = keypoints.draw(judged) if judged else {}
    points = speed_points(found)
    if points:
        drawn["pck_against_speed"] = figures.speed(points)
    return drawn


def speed_points(found: "list[Report]") -> dict[str, tuple[float, float]]:
    """(frames per second at batch 1, PCK@0.1 in %) of the models that were both judged and timed."""
    frames: dict[str, float] = {}
    for one in found:
        if one.benchmark == "runtime":
            for key, value in one.values.items():
                if key.endswith("batch 1 fps"):
                    frames.setdefault(key.split(",")[0].removesuffix(" merged"), value)
    return {
        one.label: (frames[one.label], 100 * one.values["geco PCK@0.1"])
        for one in found
        if one.label in frames and "geco PCK@0.1" in one.values
    }
