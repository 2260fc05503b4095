"""`geco match`, `geco heatmap`: two images → matches and a picture."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _matches, _outputs, _regions
from geco.cli import _options as options
from geco.cli._points import read_points

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from torch import Tensor

    from geco.types import Matches

    Picture = UInt8[Tensor, "3 h w"]

PANEL = "Images"


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=PANEL)(match)
    app.command(rich_help_panel=PANEL)(heatmap)


def match(
    source: options.Source,
    target: options.Target,
    output: _outputs.Picture = None,
    limit: Annotated[int, typer.Option(min=1, help="Lines drawn at most.")] = 60,
    foreground: Annotated[
        bool,
        typer.Option(
            "--foreground",
            help="Leave out the background: what is outside the masks or, without masks, not common to both images.",
        ),
    ] = False,
    source_box: _regions.SourceBox = None,
    target_box: Annotated[
        str | None, typer.Option("--target-box", help="The same for the target.", metavar="BOX")
    ] = None,
    source_mask: _regions.SourceMask = None,
    target_mask: Annotated[Path | None, typer.Option("--target-mask", help="The same for the target.")] = None,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    resize: options.Resize = None,
    force: options.Force = False,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: _matches.AsJson = False,
    as_csv: _matches.AsCsv = False,
) -> None:
    """Match two images: pairs of patches that are each other's most similar one.

    With masks, only patches of the two objects.

    Example: [b]geco match lion.jpg cheetah.jpg -o match.png[/b]

    Example: [b]geco match lion.jpg cheetah.jpg --foreground[/b]
    """
    from geco import api, viz
    from geco.matching import Region, place

    for_scripts = _matches.choose(as_json, as_csv)
    inputs = (source, target, *filter(None, (source_mask, target_mask)))
    path = _planned(output, name="match.png", inputs=inputs, for_scripts=for_scripts)
    pictures = _read(source, target)
    boxes = _regions.box(source_box), _regions.box(target_box)
    start, end = Region(pictures[0], boxes[0], source_mask), Region(pictures[1], boxes[1], target_mask)
    for region in (start, end):
        place(region)  # raises, before the model is loaded
    encoder = options.load_model(model, layer=layer, size=size, resize=resize, force=force, device=device, dtype=dtype)
    settings = api.match_settings(encoder, threshold=threshold)
    with options.timed("encoding two images"):
        matches = api.match(start, end, model=encoder, settings=settings, foreground=foreground)
    if path:
        labels, title = (source.name, target.name), options.title(encoder)
        viz.save(viz.draw_matches(*pictures, matches, limit=limit, title=title, labels=labels), path)
    _deliver(matches, path, as_json=as_json, as_csv=as_csv)


def heatmap(
    source: options.Source,
    target: options.Target,
    point: Annotated[str, typer.Option("--point", "--points", "-p", help="x,y in pixels of the source.")],
    output: _outputs.Picture = None,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    resize: options.Resize = None,
    force: options.Force = False,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: _matches.AsJson = False,
    as_csv: _matches.AsCsv = False,
) -> None:
    """Show how similar every pixel of the target is to one point of the source.

    Example: [b]geco heatmap lion.jpg cheetah.jpg --point 103,65[/b]
    """
    from geco import api, viz

    for_scripts = _matches.choose(as_json, as_csv)
    places, _ = read_points([point], None, image=source)
    if len(places) != 1:
        raise options.OptionError(f"--point takes one x,y, got {len(places)}")
    path = _planned(output, name="heatmap.png", inputs=(source, target), for_scripts=for_scripts)
    pictures = _read(source, target)
    api.check_points(places, pictures[0])
    encoder = options.load_model(model, layer=layer, size=size, resize=resize, force=force, device=device, dtype=dtype)
    with options.timed("encoding two images"):
        maps = list(encoder.extract_stream(pictures))
    settings = api.match_settings(encoder, threshold=threshold)
    matches = api.transfer(maps[0], maps[1], places, model=encoder, settings=settings)
    if path:
        heat = api.heatmap(maps[0], maps[1], places[0], model=encoder, settings=settings)
        labels, title = (source.name, target.name), options.title(encoder)
        figure = viz.draw_heatmap(*pictures, places[0], heat, threshold=settings.threshold, title=title, labels=labels)
        viz.save(figure, path)
    _deliver(matches, path, as_json=as_json, as_csv=as_csv)


# --- what the commands share ------------------------------------------------------------------------------------------


def _planned(output: Path | None, *, name: str, inputs: Iterable[Path], for_scripts: bool) -> Path | None:
    """Where the picture goes; nowhere, if a script reads the matches and did not ask for one."""
    if output is None and for_scripts:
        return None
    return _outputs.picture(output or Path(name), name=name, inputs=inputs)


def _read(source: Path, target: Path) -> "tuple[Picture, Picture]":
    """Both pictures; they are read, and points checked, before the model is loaded: a typo costs no waiting."""
    from geco import images

    return images.read(source), images.read(target)


def _deliver(matches: "Matches", picture: Path | None, *, as_json: bool, as_csv: bool) -> None:
    table = _matches.rows(matches, [])
    _matches.dump(table, as_json=as_json, as_csv=as_csv)
    _matches.summary(table, written=f"picture: {picture}" if picture else "")
