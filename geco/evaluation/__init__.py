"""The paper's tables: keypoint transfer, parts, 2D–3D, running time; metrics, intervals and reports."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.evaluation import fewshot, frames, keypoints, parts, pose, published, runtime, search, surface, table
    from geco.evaluation.measures import Estimate, Measure
    from geco.evaluation.rendering import rich_table, save_report
    from geco.evaluation.report import Curve, Report, Table, load_report, report_json, side_by_side

__all__, __getattr__, __dir__ = lazy.door(__name__)
