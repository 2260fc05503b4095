"""What the measuring commands share: lists of numbers, and what to do with a report."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from geco.cli._options import notes
from geco.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.evaluation import Report

LONG_TABLES = ("radii",)  # saved and drawn, but not printed


def whole_numbers(text: str, *, option: str) -> tuple[int, ...]:
    """Whole numbers from "9,10,11"."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} takes whole numbers separated by commas, like 9,11, got {text!r}") from None


def present(
    report: "Report",
    *,
    out: Path | None,
    as_json: bool,
    figures: Mapping[str, "Figure"] | None = None,
    quiet: bool = False,
) -> None:
    """Print the report, or its JSON, unless it is one of several; save it if a folder is given."""
    from rich.console import Console

    from geco import evaluation

    if as_json:
        print(evaluation.report_json(report))
    elif not quiet:
        console = Console()
        console.print(f"[bold]{report.benchmark}: {report.label} on {report.data}[/]")
        for table in report.tables:
            if table.name not in LONG_TABLES:
                console.print(evaluation.rich_table(table))
    if out is not None:
        index = evaluation.save_report(report, out, figures)
        notes.print(f"saved {index}")
