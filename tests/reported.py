"""A small table that tests of reports share: a number with an interval, an empty row, a plain number."""

import math

from geco.evaluation import Estimate, Table

TABLE = Table(
    "pck",
    "PCK & <co>",
    ("category", "n", "PCK", "PGCK_11"),
    (
        ("cat_1", 12, Estimate(71.25, 60.0, 80.125), 3.0),
        ("empty", 0, Estimate(math.nan, math.nan, math.nan), math.nan),
        ("all", 12, 71.25, None),
    ),
    note="share of 100 % <hits>",
)
