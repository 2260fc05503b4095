"""`geco table`: the paper's tables for any models on any datasets, in one command that can be stopped and resumed."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _outputs, _reports
from geco.cli._options import Device, Dtype, Force, OptionError
from geco.cli._progress import progress_bars
from geco.cli._recipe import sources_named
from geco.cli._terminal import notes
from geco.errors import InputError
from geco.evaluation.settings import PROTOCOLS, TableSettings

if TYPE_CHECKING:
    from geco import evaluation

PANEL = "Measuring"

DEFAULTS = TableSettings()
GIGA = 1024**3
MOST_MEMORY = 1e6  # GB
SPLIT = "test"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("table", rich_help_panel=PANEL)(table)


def table(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Models, each a name, folder, file or hub id, or LABEL=MODEL.", show_default=False),
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="Dataset and its folder, name=ROOT; several times.")
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Also the models of the paper; LABEL=MODEL says where one of them is.")
    ] = False,
    split: Annotated[
        list[str] | None,
        typer.Option(help="Split to evaluate on, or that of one dataset, name=SPLIT.", show_default=SPLIT),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help=f"Protocol for keypoints: {', '.join(PROTOCOLS)}.", show_default="the paper's for each dataset"
        ),
    ] = None,
    loader: Annotated[list[str] | None, typer.Option("--loader", help="Option of a dataset, like cub.crop=square.")] = (
        None
    ),
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many pairs of each dataset, spread evenly over the split.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            "--sizes",
            min=1,
            help="Side of the square that images are resized to, in pixels.",
            show_default="each model's",
        ),
    ] = None,
    force: Force = False,
    out: Annotated[Path, _outputs.option("Folder of the tables; the same one resumes a run.")] = Path("geco-table"),
    cache: Annotated[Path | None, typer.Option(help="Folder to keep feature maps in, for later runs.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images encoded at once.")] = DEFAULTS.keypoints.batch_size,
    memory: Annotated[float, typer.Option(help="GB of feature maps in memory.")] = DEFAULTS.keypoints.memory / GIGA,
    repeats: Annotated[int, typer.Option(min=0, help="Timed calls of each model, 0 for none.")] = DEFAULTS.repeats,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Make the paper's tables for any models: PCK and milliseconds, PGCK, parts, PCK against speed.

    Stopped or killed, the same command resumes it. A model that cannot be loaded is shown with the reason, and the exit
    code is 1. Datasets with keypoints and with parts may be mixed.

    Example: [bold]geco table dinov2-base runs/mine --data spair=data/SPair-71k --data cub=data/CUB -o tables[/]

    Example: [bold]geco table --paper geco=geco.pth --data pfpascal=data/PF-PASCAL --data pascal-part=data/PASCAL-VOC[/]
    """
    from geco import evaluation

    for folder in filter(None, (out, cache)):
        _outputs.folder(folder)
        _outputs.spare(folder, _places([*(models or ()), *(data or ())]))
    settings = _settings(batch_size=batch_size, memory=memory, repeats=repeats)
    rows = _rows(models or (), paper=paper, options={"size": size, "force": force, "device": device, "dtype": dtype})
    with notes.status("reading the datasets"):
        columns = _columns(data or (), loader or (), split or (), protocol=protocol, limit=limit)
    with progress_bars() as progress:
        report = evaluation.table.run(
            rows, columns, out, settings=settings, cache=cache, announce=_announce, progress=progress
        )
    _reports.present(report, out=None, as_json=as_json)
    notes.print(f"saved {out / 'index.html'}")
    missing = report.counts["missing"]
    if missing:
        names = ", ".join(missing)
        raise InputError(f"{len(missing)} of {len(rows)} rows are missing or not complete, the table says why: {names}")


def _settings(*, batch_size: int, memory: float, repeats: int) -> TableSettings:
    from geco import checks

    memory = int(checks.number(memory, "--memory", least=0, most=MOST_MEMORY) * GIGA)
    return replace(
        DEFAULTS,
        keypoints=replace(DEFAULTS.keypoints, batch_size=batch_size, memory=memory),
        parts=replace(DEFAULTS.parts, batch_size=batch_size),
        repeats=repeats,
    )


def _places(texts: Sequence[str]) -> list[Path]:
    """The files and folders among what was given, also behind a name and "="."""
    return [Path(place) for text in texts for place in (text, text.partition("=")[2]) if os.path.exists(place)]


def _announce(label: str, cost: "evaluation.table.RowCost") -> None:
    notes.print(f"{label}: {cost}", style="dim")


# --- rows -------------------------------------------------------------------------------------------------------------


def _rows(texts: Sequence[str], *, paper: bool, options: dict[str, Any]) -> "list[evaluation.table.Row]":
    """The rows: with `paper` the paper's first, in its order, then the others; labels of two models differ."""
    from geco import evaluation

    models = {name: name for name in evaluation.published.IN_THE_TABLE} if paper else {}
    given: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        label, model = _named(text)
        if label in given:
            label = next(name for number in range(2, len(texts) + 2) if (name := f"{label}-{number}") not in given)
        given[label] = model
    models |= given
    if not models:
        raise OptionError("no models: name some, like dinov2-base, or give --paper for the paper's own list")
    return [evaluation.table.Row(label, _loader(model, options)) for label, model in models.items()]


def _named(text: str) -> tuple[str, str]:
    """The label of a row and its model: of LABEL=MODEL both, else the name of the model's folder or file."""
    label, sign, model = text.partition("=")
    if sign and not os.path.exists(text) and os.sep not in label:
        if not label.strip() or not model.strip():
            raise OptionError(f"a row is a model, or LABEL=MODEL, got {text!r}")
        return label.strip(), model
    return Path(text).name or text, text


def _loader(model: str, options: dict[str, Any]) -> Any:
    def load() -> Any:
        from geco import api

        return api.load(model, **options)

    return load


# --- columns ----------------------------------------------------------------------------------------------------------


def _columns(
    texts: Sequence[str], loader: Sequence[str], splits: Sequence[str], *, protocol: str | None, limit: int | None
) -> "list[evaluation.table.Column]":
    from geco import evaluation

    if not texts:
        raise OptionError("no datasets: give --data name=ROOT, like spair=data/SPair-71k; see geco data list")
    sources = sources_named(texts, loader, ())
    chosen = _splits(splits, [source.name for source in sources])
    return [
        evaluation.table.load_column(
            source.name,
            source.root,
            split=chosen[source.name],
            protocol=protocol,
            options=source.options,
            limit=limit,
        )
        for source in sources
    ]


def _splits(texts: Sequence[str], datasets: Sequence[str]) -> dict[str, str]:
    """The split of each dataset: of those that are named theirs, of the others the one without a name."""
    from geco import data

    splits = {}
    general = SPLIT
    for text in texts:
        name, sign, split = text.partition("=")
        if not sign:
            general = text
            continue
        name = data.find(name).name
        if name not in datasets:
            raise InputError(f"--split names {name}, but --data only {', '.join(datasets)}")
        splits[name] = split
    return {name: splits.get(name, general) for name in datasets}
