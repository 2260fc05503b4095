"""The table of results: ours and the paper's rows, as tables of a report and as the figure of PCK against speed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from matplotlib.figure import Figure

from geco import viz
from geco.evaluation import parts, published
from geco.evaluation.published import PaperRow
from geco.evaluation.report import Cell, Report, Table
from geco.evaluation.settings import TableSettings
from geco.evaluation.table.columns import Column, KeypointColumn, PartsColumn
from geco.system import provenance

BENCHMARK = "table"  # what its report says that it is of
RADIUS = published.RADIUS
PGCK = {"clear": "11 clear", "both": "11 both", "to twin": "11 to twin"}  # heading → metric; n̲₁₁, ñ₁₁ and n̄₁₁ of n₁₁
NONE = (None,)  # a row that the paper does not have
QUOTED = f"Grey: as printed in {published.CITATION}; not measured here."


@dataclass(frozen=True)
class RowResult:
    """What is known of a model so far."""

    label: str
    reports: Mapping[str, Report] = field(default_factory=dict)  # by the name of the column
    runtime: Report | None = None
    faults: tuple[str, ...] = ()  # why something is missing

    @property
    def paper(self) -> PaperRow | None:
        """The same method in the paper."""
        return published.ROWS.get(self.label)


Cells = list[Cell]


def summarise(results: Sequence[RowResult], columns: Sequence[Column], settings: TableSettings) -> Report:
    """The report of a table: tables that have content, every measure of every cell, what is missing and why."""
    on_pairs = [column for column in columns if isinstance(column, KeypointColumn)]
    on_parts = [column for column in columns if isinstance(column, PartsColumn)]
    tables = [_pck(results, on_pairs)] if on_pairs else []
    tables += [_pgck(results, column, settings) for column in on_pairs if column.has_twins]
    tables += [_parts(results, column, settings) for column in on_parts]
    tables += [_missing(results)] if any(result.faults for result in results) else []
    measured = [report for result in results for report in (*result.reports.values(), result.runtime) if report]
    return Report(
        benchmark=BENCHMARK,
        label=", ".join(result.label for result in results),
        data=", ".join(column.data for column in columns),
        measures=tuple(
            entry.of(f"{report.label} on {report.data}") for report in measured for entry in report.measures
        ),
        tables=tuple(tables),
        counts={"missing": {result.label: list(result.faults) for result in results if result.faults}},
        settings={
            "settings": asdict(settings),
            "rows": {result.label: _about(result) for result in results},
            "columns": {column.name: _described(column) for column in columns},
        },
        provenance=provenance.collect(settings.keypoints.seed),
    )


def _about(result: RowResult) -> dict[str, object]:
    """Which model a row is, as its reports say."""
    return next((report.settings.get("model", {}) for report in result.reports.values()), {})


def _described(column: Column) -> dict[str, object]:
    if isinstance(column, PartsColumn):
        return {"split": column.split, "train": len(column.train), "test": len(column.test), "digest": column.digest}
    protocol = {"protocol": column.protocol.name, "definition": column.protocol.definition}
    return {"split": column.split, "pairs": len(column.pairs), **protocol, "digest": column.digest}


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(
    name: str,
    title: str,
    headings: Sequence[str],
    results: Sequence[RowResult],
    ours: Callable[[RowResult], Cells],
    theirs: Callable[[PaperRow], Cells],
    *,
    note: str,
) -> Table:
    """A table with a row of each model and, in grey below it, the paper's; `theirs` are None where it has no number."""
    rows: list[tuple[Cell, ...]] = []
    quoted: dict[int, str] = {}  # number of a row → what is to be said of it
    for result in results:
        rows.append((result.label, *ours(result)))
        if result.paper is not None and any(cell is not None for cell in theirs(result.paper)):
            quoted[len(rows)] = result.paper.note
            rows.append((f"{result.paper.name} (paper)", *theirs(result.paper)))
    notes = [note, *([QUOTED, *filter(None, quoted.values())] if quoted else [])]
    return Table(name, title, ("model", *headings), tuple(rows), note=" ".join(notes), quoted=tuple(quoted))


def _pck(results: Sequence[RowResult], columns: Sequence[KeypointColumn]) -> Table:
    """PCK of every dataset and milliseconds of an image (GECO, quantitative evaluation of PCK)."""
    quotable = [column.name for column in columns if column.is_published]

    def ours(result: RowResult) -> Cells:
        shares = [_cell(result.reports.get(column.name), "PCK", RADIUS) for column in columns]
        return [*shares, result.runtime.measure("ms").value if result.runtime else None]

    def theirs(row: PaperRow) -> Cells:
        shares: Cells = [row.pck.get(column.name) if column.is_published else None for column in columns]
        times = [row.milliseconds[name] for name in quotable if name in row.milliseconds]
        return [*shares, _range(times) if times else None]

    timed = next((result.runtime for result in results if result.runtime), None)
    return _table(
        "pck",
        f"PCK@{RADIUS:g} in %, and milliseconds per image",
        [*(column.heading for column in columns), "ms"],
        results,
        ours,
        theirs,
        note=" ".join([_sizes(columns), _timing_note(timed) if timed else ""]).strip(),
    )


def _cell(report: Report | None, metric: str, radius: float | None = None) -> Cell:
    return None if report is None else report.measure(metric, radius=radius).cell


def _range(values: Sequence[float]) -> str:
    """The values as the paper has them, several as their range."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _sizes(columns: Sequence[KeypointColumn]) -> str:
    each = (f"{c.heading}: {len(c.pairs):,} pairs of {c.data}, protocol {c.protocol.name}" for c in columns)
    return f"{'; '.join(each)}."


def _timing_note(report: Report) -> str:
    conditions = report.measure("ms").protocol
    return (
        f"ms: median of one image at a time ({conditions}; size and precision are each model's), reading and resizing "
        f"excluded, as the paper does on an {published.MACHINE}."
    )


def _pgck(results: Sequence[RowResult], column: KeypointColumn, settings: TableSettings) -> Table:
    """Where points went whose twin is visible as well (GECO, geometric ambiguity)."""
    alpha = settings.keypoints.main_alpha
    quotable = column.is_published and alpha == RADIUS

    def ours(result: RowResult) -> Cells:
        return [_cell(result.reports.get(column.name), metric) for metric in PGCK.values()]

    def theirs(row: PaperRow) -> Cells:
        return list(row.pgck.get(column.name, NONE)) if quotable else list(NONE)

    return _table(
        f"pgck-{column.name}",
        f"PGCK on {column.heading}: points whose twin is visible too (11), in % at α = {alpha:g}",
        list(PGCK),
        results,
        ours,
        theirs,
        note="Clear: near the match alone (unambiguous true positives); both: near match and twin (ambiguous); "
        "to twin: near the twin alone (false correspondences, lower is better).",
    )


def _parts(results: Sequence[RowResult], column: PartsColumn, settings: TableSettings) -> Table:
    """Parts by nearest centroid (GECO, segmentation)."""
    quotable = column.is_published(settings.parts)

    def ours(result: RowResult) -> Cells:
        return [_cell(result.reports.get(column.name), metric) for metric in parts.COLUMNS]

    def theirs(row: PaperRow) -> Cells:
        return list(row.parts.get(column.name, NONE)) if quotable else list(NONE)

    return _table(
        f"parts-{column.name}",
        f"Parts on {column.heading}, in %",
        parts.COLUMNS,
        results,
        ours,
        theirs,
        note=f"Centroids of {len(column.train):,} images, {len(column.test):,} labelled; geo: parts with a left/right "
        "twin alone.",
    )


def _missing(results: Sequence[RowResult]) -> Table:
    """Why rows are not complete, and where to get their weights."""
    rows = [
        (result.label, "; ".join(result.faults), result.paper.get if result.paper else "")
        for result in results
        if result.faults
    ]
    return Table(
        "missing",
        "Rows that are missing or not complete",
        ("model", "why", "where to get it"),
        tuple(rows),
        note="Files are given as name=PATH, like dift-adm=256x256_diffusion_uncond.pt.",
    )


# --- the figure -------------------------------------------------------------------------------------------------------


def draw(results: Sequence[RowResult], columns: Sequence[Column]) -> dict[str, Figure]:
    """PCK against frames per second, a panel for each dataset, by file name; nothing where nothing was timed."""
    panels = {
        column.heading: points
        for column in columns
        if isinstance(column, KeypointColumn) and (points := _points(results, column))
    }
    return {"pck_against_speed": viz.speed_panels(panels, quoted=f"(paper, {published.MACHINE})")} if panels else {}


def _points(results: Sequence[RowResult], column: KeypointColumn) -> list[viz.SpeedPoint]:
    points = []
    for result in results:
        report, paper = result.reports.get(column.name), result.paper
        if report is not None and result.runtime is not None:
            quality = 100 * report.measure("PCK", radius=RADIUS).value
            points.append(viz.SpeedPoint(result.label, result.runtime.measure("fps").value, quality))
        if paper is not None and column.is_published and {column.name} <= paper.pck.keys() & paper.milliseconds.keys():
            frames = 1000 / paper.milliseconds[column.name]
            points.append(viz.SpeedPoint(paper.name, frames, paper.pck[column.name], quoted_for=result.label))
    return points
