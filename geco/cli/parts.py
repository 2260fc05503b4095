"""`geco parts`: label the parts of new images from a few labelled ones."""

from pathlib import Path
from typing import Annotated

import typer

from geco.cli import _outputs
from geco.cli._options import Device, Dtype, Force, InputSize, Layer, Model, load_model
from geco.cli._progress import progress_bars
from geco.errors import InputError

PANEL = "Images"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("parts", rich_help_panel=PANEL)(parts)


def parts(
    pictures: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES", help="Labelled images, then the images to label.", show_default=False),
    ],
    labels: Annotated[
        list[Path],
        typer.Option(help="Label image of each labelled image, in order: 0 is background, i is part i."),
    ],
    names: Annotated[str | None, typer.Option(help="Names of parts 1, 2, …: head,body,tail.")] = None,
    out: Annotated[Path, _outputs.option("Folder of the part maps.")] = Path("parts"),
    model: Model = None,
    layer: Layer = None,
    size: InputSize = None,
    force: Force = False,
    device: Device = "auto",
    dtype: Dtype = "float32",
) -> None:
    """Carry part labels from a few images to new ones (nearest median feature); writes label images and pictures.

    A label image has one channel (grey or palette) and the size of the image it labels.

    Example: [bold]geco parts lion.jpg --labels lion-parts.png cheetah.jpg tiger.jpg --names head,body,legs,tail[/]
    """
    from geco import api, images, propagation, viz
    from geco.system import files

    known, new = pictures[: len(labels)], pictures[len(labels) :]
    if not new:
        raise InputError(
            f"{len(labels)} label images need {len(labels)} labelled images and at least one to label, got "
            f"{len(pictures)} images"
        )
    label_files = [out / f"{name}-parts.png" for name in _outputs.names(new)]
    for path in (*label_files, *(out / f"{name}-picture.png" for name in _outputs.names(new))):
        _outputs.spare(path, [*pictures, *labels])
    _outputs.folder(out)
    known_maps = [
        propagation.read_labels(path, images.size_of(picture)) for path, picture in zip(labels, known, strict=True)
    ]
    highest = max(int(part_map.max()) for part_map in known_maps)
    part_names = _names(names, highest)
    encoder = load_model(model, layer=layer, size=size, force=force, device=device, dtype=dtype)
    new_maps = api.label(zip(known, known_maps, strict=True), new, model=encoder)
    with progress_bars() as progress:
        for done, (picture, part_map, path) in enumerate(zip(new, new_maps, label_files, strict=True), 1):
            image = viz.palette_image(part_map)
            files.replace(path, lambda draft, image=image: image.save(draft, format="PNG"))
            figure = viz.part_map(images.read(picture), part_map, part_names, title=picture.name)
            viz.save(figure, path.with_name(path.name.replace("-parts.png", "-picture.png")))
            progress("label", done, len(new))
    for path in label_files:
        print(path)


def _names(text: str | None, number: int) -> list[str]:
    """Names of the labels from 0 to `number`."""
    names = text.split(",") if text else [f"part {i}" for i in range(1, number + 1)]
    if len(names) < number:
        raise InputError(f"the label images have parts up to {number}, --names gives {len(names)} names")
    return ["background", *names]
