"""`geco masks`: foreground masks of a dataset, once, as PNG files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _outputs
from geco.cli._progress import progress_bars
from geco.cli._terminal import results
from geco.errors import InputError
from geco.masks.settings import Maker, MaskSettings

if TYPE_CHECKING:
    from geco.masks import Quality, Segmenter, Summary
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
        _outputs.option("Folder of the masks.", default="masks/<dataset>-<maker>"),
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="Only this split; may be given several times (default all).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N instances, for a trial.")] = None,
    sheet: Annotated[int, typer.Option(min=0, help="Masks on the contact sheet; 0: no sheet.")] = 24,
    margin: Annotated[float, typer.Option(help="u2net: share of the box by which its crop is wider.")] = DEFAULT.margin,
    threshold: Annotated[float, typer.Option(help="u2net: saliency above which is foreground.")] = DEFAULT.threshold,
    hold_keypoints: Annotated[
        bool, typer.Option("--hold-keypoints", help="u2net: make each mask hold the visible keypoints.")
    ] = DEFAULT.hold_keypoints,
    loader: Annotated[
        list[str] | None,
        typer.Option("--set", help="Option of the loader, key=value, like crop=square; the same as in training."),
    ] = None,
    device: Annotated[str, typer.Option("--device", "--devices", help="sam: auto, cpu, cuda, cuda:N or mps.")] = "auto",
    json_output: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Make the foreground masks that training needs, one PNG per annotated object.

    Finished masks are kept: after an interruption, the same command resumes. Writes contact-sheet.png, half of it
    spread over the dataset, half of it the masks that miss most keypoints: look at it before you train.

    Example: [bold]geco masks ap10k data/ap-10k --with sam --weights facebook/sam-vit-base --device cuda[/]

    Example: [bold]geco masks coco my-animals --with u2net --weights u2netp.onnx --hold-keypoints[/]
    """
    from geco import data
    from geco.masks import default_folder

    settings = MaskSettings(margin=margin, threshold=threshold, hold_keypoints=hold_keypoints)
    dataset = data.find(dataset).name
    views = _views(dataset, root, split, loader or ())[:limit]
    folder = _outputs.folder(out or default_folder(dataset, maker))
    _outputs.spare(folder, [root])
    segment, record = _segmenter(maker, weights, settings, device)
    summary, qualities = _run(views, segment, folder, record)
    picture = _sheet(views, qualities, folder, sheet)
    _print_summary(summary, folder, picture, json_output)
    if summary.failures:
        raise typer.Exit(1)


def _views(dataset: str, root: Path, splits: list[str] | None, options: Sequence[str]) -> "list[View]":
    """Every annotated object of these splits (all, by default), once."""
    from geco import data
    from geco.masks import instances

    names = splits or data.find(dataset).splits
    by_file: dict[str, View] = {}
    for split in names:
        try:
            by_file |= instances(data.views_of(data.load(dataset, root, split, options)))
        except data.EmptySplitError:
            continue
    if not by_file:
        raise InputError(f"{dataset} at {root} has no annotated object in split {', '.join(names)}")
    return list(by_file.values())


def _segmenter(
    maker: Maker, weights: str | None, settings: MaskSettings, device: str
) -> "tuple[Segmenter, dict[str, Any]]":
    """What makes the masks, and the record of it."""
    from geco.masks import Saliency, Sam, own
    from geco.system import devices

    if settings.hold_keypoints and maker != "u2net":
        raise InputError(f"--hold-keypoints is for --with u2net, got --with {maker}")
    if maker == "own":
        return own, {"maker": maker}
    if maker == "sam":
        weights = weights or settings.sam
        return Sam(weights, device=str(devices.choose(device))), {"maker": maker, "weights": Path(weights).name}
    if weights is None:
        raise InputError("u2net masks need the network: give --weights FILE.onnx (u2net.onnx, u2netp.onnx, …)")
    record = {
        "maker": maker,
        "weights": Path(weights).name,
        "margin": settings.margin,
        "threshold": settings.threshold,
        **({"hold_keypoints": True} if settings.hold_keypoints else {}),
    }
    return Saliency(weights, settings), record


def _run(
    views: "Sequence[View]", segment: "Segmenter", folder: Path, record: dict[str, Any]
) -> "tuple[Summary, dict[str, Quality]]":
    from geco.masks import make

    qualities: dict[str, Quality | None] = {}
    with progress_bars() as progress:

        def done(name: str, quality: "Quality | None") -> None:
            qualities[name] = quality
            progress("masks", len(qualities), len(views))

        summary = make(views, segment, folder, record=record, done=done)
    return summary, {name: quality for name, quality in qualities.items() if quality is not None}


def _sheet(views: "Sequence[View]", qualities: "dict[str, Quality]", folder: Path, count: int) -> Path | None:
    """The contact sheet, or None if `count` is 0 or there is nothing to show."""
    from geco import images, viz
    from geco.masks import file_name, read, to_look_at
    from geco.system import files

    if not count or not qualities:
        return None
    by_file = {file_name(view): view for view in views}
    tiles = []
    for name in to_look_at(qualities, count):
        view, quality = by_file[name], qualities[name]
        mask = read(folder / name, view)
        if mask is not None:  # or else it was removed since
            caption = f"{view.name}  {quality.inside}/{quality.visible}"
            tiles.append(viz.Tile(images.load_view(view), mask, caption))
    page = viz.contact_sheet(tiles)
    return files.replace(folder / "contact-sheet.png", lambda draft: page.save(draft, format="PNG"))


def _print_summary(summary: "Summary", folder: Path, picture: Path | None, json_output: bool) -> None:
    import dataclasses
    import json

    if json_output:
        sheet = str(picture) if picture else None
        print(json.dumps({**dataclasses.asdict(summary), "folder": str(folder), "sheet": sheet}))
        return
    complete = summary.instances - len(summary.failures)
    say = results().print
    say(f"{complete} masks in {folder} ({summary.made} new, {summary.empty} empty)")
    if summary.keypoints_inside is not None:
        say(f"visible keypoints on the mask: {summary.keypoints_inside:.1%}")
    if summary.box_covered is not None:
        say(f"share of the box covered: {summary.box_covered:.1%}")
    if picture:
        say(f"look at {picture}")
    if summary.failures:
        say(f"{len(summary.failures)} failed, the first: {summary.failures[0]}", style="red")
