"""`geco match`, `geco transfer`, `geco heatmap`: two photographs → matches and a picture."""

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._terminal import notes
from geco.matching.settings import MatchSettings

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from torch import Tensor

    from geco.models import Geco
    from geco.types import FeatureMap, Matches

    Picture = UInt8[Tensor, "3 h w"]

PANEL = "Photographs"

DEFAULTS = MatchSettings()
Mode = Annotated[Literal["nearest", "soft", "transport"], typer.Option(help="How the place is chosen.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the matches as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the matches as CSV.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=PANEL)(match)
    app.command(rich_help_panel=PANEL)(transfer)
    app.command(rich_help_panel=PANEL)(heatmap)


def match(
    source: options.Source,
    target: options.Target,
    output: _outputs.Picture = Path("match.png"),
    limit: Annotated[int, typer.Option(min=1, help="Lines drawn at the most.")] = 60,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    force: options.Force = False,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Match two photographs: patches that are each other's most similar one.

    Example: [b]geco match lion.jpg cheetah.jpg -o match.png[/b]
    """
    from geco import api, viz

    _choose(as_json, as_csv)
    output = _outputs.picture(output, name="match.png", inputs=(source, target))
    pictures = _read(source, target)
    encoder, maps = _encode(pictures, model=model, layer=layer, size=size, force=force, device=device, dtype=dtype)
    settings = api.match_settings(encoder, threshold=threshold)
    matches = api.match(*maps, model=encoder, settings=settings)
    figure = viz.draw_matches(
        pictures[0],
        pictures[1],
        matches,
        limit=limit,
        title=options.title(encoder),
        labels=(source.name, target.name),
    )
    _deliver(figure, output, matches, [], as_json=as_json, as_csv=as_csv)


def transfer(
    source: options.Source,
    target: options.Target,
    points: Annotated[
        list[str] | None,
        typer.Option("--points", "--point", "-p", help="x,y in pixels of the source; repeat, or quote several."),
    ] = None,
    points_file: Annotated[Path | None, typer.Option(help="CSV with the columns x, y and perhaps name.")] = None,
    output: _outputs.Picture = Path("transfer.png"),
    mode: Mode = DEFAULTS.mode,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    force: options.Force = False,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Carry points of one photograph to another; says which of them are not visible there.

    Example: [b]geco transfer lion.jpg cheetah.jpg -p 107,66 -p 133,66 --json[/b]
    """
    from geco import api, viz

    _choose(as_json, as_csv)
    places, names = options.read_points(points or [], points_file)
    inputs = (source, target, points_file) if points_file else (source, target)
    output = _outputs.picture(output, name="transfer.png", inputs=inputs)
    pictures = _read(source, target)
    xy = api.as_points(places, _size(pictures[0]))
    encoder, maps = _encode(pictures, model=model, layer=layer, size=size, force=force, device=device, dtype=dtype)
    settings = api.match_settings(encoder, threshold=threshold, mode=mode)
    matches = api.transfer(*maps, xy, model=encoder, settings=settings)
    figure = viz.draw_transfer(
        pictures[0],
        pictures[1],
        matches,
        names=names,
        title=options.title(encoder),
        labels=(source.name, target.name),
    )
    _deliver(figure, output, matches, names, as_json=as_json, as_csv=as_csv)


def heatmap(
    source: options.Source,
    target: options.Target,
    point: Annotated[str, typer.Option("--point", "--points", "-p", help="x,y in pixels of the source.")],
    output: _outputs.Picture = Path("heatmap.png"),
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    force: options.Force = False,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show how similar every pixel of the target is to one point of the source.

    Example: [b]geco heatmap lion.jpg cheetah.jpg --point 107,66[/b]
    """
    from geco import api, viz

    _choose(as_json, as_csv)
    places, _ = options.read_points([point], None)
    if len(places) != 1:
        raise options.OptionError(f"--point takes one x,y, got {len(places)}")
    output = _outputs.picture(output, name="heatmap.png", inputs=(source, target))
    pictures = _read(source, target)
    xy = api.as_points(places, _size(pictures[0]))
    encoder, maps = _encode(pictures, model=model, layer=layer, size=size, force=force, device=device, dtype=dtype)
    settings = api.match_settings(encoder, threshold=threshold)
    heat = api.heatmap(*maps, places[0], model=encoder, settings=settings)
    matches = api.transfer(*maps, xy, model=encoder, settings=settings)
    figure = viz.draw_heatmap(
        pictures[0],
        pictures[1],
        places[0],
        heat,
        threshold=settings.threshold,
        title=options.title(encoder),
        labels=(source.name, target.name),
    )
    _deliver(figure, output, matches, [], as_json=as_json, as_csv=as_csv)


# --- what the commands share ------------------------------------------------------------------------------------------


def _choose(as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        raise options.OptionError("choose one of --json and --csv")


def _read(source: Path, target: Path) -> "tuple[Picture, Picture]":
    """Both pictures; they are read, and points checked, before the model is loaded: a typo costs no waiting."""
    from geco import images

    return images.read(source), images.read(target)


def _size(picture: "Picture") -> tuple[int, int]:
    return picture.shape[-2], picture.shape[-1]


def _encode(
    pictures: "tuple[Picture, Picture]", *, model: str | None, **choice: Any
) -> "tuple[Geco, tuple[FeatureMap, FeatureMap]]":
    encoder = options.load_model(model, **choice)
    with options.timed("encoding two images"):
        source, target = encoder.extract_stream(pictures)
    return encoder, (source, target)


def _deliver(figure: Any, output: Path, matches: "Matches", names: list[str], *, as_json: bool, as_csv: bool) -> None:
    from geco import viz

    viz.save(figure, output)
    rows = _rows(matches, names)
    if as_json:
        json.dump(rows, sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif as_csv:
        table = csv.DictWriter(sys.stdout, list(rows[0]) if rows else ["source_x", "source_y"], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    hidden = sum(not row["visible"] for row in rows)
    about = f"{len(rows)} matches" + (f", {hidden} not visible in the target" if hidden else "")
    notes.print(f"{about}; picture: {output}")


def _rows(matches: "Matches", names: list[str]) -> list[dict[str, Any]]:
    columns = (
        matches.source.tolist(),
        matches.target.tolist(),
        matches.score.tolist(),
        matches.visible.tolist(),
    )
    rows = []
    for i, (start, end, score, visible) in enumerate(zip(*columns, strict=True)):
        row = {"name": names[i]} if names else {}
        place = {"source_x": start[0], "source_y": start[1], "target_x": end[0], "target_y": end[1]}
        rows.append({**row, **place, "score": round(score, 6), "visible": visible})
    return rows
