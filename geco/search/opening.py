"""Indices and their features, found by their folders."""

from pathlib import Path

from geco import checks, extraction
from geco.search.index import PartIndex, read_card, read_index


def default_folder(features: Path) -> Path:
    """Where the index of a folder of features is written unless another place is given: beside it."""
    features = features.resolve()
    return features.with_name(f"{features.name}-index")


def open_index(folder: str | Path, *, features: str | Path | None = None) -> PartIndex:
    """The index that `geco index` wrote, with its features; `features` if they are no longer where they were."""
    folder = checks.path(folder, "an index")
    card = read_card(folder)
    place = folder / card.features if features is None else checks.path(features, "a folder of features")
    return read_index(folder, extraction.open(place), card)
