"""Labels of a few images carried to many."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
    from geco.propagation.centroids import (
        Centroids,
        collect,
        encode_views,
        fit,
        fit_centroids,
        fit_encoded,
        label_map,
    )
    from geco.propagation.keypoints import Propagator, propagate
    from geco.propagation.labels import LabelMap, label, read_labels
    from geco.propagation.settings import CentroidSettings, KeypointSettings

__all__, __getattr__, __dir__ = lazy.door(__name__)
