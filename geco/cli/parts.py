"""`geco parts`: label the parts of new photographs from a few labelled ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli._options import Device, InputSize, Layer, Model, load_model

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor


PANEL = "Photographs"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("parts", rich_help_panel=PANEL)(parts)


def parts(
    pictures: Annotated[
        list[Path], typer.Argument(help="Labelled photos, then the photos to label.", show_default=False)
    ],
    labels: Annotated[
        list[Path],
        typer.Option(help="Label image of each labelled photo, in order: 0 is background, i is part i."),
    ],
    names: Annotated[str | None, typer.Option(help="Names of parts 1, 2, …: head,body,tail.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the part maps.")] = Path("parts"),
    model: Model = None,
    layer: Layer = None,
    size: InputSize = None,
    device: Device = "auto",
) -> None:
    """Carry part labels from a few photos to new ones (nearest median feature); writes label images and pictures.

    A label image has the photo's size and one channel (grey or palette).

    Example: [bold]geco parts lion.jpg --labels lion-parts.png cheetah.jpg tiger.jpg --names head,body,legs,tail[/]
    """
    from PIL import Image as Pillow

    from geco import figures, images
    from geco.benchmarks import parts as benchmark
    from geco.cli import _evaluation as shared
    from geco.config.evaluation import PartsProtocol

    known, new = pictures[: len(labels)], pictures[len(labels) :]
    if not new:
        raise ValueError(
            f"{len(labels)} label images need {len(labels)} labelled photos and at least one to label, got "
            f"{len(pictures)} photos"
        )
    maps = [read_labels(label, photo) for label, photo in zip(labels, known, strict=True)]
    called = _names(names, max(int(one.max()) for one in maps))
    encoder = load_model(model, layer=layer, size=size, device=device)
    samples: dict[int, list[Tensor]] = {}
    protocol = PartsProtocol(unit="pixel")
    for photo, known_labels in zip(known, maps, strict=True):
        benchmark.collect(samples, encoder.extract(photo), known_labels, protocol, background=True)
    import torch

    rule = benchmark.centroids({part: torch.cat(some) for part, some in samples.items()}, protocol)
    out.mkdir(parents=True, exist_ok=True)
    with shared.progress_bars() as progress:
        for done, photo in enumerate(new):
            pixels = images.read(photo)
            found = benchmark.label(encoder.extract(pixels), rule, "pixel")
            Pillow.fromarray(found.to(torch.uint8).numpy()).save(out / f"{photo.stem}-parts.png")
            figure = figures.part_map(pixels, found, called, title=photo.name)
            figure.savefig(out / f"{photo.stem}-picture.png", dpi=150)
            progress("label", done + 1, len(new))
    for photo in new:
        print(out / f"{photo.stem}-parts.png")


def _names(text: str | None, number: int) -> list[str]:
    given = text.split(",") if text else [f"part {i}" for i in range(1, number + 1)]
    if len(given) < number:
        raise ValueError(f"the label images have parts up to {number}, --names gives {len(given)} names")
    return ["background", *given]


def read_labels(path: Path, photo: Path) -> "Int[Tensor, 'h w']":
    """Part numbers of the pixels of a one-channel image that has its photograph's size."""
    import numpy as np
    import torch
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    from geco import images

    try:
        with Pillow.open(path) as opened:
            values = np.array(opened)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; expected a label image") from None
    except UnidentifiedImageError:
        raise ValueError(f"{path} is not an image; expected a PNG of part numbers") from None
    if values.ndim != 2:
        raise ValueError(f"{path} must have one channel of part numbers (grey or palette), got {values.shape[2]}")
    if values.shape != images.size_of(photo):
        height, width = images.size_of(photo)
        raise ValueError(
            f"{path} is {values.shape[0]}×{values.shape[1]} (height×width), its photo {photo} {height}×{width}"
        )
    return torch.from_numpy(values.astype(np.int64))
