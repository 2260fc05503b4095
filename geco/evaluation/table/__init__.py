"""The paper's tables for any models and datasets: PCK and milliseconds, PGCK, parts, and PCK against speed.

A row is a model, a column a dataset. Results are kept by model (its fingerprint), dataset, split and protocol, so a run
that was stopped continues, and another run with more rows or columns adds to it.
"""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.evaluation.table.columns import Column, KeypointColumn, PartsColumn, load_column
    from geco.evaluation.table.cost import RowCost
    from geco.evaluation.table.rows import Row, run
    from geco.evaluation.table.summary import RowResult, draw, summarise

__all__, __getattr__, __dir__ = lazy.door(__name__)
