"""`geco features`: one image → its feature map on disk."""

from pathlib import Path
from typing import Annotated

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._outputs import FEATURES
from geco.cli._terminal import notes

PANEL = "Images"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("features", rich_help_panel=PANEL)(write_features)


def write_features(
    image: Annotated[Path, typer.Argument(help="Image.", show_default=False)],
    output: Annotated[
        Path | None, _outputs.option("File to write, .safetensors, or a folder.", default="IMAGE.safetensors")
    ] = None,
    unit: Annotated[bool, typer.Option("--unit", help="Scale descriptors to length one.")] = False,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    resize: options.Resize = None,
    force: options.Force = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
) -> None:
    """Write the dense features of an image as safetensors: `features` (channels, rows, columns).

    Example: [b]geco features lion.jpg -o lion.safetensors[/b]
    """
    from geco import extraction, images, matching

    path = output or image.with_suffix(FEATURES[0])
    path = path / image.with_suffix(FEATURES[0]).name if path.is_dir() else path
    path = _outputs.file(path, endings=FEATURES, inputs=[image])
    picture = images.read(image)
    encoder = options.load_model(model, layer=layer, size=size, resize=resize, force=force, device=device, dtype=dtype)
    matching.check_single(encoder)
    with options.timed("encoding the image"):
        features = encoder.extract(picture)
    features = features.unit() if unit else features
    extraction.write_features(path, features, {"model": encoder.name, "unit": str(unit)})
    notes.print(f"features {' × '.join(map(str, features.values.shape))}: {path}")
