"""Pictures of matching: transferred points, mutual matches, heat maps and principal components."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from torch import Tensor

from geco.types import FeatureMap, Matches
from geco.viz import canvas
from geco.viz.canvas import WIDTH, Picture, mark
from geco.viz.palette import PALETTE, VERMILLION

LEGEND_WIDTH = 140  # characters


def draw_transfer(
    source: Picture,
    target: Picture,
    matches: Matches,
    *,
    title: str = "",
    names: Sequence[str] = (),
    labels: tuple[str, str] = ("source", "target"),
) -> Figure:
    """Numbered points in the source and where they went; what is not visible is listed below the target."""
    legend = _legend(matches, names)
    figure, (left, right) = canvas.side_by_side(source, target, labels, rows_below=len(legend))
    for i in range(len(matches.score)):
        colour = PALETTE[i % len(PALETTE)]
        visible = bool(matches.visible[i])
        mark(left, matches.source[i], colour, str(i + 1), filled=visible)
        if visible:
            mark(right, matches.target[i], colour, str(i + 1))
    figure.supxlabel("\n".join(legend), fontsize=8)
    canvas.title(figure, title)
    return figure


def _legend(matches: Matches, names: Sequence[str]) -> list[str]:
    """Names and scores in rows that fit the width of the figure; hidden points say so."""
    entries = []
    for i, (score, visible) in enumerate(zip(matches.score.tolist(), matches.visible.tolist(), strict=True)):
        name = f"{i + 1} {names[i]}" if i < len(names) else f"{i + 1}"
        entries.append(f"{name}: {score:.2f}" if visible else f"{name}: not visible ({score:.2f})")
    rows, row = [], ""
    for entry in entries:
        if row and len(row) + len(entry) > LEGEND_WIDTH:
            rows.append(row)
            row = ""
        row = f"{row}   {entry}" if row else entry
    return [*rows, row]


def draw_matches(
    source: Picture,
    target: Picture,
    matches: Matches,
    *,
    title: str = "",
    limit: int = 60,
    labels: tuple[str, str] = ("source", "target"),
) -> Figure:
    """Patches joined across the two images, coloured by their place in the source; `limit` spread over the best."""
    figure, (left, right) = canvas.side_by_side(source, target, labels)
    visible = matches.visible.nonzero()[:, 0]
    spread = torch.linspace(0, len(visible) - 1, min(limit, len(visible))).round().long()
    chosen = visible[spread] if len(visible) else visible
    height = source.shape[-2]
    for i in chosen.tolist():
        start, end = canvas.position(matches.source[i]), canvas.position(matches.target[i])
        colour = colormaps["viridis"](start[1] / height)
        line = ConnectionPatch(start, end, "data", "data", axesA=left, axesB=right, color=colour, lw=0.8, alpha=0.75)
        line.set_in_layout(False)
        figure.add_artist(line)
        mark(left, start, colour, size=3.5, edge_width=0.5)
        mark(right, end, colour, size=3.5, edge_width=0.5)
    right.set_xlabel(f"{len(chosen)} of {len(visible)} mutual matches", fontsize=8)
    canvas.title(figure, title)
    return figure


def draw_heatmap(
    source: Picture,
    target: Picture,
    point: tuple[float, float],
    heat: Float[Tensor, "h w"],
    *,
    threshold: float,
    title: str = "",
    labels: tuple[str, str] = ("source", "target"),
) -> Figure:
    """One point of the source, and its similarity to every pixel of the target with the best pixel marked."""
    figure, (left, right) = canvas.side_by_side(source, target, labels)
    mark(left, point, VERMILLION)
    scores = heat.float().cpu().numpy()
    size = (scores.shape[0], scores.shape[1])
    colours = canvas.overlay(right, scores, size=size, cmap="viridis", alpha=0.6, interpolation="bilinear")
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    best = float(scores.max())
    visible = best >= threshold
    mark(right, (column + 0.5, row + 0.5), VERMILLION, filled=visible)
    bar = figure.colorbar(colours, ax=right, fraction=0.046, pad=0.02)
    bar.ax.tick_params(labelsize=7)
    bar.set_label("cosine similarity", fontsize=8)
    verdict = "visible" if visible else "not visible here"
    right.set_xlabel(f"best {best:.2f}, threshold {threshold:.2f}: {verdict}", fontsize=8)
    canvas.title(figure, title)
    return figure


def draw_components(pictures: Sequence[Picture], maps: Sequence[FeatureMap], *, title: str = "") -> Figure:
    """First three principal components of all images' features together, as red, green and blue."""
    figure = canvas.figure(WIDTH, 2.15 * WIDTH / len(pictures))
    axes = figure.subplots(2, len(pictures), squeeze=False)
    for column, (picture, colours) in enumerate(zip(pictures, principal_components(maps), strict=True)):
        above, below = axes[0][column], axes[1][column]
        canvas.show(above, picture)
        size = (picture.shape[-2], picture.shape[-1])
        canvas.overlay(below, colours.numpy(), size=size, interpolation="nearest", aspect="equal")
        canvas.bare(below)
    canvas.title(figure, title)
    return figure


def principal_components(maps: Sequence[FeatureMap], count: int = 3) -> list[Float[Tensor, "h w n"]]:
    """Leading principal components of the unit features of all maps together, each scaled to [0, 1]."""
    rows = torch.cat([features.unit().values.flatten(1).mT for features in maps]).cpu()
    centred = rows - rows.mean(0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    # The sign of a component is arbitrary: fix it, so that a picture can be drawn again.
    directions = directions[:count] * directions[:count].sum(1, keepdim=True).sign()
    scores = centred @ directions.mT
    low, high = scores.quantile(0.01, 0), scores.quantile(0.99, 0)
    scaled = ((scores - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
    pieces = scaled.split([features.grid[0] * features.grid[1] for features in maps])
    return [piece.unflatten(0, features.grid) for piece, features in zip(pieces, maps, strict=True)]
