"""`geco data`: is this folder the dataset it should be, and what is in it?"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco import plugins

if TYPE_CHECKING:
    from geco.cli._data_check import SplitCount

PANEL = "Data and training"

COUNTED = ("photographs", "instances", "pairs", "listed")  # what a dataset may have published totals of
LABELS = {"listed": "images of the list"}
MOST_FAULTS = 20  # shown in the terminal; --json has them all

Name = Annotated[str, typer.Argument(help="Name of the dataset; see [b]geco data list[/b].", show_default=False)]
Root = Annotated[Path, typer.Argument(help="Its folder.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Look at datasets, check them, prepare them.", no_args_is_help=True)
    group.command("list")(list_datasets)
    group.command("check")(check)
    group.command("prepare")(prepare)
    app.add_typer(group, name="data", rich_help_panel=PANEL)


def list_datasets(as_json: Json = False) -> None:
    """List the datasets that can be read, and what each expects.

    Example: [bold]geco data list[/]
    """
    from rich.console import Console
    from rich.table import Table

    entries = []
    for name in plugins.names("datasets"):
        plugin = plugins.find("datasets", name)
        about = (plugin.__doc__ or "").strip().splitlines()[0]
        entries.append({"name": name, "splits": list(plugin.SPLITS), "about": about})
    if as_json:
        print(json.dumps(entries))
        return
    table = Table("dataset", "splits", "about")
    for entry in entries:
        table.add_row(str(entry["name"]), ", ".join(entry["splits"]), str(entry["about"]))
    Console().print(table)


def check(
    name: Name,
    root: Root,
    split: Annotated[list[str] | None, typer.Option(help="Only this split; may be given several times.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Option of the loader, key=value; may be given several times."),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Draw N pairs of each split, with keypoints and masks.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of these pictures.")] = Path("data-check"),
    fast: Annotated[bool, typer.Option("--fast", help="Only look whether files are there, do not read them.")] = False,
    as_json: Json = False,
) -> None:
    """Count a dataset against its published totals, and list every file that is missing or damaged.

    Fewer images than published are reported as a subset. The exit code is 1 only if something is missing or
    damaged. The cases say how many keypoints have their match and its left/right counterpart visible in the
    target (11), only the match (10), a match without counterpart (1x), only the counterpart (01), none (00).

    Example: [bold]geco data check cub data/CUB_200_2011 --split test --show 4[/]
    """
    from geco.cli import _data_check as checking

    plugin = plugins.find("datasets", name)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder; expected the root of {name}")
    options = checking.load_options(plugin, settings or ())
    counts, pictures = [], []
    for chosen in split or plugin.SPLITS:
        with _progress(f"{name} {chosen}") as step:
            count, loaded = checking.count_split(plugin, root, chosen, options=options, step=step, decode=not fast)
        counts.append(count)
        pictures += _draw(loaded, out, f"{name}-{chosen}", show)
    published, published_pairs = (getattr(plugin, table, {}) for table in ("PUBLISHED", "PUBLISHED_PAIRS"))
    all_splits = set(plugin.SPLITS) == {count.split for count in counts}
    remarks = _remarks(counts, published, published_pairs, all_splits=all_splits)
    if as_json:
        print(json.dumps({"dataset": name, "splits": [_plain(c) for c in counts], "remarks": remarks}))
    else:
        _print(name, counts, published_pairs, remarks, pictures)
    if any(count.faults for count in counts):
        raise typer.Exit(1)


def prepare(
    name: Name,
    root: Root,
    exclude: Annotated[
        Path | None, typer.Option(help="Text file with one image per line to leave out (crowds).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random choice of pairs.")] = 42,
    as_json: Json = False,
) -> None:
    """Make the pair lists of a dataset that is released without them. Images are neither moved nor copied.

    Example: [bold]geco data prepare ap10k data/ap-10k --exclude ap-10k_is_crowd.txt[/]
    """
    from rich.console import Console

    plugin = plugins.find("datasets", name)
    if not hasattr(plugin, "prepare"):
        ready = [n for n in plugins.names("datasets") if hasattr(plugins.find("datasets", n), "prepare")]
        raise ValueError(f"{name} needs no preparation; only {', '.join(ready)} does")
    notes = Console(stderr=True, highlight=False)
    with notes.status("writing annotations and drawing pairs"):
        counts = plugin.prepare(
            root, exclude=exclude, seed=seed, step=lambda list_name, n: notes.print(f"{list_name}: {n} pairs")
        )
    if as_json:
        print(json.dumps(counts))
    else:
        Console(highlight=False, soft_wrap=True).print(f"{sum(counts.values())} pairs in {root / 'PairAnnotation'}")


# --- what is told -----------------------------------------------------------------------------------


_Totals = dict[str, dict[str, int]]


def _remarks(
    counts: "Sequence[SplitCount]", published: _Totals, published_pairs: _Totals, *, all_splits: bool
) -> list[str]:
    """One line per published total, complete, a subset of it or more; one for categories that are absent."""
    found = {count.split: {what: int(getattr(count, what)) for what in COUNTED} for count in counts}
    if all_splits:
        found["all"] = {what: sum(split[what] for split in found.values()) for what in COUNTED}
    remarks = []
    for split, totals in published.items():
        for what, total in totals.items() if split in found else ():
            have = found[split][what]
            share = f" ({have / total:.1%})" if have < total else ""
            verdict = "complete" if have == total else "a subset" if have < total else "more than published"
            remarks.append(f"{split}: {have:,} of {total:,} published {LABELS.get(what, what)}: {verdict}{share}")
    return remarks + [
        f"{count.split}: no pairs of {', '.join(absent)}"
        for count in counts
        if (absent := sorted(set(published_pairs.get(count.split, ())) - set(count.pairs_of)))
    ]


def _plain(count: "SplitCount") -> dict[str, Any]:
    return {
        **{key: value for key, value in vars(count).items() if key != "photographs_of"},
        "pairs_of": dict(count.pairs_of),
        "cases": dict(count.cases),
        "keypoints_of": dict(count.keypoints_of),
        "photographs_of": {category: len(names) for category, names in count.photographs_of.items()},
    }


def _print(
    name: str,
    counts: "Sequence[SplitCount]",
    published_pairs: _Totals,
    remarks: Sequence[str],
    pictures: Sequence[Path],
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    totals = Table("split", "photographs", "instances", "with mask", "keypoints", "outside", "pairs", title=name)
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
        console.print(_by_category(counts, published_pairs))
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


def _imbalance(counts: "Sequence[SplitCount]") -> str:
    """The paper's imbalance table: shares among the queries whose match is visible."""
    lines = []
    for count in counts:
        matched = sum(count.cases[case] for case in ("11", "10", "1x"))
        if matched:
            shares = ", ".join(f"{case} {100 * count.cases[case] / matched:.1f}" for case in ("11", "10", "1x"))
            lines.append(f"{count.split}: of the {matched:,} queries with a visible match, {shares} %")
    return "\n".join(lines)


def _by_category(counts: "Sequence[SplitCount]", published_pairs: _Totals) -> Any:
    from rich.table import Table

    table = Table("split", "category", "photographs", "keypoints", "pairs", "published pairs")
    for count in counts:
        published = published_pairs.get(count.split, {})
        for category, photographs in sorted(count.photographs_of.items()):
            numbers = (len(photographs), count.keypoints_of[category], count.pairs_of[category])
            total = f"{published[category]:,}" if category in published else ""
            table.add_row(count.split, category, *(f"{number:,}" for number in numbers), total)
    return table


def _draw(loaded: Sequence[Any], out: Path, stem: str, number: int) -> list[Path]:
    """Pictures of items spread over the data."""
    if not number:
        return []
    from geco.cli import _data_check as checking
    from geco.cli import _data_pictures as pictures
    from geco.types import View

    out.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for data in loaded:
        for index, item in checking.shown(data, number):
            if isinstance(item, View):
                figure = pictures.draw_parts(item, data.skeletons[data.categories[index]].names)
            else:
                figure = pictures.draw_pair(item)
            paths.append(out / f"{stem}-{len(paths) + 1}.png")
            figure.savefig(paths[-1])
    return paths


@contextmanager
def _progress(what: str) -> Iterator[Callable[[], None]]:
    """A counter of the views that have been looked at, on standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn(what), TextColumn("{task.completed} views"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda: progress.advance(bar)
