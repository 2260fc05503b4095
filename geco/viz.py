"""Pictures: matches, transferred points, heat maps and principal components, good enough for a paper.

Functions return a matplotlib `Figure` and never touch global state; `save` writes it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from torch import Tensor

from geco.types import FeatureMap, Matches

# Okabe and Ito's palette, distinguishable with every common colour blindness; yellow first reads badly on fur.
PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#F0E442", "#000000")
WIDTH = 10.0  # inches
DPI = 150
LEGEND_WIDTH = 140  # characters
ROW = 0.15  # inches of a row of the legend
OUTLINE = [withStroke(linewidth=2.2, foreground="white")]

Picture = UInt8[Tensor, "3 _ _"]


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
    figure, (left, right) = _side_by_side(source, target, labels, rows_below=len(legend))
    for i in range(len(matches.score)):
        colour = PALETTE[i % len(PALETTE)]
        visible = bool(matches.visible[i])
        _mark(left, matches.source[i], colour, str(i + 1), filled=visible)
        if visible:
            _mark(right, matches.target[i], colour, str(i + 1), filled=True)
    figure.supxlabel("\n".join(legend), fontsize=8)
    _title(figure, title)
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
    from matplotlib import colormaps
    from matplotlib.patches import ConnectionPatch

    figure, (left, right) = _side_by_side(source, target, labels)
    shown = matches.visible.nonzero()[:, 0]
    chosen = shown[torch.linspace(0, len(shown) - 1, min(limit, len(shown))).round().long()] if len(shown) else shown
    height = source.shape[-2]
    for i in chosen.tolist():
        start, end = _place(matches.source[i]), _place(matches.target[i])
        colour = colormaps["viridis"](start[1] / height)
        line = ConnectionPatch(start, end, "data", "data", axesA=left, axesB=right, color=colour, lw=0.8, alpha=0.75)
        line.set_in_layout(False)
        figure.add_artist(line)
        for axes, point in ((left, start), (right, end)):
            axes.plot(*point, "o", ms=3.5, color=colour, mec="white", mew=0.5)
    right.set_xlabel(f"{len(chosen)} of {len(shown)} mutual matches", fontsize=8)
    _title(figure, title)
    return figure


def draw_heatmap(
    source: Picture,
    target: Picture,
    point: tuple[float, float],
    heat: Float[Tensor, "h w"],
    *,
    bin: float,
    title: str = "",
    labels: tuple[str, str] = ("source", "target"),
) -> Figure:
    """One point of the source, and its similarity to every pixel of the target with the best pixel marked."""
    figure, (left, right) = _side_by_side(source, target, labels)
    _mark(left, point, PALETTE[3], "", filled=True)
    scores = heat.float().cpu().numpy()
    height, width = scores.shape
    colours = right.imshow(scores, cmap="viridis", alpha=0.6, extent=(0, width, height, 0), interpolation="bilinear")
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    best = float(scores.max())
    visible = best >= bin
    _mark(right, (column + 0.5, row + 0.5), PALETTE[3], "", filled=visible)
    bar = figure.colorbar(colours, ax=right, fraction=0.046, pad=0.02)
    bar.ax.tick_params(labelsize=7)
    bar.set_label("cosine similarity", fontsize=8)
    verdict = "visible" if visible else "not visible here"
    right.set_xlabel(f"best {best:.2f}, bin threshold {bin:.2f}: {verdict}", fontsize=8)
    _title(figure, title)
    return figure


def draw_components(pictures: Sequence[Picture], maps: Sequence[FeatureMap], *, title: str = "") -> Figure:
    """First three principal components of all images' features together, as red, green and blue."""
    colours = principal_components(maps)
    figure = Figure(figsize=(WIDTH, 2.15 * WIDTH / len(pictures)), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, len(pictures), squeeze=False)
    for column, (picture, colour) in enumerate(zip(pictures, colours, strict=True)):
        height, width = picture.shape[-2:]
        _show(axes[0][column], picture)
        axes[1][column].imshow(colour.numpy(), extent=(0, width, height, 0), interpolation="nearest", aspect="equal")
        _bare(axes[1][column])
    _title(figure, title)
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


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure, making its folder; the ending chooses the format (png, pdf, svg)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _side_by_side(
    source: Picture, target: Picture, labels: tuple[str, str], *, rows_below: int = 1
) -> tuple[Figure, Any]:
    """Two panels of equal height, as wide as their images ask for."""
    ratios = [picture.shape[-1] / picture.shape[-2] for picture in (source, target)]
    height = min(6.0, (WIDTH - 0.4) / sum(ratios))
    figure = Figure(figsize=(WIDTH, height + 0.85 + ROW * rows_below), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, 2, width_ratios=ratios)
    for panel, picture, label in zip(axes, (source, target), labels, strict=True):
        _show(panel, picture)
        panel.set_title(label, fontsize=9)
    return figure, axes


def _show(axes: Any, picture: Picture) -> None:
    height, width = picture.shape[-2:]
    # The extent puts the corner of the first pixel at (0, 0), which is where our points count from.
    axes.imshow(picture.permute(1, 2, 0).cpu().numpy(), extent=(0, width, height, 0))
    axes.set_autoscale_on(False)
    _bare(axes)


def _bare(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _place(point: Any) -> tuple[float, float]:
    x, y = (float(value) for value in point)
    return x, y


def _mark(axes: Any, point: Any, colour: str, label: str, *, filled: bool) -> None:
    x, y = _place(point)
    style = {"mfc": colour, "mec": "white"} if filled else {"mfc": "none", "mec": colour}
    axes.plot(x, y, "o", ms=8, mew=1.4, **style)
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


def _title(figure: Figure, title: str) -> None:
    if title:
        figure.suptitle(title, fontsize=10)
