"""`geco features`: one photograph → its feature map on disk."""

from pathlib import Path
from typing import Annotated

import typer

from geco.cli import _options as options

PANEL = "Photographs"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL)(features)


def features(
    image: Annotated[Path, typer.Argument(help="Image.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write.", show_default="IMAGE.safetensors")
    ] = None,
    unit: Annotated[bool, typer.Option("--unit", help="Descriptors of length one.")] = False,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    device: options.Device = "auto",
) -> None:
    """Write the dense features of a photograph as safetensors: `features` (channels, rows, columns).

    Example: [b]geco features lion.jpg -o lion.safetensors[/b]
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from geco import images

    picture = images.read(image)
    encoder = options.load_model(model, layer=layer, size=size, device=device)
    with options.timed("encoding the image"):
        found = encoder.extract(picture)
    found = found.unit() if unit else found
    path = output or image.with_suffix(".safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "height": str(found.size[0]),
        "width": str(found.size[1]),
        "model": encoder.name,
        "unit": str(unit),
    }
    try:
        save_file({"features": found.values.cpu().contiguous()}, path, metadata=about)
    except SafetensorError as error:  # its own kind, though it means the disk
        raise OSError(f"{path} could not be written: {error}") from None
    options.notes.print(f"features {' × '.join(map(str, found.values.shape))}: [b]{path}[/b]")
