"""Pictures of parts: an image under its part labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image as Pillow
from torch import Tensor

from geco.types import Size
from geco.viz import canvas, palette
from geco.viz.canvas import Picture

LIGHTEST, CONTRAST = 250, 0.42  # of the grey image under a part map


def part_map(image: Picture, labels: Int[Tensor, "h w"], names: Sequence[str], *, title: str = "") -> Figure:
    """The image under its part labels, 0 being background, with a legend of the parts that occur."""
    figure = canvas.figure(6, 4)
    axes = figure.subplots()
    axes.set_title(title)
    canvas.overlay(axes, _faded(image), size=(image.shape[-2], image.shape[-1]))
    axes.set_autoscale_on(False)
    canvas.bare(axes)
    colours = part_colours(len(names))
    parts = np.ma.masked_equal(labels.cpu().numpy(), 0)
    canvas.overlay(
        axes,
        parts,
        size=(image.shape[-2], image.shape[-1]),
        cmap=ListedColormap(colours),
        vmin=0,
        vmax=max(1, len(names) - 1),
        alpha=0.65,
        interpolation="nearest",
    )
    _outline(axes, labels.cpu().numpy(), size=(image.shape[-2], image.shape[-1]))
    axes.legend(
        handles=[Patch(color=colours[part], label=names[part]) for part in sorted(set(parts.compressed().tolist()))],
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
    )
    return figure


def _faded(image: Picture) -> UInt8[np.ndarray, "_ _ 3"]:
    """The image in light grey: colours laid over it stay legible where the image is dark, and mean parts only."""
    grey = canvas.pixels(image).astype(np.float32).mean(-1, keepdims=True)
    return (LIGHTEST - (255 - grey) * CONTRAST).round().astype(np.uint8).repeat(3, axis=-1)


def _outline(axes: Any, labels: Int[np.ndarray, "h w"], *, size: Size) -> None:
    """White lines where one label ends and another begins."""
    rows, columns = labels.shape
    height, width = size[0] / rows, size[1] / columns
    y, x = np.nonzero(labels[:, 1:] != labels[:, :-1])
    axes.vlines((x + 1) * width, y * height, (y + 1) * height, colors="white", linewidths=0.8)
    y, x = np.nonzero(labels[1:] != labels[:-1])
    axes.hlines((y + 1) * height, x * width, (x + 1) * width, colors="white", linewidths=0.8)


def palette_image(labels: Int[Tensor, "h w"]) -> Pillow.Image:
    """The label map as an image whose pixel values are the labels; up to 255 they have colours in every viewer."""
    values = labels.cpu().numpy()
    if int(values.max(initial=0)) > 255:
        return Pillow.fromarray(values.astype(np.uint16))
    image = Pillow.fromarray(values.astype(np.uint8), mode="P")
    colours = np.array([(0, 0, 0), *part_colours(256)[1:]])
    image.putpalette((colours * 255).round().astype(np.uint8).tobytes())
    return image


def part_colours(number: int) -> list[tuple[float, float, float]]:
    """Distinct colours for part labels, none of them grey like the image below; neighbours in the list differ."""
    greys = (14, 15)
    table = [to_rgb(palette.LABELS(i)) for i in range(20) if i not in greys]
    cycle = [*map(to_rgb, palette.PALETTE[:-1]), *(table[(5 * i) % len(table)] for i in range(len(table)))]
    return [to_rgb("#7F7F7F"), *(cycle[i % len(cycle)] for i in range(max(1, number - 1)))]
