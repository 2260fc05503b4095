"""What the evaluation commands share: progress bars, processes, lists of numbers, what to do with a report."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from geco import plugins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.benchmarks._features import Processes
    from geco.report import Report

LONG_TABLES = ("radii",)  # saved and drawn, but not printed


def numbers(text: str | None, *, option: str) -> list[int | None]:
    """Whole numbers from "9,10,11", or the one choice None if nothing is given."""
    if text is None:
        return [None]
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes whole numbers separated by commas, like 9,11, got {text!r}") from None


def load_data(name: str, root: Path, split: str, settings: Sequence[str], limit: int | None) -> Any:
    """A split of a dataset, or `limit` of its entries spread evenly over it."""
    from geco.cli import _data_check as checking

    plugin = plugins.find("datasets", name)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder; expected the root of {name}")
    data = plugin.load(root, split, **checking.load_options(plugin, settings))
    if not len(data):
        raise ValueError(f"{root}: split {split!r} of {name} is empty; see `geco data check {name} {root}`")
    return data if limit is None else data[:: max(1, len(data) // limit)][:limit]


def processes() -> "Processes":
    """This process among those that `accelerate launch` or torchrun started; alone otherwise."""
    from geco.benchmarks._features import Processes

    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Processes()
    import torch
    from accelerate import PartialState

    # Without a GPU, torchrun's processes would otherwise each take itself for the only one.
    state = PartialState(cpu=not torch.cuda.is_available())
    return Processes(state.process_index, state.num_processes, state.wait_for_everyone)


@contextmanager
def progress_bars(*, shown: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each kind of work that is reported; on standard error, so that results can be piped."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield update


def present(
    report: "Report",
    *,
    out: Path | None,
    as_json: bool,
    figures: Mapping[str, "Figure"] | None = None,
    quiet: bool = False,
) -> None:
    """Print the report, or its JSON, unless it is one of several; save it if a folder is given."""
    from geco import report as reports

    if as_json:
        print(reports.to_json(report))
    elif not quiet:
        console = Console()
        console.print(f"[bold]{report.benchmark}: {report.label} on {report.data}[/]")
        for table in report.tables:
            if table.name not in LONG_TABLES:
                console.print(reports.rich_table(table))
    if out is not None:
        index = reports.save(report, out, figures)
        Console(stderr=True).print(f"saved {index}", soft_wrap=True)
