"""An index from a collection: every patch once, in the order of the images."""

import statistics
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from geco.errors import InputError
from geco.search import vectors
from geco.search.collection import Collection, check, descriptors
from geco.search.settings import IndexSettings
from geco.search.vectors import Vectors
from geco.system import Progress, silent

LOOKED_AT = 64  # images that tell how many patches there are of all
GROUP = 64  # images that are added at once
PER_IMAGE = 64  # patches at most of an image in the sample


def build(
    features: Collection, settings: IndexSettings = IndexSettings(), *, progress: Progress = silent
) -> tuple[Vectors, Int64[Tensor, "_"]]:
    """The index of all patches of a collection, and the row where each image begins (one more than images)."""
    check(features)
    expected = _expected(features, settings)
    starts = [0]

    def batches() -> Iterator[Float32[np.ndarray, "n c"]]:
        waiting: list[np.ndarray] = []
        for done, name in enumerate(features.names, 1):
            waiting.append(_patches(features, name, settings))
            starts.append(starts[-1] + len(waiting[-1]))
            if len(waiting) == GROUP or done == len(features):
                yield np.concatenate(waiting)
                waiting.clear()
                progress("index", done, len(features))

    if settings.kind == "flat" or (settings.kind == "auto" and expected <= settings.exact):
        index = vectors.flat(batches(), features.dim)
    else:
        index = vectors.ivfpq(_sample(features, expected, settings), batches(), settings, expected=expected)
    if not len(index):
        raise InputError("every patch of these features is empty, so there is nothing to search")
    return index, torch.tensor(starts)


def _expected(features: Collection, settings: IndexSettings) -> int:
    """How many patches there are, told from some images."""
    counts = [len(_patches(features, name, settings)) for name in _spread(features, LOOKED_AT)]
    return max(1, round(statistics.mean(counts) * len(features)))


def _spread(features: Collection, count: int) -> list[str]:
    places = np.linspace(0, len(features) - 1, min(count, len(features))).round().astype(int)
    return [features.names[place] for place in places]


def _sample(features: Collection, expected: int, settings: IndexSettings) -> Float32[np.ndarray, "s c"]:
    """Patches drawn from images spread over the collection, the same number of each."""
    random = np.random.default_rng(settings.seed)
    per_image = max(1, min(expected // len(features), PER_IMAGE))
    some = []
    for name in _spread(features, -(-settings.sample // per_image)):
        patches = _patches(features, name, settings)
        some.append(patches[random.permutation(len(patches))[:per_image]])
    return np.concatenate(some)[: settings.sample]


def _patches(features: Collection, name: str, settings: IndexSettings) -> Float32[np.ndarray, "n c"]:
    patches = descriptors(features[name], foreground=settings.foreground)
    if not np.isfinite(patches).all():
        raise InputError(f"the features of {name} hold NaN or infinity; extract them again")
    return patches
