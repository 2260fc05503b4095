"""Beginning an extraction, or resuming one: the plan, the manifest, the room on the disk, and what is missing."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

from geco import matching
from geco.errors import FileError, InputError
from geco.extraction import contents, encoding, manifest, plan, writing
from geco.extraction.jobs import Job, Task, Work
from geco.extraction.manifest import Manifest
from geco.extraction.records import Failure, Source
from geco.extraction.settings import ExtractSettings
from geco.system import documents, files, locks
from geco.types import Encoder, FeatureMap

PROBED = 16  # images at most that are tried until one tells how large maps are
UNKNOWN_GRID = (37, 37)  # if none of them can be read
TRIED = 64 * 2**20  # bytes that are written to see whether they can be: quotas do not show in what is free
OVERHEAD = 600  # bytes of an image in the plan, the index and the shard's own records
BORDER = "patches unlike the image's border"
MASKS = "masks"


@contextmanager
def begin(
    folder: Path,
    find: Callable[[], Iterable[Source]],
    encoder: Encoder,
    settings: ExtractSettings,
    *,
    masks: Path | None = None,
) -> Iterator[Job]:
    """The extraction of the images that `find` names, begun or resumed; no other run writes the folder meanwhile."""
    matching.check_single(encoder)
    with locks.hold(folder, what="extracting features"):
        about = _resumed(folder, find, encoder, settings, masks) if manifest.exists(folder) else None
        about = about or _begun(folder, find, encoder, settings, masks)
        done = writing.written_shards(folder, about)
        starts = plan.offsets(folder, about.per_shard)
        if len(starts) != about.shards:
            raise InputError(f"{folder / plan.NAME} is not the list of this folder's images; delete {folder}")
        tasks = tuple(
            Task(number, starts[number], len(about.images_of(number)))
            for number in range(about.shards)
            if number not in done
        )
        yield _with_room(Job(Work(folder, about, masks), tasks, sum(len(about.images_of(n)) for n in done), 0, 0))


def _begun(
    folder: Path,
    find: Callable[[], Iterable[Source]],
    encoder: Encoder,
    settings: ExtractSettings,
    masks: Path | None,
) -> Manifest:
    files.remove_drafts(folder)
    others = [path.name for path in folder.iterdir() if path.name not in (locks.NAME, plan.NAME)]
    if others:
        raise InputError(f"{folder} is not empty (it has {others[0]}), and no folder of features; give another --out")
    given = plan.write(folder, find())
    about = _manifest(given, encoder, settings, masks)
    first = plan.read(folder, 0, min(PROBED, given.images))
    grid = next((features.grid for features in _readable(encoder, first)), UNKNOWN_GRID)
    each = contents.size_of(what=about.what, dim=about.dim, grid=grid)
    about = replace(about, per_shard=writing.per_shard(settings, each), image_bytes=each)
    _with_room(Job(Work(folder, about), (Task(0, 0, given.images),), 0, 0, 0))
    manifest.write(folder, about)
    return about


def _resumed(
    folder: Path,
    find: Callable[[], Iterable[Source]],
    encoder: Encoder,
    settings: ExtractSettings,
    masks: Path | None,
) -> Manifest:
    """The manifest of a folder that is there, if it is what this run would make."""
    about = manifest.read(folder)
    wanted = _manifest(plan.Plan(about.images, about.inputs), encoder, settings, masks)
    wanted = replace(wanted, image_bytes=about.image_bytes, per_shard=settings.per_shard or about.per_shard)
    for name in (entry.name for entry in fields(Manifest)):
        before, now = getattr(about, name), getattr(wanted, name)
        if before != now:
            raise InputError(
                f"{folder} holds features with {name} {before!r}, this run has {now!r}; give the same, or another --out"
            )
    if plan.of(find()).digest != about.inputs:
        raise InputError(
            f"{folder} is of another list of images ({about.images} then); give the same images, or another --out"
        )
    return about


def _manifest(given: plan.Plan, encoder: Encoder, settings: ExtractSettings, masks: Path | None) -> Manifest:
    if settings.pca is not None and settings.pca > encoder.dim:
        raise InputError(f"pca must be at most the model's {encoder.dim} channels, got {settings.pca}")
    return Manifest(
        model=encoder.name,
        fingerprint=encoder.fingerprint(),
        channels=encoder.dim,
        dim=settings.pca or encoder.dim,
        what=settings.what,
        format=settings.format,
        images=given.images,
        per_shard=settings.per_shard or 1,
        batch_size=settings.batch_size,
        image_bytes=1,
        inputs=given.digest,
        pca=settings.pca,
        draft=settings.draft,
        foreground=None if settings.what != "foreground" else BORDER if masks is None else MASKS,
    )


def _with_room(job: Job) -> Job:
    """The job with what it still writes; an error if the disk has no room for that."""
    about, folder = job.work.about, job.work.folder
    size = sum(task.images for task in job.tasks) * (about.image_bytes + OVERHEAD)
    free = shutil.disk_usage(folder).free
    if size > free and about.what != "foreground":  # whose size is not known beforehand
        need, there = documents.amount(size), documents.amount(free)
        raise FileError(
            f"{folder}: {about.images:,} images need {need} more, and {there} are free; give another --out, "
            "or store less (--pca 64, --what global)"
        )
    try:
        files.try_room(folder, min(size, TRIED))
    except OSError as error:
        raise FileError(
            f"{folder} cannot be written: {(error.strerror or str(error)).lower()}; give another --out"
        ) from None
    return replace(job, bytes=size, free=free)


def _readable(encoder: Encoder, given: Iterable[Source]) -> Iterator[FeatureMap]:
    for source in given:
        for one in encoding.encode(encoder, [source], batch_size=1):
            if not isinstance(one, Failure):
                yield one.features
