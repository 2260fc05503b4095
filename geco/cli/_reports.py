"""What the measuring commands share: lists of numbers, and what to do with a report."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from geco.cli._options import OptionError
from geco.cli._terminal import notes, results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.evaluation import Report

LONG_TABLES = ("radii",)  # saved and drawn, but not printed


def whole_numbers(text: str, *, option: str) -> tuple[int, ...]:
    """Whole numbers from "9,10,11"."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"{option} takes whole numbers separated by commas, like 9,11, got {text!r}") from None


def present(
    report: "Report",
    *,
    out: Path | None,
    as_json: bool,
    figures: Mapping[str, "Figure"] | None = None,
    quiet: bool = False,
) -> None:
    """Print the report, or its JSON, unless it is one of several; save it if a folder is given."""
    from geco import evaluation

    if as_json:
        print(evaluation.report_json(report))
    elif not quiet:
        console = results()
        console.print(f"{report.benchmark}: {report.label} on {report.data}", style="bold")
        for table in report.tables:
            if table.name not in LONG_TABLES:
                console.print(evaluation.rich_table(table))
    if out is not None:
        index = evaluation.save_report(report, out, figures)
        notes.print(f"saved {index}")
