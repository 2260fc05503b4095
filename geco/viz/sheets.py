"""Sheets of examples: queries, where they went, where match and twin are, and how similar everything is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from geco.errors import InputError
from geco.viz import canvas
from geco.viz.canvas import Picture
from geco.viz.palette import MATCH, QUERY, TWIN

# What the target shows in each case of PGCK.
MEANING = {"11": "match and twin visible", "10": "match visible, twin hidden", "01": "only the twin visible"}
HEADINGS = ("source: query", "target: match ●, twin ■", "similarity, prediction ×")


@dataclass(frozen=True)
class Example:
    """One query for a sheet: where it is, where it went, where match and twin are."""

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
        raise InputError("a sheet needs at least one example")
    figure = canvas.figure(7.5, 0.4 + 2.4 * len(examples))
    figure.suptitle(title)
    grid = figure.subplots(len(examples), 3, squeeze=False)
    for row, example in zip(grid, examples, strict=True):
        _draw_row(row, example)
    for axes, heading in zip(grid[0], HEADINGS, strict=True):
        axes.set_title(heading, fontsize=9)
    return figure


def _draw_row(row: Iterable[Any], example: Example) -> None:
    source, target, similarity = row
    canvas.show(source, example.source, frame=True)
    canvas.show(target, example.target, frame=True)
    _show_heat(similarity, example)
    source.set_ylabel(example.caption)
    canvas.mark(source, example.query, QUERY, edge_width=1)
    for axes in (target, similarity):
        if example.match is not None:
            canvas.mark(axes, example.match, MATCH, edge_width=1)
        if example.twin is not None:
            canvas.mark(axes, example.twin, TWIN, shape="s", edge_width=1)
    canvas.mark(similarity, example.predicted, QUERY, shape="x", edge=QUERY, edge_width=2)


def _show_heat(axes: Any, example: Example) -> None:
    """The similarity in colours over the darkened grey target."""
    size = (example.target.shape[-2], example.target.shape[-1])
    grey = canvas.pixels(example.target).mean(-1) / 2
    heat = example.heat.detach().float().cpu().numpy()
    canvas.overlay(axes, grey, size=size, cmap="gray", vmin=0, vmax=255)
    canvas.overlay(axes, heat, size=size, cmap="inferno", alpha=0.65, vmin=0, vmax=1)
    axes.set_autoscale_on(False)
    canvas.bare(axes, frame=True)
