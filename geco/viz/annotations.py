"""Pictures of annotations: what a loader says, drawn on the images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from geco.types import Pair, Skeleton, View
from geco.viz import canvas, palette
from geco.viz.canvas import Picture

DPI = 110


def draw_pair(pair: Pair) -> Figure:
    """Both views with the mask bright, the box, and every visible keypoint with its row number."""
    skeleton = pair.table
    figure = canvas.figure(14, 6.5, dpi=DPI)
    for axes, view in zip(figure.subplots(1, 2), (pair.source, pair.target), strict=True):
        _show(axes, view)
        _draw_keypoints(axes, view, skeleton)
    names = skeleton.names
    twins = [f"{i}–{j} {names[i]}/{names[j]}" for i, j in enumerate(skeleton.twin) if i < j]
    figure.suptitle(f"{pair.category}; counterparts {', '.join(twins) or 'none'}", fontsize=7, wrap=True)
    return figure


def draw_parts(view: View, names: Sequence[str]) -> Figure:
    """The view with its part map in colours, and their names."""
    figure = canvas.figure(12, 6, dpi=DPI)
    left, right = figure.subplots(1, 2)
    _show(left, view)
    parts = view.part_map.numpy()
    canvas.overlay(right, palette.LABELS(parts % 20)[..., :3] * (parts > 0)[..., None], size=view.size)
    canvas.bare(right)
    for part in np.unique(parts[parts > 0]):
        rows, columns = np.nonzero(parts == part)
        right.text(columns.mean() + 0.5, rows.mean() + 0.5, names[part - 1], color="white", fontsize=8, ha="center")
    return figure


def _show(axes: Any, view: View) -> None:
    """The view with what is not on its mask darkened, its box, its name and its size."""
    canvas.show(axes, _dimmed(view))
    axes.set_autoscale_on(True)  # an annotation that lies outside the image must be seen
    axes.set_title(f"{view.name}  {view.size[0]}×{view.size[1]}", fontsize=8)
    if view.box is not None:
        x0, y0, x1, y1 = view.box.tolist()
        axes.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color="white", linewidth=0.8)


def _dimmed(view: View) -> Picture:
    image = view.pixels if view.pixels.is_floating_point() else view.pixels.float() / 255
    return torch.where(view.mask, image, image * palette.DIMMED) if isinstance(view.mask, Tensor) else image


def _draw_keypoints(axes: Any, view: View, skeleton: Skeleton) -> None:
    for i, name in enumerate(skeleton.names):
        if view.points.visible[i]:
            point, colour = canvas.position(view.points.xy[i]), palette.LABELS(i % 20)
            canvas.mark(axes, point, colour, size=5, edge="black", edge_width=1)
            axes.annotate(f"{i} {name}", point, (4, 3), textcoords="offset points", color=colour, fontsize=6)
