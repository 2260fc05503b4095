"""Matching two images: where points of one lie in the other, and whether they are visible there."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.matching.encoders import check_single, compares_pairs, paired, suited
    from geco.matching.foreground import common_foreground, own_foreground
    from geco.matching.given import Points, as_points
    from geco.matching.patches import mutual, nearest, similarity
    from geco.matching.points import transfer
    from geco.matching.regions import Placed, Region, in_images, place
    from geco.matching.scorer import Target, check_finite, prepare, queries, score_maps
    from geco.matching.settings import MatchSettings

__all__, __getattr__, __dir__ = lazy.door(__name__)
