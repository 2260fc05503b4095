"""Geometry-aware dense image features: match parts across photos, tell left from right, know what is hidden.

    import geco
    matches = geco.transfer("lion.jpg", "cheetah.jpg", [(120, 80), (160, 82)])

Importing this module does nothing: names are resolved when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geco.api import features, heatmap, load, match, transfer
    from geco.model import Geco
    from geco.types import FeatureMap, Keypoints, Matches, Pair, Skeleton, View

__version__ = "0.1.0"

_HOMES = {
    "geco.api": ("features", "heatmap", "load", "match", "transfer"),
    "geco.model": ("Geco",),
    "geco.types": ("FeatureMap", "Keypoints", "Matches", "Pair", "Skeleton", "View"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022, sorted by what a user meets first
    "load",
    "transfer",
    "match",
    "heatmap",
    "features",
    "Geco",
    "FeatureMap",
    "Matches",
    "Keypoints",
    "Skeleton",
    "View",
    "Pair",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'geco' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
