"""Reports: the results of an evaluation with everything needed to obtain them again, to and from JSON.

A share of nothing is NaN here and null in JSON, never 0.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from geco.errors import GecoError, InputError, MissingFileError
from geco.evaluation.measures import Estimate, Measure, Unit
from geco.system import codec, documents

Cell = str | int | float | Estimate | None

# Release 0.1 wrote values under keys alone; the end of a key tells the unit of what is not a share.
UNIT_OF_ENDING: dict[str, Unit] = {" ms": "ms", " fps": "fps", " MB": "MB", " M": "M", " threshold": "similarity"}
TIMING = re.compile(r"(?P<case>[^,]+), (?P<protocol>.+) (?P<metric>ms|fps)")  # a key of its running times
REQUIRED = {"benchmark", "label", "data", "values"}
EXPECTED = "expected the report.json that `geco evaluate` or `geco bench` writes"
OPTIONAL = {"measures", "intervals", "tables", "curves", "counts", "settings", "provenance"}


@dataclass(frozen=True)
class Table:
    """One table: the first column names the row, numbers are shown with `digits` decimals."""

    name: str  # of its CSV file
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 1
    quoted: tuple[int, ...] = ()  # numbers of the rows that others published: shown in grey

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    f"table {documents.shown(self.name)}: a row needs {len(self.columns)} cells, "
                    f"got {len(row)}: {documents.shown(row)}"
                )
        if not set(self.quoted) <= set(range(len(self.rows))):
            quoted = documents.shown(self.quoted)
            raise InputError(f"table {documents.shown(self.name)}: quoted must be numbers of its rows, got {quoted}")
        if "/" in self.name or "\\" in self.name or self.name in ("", ".", ".."):
            raise InputError(f"the name of a table is that of its file, got {documents.shown(self.name)}")


@dataclass(frozen=True)
class Curve:
    """One line of a figure."""

    figure: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InputError(f"a curve needs as many x as y, got {len(self.x)} and {len(self.y)}")


@dataclass(frozen=True)
class Report:
    """The results of an evaluation: of what, on what, under which settings."""

    benchmark: str
    label: str  # what was evaluated: the model's name
    data: str  # on what
    measures: tuple[Measure, ...] = ()
    tables: tuple[Table, ...] = ()
    curves: tuple[Curve, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=dict)  # what each pair added, for paired comparison

    def measure(self, metric: str, protocol: str | None = None, radius: float | None = None) -> Measure:
        """The one measure of this metric, of any protocol and radius unless they are given."""
        key = Measure(metric, math.nan, protocol or "", radius).key  # all that a report of release 0.1 knows
        candidates = [
            measure
            for measure in self.measures
            if measure.key == key
            or (
                measure.metric == metric
                and protocol in (None, measure.protocol)
                and (radius is None or measure.radius == radius)
            )
        ]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            several = ", ".join(measure.key for measure in candidates)
            raise InputError(f"the report of {self.label} has several measures {metric}: {several}; say which")
        known = ", ".join(measure.key for measure in self.measures)
        raise InputError(f"the report of {self.label} has no measure {key!r}; it has: {known or 'none'}")

    @property
    def values(self) -> dict[str, float]:
        """The numbers by key, as in report.json: shares in [0, 1], everything else in its unit."""
        return {measure.key: measure.value for measure in self.measures}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Their intervals by key, as in report.json."""
        return {measure.key: (measure.low, measure.high) for measure in self.measures if measure.has_interval}


def side_by_side(reports: Sequence[Report]) -> Table:
    """Headline numbers of several reports, one column each; a number only some have is "–" in the others."""
    columns = [{measure.key: measure for measure in report.measures} for report in reports]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    labels = [f"{report.label} on {report.data}" for report in reports]
    rows = tuple((key, *(column[key].cell if key in column else math.nan for column in columns)) for key in keys)
    return Table("comparison", "Side by side", ("", *labels), rows)


# --- JSON -------------------------------------------------------------------------------------------------------------


def report_json(report: Report) -> str:
    """The whole report, except its samples, as strict JSON: NaN is null."""
    content = {
        "benchmark": report.benchmark,
        "label": report.label,
        "data": report.data,
        "values": report.values,
        "intervals": report.intervals,
        "measures": [asdict(measure) for measure in report.measures],
        "tables": [asdict(table) for table in report.tables],
        "curves": [asdict(curve) for curve in report.curves],
        "counts": report.counts,
        "settings": report.settings,
        "provenance": report.provenance,
    }
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """The value with everything in it that JSON cannot hold replaced: NaN by None, paths by text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def load_report(folder: str | Path) -> Report:
    """The report in a run folder, or of a report.json."""
    path = Path(folder)
    path = path / "report.json" if path.is_dir() else path
    if not path.exists():
        raise MissingFileError(f"{folder} holds no report.json; give the folder of a finished run")
    samples = path.with_name("samples.json")
    report = from_json(documents.read_text(path, expected=EXPECTED.removeprefix("expected ")), name=str(path))
    if samples.exists():
        return replace(report, samples=documents.read(samples, expected="what each pair added to a report"))
    return report


def from_json(text: str, *, name: str = "the report") -> Report:
    """The report that `report_json` wrote, now or in release 0.1."""
    try:
        raw = documents.parse(text, name=name)
    except InputError as error:
        raise InputError(f"{error}; the report is damaged; run the evaluation again") from None
    if not REQUIRED <= set(raw) <= REQUIRED | OPTIONAL:
        raise InputError(f"{name} is not a report: {EXPECTED}")
    values = {
        **{key: raw[key] for key in ("benchmark", "label", "data")},
        "measures": _measures(raw, name) if "measures" in raw else _measures_by_key(raw, name),
        **{key: raw.get(key, []) for key in ("tables", "curves")},
        **{key: raw.get(key, {}) for key in ("counts", "settings", "provenance")},
    }
    return codec.build(Report, _with_nan(values), name)


@contextmanager
def reading(report: Report, what: str) -> Iterator[None]:
    """Within it, a report whose content is of another layout than is looked for is refused in one line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        if isinstance(error, GecoError):
            raise
        label = documents.shown(report.label)
        raise InputError(f"the report of {label} has {what} of another layout; run the evaluation again") from None


def _with_nan(values: dict[str, Any]) -> dict[str, Any]:
    """The values with NaN where a number is null: in measures, in estimates of tables, in curves."""

    def numbers(entry: Any, *keys: str) -> Any:
        if not isinstance(entry, dict):
            return entry
        return {key: _number(item) if key in keys else item for key, item in entry.items()}

    def line(items: Any) -> Any:
        return [_number(item) for item in items] if isinstance(items, list) else items

    def table(entry: Any) -> Any:
        if not isinstance(entry, dict) or not isinstance(entry.get("rows"), list):
            return entry
        rows = [
            [numbers(cell, "value", "low", "high") for cell in row] if isinstance(row, list) else row
            for row in entry["rows"]
        ]
        return {**entry, "rows": rows}

    def each(key: str, change: Callable[[Any], Any]) -> Any:
        return [change(entry) for entry in values[key]] if isinstance(values[key], list) else values[key]

    def curve(entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        return {key: line(item) if key in ("x", "y") else item for key, item in entry.items()}

    measures = each("measures", lambda entry: numbers(entry, "value", "low", "high"))
    return {**values, "measures": measures, "tables": each("tables", table), "curves": each("curves", curve)}


def _measures(raw: dict[str, Any], name: str) -> Any:
    """Measures of a report, whose values by key say the same."""
    if not isinstance(raw["values"], dict):
        raise InputError(f"{name}: values: expected numbers by name, got {documents.shown(raw['values'])}")
    return raw["measures"]


def _measures_by_key(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Measures of a report of release 0.1, which has keys alone: each is a metric of its own, except running times."""
    measures = []
    values, intervals = raw["values"], raw.get("intervals", {})
    if not isinstance(values, dict) or not isinstance(intervals, dict):
        raise InputError(f"{name}: values and intervals: expected numbers by name, got {documents.shown(values)}")
    for key, value in values.items():
        ends = intervals.get(key, (None, None))
        if not isinstance(ends, list | tuple) or len(ends) != 2:
            raise InputError(f"{name}: intervals.{key}: expected two numbers, got {documents.shown(ends)}")
        units = [unit for ending, unit in UNIT_OF_ENDING.items() if key.endswith(ending)]
        timing = TIMING.fullmatch(key) if raw["benchmark"] == "runtime" else None
        what = timing.groupdict() if timing else {"metric": key}
        unit = units[0] if units else "share"
        measures.append({**what, "value": value, "low": ends[0], "high": ends[1], "unit": unit})
    return measures


def _number(value: Any) -> Any:
    return math.nan if value is None else value
