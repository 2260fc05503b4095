"""What is searched: feature maps by name, all of one model; a folder that `geco extract` wrote is one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from geco import matching
from geco.errors import InputError
from geco.types import FeatureMap


@runtime_checkable
class Collection(Protocol):
    """Feature maps by name, in a fixed order (`geco.extraction.open` returns one)."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the images, each once."""

    @property
    def model(self) -> str:
        """Name of the model that made the maps."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model that made the maps."""

    @property
    def what(self) -> str:
        """What is kept of a map: "maps", "foreground" or, of a whole image, one vector: "global"."""

    @property
    def dim(self) -> int:
        """Channels of a map."""

    @property
    def state(self) -> str:
        """Equal for collections with the same names and the same maps."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> FeatureMap: ...
    def path(self, name: str, /) -> Path | None:
        """The image file; None if it was a part of an archive."""

    def reduce(self, features: FeatureMap, /) -> FeatureMap:
        """A map of the model with the channels that are kept here."""


def check(features: Collection) -> None:
    """Refuse a collection in which no part can be looked for."""
    if features.what == "global":
        raise InputError(
            "these features are one vector for a whole image, in which no part can be found; extract with --what maps"
        )
    if not len(features):
        raise InputError("there are no features to search; extract some images first")


def descriptors(features: FeatureMap, *, foreground: bool = False) -> Float32[np.ndarray, "n c"]:
    """The patches of a map as unit vectors, row-major; those without content are left out, or all background."""
    patches = features.unit().values.float().flatten(1).mT
    chosen = patches.abs().amax(1) != 0
    if foreground:
        chosen &= matching.own_foreground(features).flatten()
    kept: np.ndarray = patches[chosen].contiguous().numpy()
    return kept
