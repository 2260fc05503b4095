"""Writing a folder of features: shards in any order, each whole or absent, the index last."""

import csv
import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from geco.errors import InputError
from geco.extraction import contents, index, manifest, reduction, shards
from geco.extraction.manifest import Manifest
from geco.extraction.records import Entry, Failure, Source
from geco.extraction.settings import SHARD_BYTES, ExtractSettings
from geco.system import files, locks
from geco.types import FeatureMap

FAILED = "failed.csv"  # in a folder of features: the images that could not be read, and why
MOST = 4096  # images of a shard: what a kill may cost


def per_shard(settings: ExtractSettings, image_bytes: int) -> int:
    """Images of a shard: the number asked for, or whole batches that make about SHARD_BYTES."""
    if settings.per_shard is not None:
        return settings.per_shard
    return max(1, min(MOST, SHARD_BYTES // image_bytes) // settings.batch_size) * settings.batch_size


def write_shard(
    folder: Path, number: int, about: Manifest, entries: Sequence[Entry], failures: Sequence[Failure]
) -> index.Line:
    """Write a shard; what the index is to say of it."""
    shards.write(folder / shards.file_name(number, about.format), entries, failures, about.format)
    return index.line_of(folder, number, about)


def written_shards(folder: Path, about: Manifest) -> set[int]:
    """The shards that are there, each with its line in the index; what a kill left unfinished is removed."""
    place = folder / shards.FOLDER
    files.remove_drafts(folder)
    files.remove_drafts(place)
    index.repair(folder)
    noted = {line.shard: line.size for _, line in index.offsets(folder)}
    present = {number for number in range(about.shards) if (folder / shards.file_name(number, about.format)).exists()}
    for number in sorted(present):
        size = (folder / shards.file_name(number, about.format)).stat().st_size
        if number not in noted:
            index.append(folder, [index.line_of(folder, number, about)])
        elif noted[number] != size:
            path = folder / shards.file_name(number, about.format)
            raise InputError(
                f"{path} has {size:,} bytes, expected {noted[number]:,}: half a copy; delete it and run again"
            )
    return present


def finish(folder: Path, about: Manifest) -> tuple[int, int]:
    """Put the index in order and list what failed; how many images are stored, and how many failed."""
    index.sort(folder, about)
    stored, failures = 0, 0

    def write(draft: Path) -> None:
        nonlocal stored, failures
        with draft.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["name", "reason"])
            for _, line in index.offsets(folder):
                stored, failures = stored + len(line.records), failures + len(line.failed)
                rows.writerows((failure.name, failure.reason) for failure in line.failed)

    files.replace(folder / FAILED, write)
    return stored, failures


def write_folder(
    folder: str | Path,
    maps: Iterable[tuple[Source | str, FeatureMap]],
    *,
    model: str,
    fingerprint: str,
    settings: ExtractSettings = ExtractSettings(),
) -> Path:
    """A folder of features from maps that exist already, with the names (or sources) of their images."""
    folder = Path(folder)
    named = [(source if isinstance(source, Source) else Source(source, source), one) for source, one in maps]
    if not named:
        raise InputError("a folder of features needs at least one map, got none")
    projection = None if settings.pca is None else reduction.fit((one for _, one in named), settings.pca)
    channels = named[0][1].values.shape[0]
    dim = settings.pca or channels
    image_bytes = contents.size_of(what=settings.what, dim=dim, grid=named[0][1].grid)
    digest = hashlib.sha256("\n".join(source.name for source, _ in named).encode())
    about = Manifest(
        model=model,
        fingerprint=fingerprint,
        channels=channels,
        dim=dim,
        what=settings.what,
        format=settings.format,
        images=len(named),
        per_shard=per_shard(settings, image_bytes),
        batch_size=settings.batch_size,
        image_bytes=image_bytes,
        inputs=digest.hexdigest(),
        pca=settings.pca,
        draft=settings.draft,
    )
    remaining = iter(named)
    with locks.hold(folder, what="writing features"):
        if manifest.exists(folder):
            raise InputError(f"{folder} holds features already; give another folder")
        manifest.write(folder, about)
        if projection is not None:
            reduction.write(folder, projection)
        for number in range(math.ceil(len(named) / about.per_shard)):
            entries = [
                contents.entry(source, _digest(source), one, what=settings.what, projection=projection)
                for source, one in islice(remaining, about.per_shard)
            ]
            index.append(folder, [write_shard(folder, number, about, entries, [])])
        finish(folder, about)
    return folder


def _digest(source: Source) -> str:
    """Checksum of an image's file, as far as there is one."""
    path = Path(source.path)
    return files.sha256(path) if source.offset is None and path.is_file() else ""
