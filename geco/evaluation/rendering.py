"""Reports for people: a terminal table, CSV, LaTeX, and a folder with a web page.

A share of nothing is shown as "–", never as 0.
"""

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

from geco import viz
from geco.errors import GecoError
from geco.evaluation import glossary
from geco.evaluation.measures import Estimate
from geco.evaluation.report import Cell, Report, Table, plain, report_json
from geco.system import documents, files

NOTHING = "–"
PROSE = 40  # characters of a text that is read: its column is wrapped and begins on the left


def cell_text(cell: Cell, digits: int = 1) -> str:
    """A cell as people read it."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return NOTHING
    if isinstance(cell, Estimate):
        if math.isnan(cell.value):
            return NOTHING
        return f"{cell.value:.{digits}f} [{cell_text(cell.low, digits)}, {cell_text(cell.high, digits)}]"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _short(cell: Cell, digits: int) -> str:
    """A cell for 80 columns: of an interval, half its width."""
    if isinstance(cell, Estimate) and math.isfinite(cell.high - cell.low):
        return f"{cell.value:.{digits}f} ±{(cell.high - cell.low) / 2:.{digits}f}"
    return cell_text(cell, digits)


def rich_table(table: Table) -> RichTable:
    """The table for a terminal; "±" is half an interval, the files have both its ends."""
    # Few lines and no ellipsis: a table of eleven columns must fit a terminal of 80, and every digit be there.
    rich = RichTable(
        title=table.title,
        caption=table.note or None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    prose = _prose(table)
    for position, column in enumerate(table.columns):
        side: Literal["left", "right"] = "left" if not position or position in prose else "right"
        rich.add_column(column, justify=side, no_wrap=not position, overflow="fold")
    for number, row in enumerate(table.rows):
        style = "bright_black" if number in table.quoted else None
        rich.add_row(*(_short(cell, table.digits) for cell in row), style=style)
    return rich


def _prose(table: Table) -> list[int]:
    """Columns of text that is read, the first one apart."""
    long = {c for row in table.rows for c, cell in enumerate(row) if c and isinstance(cell, str) and len(cell) > PROSE}
    return sorted(long)


def csv_text(table: Table) -> str:
    """The table for a spreadsheet: full precision, intervals in columns of their own, undefined numbers empty."""
    with_interval = [any(isinstance(row[c], Estimate) for row in table.rows) for c in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header: list[str] = []
    for column, wide in zip(table.columns, with_interval, strict=True):
        header += [column, f"{column} low", f"{column} high"] if wide else [column]
    writer.writerow(header)
    for row in table.rows:
        line: list[Cell] = []
        for cell, wide in zip(row, with_interval, strict=True):
            numbers = [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell, None, None]
            line += [_blank(number) for number in (numbers if wide else numbers[:1])]
        writer.writerow(line)
    return text.getvalue()


def latex_text(table: Table) -> str:
    """The table for a paper (booktabs; rows that others published are grey, which needs xcolor)."""
    prose = _prose(table)
    sides = "".join(r"p{0.35\linewidth}" if c in prose else "r" for c in range(1, len(table.columns)))
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{l{sides}}}", r"\toprule"]
    lines.append(" & ".join(_tex(column) for column in table.columns) + r" \\")
    lines.append(r"\midrule")
    for number, row in enumerate(table.rows):
        cells = [_tex(cell_text(cell, table.digits)) for cell in row]
        cells = [rf"\textcolor{{gray}}{{{cell}}}" for cell in cells] if number in table.quoted else cells
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "α": r"$\alpha$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "×": r"$\times$",
}
TEX |= {"Δ": r"$\Delta$", "…": r"\dots{}", "·": r"$\cdot$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX |= {sign: "\\" + sign for sign in "&%$#_{}"}


def _tex(text: str) -> str:
    return "".join(TEX.get(sign, sign) for sign in text)


def _blank(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def report_page(report: Report, figures: Sequence[str]) -> str:
    """The report as one web page beside its figures, which are named without their ending."""
    parts = [f"<h1>{viz.escape(f'{report.benchmark}: {report.label} on {report.data}')}</h1>"]
    parts += [_html_table(table) for table in report.tables]
    parts += [viz.html_figure(f"{name}.png", name.replace("_", " "), alt=name) for name in figures]
    about = json.dumps(plain({"settings": report.settings, **report.provenance}), indent=1, ensure_ascii=False)
    parts.append(f"<details><summary>How this was made</summary><pre>{viz.escape(about)}</pre></details>")
    return viz.page(report.label, "".join(parts))


def _html_table(table: Table) -> str:
    rows = [[cell_text(cell, table.digits) for cell in row] for row in table.rows]
    note = f'<p class="note">{viz.escape(table.note)}</p>' if table.note else ""
    named = (*table.columns, *(row[0] for row in table.rows if isinstance(row[0], str)))
    meanings = [f"<b>{viz.escape(name)}</b>: {viz.escape(meaning)}" for name, meaning in glossary.explained(named)]
    note += f'<p class="note">{"<br>".join(meanings)}</p>' if meanings else ""
    content = viz.html_table(table.columns, rows, quoted=table.quoted, prose=_prose(table))
    return f"<h2>{viz.escape(table.title)}</h2>{content}{note}"


def save_report(report: Report, folder: str | Path, figures: Mapping[str, Figure] | None = None) -> Path:
    """Write report.json, one CSV per table, tables.tex, the figures and index.html; returns the index."""
    folder = Path(folder)
    figures = figures or {}
    for name in _tables_before(folder) - {table.name for table in report.tables}:
        (folder / f"{name}.csv").unlink(missing_ok=True)  # a table that the report no longer has
    files.replace_text(folder / "report.json", report_json(report))
    if report.samples:
        files.replace_text(folder / "samples.json", json.dumps(plain(report.samples)))
    for table in report.tables:
        files.replace_text(folder / f"{table.name}.csv", csv_text(table))
    files.replace_text(folder / "tables.tex", "\n".join(map(latex_text, report.tables)))
    for name, figure in figures.items():
        viz.save(figure, folder / f"{name}.png")
    return files.replace_text(folder / "index.html", report_page(report, list(figures)))


def _tables_before(folder: Path) -> set[str]:
    """Names of the tables of the report that the folder holds already."""
    try:
        values = documents.read(folder / "report.json", expected="a report")
        return {name for table in values["tables"] if re.fullmatch(r"[\w-]+", name := str(table["name"]))}
    except (GecoError, KeyError, TypeError):
        return set()
