"""`geco pack`: a model as one self-contained folder, small enough to ship, checked against the model."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._terminal import notes

PANEL = "Measuring"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pack", rich_help_panel=PANEL)(pack)


def pack(
    output: Annotated[Path, _outputs.option("Folder to write: weights, configuration, card, notice, checksums.")],
    model: options.Model = None,
    dtype: Annotated[
        Literal["float16", "bfloat16", "float32"], typer.Option("--dtype", help="How matrices are stored.")
    ] = "float16",
    base: Annotated[
        str | None,
        typer.Option(
            help="Backbone that a whole model was trained from, like focus-small; its licence's notice is added.",
            show_default="as its folder says",
        ),
    ] = None,
    card: Annotated[
        Path | None, typer.Option(help="Model card (Markdown) to include.", show_default="the model's own")
    ] = None,
    image_paths: Annotated[
        list[Path] | None,
        typer.Option(
            "--images", help="Images to compare features on; may be given several times.", show_default="generated"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Write a model as one self-contained folder: adapter merged, matrices in 16 bits, notices, checksums.

    It is compared with the model that it was made of, and not written if features differ by more than 1 %.

    Example: [b]geco pack -m runs/animals -o animals[/b], then [b]geco match lion.jpg cheetah.jpg -m animals[/b]
    """
    from geco import export, images
    from geco.models import default_model
    from geco.system import documents

    text = None if card is None else documents.read_text(card, expected="a model card")
    pictures = [images.read(path) for path in image_paths or ()]
    _outputs.folder(output)
    with notes.status("packing the model"):
        packed = export.pack(
            default_model() if model is None else model, output, dtype=dtype, base=base, card=text, pictures=pictures
        )
    near = packed.parity
    if as_json:
        facts = {"folder": str(packed.path), "bytes": packed.size, "base": packed.base, "licence": packed.licence}
        json.dump({**facts, "relative": near.relative, "cosine": near.cosine}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    print(f"{packed.path}: {packed.size / 1e6:.1f} MB; features differ by {near.relative:.2g} of their length, {near}")
    if not packed.licence:
        notes.print("the licence of the backbone it was trained from is not known here; give --base, or add a notice")
