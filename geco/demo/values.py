"""Values of requests, checked, and those of answers that a page can show."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from geco import checks, viz
from geco.demo.answers import Stroke
from geco.demo.board import Spot
from geco.demo.sheet import Keypoint
from geco.errors import InputError

Values = Mapping[str, Any]  # of a request
STROKES, STROKE_POINTS = 300, 4000  # of a painting, and of one of its strokes
PARTS = 3  # that can be painted


def colour(point: Spot | Keypoint) -> str:
    """The colour of a point, as pictures have it."""
    return viz.PALETTE[(point.number - 1) % len(viz.PALETTE)]


def embedded(png: bytes) -> str:
    """The address of a picture that is its own content."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def several(values: object, what: str, *, most: int) -> Sequence[Any]:
    """The list, if it is one that is not empty and not too long."""
    if not isinstance(values, list) or not values or len(values) > most:
        raise InputError(f"{what} must be a list of 1 to {most}, got {checks.shown(values)}")
    return values


def strokes_of(values: object) -> list[Stroke]:
    """The strokes of a painting."""
    return [_stroke(stroke) for stroke in several(values, "strokes", most=STROKES)]


def _stroke(values: object) -> Stroke:
    if not isinstance(values, dict):
        raise InputError(f"a stroke has part, radius and points, got {checks.shown(values)}")
    points = several(values.get("points"), "the points of a stroke", most=STROKE_POINTS)
    for point in points:
        if not isinstance(point, list) or len(point) != 2:
            raise InputError(f"a point of a stroke is [x, y], got {checks.shown(point)}")
    return Stroke(
        checks.whole(values.get("part"), "the part of a stroke", least=0, most=PARTS),
        checks.number(values.get("radius"), "the radius of a stroke", above=0, most=1e5),
        tuple(
            (checks.number(x, "x", least=-1e6, most=1e6), checks.number(y, "y", least=-1e6, most=1e6))
            for x, y in points
        ),
    )
