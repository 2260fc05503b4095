"""`geco gallery`: a tour in pictures on four images of animals."""

from pathlib import Path
from typing import Annotated

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._terminal import notes

PANEL = "About"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gallery", rich_help_panel=PANEL)(draw_gallery)


def draw_gallery(
    output: Annotated[Path, _outputs.option("Folder to write.")] = Path("geco-gallery"),
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
) -> None:
    """Draw a tour on four images of animals: transfers, matches, heat maps, components, and a hidden point.

    The images ship with gradio ([b]pip install --no-deps gradio[/b]).

    Example: [b]geco gallery -o geco-gallery[/b]
    """
    from geco import export, models
    from geco.cli._progress import progress_bars
    from geco.demo import gallery

    _outputs.folder(output)
    gallery.find_images()  # before anything is loaded: a missing package costs no waiting
    encoder = options.load_model(model, layer=layer, size=size, device=device, dtype=dtype)
    backbone, config = None, encoder.config
    if encoder.adapted and config.untrained and not export.is_exported(model):  # whose backbone may be elsewhere
        if missing := models.why_missing(config.untrained):
            notes.print(missing)
        else:
            backbone = options.load_model(
                config.untrained, size=config.size, device=device, dtype=dtype, **config.options
            )
    with progress_bars() as progress:
        page = gallery.draw(encoder, output, threshold=threshold, backbone=backbone, progress=progress)
    count = len(list(output.glob("*.png")))
    notes.print(f"{count} pictures and a page: {page}")
