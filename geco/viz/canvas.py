"""The canvas of every picture: a figure, images on it, points on the images. Points count from the image's corner.

Drawn with matplotlib's objects, without pyplot: no window, no global state, nothing to close.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Num, UInt8
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from torch import Tensor

from geco.errors import InputError
from geco.system import files
from geco.types import Size

KINDS = ("png", "jpg", "jpeg", "webp", "tif", "tiff", "pdf", "svg")  # of pictures, by the ending of their file
WIDTH = 10.0  # inches
DPI = 150
ROW = 0.15  # inches of a row of the legend
OUTLINE = [withStroke(linewidth=2.2, foreground="white")]

Picture = UInt8[Tensor, "3 _ _"] | Float[Tensor, "3 _ _"]  # 8-bit, or in [0, 1]


def figure(width: float, height: float, *, dpi: int = DPI) -> Figure:
    """An empty figure; sides in inches."""
    return Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure, making its folder; the ending chooses the format (`KINDS`)."""
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower() or "png"
    if kind not in KINDS:
        raise InputError(f"{path} names no kind of picture; expected one that ends in .{', .'.join(KINDS)}")
    _take_text_as_it_is(figure)
    return files.replace(path, lambda draft: figure.savefig(draft, format=kind))


def png(figure: Figure) -> bytes:
    """The bytes of the figure as a PNG file."""
    _take_text_as_it_is(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _take_text_as_it_is(figure: Figure) -> None:
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # names may hold a $, which is no formula


def side_by_side(
    source: Picture, target: Picture, labels: tuple[str, str], *, rows_below: int = 1
) -> tuple[Figure, Any]:
    """Two panels of equal height, as wide as their images need."""
    ratios = [picture.shape[-1] / picture.shape[-2] for picture in (source, target)]
    height = min(6.0, (WIDTH - 0.4) / sum(ratios))
    drawing = figure(WIDTH, height + 0.85 + ROW * rows_below)
    axes = drawing.subplots(1, 2, width_ratios=ratios)
    for panel, picture, label in zip(axes, (source, target), labels, strict=True):
        show(panel, picture)
        panel.set_title(label, fontsize=9)
    return drawing, axes


def show(axes: Any, picture: Picture, *, frame: bool = False) -> AxesImage:
    """The image on bare axes, whose coordinates are pixels with the origin at the image's top-left corner."""
    shown = overlay(axes, pixels(picture), size=(picture.shape[-2], picture.shape[-1]))
    axes.set_autoscale_on(False)
    bare(axes, frame=frame)
    return shown


def overlay(axes: Any, values: Num[np.ndarray, "..."], *, size: Size, **style: Any) -> AxesImage:
    """An array of any resolution spread over an image of `size`."""
    height, width = size
    # The extent puts the corner of the first pixel at (0, 0), which is where points count from.
    return axes.imshow(values, extent=(0, width, height, 0), **style)


def pixels(picture: Picture) -> UInt8[np.ndarray, "_ _ 3"]:
    """Rows of 8-bit RGB pixels."""
    values = picture.detach().cpu()
    values = (values * 255).round() if values.is_floating_point() else values
    return values.permute(1, 2, 0).numpy().astype(np.uint8)


def bare(axes: Any, *, frame: bool = False) -> None:
    """Remove ticks and, unless `frame`, the frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(frame)


def position(point: Any) -> tuple[float, float]:
    """(x, y) of a point, as numbers that matplotlib takes."""
    x, y = (float(value) for value in point)
    return x, y


def mark(
    axes: Any,
    point: Any,
    colour: Any,
    label: str = "",
    *,
    shape: str = "o",
    filled: bool = True,
    size: float = 8,
    edge: str = "white",
    edge_width: float = 1.4,
) -> None:
    """A point of the image, filled or as a ring, with a label beside it."""
    x, y = position(point)
    style = {"mfc": colour, "mec": edge} if filled else {"mfc": "none", "mec": colour}
    axes.plot(x, y, shape, ms=size, mew=edge_width, **style)
    if label:
        # Labels of points near the right or upper border go to the other side, so that none is clipped.
        right, top = max(axes.get_xlim()), min(axes.get_ylim())
        left_side, below = x > 0.92 * right, y < top + 0.06 * max(axes.get_ylim())
        axes.annotate(
            label,
            (x, y),
            xytext=(-6 if left_side else 6, -6 if below else 5),
            textcoords="offset points",
            ha="right" if left_side else "left",
            va="top" if below else "bottom",
            fontsize=9,
            fontweight="bold",
            color=colour,
            path_effects=OUTLINE,
        )


def title(figure: Figure, text: str) -> None:
    """A title over the whole figure, if there is one."""
    if text:
        figure.suptitle(text, fontsize=10)
