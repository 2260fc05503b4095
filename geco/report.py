"""Reports: what a benchmark found, as a terminal table, JSON, CSV, LaTeX and a folder with an index.html.

A share of nothing is shown as "–", never as 0.
"""

import csv
import html
import io
import json
import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

NOTHING = "–"
PACKAGES = ("geco", "torch", "transformers", "peft", "numpy", "accelerate")


@dataclass(frozen=True)
class Estimate:
    """A number and the interval it is believed to lie in."""

    value: float
    low: float
    high: float


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    """One table: the first column names the row, numbers are shown with `digits` decimals."""

    name: str  # of its CSV file
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name!r}: a row needs {len(self.columns)} cells, got {len(row)}: {row}")


@dataclass(frozen=True)
class Curve:
    """One line of a figure."""

    figure: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Report:
    """What was found, by whom, and everything needed to find it again."""

    benchmark: str
    label: str  # what was judged: the model's name
    data: str  # on what
    values: dict[str, float]  # shares in [0, 1], times in milliseconds: the key says which
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    curves: tuple[Curve, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=dict)  # what each pair added, for paired comparison


def provenance(seed: int | None = None) -> dict[str, Any]:
    """Versions, commit, machine, time and seed."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "versions": versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "commit": _commit(Path(__file__).parent),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": seed,
    }


def _commit(folder: Path) -> str | None:
    """Commit of the source tree this runs from, "+" if edited since; None for an installed copy."""
    answers = []
    for question in (
        ("ls-files", "--error-unmatch", "report.py"),
        ("rev-parse", "HEAD"),
        ("status", "--porcelain"),
    ):
        try:
            done = subprocess.run(["git", "-C", str(folder), *question], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:
            return None
        answers.append(done.stdout.strip())
    return answers[1] + ("+" if answers[2] else "")


# --- one cell, one table ------------------------------------------------------------------------------------


def shown(cell: Cell, digits: int = 1) -> str:
    """A cell as people read it."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return NOTHING
    if isinstance(cell, Estimate):
        if math.isnan(cell.value):
            return NOTHING
        return f"{cell.value:.{digits}f} [{shown(cell.low, digits)}, {shown(cell.high, digits)}]"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _short(cell: Cell, digits: int) -> str:
    """A cell for 80 columns: of an interval, half its width."""
    if isinstance(cell, Estimate) and math.isfinite(cell.high - cell.low):
        return f"{cell.value:.{digits}f} ±{(cell.high - cell.low) / 2:.{digits}f}"
    return shown(cell, digits)


def rich_table(table: Table) -> RichTable:
    """The table for a terminal; "±" is half an interval, the files have both its ends."""
    # Few lines and no ellipsis: a table of eleven columns must fit a terminal of 80, and every digit be there.
    drawn = RichTable(
        title=table.title,
        caption=table.note or None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for position, column in enumerate(table.columns):
        drawn.add_column(column, justify="right" if position else "left", no_wrap=not position, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_short(cell, table.digits) for cell in row))
    return drawn


def csv_text(table: Table) -> str:
    """The table for a spreadsheet: full precision, intervals in columns of their own, nothing is empty."""
    with_interval = [any(isinstance(row[c], Estimate) for row in table.rows) for c in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header: list[str] = []
    for column, wide in zip(table.columns, with_interval, strict=True):
        header += [column, f"{column} low", f"{column} high"] if wide else [column]
    writer.writerow(header)
    for row in table.rows:
        line: list[Any] = []
        for cell, wide in zip(row, with_interval, strict=True):
            parts = [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell, None, None]
            line += [_blank(part) for part in (parts if wide else parts[:1])]
        writer.writerow(line)
    return out.getvalue()


def latex_text(table: Table) -> str:
    """The table for a paper (booktabs)."""
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule"]
    lines.append(" & ".join(_tex(column) for column in table.columns) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join(_tex(shown(cell, table.digits)) for cell in row) + r" \\" for row in table.rows]
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
TEX |= {"Δ": r"$\Delta$", "·": r"$\cdot$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX |= {sign: "\\" + sign for sign in "&%$#_{}"}


def _tex(text: str) -> str:
    return "".join(TEX.get(sign, sign) for sign in text)


def _blank(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


# --- a whole report -----------------------------------------------------------------------------------------


def to_json(report: Report) -> str:
    """The whole report, except its samples, as strict JSON: NaN is null."""
    whole = {key: value for key, value in asdict(report).items() if key != "samples"}
    return json.dumps(_plain(whole), indent=1, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Report:
    """The report that `to_json` wrote."""
    raw = json.loads(text)
    known = {f.name for f in fields(Report)}
    if not isinstance(raw, dict) or not known >= set(raw) or not {"benchmark", "label", "data", "values"} <= set(raw):
        raise ValueError("not a report: expected the report.json that `geco evaluate` or `geco bench` writes")
    raw["values"] = {key: math.nan if value is None else value for key, value in raw["values"].items()}
    raw["intervals"] = {
        key: tuple(math.nan if end is None else end for end in ends) for key, ends in raw.get("intervals", {}).items()
    }
    raw["tables"] = tuple(_table(table) for table in raw.get("tables", ()))
    raw["curves"] = tuple(
        Curve(c["figure"], *(tuple(math.nan if v is None else v for v in c[axis]) for axis in "xy"))
        for c in raw.get("curves", ())
    )
    return Report(**raw)


def _table(raw: dict[str, Any]) -> Table:
    def cell(value: Any) -> Cell:
        if isinstance(value, dict):
            return Estimate(**{key: math.nan if end is None else end for key, end in value.items()})
        return value

    rows = tuple(tuple(cell(value) for value in row) for row in raw["rows"])
    return Table(**{**raw, "columns": tuple(raw["columns"]), "rows": rows})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def save(report: Report, folder: str | Path, figures: Mapping[str, Figure] | None = None) -> Path:
    """Write report.json, one CSV per table, tables.tex, the figures and index.html; returns the index."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(to_json(report), encoding="utf-8")
    if report.samples:
        (folder / "samples.json").write_text(json.dumps(_plain(report.samples)), encoding="utf-8")
    for table in report.tables:
        (folder / f"{table.name}.csv").write_text(csv_text(table), encoding="utf-8")
    (folder / "tables.tex").write_text("\n".join(map(latex_text, report.tables)), encoding="utf-8")
    for name, figure in (figures or {}).items():
        figure.savefig(folder / f"{name}.png", dpi=150)
    index = folder / "index.html"
    index.write_text(page(report, list(figures or {})), encoding="utf-8")
    return index


def load(folder: str | Path) -> Report:
    """The report in a run folder, or of a report.json."""
    path = Path(folder)
    path = path / "report.json" if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no report.json; give the folder of a finished run")
    samples = path.with_name("samples.json")
    try:
        report = from_json(path.read_text(encoding="utf-8"))
        return replace(report, samples=json.loads(samples.read_text())) if samples.is_file() else report
    except (json.JSONDecodeError, TypeError, KeyError):
        raise ValueError(f"{path} is damaged; run the evaluation again") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}figure{margin:1.5rem 0}img{max-width:100%}.note{color:#666}
pre{background:#f6f6f6;padding:1rem;overflow:auto}"""


def page(report: Report, figures: Sequence[str]) -> str:
    """The report as one web page beside its figures."""
    parts = [f"<h1>{html.escape(report.benchmark)}: {html.escape(report.label)} on {html.escape(report.data)}</h1>"]
    parts += [_html_table(table) for table in report.tables]
    parts += [
        f'<figure><img src="{html.escape(name)}.png" alt="{html.escape(name)}"><figcaption class="note">'
        f"{html.escape(name.replace('_', ' '))}</figcaption></figure>"
        for name in figures
    ]
    about = json.dumps(_plain({"settings": report.settings, **report.provenance}), indent=1, ensure_ascii=False)
    parts.append(f"<details><summary>How this was made</summary><pre>{html.escape(about)}</pre></details>")
    head = f'<meta charset="utf-8"><title>{html.escape(report.label)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _html_table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row([shown(cell, table.digits) for cell in line], "td") for line in table.rows)
    return (
        f"<h2>{html.escape(table.title)}</h2><table>{row(table.columns, 'th')}{body}</table>"
        f'<p class="note">{html.escape(table.note)}</p>'
    )


def side_by_side(reports: Sequence[Report]) -> Table:
    """Headline numbers of several reports, one column each; a number only some have is "–" in the others."""
    names = list(dict.fromkeys(key for report in reports for key in report.values))
    labels = [f"{report.label} on {report.data}" for report in reports]
    rows = tuple((name, *(_headline(report, name) for report in reports)) for name in names)
    return Table("comparison", "Side by side", ("", *labels), rows)


def _headline(report: Report, name: str) -> Cell:
    scale = 1.0 if name.endswith(UNITS) else 100.0
    value = report.values.get(name, math.nan) * scale
    if name not in report.intervals:
        return value
    low, high = report.intervals[name]
    return Estimate(value, low * scale, high * scale)


UNITS = (" ms", " fps", " MB", " M", " threshold")  # a value whose name ends so is not a share
