"""Labels from a few references: keypoints of some animals carried to others of their category, over 1, 2, 5, … labels.

Votes of all references are compared with transfer from one and with centroids, their uncertainty with the truth.
"""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.evaluation.fewshot.draws import Draw, draw_references
    from geco.evaluation.fewshot.pictures import draw
    from geco.evaluation.fewshot.points import Prediction, Predictions, collect
    from geco.evaluation.fewshot.prediction import predict, run
    from geco.evaluation.fewshot.summary import METHODS, summarise

__all__, __getattr__, __dir__ = lazy.door(__name__)
