"""`geco data`: which datasets can be read, what a folder holds of one, and what is missing or damaged."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _outputs
from geco.cli._progress import progress_bars
from geco.cli._terminal import notes, results
from geco.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.data import DatasetFormat, PairDataset, PartDataset, audit

PANEL = "Data and training"

MOST_FAULTS = 20  # shown in the terminal; --json has them all

Name = Annotated[str, typer.Argument(help="Name of the dataset; see [b]geco data list[/b].", show_default=False)]
Root = Annotated[Path, typer.Argument(help="Its folder.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="List, check and prepare datasets.", no_args_is_help=True)
    group.command("list")(list_datasets)
    group.command("check")(check)
    group.command("prepare")(prepare)
    app.add_typer(group, name="data", rich_help_panel=PANEL)


def list_datasets(as_json: Json = False) -> None:
    """List the datasets that can be read, and what each expects.

    Example: [bold]geco data list[/]
    """
    from rich.table import Table

    from geco import data

    formats = [data.find(name) for name in data.names()]
    if as_json:
        entries = [{"name": entry.name, "splits": list(entry.splits), "about": entry.about} for entry in formats]
        print(json.dumps(entries))
        return
    table = Table("dataset", "splits", "about")
    for entry in formats:
        table.add_row(entry.name, ", ".join(entry.splits), entry.about)
    results().print(table)


def check(
    name: Name,
    root: Root,
    split: Annotated[list[str] | None, typer.Option(help="Only this split; may be given several times.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Option of the loader, key=value; may be given several times."),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Draw N pairs of each split, with keypoints and masks.")] = 0,
    out: Annotated[Path, _outputs.option("Folder of these pictures.")] = Path("data-check"),
    fast: Annotated[bool, typer.Option("--fast", help="Check only that files exist, do not read them.")] = False,
    as_json: Json = False,
) -> None:
    """Count a dataset against its published totals, and list every file that is missing or damaged.

    Fewer images than published are reported as a subset. The exit code is 1 only if something is missing or
    damaged. The cases say how many keypoints have their match and its left/right counterpart visible in the
    target (11), only the match (10), a match without counterpart (1x), only the counterpart (01), none (00).

    Example: [bold]geco data check cub data/CUB_200_2011 --split test --show 4[/]
    """
    from geco import data

    dataset_format = data.find(name)
    counts, pictures = [], []
    for chosen in split or dataset_format.splits:
        with progress_bars() as progress:
            count, datasets = data.audit.count_split(
                dataset_format, root, chosen, settings or (), decode=not fast, progress=progress
            )
        counts.append(count)
        pictures += _draw(datasets, out, f"{name}-{chosen}", show)
    remarks = data.audit.remarks(dataset_format, counts)
    if as_json:
        print(json.dumps({"dataset": name, "splits": [_plain(count) for count in counts], "remarks": remarks}))
    else:
        _print(dataset_format, counts, remarks, pictures)
    if any(count.faults for count in counts):
        raise typer.Exit(1)


def prepare(
    name: Name,
    root: Root,
    exclude: Annotated[
        Path | None, typer.Option(help="Text file with one image per line to leave out (crowds).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the choice of pairs.")] = 42,
    as_json: Json = False,
) -> None:
    """Make the pair lists of a dataset that is released without them. Images are neither moved nor copied.

    Example: [bold]geco data prepare ap10k data/ap-10k --exclude ap-10k_is_crowd.txt[/]
    """

    from geco import data

    dataset_format = data.find(name)
    if dataset_format.prepare is None:
        preparable = [other for other in data.names() if data.find(other).prepare is not None]
        raise InputError(f"{name} needs no preparation; only {', '.join(preparable)} does")
    with notes.status("writing annotations and drawing pairs"):
        counts = dataset_format.prepare(
            root, exclude=exclude, seed=seed, step=lambda list_name, n: notes.print(f"{list_name}: {n} pairs")
        )
    if as_json:
        print(json.dumps(counts))
    else:
        results().print(f"{sum(counts.values())} pairs in {root / 'PairAnnotation'}")


# --- printing -------------------------------------------------------------------------------------


def _plain(count: "audit.SplitCount") -> dict[str, Any]:
    return {
        **{key: value for key, value in vars(count).items() if key != "photographs_of"},
        "pairs_of": dict(count.pairs_of),
        "cases": dict(count.cases),
        "keypoints_of": dict(count.keypoints_of),
        "photographs_of": {category: len(names) for category, names in count.photographs_of.items()},
    }


def _print(
    dataset_format: "DatasetFormat",
    counts: "Sequence[audit.SplitCount]",
    remarks: Sequence[str],
    pictures: Sequence[Path],
) -> None:
    from rich.table import Table
    from rich.text import Text

    console = results()
    totals = Table(
        "split", "images", "instances", "with mask", "keypoints", "outside", "pairs", title=dataset_format.name
    )
    cases = Table("split", "queries", "11", "10", "1x", "01", "00", title="cases of the queries, %")
    for count in counts:
        numbers = (
            count.photographs,
            count.instances,
            count.masks,
            count.keypoints,
            count.outside,
            count.pairs,
        )
        totals.add_row(count.split, *(f"{number:,}" for number in numbers))
        queries = sum(count.cases.values())
        if queries:
            shares = (f"{100 * count.cases[case] / queries:.1f}" for case in ("11", "10", "1x", "01", "00"))
            cases.add_row(count.split, f"{queries:,}", *shares)
    console.print(totals)
    if cases.row_count:
        console.print(cases)
        console.print(_imbalance(counts))
    if any(count.photographs_of for count in counts):
        console.print(_by_category(dataset_format, counts))
    for remark in remarks:
        console.print(remark)
    for picture in pictures:
        console.print(f"look at {picture}")
    faults = list(dict.fromkeys(fault for count in counts for fault in count.faults))
    for fault in faults[:MOST_FAULTS]:
        console.print(Text.assemble(("missing or damaged", "bold red"), ": ", fault))
    if len(faults) > MOST_FAULTS:
        console.print(f"… and {len(faults) - MOST_FAULTS} more; --json lists them all")
    console.print(f"{len(faults)} missing or damaged" if faults else "nothing missing or damaged")


def _imbalance(counts: "Sequence[audit.SplitCount]") -> str:
    """The paper's imbalance table: shares among the queries whose match is visible."""
    lines = []
    for count in counts:
        matched = sum(count.cases[case] for case in ("11", "10", "1x"))
        if matched:
            shares = ", ".join(f"{case} {100 * count.cases[case] / matched:.1f}" for case in ("11", "10", "1x"))
            lines.append(f"{count.split}: of the {matched:,} queries with a visible match, {shares} %")
    return "\n".join(lines)


def _by_category(dataset_format: "DatasetFormat", counts: "Sequence[audit.SplitCount]") -> Any:
    from rich.table import Table

    table = Table("split", "category", "images", "keypoints", "pairs", "published pairs")
    for count in counts:
        published = dataset_format.published_pairs.get(count.split, {})
        for category, names in sorted(count.photographs_of.items()):
            numbers = (len(names), count.keypoints_of[category], count.pairs_of[category])
            total = f"{published[category]:,}" if category in published else ""
            table.add_row(count.split, category, *(f"{number:,}" for number in numbers), total)
    return table


def _draw(datasets: "Sequence[PairDataset | PartDataset]", out: Path, stem: str, count: int) -> list[Path]:
    """Pictures of entries spread evenly over each dataset."""
    if not count:
        return []
    from geco import viz

    figures = (figure for dataset in datasets for figure in _figures(dataset, count))
    return [viz.save(figure, out / f"{stem}-{number}.png") for number, figure in enumerate(figures, 1)]


def _figures(dataset: "PairDataset | PartDataset", count: int) -> "Iterator[Figure]":
    from dataclasses import replace

    from geco import data, viz
    from geco.images import load_view

    if not len(dataset):
        return
    selection = data.spread(dataset, count)
    if isinstance(selection, data.PartDataset):
        for view, category in zip(selection, selection.categories, strict=True):
            yield viz.draw_parts(load_view(view), selection.skeletons[category].names)
        return
    for pair in selection:
        yield viz.draw_pair(replace(pair, source=load_view(pair.source), target=load_view(pair.target)))
