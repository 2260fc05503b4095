"""Pictures of parts: an image under its part labels."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from geco.viz import canvas, palette
from geco.viz.canvas import Picture


def part_map(image: Picture, labels: Int[Tensor, "h w"], names: Sequence[str], *, title: str = "") -> Figure:
    """The image under its part labels, 0 being background, with a legend of the parts that occur."""
    figure = canvas.figure(6, 4)
    axes = figure.subplots()
    axes.set_title(title)
    canvas.show(axes, image)
    colours = part_colours(len(names))
    parts = np.ma.masked_equal(labels.cpu().numpy(), 0)
    canvas.overlay(
        axes,
        parts,
        size=(image.shape[-2], image.shape[-1]),
        cmap=ListedColormap(colours),
        vmin=0,
        vmax=max(1, len(names) - 1),
        alpha=0.6,
        interpolation="nearest",
    )
    axes.legend(
        handles=[Patch(color=colours[part], label=names[part]) for part in sorted(set(parts.compressed().tolist()))],
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
    )
    return figure


def part_colours(number: int) -> list[tuple[float, float, float]]:
    """Distinct colours for part labels; neighbours in the list differ, so twins do."""
    table = palette.LABELS.resampled(20)
    return [tuple(table((7 * i) % 20)[:3]) for i in range(max(2, number))]  # 7 and 20 share no factor
