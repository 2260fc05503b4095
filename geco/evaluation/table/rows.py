"""The rows of a table: models, each evaluated on every column; what has been evaluated is kept and not done again.

folder/results/<fingerprint>/<column>/    the finished report of a model on a dataset, or what there is of it so far
folder/features/<fingerprint>/            feature maps, until the row is finished
folder/index.html, report.json, …         the table of the rows so far
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from geco.errors import GecoError, InputError
from geco.evaluation import keypoints, parts
from geco.evaluation.rendering import save_report
from geco.evaluation.report import Report, load_report
from geco.evaluation.settings import TableSettings
from geco.evaluation.table import cost
from geco.evaluation.table.columns import Column, KeypointColumn, PartsColumn
from geco.evaluation.table.cost import RowCost
from geco.evaluation.table.summary import BENCHMARK, RowResult, draw, summarise
from geco.extraction import FeatureStore, content_key
from geco.system import Progress, locks, silent
from geco.types import Encoder, View

DEFAULTS = TableSettings()
SAVE_AFTER = 30  # seconds since the table was last written, if there are more rows to come
WAITING = "not evaluated yet; the same command continues"
Announce = Callable[[str, RowCost], None]  # the label of a row that is about to be evaluated, and what it will cost


def unannounced(label: str, cost: RowCost) -> None:
    """The `Announce` that says nothing."""


@dataclass(frozen=True)
class Row:
    """A model, loaded when its row is evaluated."""

    label: str  # also by which the paper's row is found
    load: Callable[[], Encoder]


def run(
    rows: Sequence[Row],
    columns: Sequence[Column],
    folder: str | Path,
    *,
    settings: TableSettings = DEFAULTS,
    cache: Path | None = None,
    announce: Announce = unannounced,
    progress: Progress = silent,
) -> Report:
    """The table of these models on these datasets; while it is being made, the folder holds the table so far.

    Called again with the same folder after it was stopped, it continues. A row that cannot be loaded or evaluated is in
    the table with the reason, and in its counts under "missing". `cache`: a folder of feature maps that outlives this.
    """
    _check_distinct([row.label for row in rows], "rows")
    _check_distinct([column.name for column in columns], "columns")
    place = _Place(Path(folder), cache, settings, announce, progress)
    _check_folder(place.folder)
    results = [RowResult(row.label, faults=(WAITING,)) for row in rows]
    with locks.hold(folder, what="a table"):
        saved = time.monotonic()
        for number, row in enumerate(rows):
            results[number] = _evaluated(row, columns, place)
            progress("rows", number + 1, len(rows))
            if time.monotonic() - saved > SAVE_AFTER and number + 1 < len(rows):
                _save(results, columns, place)
                saved = time.monotonic()
        return _save(results, columns, place)


def _save(results: Sequence[RowResult], columns: Sequence[Column], place: "_Place") -> Report:
    report = summarise(results, columns, place.settings)
    save_report(report, place.folder, draw(results, columns))
    return report


def _check_distinct(names: Sequence[str], what: str) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice or not names:
        raise InputError(f"a table needs {what} of different names, got {f'{twice[0]!r} twice' if twice else 'none'}")


def _evaluated(row: Row, columns: Sequence[Column], place: "_Place") -> RowResult:
    """The row of one model; of one that cannot be loaded, the reason."""
    try:
        return _RowRun(row.label, row.load(), columns, place).run()
    except locks.LockedError:
        raise
    except GecoError as error:
        return RowResult(row.label, faults=(str(error),))


def _check_folder(folder: Path) -> None:
    """Refuse a folder with the results of something else."""
    if (folder / "report.json").exists():
        report = load_report(folder / "report.json")
        if report.benchmark != BENCHMARK:
            what = f"{report.benchmark}: {report.label} on {report.data}"
            raise InputError(f"{folder} holds the report of {what}, not a table; give another folder")


@dataclass(frozen=True)
class _Place:
    """Where results go, how they are made, and who hears of it."""

    folder: Path
    cache: Path | None
    settings: TableSettings
    announce: Announce
    progress: Progress

    @property
    def features(self) -> Path:
        return self.cache or self.folder / "features"


class _RowRun:
    """One model on every column; a column that fails leaves the others."""

    def __init__(self, label: str, encoder: Encoder, columns: Sequence[Column], place: _Place) -> None:
        self.label, self.encoder, self.columns, self.place = label, encoder, columns, place
        self.fingerprint = encoder.fingerprint()
        self.reports: dict[str, Report] = {}  # by the name of the column
        self.faults: list[str] = []

    def run(self) -> RowResult:
        """Everything that has not been evaluated yet, and what has."""
        for column in self.columns:
            stored = self._stored(column.folder(self.encoder, self.place.settings))
            if stored is not None:
                self.reports[column.name] = stored
        # Parts first: which images they show is not known without reading every annotation, so what they share with
        # pairs is kept for the pairs, and not the other way round.
        waiting = [column for column in self.columns if column.name not in self.reports]
        waiting.sort(key=lambda column: isinstance(column, KeypointColumn))
        settings = self.place.settings.keypoints
        with FeatureStore(
            self.encoder,
            memory=settings.memory,
            batch_size=settings.batch_size,
            folder=self.place.features,
            lasting={content_key(view) for view in _pair_views(waiting)},
            progress=self.place.progress,
        ) as store:
            seconds = self._announced(waiting, store)
            timing = self._timing(seconds)
            for position, column in enumerate(waiting):
                self._evaluate(column, store)
                if not self.faults and self.place.cache is None:
                    store.keep_only(_pair_views(waiting[position + 1 :]))
        if not self.faults and self.place.cache is None:
            shutil.rmtree(self.place.features / self.fingerprint, ignore_errors=True)
            with suppress(OSError):
                self.place.features.rmdir()  # of the last model
        return RowResult(self.label, self.reports, timing, tuple(self.faults))

    def _home(self, name: str) -> Path:
        return self.place.folder / "results" / self.fingerprint / name

    def _stored(self, name: str) -> Report | None:
        """The report of an earlier run, under the label of this one; a damaged one is as good as none."""
        home = self._home(name)
        try:
            return replace(load_report(home), label=self.label) if (home / "report.json").exists() else None
        except InputError:
            return None

    def _announced(self, waiting: Sequence[Column], store: FeatureStore) -> float:
        """Seconds that an image takes, after saying what the row will cost; 0 if there is nothing to evaluate."""
        if not waiting:
            return 0.0
        try:
            estimate = cost.estimate(self.encoder, waiting, store)
        except GecoError:  # the fault of a column, which will say so itself
            return 0.0
        self.place.announce(self.label, estimate)
        return estimate.seconds

    def _timing(self, seconds: float) -> Report | None:
        """The model's running time; None if it cannot be timed."""
        protocol = cost.conditions(self.encoder, self.place.settings)
        if protocol is None:
            return None
        name = f"runtime-{cost.machine(protocol)}"
        report = self._stored(name)
        if report is None:
            most = self.place.settings.seconds
            report = cost.timing(self.encoder, self.label, protocol, seconds=seconds, most=most)
            save_report(report, self._home(name))
        return report

    def _evaluate(self, column: Column, store: FeatureStore) -> None:
        """The report of one column, or the fault that it had."""
        home = self._home(column.folder(self.encoder, self.place.settings))
        try:
            report = self._keypoints(column, home) if isinstance(column, KeypointColumn) else None
            report = self._parts(column, home, store) if isinstance(column, PartsColumn) else report
        except locks.LockedError:
            raise
        except GecoError as error:
            self.faults += [str(error)] if str(error) not in self.faults else []
            return
        assert report is not None
        about = {"name": self.encoder.name, "fingerprint": self.fingerprint}
        report = replace(report, settings={**report.settings, "model": about})
        save_report(report, home)
        self.reports[column.name] = report

    def _keypoints(self, column: KeypointColumn, home: Path) -> Report:
        return keypoints.run(
            self.encoder,
            column.pairs,
            [column.protocol.visible_above(self.encoder.threshold)],
            settings=self.place.settings.keypoints,
            label=self.label,
            data=column.data,
            folder=home,
            cache=self.place.features,
            progress=self.place.progress,
        )

    def _parts(self, column: PartsColumn, home: Path, store: FeatureStore) -> Report:
        return parts.run(
            self.encoder,
            column.train,
            column.test,
            self.place.settings.parts,
            label=self.label,
            data=column.data,
            folder=home,
            store=store,
            progress=self.place.progress,
        )


def _pair_views(columns: Sequence[Column]) -> Iterator[View]:
    return (view for column in columns if isinstance(column, KeypointColumn) for view in column.views.values())
