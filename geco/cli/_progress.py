"""Progress bars of every command: one for each kind of work, on standard error, so that results can be piped."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from geco.cli._terminal import notes


class Update(Protocol):
    """How far a kind of work is; `total` 0: unknown."""

    def __call__(self, what: str, done: int, total: int, news: str = "") -> None:
        """Show it, with the latest news beside the bar."""


@contextmanager
def progress_bars(*, shown: bool = True, transient: bool = True) -> Iterator[Update]:
    """A bar for each kind of work that is reported; `transient` ones are gone afterwards."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    more = (TimeRemainingColumn(), TextColumn("{task.fields[news]}", markup=False))
    with Progress(*columns, *more, console=notes, disable=not shown, transient=transient) as bars:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int, news: str = "") -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=None, news="")
            bars.update(tasks[what], completed=done, total=total or None, news=news)

        yield update


def watching(label: str, update: Update) -> Callable[[int, int, Mapping[str, Any]], None]:
    """What shows a training run as a bar, with its latest loss and validation beside it."""
    latest: dict[str, str] = {}

    def watch(step: int, total: int, record: Mapping[str, Any]) -> None:
        if record["kind"] == "validation":
            latest["PCK@0.1"] = f"{record['PCK']:.1f}"
        else:
            latest["loss"] = f"{record['loss']:.3f}"
            latest["images/s"] = f"{record['images_per_second']:.1f}"
        update(label, step, total, "  ".join(f"{name} {value}" for name, value in latest.items()))

    return watch
