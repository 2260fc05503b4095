"""`geco masks`: foreground masks of a dataset, once, as PNG files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco import plugins
from geco.config.masks import Maker, MaskSettings

if TYPE_CHECKING:
    from geco.masks import Quality, Summary
    from geco.segmenters import Segmenter
    from geco.types import View

PANEL = "Data and training"

DEFAULT = MaskSettings()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="masks", rich_help_panel=PANEL)(masks)


def masks(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset; see [b]geco data list[/b].")],
    root: Annotated[Path, typer.Argument(help="Its folder.")],
    maker: Annotated[Maker, typer.Option("--with", help="What makes the masks.")] = "own",
    weights: Annotated[
        str | None,
        typer.Option(help=f"sam: folder or hub name (default {DEFAULT.sam}); u2net: an .onnx file."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the masks (default masks/<dataset>-<maker>)."),
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="Only this split; may be given several times (default all).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N instances, for a trial.")] = None,
    sheet: Annotated[int, typer.Option(min=0, help="Masks on the contact sheet; 0: no sheet.")] = 24,
    margin: Annotated[float, typer.Option(help="u2net: share of the box by which its crop is wider.")] = DEFAULT.margin,
    threshold: Annotated[float, typer.Option(help="u2net: saliency above which is foreground.")] = DEFAULT.threshold,
    device: Annotated[str, typer.Option(help="sam: auto, cpu, cuda, cuda:N or mps.")] = "auto",
    json_output: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Make the foreground masks that training needs, one PNG per annotated object.

    Finished masks are kept: run the same line again to go on after an interruption. Writes contact-sheet.png,
    half of it spread over the dataset, half of it the masks that miss most keypoints: look before you train.

    Example: [bold]geco masks ap10k data/ap-10k --with sam --weights facebook/sam-vit-base --device cuda[/]
    """
    settings = MaskSettings(margin=margin, threshold=threshold)
    views = _views(dataset, root, split)[:limit]
    folder = out or Path("masks") / f"{dataset}-{maker}"
    segment, record = _segmenter(maker, weights, settings, device)
    summary, judged = _run(views, segment, folder, record)
    picture = _sheet(views, judged, folder, sheet)
    _tell(summary, folder, picture, json_output)
    if summary.failures:
        raise typer.Exit(1)


def _views(dataset: str, root: Path, splits: list[str] | None) -> "list[View]":
    from geco import masks as library

    plugin = plugins.find("datasets", dataset)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder; expected the root of {dataset}")
    found: dict[str, View] = {}
    for split in splits or plugin.SPLITS:
        found |= library.instances(plugin.load(root, split))
    if not found:
        raise ValueError(f"{dataset} at {root} has no annotated object in split {', '.join(splits or plugin.SPLITS)}")
    return list(found.values())


def _segmenter(
    maker: Maker, weights: str | None, settings: MaskSettings, device: str
) -> "tuple[Segmenter, dict[str, Any]]":
    from geco import segmenters
    from geco.model import choose_device

    if maker == "own":
        return segmenters.own, {"maker": maker}
    if maker == "sam":
        weights = weights or settings.sam
        return segmenters.Sam(weights, device=str(choose_device(device))), {
            "maker": maker,
            "weights": Path(weights).name,
        }
    if weights is None:
        raise ValueError("u2net masks need the network: give --weights FILE.onnx (u2net.onnx, u2netp.onnx, …)")
    record = {
        "maker": maker,
        "weights": Path(weights).name,
        "margin": settings.margin,
        "threshold": settings.threshold,
    }
    return segmenters.Saliency(weights, settings), record


def _run(
    views: "Sequence[View]", segment: "Segmenter", folder: Path, record: dict[str, Any]
) -> "tuple[Summary, dict[str, Quality]]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from geco import masks as library

    judged: dict[str, Quality] = {}
    columns = (TextColumn("masks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("masks", total=len(views))

        def done(name: str, quality: "Quality | None") -> None:
            progress.advance(bar)
            if quality is not None:
                judged[name] = quality

        return library.make(views, segment, folder, record=record, done=done), judged


def _sheet(views: "Sequence[View]", judged: "dict[str, Quality]", folder: Path, count: int) -> Path | None:
    from geco import contact, images
    from geco import masks as library

    if not count or not judged:
        return None
    named = {library.file_name(view): view for view in views}
    tiles = []
    for name in _chosen(judged, count):
        view, quality = named[name], judged[name]
        mask = library.read(folder / name, view)
        assert mask is not None, "a judged mask was just read or written"
        caption = f"{view.name}  {quality.inside}/{quality.visible}"
        tiles.append(contact.Tile(images.load_view(view), mask, caption))
    path = folder / "contact-sheet.png"
    contact.sheet(tiles).save(path)
    return path


def _chosen(judged: "dict[str, Quality]", count: int) -> list[str]:
    """Half of the names spread evenly over the dataset, then the masks that miss most of their keypoints."""
    names = list(judged)
    spread = [names[i * len(names) // (count // 2)] for i in range(min(count // 2, len(names)))]
    worst = sorted(names, key=lambda name: judged[name].inside / max(1, judged[name].visible))
    return (spread + [name for name in worst if name not in spread])[:count]


def _tell(summary: "Summary", folder: Path, picture: Path | None, json_output: bool) -> None:
    import dataclasses
    import json

    from rich.console import Console

    if json_output:
        sheet = str(picture) if picture else None
        print(json.dumps({**dataclasses.asdict(summary), "folder": str(folder), "sheet": sheet}))
        return
    there = summary.instances - len(summary.failures)
    say = Console(highlight=False, soft_wrap=True).print
    say(f"{there} masks in {folder} ({summary.made} new, {summary.empty} empty)")
    if summary.keypoints_inside is not None:
        say(f"visible keypoints on the mask: {summary.keypoints_inside:.1%}")
    if summary.box_covered is not None:
        say(f"share of the box covered: {summary.box_covered:.1%}")
    if picture:
        say(f"look at {picture}")
    if summary.failures:
        say(f"[bold red]{len(summary.failures)} failed[/], the first: {summary.failures[0]}")
