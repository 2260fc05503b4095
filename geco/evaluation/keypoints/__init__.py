"""Keypoint transfer: PCK under named protocols, PGCK with all its counters, hidden points (GECO §4).

First every pair is predicted (each image encoded once, each target prepared once), then everything is counted from the
predictions: several protocols, all radii, categories and intervals cost nothing extra.
"""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.evaluation.keypoints.comparison import compare
    from geco.evaluation.keypoints.failures import draw_failures, misses
    from geco.evaluation.keypoints.journal import Journal, Prediction, digest, read_predictions
    from geco.evaluation.keypoints.pictures import draw, draw_examples, examples
    from geco.evaluation.keypoints.prediction import predict, run, ways
    from geco.evaluation.keypoints.summary import summarise
    from geco.evaluation.metrics.keypoints import evaluate

__all__, __getattr__, __dir__ = lazy.door(__name__)
