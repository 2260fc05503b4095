"""geco inside other libraries: a matcher of vismatch, and a model of transformers' keypoint matching.

Each library is imported when its names are first used, and not before.
"""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.interop.transformers import (
        GecoConfig,
        GecoForKeypointMatching,
        GecoImageProcessor,
        register_with_transformers,
    )
    from geco.interop.vismatch import GecoMatcher

__all__, __getattr__, __dir__ = lazy.door(__name__)
