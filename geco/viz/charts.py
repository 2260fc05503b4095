"""Charts of numbers: curves over radii, training or references, reliability, speed, imbalance, confusion matrices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from torch import Tensor

from geco.viz import canvas, palette

CASE_NAMES = {"11": "twin visible (11)", "10": "twin hidden (10)", "1x": "no twin (1x)"}
SHAPES = "os^Dv<>P*X"  # of points
RISING = "lower right"  # where lines that rise leave room for a legend; looking for the best place is slow
BRACKET: dict[str, Any] = {"color": palette.TWIN, "linewidth": 1.5, "clip_on": False}


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str = "",
    x_label: str = "radius α",
    y_label: str = "",
) -> Figure:
    """One line per name, for example PCK over the radius."""
    figure, axes = _chart(5, 3.6, title)
    for name, (x, y) in lines.items():
        axes.plot(x, y, marker=".", label=name)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc=RISING)
    return figure


@dataclass(frozen=True)
class Band:
    """A line and the interval around each of its points."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def bands(lines: Mapping[str, Band], *, title: str = "", x_label: str = "", y_label: str = "") -> Figure:
    """Lines with intervals over a few counts at equal distances, for example PCK over 1, 2, 5, 10 labelled images."""
    figure, axes = _chart(5, 3.6, title)
    counts = sorted({x for line in lines.values() for x in line.x})
    for name, line in lines.items():
        places = [counts.index(x) for x in line.x]
        (drawn,) = axes.plot(places, line.y, marker=".", label=name)
        axes.fill_between(places, line.low, line.high, color=drawn.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.set_xticks(range(len(counts)), labels=[f"{x:g}" for x in counts])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc=RISING)
    return figure


def reliability(rows: Sequence[tuple[float, float, int]], *, title: str = "") -> Figure:
    """Share of wrong points against their uncertainty: (expected, true, points) of each bin; best on the diagonal."""
    figure, axes = _chart(4, 4, title)
    axes.plot([0, 100], [0, 100], color=palette.QUOTED, linewidth=1)
    most = max((count for *_, count in rows), default=1)
    expected, wrong = ([100 * row[side] for row in rows] for side in (0, 1))
    axes.plot(expected, wrong, color=palette.PALETTE[0], linewidth=1)
    axes.scatter(expected, wrong, s=[10 + 190 * count / most for *_, count in rows], color=palette.PALETTE[0])
    for x, y, (*_, count) in zip(expected, wrong, rows, strict=True):
        axes.annotate(f"{count:,}", (x, y), xytext=(7, -10), textcoords="offset points", fontsize=7)
    axes.set(xlabel="uncertainty in %", ylabel="wrong in %", xlim=(0, 100), ylim=(0, 100))
    axes.grid(alpha=0.3)
    return figure


def loss_curves(records: Iterable[Mapping[str, Any]]) -> Figure:
    """Loss and its terms over the steps of a training run, and its validation; from the records of its log."""
    records = list(records)
    steps = [record for record in records if record["kind"] == "step"]
    validations = [record for record in records if record["kind"] == "validation"]
    figure = canvas.figure(10, 3.6, dpi=120)
    left, right = figure.subplots(1, 2)
    for name in [key for key in (steps[-1] if steps else {}) if key == "loss" or key.startswith("loss ")]:
        left.plot([step["step"] for step in steps], [step[name] for step in steps], lw=1, label=name)
    for name in [key for key in (validations[-1] if validations else {}) if key.startswith("PCK")]:
        right.plot(
            [validation["step"] for validation in validations],
            [validation[name] for validation in validations],
            marker=".",
            label=name,
        )
    left.set(xlabel="step", ylabel="loss and terms")
    left.set_ylim(bottom=0)
    right.set(xlabel="step", ylabel="validation PCK@0.1 in %", ylim=(0, 100))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(frameon=False, fontsize=8, loc=RISING)
    return figure


def speed(points: Mapping[str, tuple[float, float]], *, y_label: str = "PCK@0.1 in %") -> Figure:
    """Quality against frames per second, one named point per model."""
    figure, axes = _chart(5, 3.6)
    for name, (frames, quality) in points.items():
        axes.scatter(frames, quality, s=60, zorder=2)
        axes.annotate(name, (frames, quality), xytext=(6, 4), textcoords="offset points")
    _speed_axes(axes, y_label, margin=0.25)
    return figure


def _speed_axes(axes: Any, y_label: str, *, margin: float) -> None:
    """Frames per second on a scale of factors, around the points that are there."""
    axes.set(xlabel="frames per second", ylabel=y_label, xscale="log")
    axes.margins(margin)
    axes.grid(alpha=0.3)
    low, high = axes.get_xlim()
    # Plain numbers: the usual labels of such a scale are formulas, which `canvas.save` does not draw.
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if high / low > 50 else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


@dataclass(frozen=True)
class SpeedPoint:
    """A model in a chart of quality against speed; one that was published, beside the model that is `quoted_for`."""

    name: str
    frames: float  # per second
    quality: float
    quoted_for: str = ""


def speed_panels(
    panels: Mapping[str, Sequence[SpeedPoint]], *, quoted: str = "(published)", y_label: str = "PCK@0.1 in %"
) -> Figure:
    """Quality against frames per second, a panel for each dataset; published points are hollow and grey.

    A model has the same colour and shape in all panels, and what was published of it the same shape; `quoted` stands
    behind its name in the legend.
    """
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    owners = list(dict.fromkeys(point.quoted_for or point.name for points in panels.values() for point in points))
    height = 2.9 * rows + 0.4 + 0.18 * (2 * len(owners) // 3 + 1)
    figure = canvas.figure(max(6.5, 2.6 * columns + 0.6), height)
    legend: dict[str, Any] = {}
    for axes, (title, points) in zip(figure.subplots(rows, columns, squeeze=False).flat, panels.items(), strict=False):
        for point in points:
            number = owners.index(point.quoted_for or point.name)
            colour = palette.PALETTE[number % len(palette.PALETTE)]
            style = {"facecolors": "none", "edgecolors": palette.QUOTED} if point.quoted_for else {"color": colour}
            shape = SHAPES[number % len(SHAPES)]
            name = f"{point.name} {quoted}" if point.quoted_for else point.name
            legend[name] = axes.scatter(point.frames, point.quality, s=50, marker=shape, zorder=2, **style)
        axes.set_title(title)
        _speed_axes(axes, y_label, margin=0.15)
    for axes in figure.axes[len(panels) :]:
        axes.set_visible(False)
    figure.legend(
        legend.values(), legend.keys(), loc="outside lower center", ncols=min(3, len(legend)), frameon=False, fontsize=8
    )
    return figure


def imbalance(shares: Mapping[str, Mapping[str, float]]) -> Figure:
    """How the annotated pairs of each category fall into 11, 10 and 1x, as stacked bars."""
    figure, axes = _chart(6, 1.2 + 0.28 * len(shares), "Share of keypoint pairs in %")
    names = list(shares)
    left = np.zeros(len(names))
    for case, colour in palette.CASES.items():
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
    figure, axes = _chart(2 + 0.3 * number, 1.6 + 0.3 * number)
    cells = axes.imshow(matrix.cpu().numpy(), cmap="viridis", vmin=0)
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
    figure.colorbar(cells, ax=axes, shrink=0.7, pad=0.12)
    return figure


def _chart(width: float, height: float, title: str = "") -> tuple[Figure, Any]:
    figure = canvas.figure(width, height)
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes
