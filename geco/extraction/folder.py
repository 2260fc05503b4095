"""Folders of features: what `geco extract` wrote, read image by image without loading a shard."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geco import checks
from geco.errors import FileError, InputError
from geco.extraction import index, manifest, reduction, shards
from geco.extraction.records import Entry, Failure, Record, checksum, record_of
from geco.system import documents, files
from geco.types import FeatureMap, Size

OPEN = 8  # shards that are kept open
AGAIN = "run the same `geco extract` again, or copy the folder again"


@dataclass(frozen=True)
class _Held:
    """What is kept in memory of a shard."""

    place: int  # of its line in the index
    size: int
    sha256: str
    names: tuple[str, ...]
    failed: tuple[Failure, ...]


@dataclass(frozen=True)
class Patches:
    """Descriptors of some patches of an image."""

    cells: Int[Tensor, "n"]  # row-major numbers in the grid
    vectors: Float[Tensor, "n c"]
    grid: Size
    size: Size  # of the image


def open(folder: str | Path, *, partial: bool = False, verify: bool = False) -> "FeatureFolder":
    """The features in a folder that `geco extract` wrote.

    A folder that is not complete (a run that is not finished, a copy that was cut short) is refused unless `partial`.
    Each image's numbers are checked against their checksum when they are read; `verify` reads every shard right now.
    """
    features = FeatureFolder(checks.path(folder, "a folder of features"), partial=partial)
    if verify:
        features.verify()
    return features


class FeatureFolder:
    """Features of a collection by the names of its images: `len(features)`, `features.names`, `features[name]`.

    Names and their places are held in memory, some hundred bytes for each image; everything else stays on disk.
    """

    def __init__(self, folder: Path, *, partial: bool = False) -> None:
        self.folder, self.manifest = folder, manifest.read(folder)
        self.model, self.fingerprint = self.manifest.model, self.manifest.fingerprint
        self.what, self.dim = self.manifest.what, self.manifest.dim
        held: dict[int, _Held] = {}
        for place, line in index.offsets(folder):  # its records are not kept: there may be millions
            names = tuple(record["name"] for record in line.records)
            held[line.shard] = _Held(place, line.size, line.sha256, names, line.failed)
        self._held = dict(sorted(held.items()))
        self._check(partial)
        self.names = tuple(name for shard in self._held.values() for name in shard.names)
        self.failures = tuple(failure for shard in self._held.values() for failure in shard.failed)
        self._shards = list(self._held)
        self._ends = list(accumulate(len(shard.names) for shard in self._held.values()))
        self._positions = {name: position for position, name in enumerate(self.names)}
        if len(self._positions) < len(self.names):
            raise InputError(f"{folder / index.NAME} names an image twice; it is damaged: {AGAIN}")
        self.projection = reduction.read(folder, self.manifest)
        self._records = lru_cache(OPEN)(self._read_records)
        self._open = lru_cache(OPEN)(self._open_shard)

    def _check(self, partial: bool) -> None:
        """Refuse a folder of which something is missing; shards themselves are not read."""
        total = self.manifest.shards
        if not set(self._held) <= set(range(total)):
            raise InputError(
                f"{self.folder / index.NAME} has shards beyond the {total} there are; it is damaged: {AGAIN}"
            )
        if len(self._held) < total and not partial:
            raise InputError(
                f"{self.folder} has {len(self._held)} of {total} shards: an unfinished run, or half a copy; {AGAIN}"
            )
        for number, shard in self._held.items():
            path, size = self._file(number), shard.size
            if not checks.is_file(path):
                raise FileError(f"{path} is missing: half a copy; {AGAIN}")
            if path.stat().st_size != size:
                raise InputError(f"{path} has {path.stat().st_size:,} bytes, expected {size:,}: half a copy; {AGAIN}")

    def verify(self) -> None:
        """Read every shard and compare its checksum."""
        for number, shard in self._held.items():
            if files.sha256(self._file(number)) != shard.sha256:
                raise InputError(f"{self._file(number)} has another checksum than when it was written; {AGAIN}")

    @property
    def complete(self) -> bool:
        """Whether every image that was given has been encoded, or found unreadable."""
        return len(self._held) == self.manifest.shards

    @property
    def state(self) -> str:
        """Hash of what is stored: equal for folders with the same features of the same images."""
        stored = [(number, shard.sha256) for number, shard in self._held.items()]
        return hashlib.sha256(repr((self.fingerprint, stored)).encode()).hexdigest()[:32]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __getitem__(self, name: str) -> FeatureMap:
        """The map of an image, in float32; of foreground patches with zeros elsewhere, of one vector with one cell."""
        entry = self._entry(self._position(name))
        size = entry.record.size
        if entry.cells is None:
            return FeatureMap(_floats(entry.values), size)
        rows, columns = entry.record.grid
        values = torch.zeros(self.dim, rows * columns)
        values[:, torch.from_numpy(entry.cells).long()] = _floats(entry.values).T
        return FeatureMap(values.unflatten(1, (rows, columns)), size)

    def patches(self, name: str) -> Patches:
        """The patches that are stored of an image: those of the foreground, all, or the one vector."""
        entry = self._entry(self._position(name))
        record = entry.record
        if entry.cells is None:
            vectors = _floats(entry.values).flatten(1).T.contiguous()
            return Patches(torch.arange(len(vectors)), vectors, record.grid, record.size)
        cells = torch.from_numpy(entry.cells).long()
        return Patches(cells, _floats(entry.values), record.grid, record.size)

    def items(self) -> Iterator[tuple[str, FeatureMap]]:
        """Every name with its map, shard by shard."""
        for name in self.names:
            yield name, self[name]

    def record(self, name: str) -> Record:
        """What is known of an image: where it was, its size, its checksum."""
        shard, number = self._place(self._position(name))
        return self._records(shard)[number]

    def records(self) -> Iterator[Record]:
        """The records of all images, in the order of `names`."""
        for shard in self._shards:
            yield from self._records(shard)

    def path(self, name: str) -> Path | None:
        """The file an image was read from; None if that was a part of an archive."""
        source = self.record(name).source
        return Path(source.path) if source.offset is None else None

    def reduce(self, features: FeatureMap) -> FeatureMap:
        """A map of the model as it would be stored here: with the same number of channels (`--pca`)."""
        return features if self.projection is None else reduction.project(features, self.projection)

    # --- places -------------------------------------------------------------------------------------------------------

    def _file(self, shard: int) -> Path:
        return self.folder / shards.file_name(shard, self.manifest.format)

    def _position(self, name: str) -> int:
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            known = documents.listed(map(documents.shown, self.names[:4]))
            raise InputError(
                f"{self.folder} has no image {documents.shown(name)}; the names of its {len(self)} begin with {known}"
            ) from None

    def _place(self, position: int) -> tuple[int, int]:
        """Shard, and number in it."""
        order = bisect_right(self._ends, position)
        return self._shards[order], position - (self._ends[order - 1] if order else 0)

    def _read_records(self, shard: int) -> tuple[Record, ...]:
        line = index.line_at(self.folder, self._held[shard].place)
        return tuple(record_of(record, f"{self.folder / index.NAME}, shard {shard}") for record in line.records)

    def _open_shard(self, shard: int) -> shards.Shard:
        return shards.open_shard(self._file(shard), self.manifest.format)

    def _entry(self, position: int) -> Entry:
        shard, number = self._place(position)
        record = self._records(shard)[number]
        values, cells = self._open(shard).read(number)
        damaged = f"{self._file(shard)}: the features of {documents.shown(record.source.name)} are damaged; {AGAIN}"
        if values.dtype != np.float16 or checksum(values, cells) != record.crc32:
            raise InputError(damaged)
        rows, columns = record.grid
        if values.shape != ((self.dim, rows, columns) if cells is None else (len(cells), self.dim)):
            raise InputError(damaged)
        if cells is not None and len(cells) and not 0 <= cells.min() <= cells.max() < rows * columns:
            raise InputError(damaged)
        return Entry(record, values, cells)


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
