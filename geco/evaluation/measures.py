"""Measures: a number, what it is the number of, its interval and its unit."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from geco.errors import InputError

Unit = Literal["share", "similarity", "ms", "fps", "MB", "M", "degrees", "diagonal"]

# × value: shares in per cent; a diagonal is that of a mesh's bounding box.
SHOWN = {"share": 100.0, **dict.fromkeys(("similarity", "ms", "fps", "MB", "M", "degrees", "diagonal"), 1.0)}


@dataclass(frozen=True)
class Estimate:
    """A number and the interval it is believed to lie in."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measure:
    """What one number says; NaN where there is nothing to divide by, or where no interval was estimated."""

    metric: str
    value: float
    protocol: str = ""
    radius: float | None = None  # share of the image's or box's longer side within which a prediction is a hit
    case: str = ""  # which of several subjects was measured, of a timing the model
    low: float = math.nan
    high: float = math.nan
    unit: Unit = "share"

    def __post_init__(self) -> None:
        if self.unit not in SHOWN:
            raise InputError(f"the unit of {self.metric} must be one of {', '.join(SHOWN)}, got {self.unit!r}")

    @property
    def key(self) -> str:
        """Its name in `values` and `intervals` of a report.json: "geco PCK@0.1"."""
        name = self.metric if self.radius is None else f"{self.metric}@{self.radius:g}"
        place = ", ".join(part for part in (self.case, self.protocol) if part)
        return f"{place} {name}" if place else name

    @property
    def has_interval(self) -> bool:
        """Whether an interval belongs to it; that of an undefined value is undefined as well."""
        return math.isnan(self.value) or not math.isnan(self.low)

    @property
    def cell(self) -> float | Estimate:
        """The number for a table, with its interval if there is one; shares in per cent."""
        scale = SHOWN[self.unit]
        if not self.has_interval:
            return self.value * scale
        return Estimate(self.value * scale, self.low * scale, self.high * scale)

    def of(self, owner: str) -> "Measure":
        """The same measure among those of several owners: its key begins with "owner: "."""
        if self.case:
            return replace(self, case=f"{owner}: {self.case}")
        if self.protocol:
            return replace(self, protocol=f"{owner}: {self.protocol}")
        return replace(self, metric=f"{owner}: {self.metric}")
