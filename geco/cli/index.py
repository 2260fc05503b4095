"""`geco index`: the features of a collection → an index that `geco search` searches."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from geco.cli import _outputs
from geco.cli._options import OptionError
from geco.cli._progress import progress_bars
from geco.cli._terminal import notes
from geco.search.settings import IndexSettings

FILES = {"index.json", "vectors.safetensors"}  # of an index
PANEL = "Images"

DEFAULTS = IndexSettings()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("index", rich_help_panel=PANEL)(build)


def build(
    features: Annotated[Path, typer.Argument(help="Folder that [b]geco extract[/b] wrote.", show_default=False)],
    output: Annotated[Path | None, _outputs.option("Folder to write.", default="FEATURES-index")] = None,
    kind: Annotated[
        Literal["auto", "flat", "ivfpq"],
        typer.Option(help=f"flat: exact; ivfpq: by short codes; auto: exact up to {DEFAULTS.exact:,} patches."),
    ] = DEFAULTS.kind,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Only patches that are unlike the border of their image.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the sample that ivfpq is trained on.")
    ] = DEFAULTS.seed,
) -> None:
    """Index the patches of a collection, so that parts can be searched for in all of its images.

    The features stay where they are: they are read again to refine what the index finds.

    Example: [b]geco extract photos/ -o features/ && geco index features/[/b]

    Example: [b]geco index features/ -o animals-index --kind ivfpq --foreground[/b]
    """
    from geco import extraction, search

    settings = replace(DEFAULTS, kind=kind, foreground=foreground, seed=seed)
    opened = extraction.open(features)
    folder = _outputs.folder(output or search.default_folder(features))
    if folder.resolve() == features.resolve():
        raise OptionError("--out is the folder of features; give the index a folder of its own")
    _check_own(folder)
    with progress_bars() as progress:
        index = search.build_index(opened, settings, progress=progress)
    search.write_index(index, folder, features=features, settings=settings)
    kinds = {"flat": "exact", "ivfpq": "by codes"}
    notes.print(f"{len(index.vectors):,} patches of {len(index):,} images, {kinds[index.vectors.kind]}: {folder}")


def _check_own(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier index: files of the same names would be replaced."""
    others = sorted({path.name for path in folder.iterdir()} - FILES) if folder.is_dir() else []
    if others:
        raise OptionError(f"--out {folder} holds other files, like {others[0]}; give the index a folder of its own")
