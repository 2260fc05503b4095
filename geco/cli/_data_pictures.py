"""Pictures of annotations, to look at: what a loader says, drawn on the images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from torch import Tensor

from geco.types import Pair, Skeleton, View

COLOURS = colormaps["tab20"]
DIMMED = 0.35  # brightness of what is not on the mask


def draw_pair(pair: Pair) -> Figure:
    """Both views with the mask bright, the box, and every visible keypoint with its row number."""
    assert isinstance(pair.skeleton, Skeleton)
    figure = Figure(figsize=(14, 6.5), dpi=110, layout="constrained")
    for axes, view in zip(figure.subplots(1, 2), (pair.source, pair.target), strict=True):
        _show(axes, _dimmed(view), view)
        _box(axes, view)
        _points(axes, view, pair.skeleton)
    twins = [
        f"{i}–{j} {pair.skeleton.names[i]}/{pair.skeleton.names[j]}" for i, j in enumerate(pair.skeleton.twin) if i < j
    ]
    figure.suptitle(f"{pair.category}; counterparts {', '.join(twins) or 'none'}", fontsize=7, wrap=True)
    return figure


def draw_parts(view: View, names: Sequence[str]) -> Figure:
    """The view with its part map in colours, and their names."""
    assert view.parts is not None
    figure = Figure(figsize=(12, 6), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    _show(left, _dimmed(view), view)
    _box(left, view)
    parts = view.parts.numpy()
    coloured = COLOURS(parts % 20)[..., :3] * (parts > 0)[..., None]
    right.imshow(coloured, extent=(0, view.size[1], view.size[0], 0))
    right.set_axis_off()
    for label in np.unique(parts[parts > 0]):
        rows, columns = np.nonzero(parts == label)
        right.text(columns.mean(), rows.mean(), names[label - 1], color="white", fontsize=8, ha="center")
    return figure


def _show(axes: Any, pixels: np.ndarray, view: View) -> None:
    # The extent puts the corner of the first pixel at (0, 0), which is where points count from.
    axes.imshow(pixels, extent=(0, view.size[1], view.size[0], 0))
    axes.set_title(f"{view.name}  {view.size[0]}×{view.size[1]}", fontsize=8)
    axes.set_axis_off()


def _dimmed(view: View) -> np.ndarray:
    assert isinstance(view.image, Tensor)
    pixels = view.image.permute(1, 2, 0).float() / 255
    if isinstance(view.mask, Tensor):
        pixels = torch.where(view.mask[..., None], pixels, pixels * DIMMED)
    return pixels.numpy()


def _box(axes: Any, view: View) -> None:
    if view.box is not None:
        x0, y0, x1, y1 = view.box.tolist()
        axes.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color="white", linewidth=0.8)


def _points(axes: Any, view: View, skeleton: Skeleton) -> None:
    assert view.keypoints is not None
    for i, name in enumerate(skeleton.names):
        if view.keypoints.visible[i]:
            x, y = view.keypoints.xy[i].tolist()
            colour = COLOURS(i % 20)
            axes.plot(x, y, "o", color=colour, markersize=5, markeredgecolor="black")
            axes.annotate(f"{i} {name}", (x, y), (4, 3), textcoords="offset points", color=colour, fontsize=6)
