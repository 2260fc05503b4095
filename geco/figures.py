"""Figures of an evaluation: curves, speed, imbalance bars, confusion matrices, qualitative sheets, part maps.

Drawn with matplotlib's objects, without pyplot: no window, no global state, nothing to close.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

Picture = UInt8[Tensor, "3 _ _"] | Float[Tensor, "3 _ _"]  # sides differ from picture to picture
# Of Okabe and Ito's palette, told apart with every common colour blindness; match and twin differ in shape as well.
MATCH, TWIN, QUERY = "#009E73", "#D55E00", "#F0E442"
CASE_COLOURS = {"11": "#D55E00", "10": "#E69F00", "1x": "#56B4E9"}
MEANING = {"11": "match and twin visible", "10": "match visible, twin hidden", "01": "only the twin visible"}
CASE_NAMES = {"11": "twin visible (11)", "10": "twin hidden (10)", "1x": "no twin (1x)"}


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str = "",
    x_label: str = "radius α",
    y_label: str = "",
) -> Figure:
    """One line per name, for example PCK over the radius."""
    figure, axes = _canvas(5, 3.6, title)
    for name, (x, y) in lines.items():
        axes.plot(x, y, marker=".", label=name)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def speed(points: Mapping[str, tuple[float, float]], *, y_label: str = "PCK@0.1 in %") -> Figure:
    """Quality against frames per second, one named point per model."""
    figure, axes = _canvas(5, 3.6, "")
    for name, (frames, quality) in points.items():
        axes.scatter(frames, quality, s=60, zorder=2)
        axes.annotate(name, (frames, quality), xytext=(6, 4), textcoords="offset points")
    axes.set(xlabel="frames per second", ylabel=y_label, xscale="log")
    axes.margins(0.25)
    axes.grid(alpha=0.3)
    return figure


def imbalance(shares: Mapping[str, Mapping[str, float]]) -> Figure:
    """How the annotated pairs of each category fall into 11, 10 and 1x, as stacked bars."""
    figure, axes = _canvas(6, 1.2 + 0.28 * len(shares), "Share of keypoint pairs in %")
    names = list(shares)
    left = np.zeros(len(names))
    for case, colour in CASE_COLOURS.items():
        width = np.nan_to_num([100 * shares[name][case] for name in names])
        axes.barh(names, width, left=left, color=colour, label=CASE_NAMES[case])
        left += width
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.35 / max(1, 0.28 * len(names))))
    return figure


def confusion(
    matrix: Float[Tensor, "n n"],
    names: Sequence[str],
    twins: Sequence[tuple[int, int]] = (),
    *,
    title: str = "",
) -> Figure:
    """Confusion matrix, predicted vertical and true horizontal; twin pairs are bracketed."""
    number = len(names)
    figure, axes = _canvas(2 + 0.3 * number, 1.6 + 0.3 * number, title)
    picture = axes.imshow(matrix.cpu().numpy(), cmap="viridis", vmin=0)
    axes.set_xticks(range(number), labels=list(names), rotation=90)
    axes.set_yticks(range(number), labels=list(names))
    axes.set(xlabel="true part", ylabel="predicted part")
    for depth, (first, second) in enumerate(twins):
        away = 0.25 * (1 + depth % 3)  # outside the picture; neighbouring brackets step aside
        ends, reach = [first, first, second, second], [0, away, away, 0]
        axes.plot(ends, [-0.5 - step for step in reach], **BRACKET)
        axes.plot([number - 0.5 + step for step in reach], ends, **BRACKET)
    axes.set(xlim=(-0.5, number - 0.5), ylim=(number - 0.5, -0.5))
    axes.set_title(title, pad=24)
    figure.colorbar(picture, ax=axes, shrink=0.7, pad=0.12)
    return figure


BRACKET: dict[str, Any] = {"color": TWIN, "linewidth": 1.5, "clip_on": False}


@dataclass(frozen=True)
class Example:
    """One query for a qualitative sheet: where it is, where it went, where match and twin are."""

    source: Picture
    target: Picture
    query: Float[Tensor, "2"]
    predicted: Float[Tensor, "2"]
    match: Float[Tensor, "2"] | None
    twin: Float[Tensor, "2"] | None
    heat: Float[Tensor, "_ _"]  # cosine with the query, at any resolution
    caption: str = ""


def sheet(examples: Sequence[Example], *, title: str = "") -> Figure:
    """One row per example: source with query, target with match and twin, heat map with prediction."""
    if not examples:
        raise ValueError("a sheet needs at least one example")
    figure = Figure(figsize=(7.5, 0.4 + 2.4 * len(examples)), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(len(examples), 3, squeeze=False)
    for row, example in zip(grid, examples, strict=True):
        height, width = example.target.shape[-2:]
        row[0].imshow(_picture(example.source))
        row[1].imshow(_picture(example.target))
        row[2].imshow(_picture(example.target).mean(-1) / 2, cmap="gray", vmin=0, vmax=255)
        heat = example.heat.detach().float().cpu().numpy()
        row[2].imshow(heat, cmap="inferno", alpha=0.65, extent=(-0.5, width - 0.5, height - 0.5, -0.5), vmin=0, vmax=1)
        _mark(row[0], example.query, QUERY, "o")
        for axes in row[1:]:
            _mark(axes, example.match, MATCH, "o")
            _mark(axes, example.twin, TWIN, "s")
        _mark(row[2], example.predicted, QUERY, "x")
        row[0].set_ylabel(example.caption)
        for axes in row:
            axes.set_xticks([])
            axes.set_yticks([])
    for axes, name in zip(
        grid[0], ("source: query", "target: match ●, twin ■", "similarity, prediction ×"), strict=True
    ):
        axes.set_title(name, fontsize=9)
    return figure


def part_map(image: Picture, labels: Int[Tensor, "h w"], names: Sequence[str], *, title: str = "") -> Figure:
    """The image under its part labels, 0 being background, with a legend of the parts that occur."""
    figure, axes = _canvas(6, 4, title)
    colours = part_colours(len(names))
    height, width = image.shape[-2:]
    axes.imshow(_picture(image))
    values = np.ma.masked_equal(labels.cpu().numpy(), 0)
    box = (-0.5, width - 0.5, height - 0.5, -0.5)
    last = max(1, len(names) - 1)
    axes.imshow(
        values,
        cmap=ListedColormap(colours),
        vmin=0,
        vmax=last,
        alpha=0.6,
        extent=box,
        interpolation="nearest",
    )
    occurring = sorted(set(values.compressed().tolist()))
    axes.legend(
        handles=[Patch(color=colours[label], label=names[label]) for label in occurring],
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
    )
    axes.axis("off")
    return figure


def part_colours(number: int) -> list[tuple[float, float, float]]:
    """Distinct colours for part labels; neighbours in the list differ, so twins do."""
    table = colormaps["tab20"].resampled(20)
    return [tuple(table((7 * i) % 20)[:3]) for i in range(max(2, number))]  # 7 and 20 share no factor


def _canvas(width: int | float, height: int | float, title: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


def _picture(image: Picture) -> np.ndarray:
    """(h, w, 3) in 0…255 from a tensor that is 8-bit or floating point in [0, 1]."""
    pixels = image.detach().cpu()
    pixels = pixels * 255 if pixels.is_floating_point() else pixels
    return pixels.permute(1, 2, 0).numpy().astype(np.uint8)


def _mark(axes: Any, point: Float[Tensor, "2"] | None, colour: str, shape: str) -> None:
    """A point with corner origin; imshow puts pixel centres on whole numbers, half a pixel away."""
    if point is not None:
        x, y = (float(value) - 0.5 for value in point)
        edge = {"markeredgecolor": "white"} if shape != "x" else {"markeredgewidth": 2}
        axes.plot([x], [y], shape, color=colour, markersize=8, **edge)
