"""Reports: the results of an evaluation with everything needed to obtain them again, to and from JSON.

A share of nothing is NaN here and null in JSON, never 0.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from geco.errors import InputError, MissingFileError
from geco.evaluation.measures import Estimate, Measure, Unit

Cell = str | int | float | Estimate | None

# Release 0.1 wrote values under keys alone; the end of a key tells the unit of what is not a share.
UNIT_OF_ENDING: dict[str, Unit] = {" ms": "ms", " fps": "fps", " MB": "MB", " M": "M", " threshold": "similarity"}
TIMING = re.compile(r"(?P<case>[^,]+), (?P<protocol>.+) (?P<metric>ms|fps)")  # a key of its running times
REQUIRED = {"benchmark", "label", "data", "values"}
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

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(f"table {self.name!r}: a row needs {len(self.columns)} cells, got {len(row)}: {row}")


@dataclass(frozen=True)
class Curve:
    """One line of a figure."""

    figure: str
    x: tuple[float, ...]
    y: tuple[float, ...]


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
    if not path.is_file():
        raise MissingFileError(f"{folder} holds no report.json; give the folder of a finished run")
    samples = path.with_name("samples.json")
    try:
        report = from_json(path.read_text(encoding="utf-8"))
        return replace(report, samples=json.loads(samples.read_text())) if samples.is_file() else report
    except (json.JSONDecodeError, TypeError, KeyError):
        raise InputError(f"{path} is damaged; run the evaluation again") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def from_json(text: str) -> Report:
    """The report that `report_json` wrote, now or in release 0.1."""
    raw = json.loads(text)
    if not isinstance(raw, dict) or not REQUIRED <= set(raw) <= REQUIRED | OPTIONAL:
        raise InputError("not a report: expected the report.json that `geco evaluate` or `geco bench` writes")
    return Report(
        benchmark=raw["benchmark"],
        label=raw["label"],
        data=raw["data"],
        measures=_measures(raw) if "measures" in raw else _measures_by_key(raw),
        tables=tuple(_table(table) for table in raw.get("tables", ())),
        curves=tuple(
            Curve(curve["figure"], _numbers(curve["x"]), _numbers(curve["y"])) for curve in raw.get("curves", ())
        ),
        counts=raw.get("counts", {}),
        settings=raw.get("settings", {}),
        provenance=raw.get("provenance", {}),
    )


def _measures(raw: dict[str, Any]) -> tuple[Measure, ...]:
    numbers = ("value", "low", "high")
    return tuple(Measure(**{**entry, **{key: _number(entry[key]) for key in numbers}}) for entry in raw["measures"])


def _measures_by_key(raw: dict[str, Any]) -> tuple[Measure, ...]:
    """Measures of a report of release 0.1, which has keys alone: each is a metric of its own, except running times."""
    measures = []
    for key, value in raw["values"].items():
        low, high = _numbers(raw.get("intervals", {}).get(key, (None, None)))
        units = [unit for ending, unit in UNIT_OF_ENDING.items() if key.endswith(ending)]
        timing = TIMING.fullmatch(key) if raw["benchmark"] == "runtime" else None
        what = timing.groupdict() if timing else {"metric": key}
        measures.append(Measure(**what, value=_number(value), low=low, high=high, unit=units[0] if units else "share"))
    return tuple(measures)


def _table(raw: dict[str, Any]) -> Table:
    def cell(value: Any) -> Cell:
        return Estimate(**{key: _number(end) for key, end in value.items()}) if isinstance(value, dict) else value

    rows = tuple(tuple(cell(value) for value in row) for row in raw["rows"])
    return Table(**{**raw, "columns": tuple(raw["columns"]), "rows": rows})


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _numbers(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(_number(value) for value in values)
