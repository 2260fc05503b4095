"""Labels of a few images carried to many."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
    from geco.propagation.boxes import Boxes, read_boxes
    from geco.propagation.centroids import (
        Centroids,
        collect,
        encode_views,
        fit,
        fit_centroids,
        fit_encoded,
        label_map,
    )
    from geco.propagation.choosing import expected_errors, worth_labelling
    from geco.propagation.formats.registry import FORMATS, format_for, lost, read_annotations, write_annotations
    from geco.propagation.formats.streams import TRACK_FORMATS, TrackWriter, track_format
    from geco.propagation.journal import Journal, Result
    from geco.propagation.keypoints import Propagator
    from geco.propagation.labels import LabelMap, label, read_labels
    from geco.propagation.overlay import OverlayWriter
    from geco.propagation.references import Reference, mean_descriptor, reference, window_of
    from geco.propagation.rounds import join_corrections, numbered
    from geco.propagation.runs import digest, label_files, propagate
    from geco.propagation.settings import CentroidSettings, KeypointSettings, TrackSettings
    from geco.propagation.tracking import TrackedFrame, Tracker, labelled_frames, track
    from geco.propagation.video import VIDEO_ENDINGS, VideoFrame, VideoInfo, frames, is_video, pick, video_info
    from geco.propagation.voting import Panel, score_maps

__all__, __getattr__, __dir__ = lazy.door(__name__)
