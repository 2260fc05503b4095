"""Geometry-aware dense image features: match parts across images, tell left from right, know what is hidden.

    import geco

    matches = geco.transfer("lion.jpg", "cheetah.jpg", [(103, 65), (133, 65)])
    matches.target, matches.score, matches.visible  # where each point lies, how sure, whether it is visible there

    model = geco.load()                      # the packaged model; or a name, a run folder, a hub id
    features = model.extract("image.jpg")    # FeatureMap: values (channels, rows, columns), size of the image

Functions: load, transfer, match, heatmap, features, label, propagate, find, decorate, estimate_pose. Points are (x, y)
in pixels from the image's top-left corner, sizes (height, width). Everything that takes `model=` takes a name or a
loaded model, and loads the packaged one otherwise.

Importing this module does nothing: names are resolved when they are first used. The parts of the package are
geco.matching, geco.models, geco.data, geco.training, geco.evaluation and so on; each names what it offers.
"""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.api import decorate, estimate_pose, features, find, heatmap, label, load, match, propagate, transfer
    from geco.errors import GecoError
    from geco.images import ImageLimits, Readable
    from geco.matching import Region
    from geco.matching.settings import MatchSettings
    from geco.models import Extractor, Geco
    from geco.models.settings import EncoderConfig, LoraSettings
    from geco.pose import Decoration, Pose
    from geco.pose.settings import DecorateSettings, PoseSettings
    from geco.propagation import LabelledImage, LabelSet
    from geco.propagation.settings import KeypointSettings
    from geco.search import Found, Hit, PartIndex
    from geco.search.settings import SearchSettings
    from geco.types import Encoder, FeatureMap, Keypoints, MaskFile, Matches, Pair, Size, Skeleton, View, Window

__version__ = "0.2.0"
__all__, __getattr__, __dir__ = lazy.door(__name__)
