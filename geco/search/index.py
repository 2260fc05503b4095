"""An index on disk: a folder with what it is of, and its vectors; both are checked before they are used.

INDEX/index.json            format, model, settings, state of the features, checksum of the vectors
INDEX/vectors.safetensors   the tensors of `vectors`, and the row where each image begins
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from geco.errors import FileError, InputError
from geco.search import building, vectors
from geco.search.collection import Collection
from geco.search.settings import IndexSettings
from geco.search.vectors import Vectors
from geco.system import Progress, codec, documents, files, silent, tensors

FORMAT = 1
CARD, VECTORS, STARTS = "index.json", "vectors.safetensors", "starts"
EXPECTED = "the folder that `geco index` wrote"


@dataclass(frozen=True)
class Card:
    """What an index was made from, and how."""

    format: int
    model: str
    fingerprint: str
    features: str  # the folder of features, as seen from the index
    state: str  # of the features: those of another state are not what was indexed
    kind: str
    dim: int
    images: int
    vectors: int
    checksum: str  # sha256 of the file of vectors
    settings: IndexSettings


@dataclass(frozen=True)
class PartIndex:
    """The patches of a collection, ready to be searched."""

    features: Collection
    vectors: Vectors
    starts: Int64[Tensor, "_"]  # row where each image begins; ends with the number of rows

    def __len__(self) -> int:
        return len(self.features)

    def images_of(self, rows: Int64[Tensor, "n"]) -> Int64[Tensor, "n"]:
        """Number of the image that each vector is of."""
        return torch.searchsorted(self.starts, rows, right=True) - 1


def build_index(
    features: Collection, settings: IndexSettings = IndexSettings(), *, progress: Progress = silent
) -> PartIndex:
    """The index of a collection, in memory."""
    rows, starts = building.build(features, settings, progress=progress)
    return PartIndex(features, rows, starts)


def write_index(index: PartIndex, folder: Path, *, features: Path, settings: IndexSettings = IndexSettings()) -> Path:
    """Write an index; `features` is the folder that was indexed. An index that was there is replaced."""
    files.make_folder(folder)
    state = {**index.vectors.state(), STARTS: index.starts}
    # The old card goes first: vectors without a card are no index, so a kill leaves none that is half new.
    (folder / CARD).unlink(missing_ok=True)
    path = folder / VECTORS
    try:
        files.replace(path, lambda draft: save_file(state, draft))
    except (SafetensorError, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise FileError(f"{path} could not be written: {reason}") from None
    card = Card(
        format=FORMAT,
        model=index.features.model,
        fingerprint=index.features.fingerprint,
        features=os.path.relpath(features.resolve(), folder.resolve()),
        state=index.features.state,
        kind=index.vectors.kind,
        dim=index.features.dim,
        images=len(index),
        vectors=len(index.vectors),
        checksum=files.sha256(path),
        settings=settings,
    )
    return files.replace_text(folder / CARD, codec.to_json(card) + "\n")


def read_card(folder: str | Path) -> Card:
    """What an index says of itself; one of a later release is refused."""
    folder = Path(folder)
    if folder.is_file():
        raise FileError(f"{documents.place(folder)} is a file; expected {EXPECTED}")
    path = folder / CARD
    values = documents.read(path, expected=f"part of {EXPECTED}; was it finished, and copied whole?")
    number = values.get("format")
    if isinstance(number, int) and not isinstance(number, bool) and number > FORMAT:
        raise InputError(f"{path} is of format {number}, this release reads {FORMAT}; upgrade geco, or index again")
    card = codec.build(Card, values, str(path))
    if card.format != FORMAT or card.kind not in ("flat", "ivfpq") or min(card.dim, card.images, card.vectors) < 1:
        raise InputError(f"{path} is damaged: format {card.format}, {card.kind!r}, {card.images} images; index again")
    return card


def read_index(folder: str | Path, features: Collection, card: Card | None = None) -> PartIndex:
    """The index in a folder, if it is whole and was made of these features."""
    folder, card = Path(folder), card or read_card(folder)
    _check_features(folder, card, features)
    path = folder / VECTORS
    documents.check_file(path, expected=f"part of {EXPECTED}; was it copied whole?")
    if files.sha256(path) != card.checksum:
        raise InputError(f"{path} is damaged or of another index: its checksum differs; copy it or index again")
    state, _ = tensors.read_safetensors(path, expected="the vectors of an index")
    try:
        rows = vectors.restored(card.kind, state, card.dim)
        return PartIndex(features, rows, _starts(state, card, len(rows)))
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}; index again") from None


def _check_features(folder: Path, card: Card, features: Collection) -> None:
    if features.fingerprint != card.fingerprint:
        raise InputError(
            f"{folder} is of features of {card.model} ({card.fingerprint[:8]}), the folder of features now holds those "
            f"of {features.model} ({features.fingerprint[:8]}); index again"
        )
    if features.state != card.state:
        raise InputError(
            f"the features have changed since {folder} was made of {card.images} images, there are {len(features)} "
            "now; index again"
        )


def _starts(state: dict[str, Any], card: Card, rows: int) -> Int64[Tensor, "_"]:
    starts = state.get(STARTS)
    if not isinstance(starts, Tensor) or starts.dtype != torch.int64 or starts.shape != (card.images + 1,):
        raise InputError("it does not say where the images begin")
    if rows != card.vectors or int(starts[0]) != 0 or int(starts[-1]) != rows or bool((starts.diff() < 0).any()):
        raise InputError("its images do not fit its vectors")
    return starts
