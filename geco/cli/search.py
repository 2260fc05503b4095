"""`geco search`: where a part of one image occurs in a collection."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _hits, _matches, _outputs
from geco.cli import _options as options
from geco.cli._points import read_points
from geco.cli._terminal import notes
from geco.search.settings import SearchSettings

if TYPE_CHECKING:
    from geco.search import Found

PANEL = "Images"

DEFAULTS = SearchSettings()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search", rich_help_panel=PANEL)(search)


def search(
    index: Annotated[Path, typer.Argument(help="Folder that [b]geco index[/b] wrote.", show_default=False)],
    image: Annotated[Path, typer.Argument(help="Image that shows the part.", show_default=False)],
    point: Annotated[str, typer.Option("--point", "--points", "-p", help="x,y in pixels of the image.")],
    count: Annotated[
        int, typer.Option("--count", "-k", min=1, help="Number of images found, at most.")
    ] = DEFAULTS.count,
    output: Annotated[
        Path | None,
        _outputs.option(
            "Contact sheet (png, jpg, webp), .csv or .json; or a folder for all three.", default="search.png"
        ),
    ] = None,
    threshold: options.Threshold = None,
    features: Annotated[
        Path | None, typer.Option(help="Folder of features, if it is no longer where it was indexed.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model of the index: name, folder or file.", show_default="by its name"),
    ] = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    resize: options.Resize = None,
    force: options.Force = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; no picture unless --out is given.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV; no picture unless --out is given.")] = False,
) -> None:
    """Find the images and places of a collection that show a part, best first; or say that none does.

    One place in each image, with the score that [b]geco transfer[/b] gives. The model is that of the index.

    Example: [b]geco search features-index lion.jpg -p 103,65[/b]

    Example: [b]geco search features-index lion.jpg -p 103,65 -k 50 -o ears/ --threshold 0.5[/b]
    """
    from geco import api, images
    from geco import search as room

    for_scripts = _matches.choose(as_json, as_csv)
    settings = replace(DEFAULTS, count=count, threshold=threshold)
    place = _place(point)
    planned = _hits.planned(output, inputs=[image], default=not for_scripts)
    pixels = images.read(image)
    api.check_points([place], pixels)
    opened = room.open_index(index, features=features)
    encoder = options.load_model(
        model or opened.features.model, layer=layer, size=size, resize=resize, force=force, device=device, dtype=dtype
    )
    room.check_encoder(opened, encoder)
    found = room.find(opened, encoder, pixels, place, settings)
    table = _hits.rows(found)
    _print(found, table, as_json=as_json, as_csv=as_csv)
    _hits.write(planned, found, table, asked=(image, place))


def _place(text: str) -> tuple[float, float]:
    """The one point that is searched for."""
    places = read_points([text], None).places
    if len(places) != 1:
        raise options.OptionError(f"one point is searched for at a time, got {len(places)}; give -p x,y")
    return places[0]


def _print(found: "Found", table: list[dict[str, Any]], *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        json.dump(_hits.document(found, table), sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif as_csv:
        sys.stdout.write(_hits.csv_text(table))
    else:
        _hits.show(table)
    near = found.nearest
    if not found.hits:
        notes.print(
            f"nowhere above the threshold: of {found.searched:,} images {near.name} comes nearest with "
            f"{near.score:.3f}, below {found.threshold:.3f}"
        )
    else:
        notes.print(f"{len(found.hits)} of {found.searched:,} images, scores from {found.threshold:.3f} on")
