"""Sheets of misses: pairs of images with the queries that went astray, where they went and where they belong."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from geco.errors import InputError
from geco.viz import canvas
from geco.viz.canvas import Picture
from geco.viz.palette import MATCH, QUERY, TWIN

Place = Literal[
    "twin", "other", "outside", "elsewhere"
]  # where a miss went; "other": another keypoint, "outside": off the box
ACROSS = 2  # pairs beside each other
LINE = 72  # characters of the names under a pair


@dataclass(frozen=True)
class Miss:
    """A query that missed its visible match."""

    name: str  # of the keypoint
    query: Float[Tensor, "2"]
    match: Float[Tensor, "2"]
    predicted: Float[Tensor, "2"]
    place: Place  # what was hit instead …
    hit: str | None  # … and its name, if it is a keypoint


@dataclass(frozen=True)
class MissedPair:
    """A pair of a sheet."""

    source: Picture
    target: Picture
    misses: tuple[Miss, ...]
    queries: int  # with a visible match, hit or missed


def miss_sheet(pairs: Sequence[MissedPair], *, title: str = "") -> Figure:
    """Pairs two in a row: the missed queries, numbered; in the target a line from each match to the prediction."""
    if not pairs:
        raise InputError("a sheet needs at least one pair")
    rows = -(-len(pairs) // ACROSS)
    figure = canvas.figure(2.9 * 2 * ACROSS, 0.5 + 3.1 * rows)
    canvas.title(figure, f"{title} (match ●, prediction ×, red if at the twin)".strip())
    grid = figure.subplots(rows, 2 * ACROSS, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for number, pair in enumerate(pairs):
        row, column = divmod(number, ACROSS)
        _draw(grid[row, 2 * column], grid[row, 2 * column + 1], pair)
    return figure


def _draw(source: Any, target: Any, pair: MissedPair) -> None:
    for axes, picture in ((source, pair.source), (target, pair.target)):
        canvas.show(axes, picture)
    source.set_title("queries", fontsize=8)
    target.set_title(f"{len(pair.misses)} of {pair.queries} missed", fontsize=8)
    for number, miss in enumerate(pair.misses, start=1):
        colour = TWIN if miss.place == "twin" else QUERY
        label = str(number)
        canvas.mark(source, miss.query, colour, label, size=5, edge_width=0.8)
        start, end = canvas.position(miss.match), canvas.position(miss.predicted)
        target.plot(*zip(start, end, strict=True), "-", color=colour, lw=1)
        canvas.mark(target, miss.match, MATCH, label, size=5, edge_width=0.8)
        canvas.mark(target, miss.predicted, colour, shape="x", size=6, edge=colour, edge_width=1.6)
    names = ", ".join(f"{number} {miss.name}" for number, miss in enumerate(pair.misses, start=1))
    source.text(0, -0.03, textwrap.fill(names, LINE), transform=source.transAxes, va="top", fontsize=6)
    for axes in (source, target):
        axes.set_autoscale_on(False)
