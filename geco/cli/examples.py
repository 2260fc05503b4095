"""`geco examples`: the images that the documentation uses."""

from pathlib import Path
from typing import Annotated

import typer

from geco.cli import _outputs
from geco.cli._terminal import notes

PANEL = "About"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("examples", rich_help_panel=PANEL)(copy_examples)


def copy_examples(
    folder: Annotated[Path, typer.Argument(help="Folder to write; made if it does not exist.", show_default=False)],
) -> None:
    """Copy the example images into a folder: cheetah.jpg, cub.jpg, lion.jpg, runner.jpg.

    They ship with gradio ([b]pip install --no-deps gradio[/b] is enough) and are checked by their sha256. Files that
    exist are never replaced.

    Example: [b]geco examples photos[/b]
    """
    from geco import demo

    copied = demo.copy_images(_outputs.folder(folder))
    for path in copied:
        print(path)
    notes.print(f"{len(copied)} images")
