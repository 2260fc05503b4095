"""Extracting a collection: one shard after the other, each a piece of work of its own that anybody may do."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from jaxtyping import Bool
from torch import Tensor

from geco import images, matching
from geco.errors import FileError, GecoError, InputError, MissingFileError
from geco.extraction import contents, encoding, index, manifest, plan, reduction, writing
from geco.extraction.manifest import Manifest
from geco.extraction.records import Failure, Source
from geco.extraction.settings import ExtractSettings
from geco.system import Progress, files, locks, silent
from geco.types import Encoder, FeatureMap, MaskFile, Size

SAMPLE = 256  # images that a projection is found on, spread evenly
PROBED = 16  # images at most that are tried until one tells how large maps are
UNKNOWN_GRID = (37, 37)  # if none of them can be read
TRIED = 64 * 2**20  # bytes that are written to see whether they can be: quotas do not show in what is free
OVERHEAD = 600  # bytes of an image in the plan, the index and the shard's own records
BORDER = "patches unlike the image's border"
MASKS = "masks"


@dataclass(frozen=True)
class Work:
    """What has to be known to encode a shard, wherever that is done."""

    folder: Path
    about: Manifest
    masks: Path | None = None


@dataclass(frozen=True)
class Task:
    """A shard that is to be encoded."""

    shard: int
    offset: int  # of its first image in the plan
    images: int


@dataclass(frozen=True)
class Job:
    """An extraction that has begun."""

    work: Work
    tasks: tuple[Task, ...]
    resumed: int  # images of shards that were there already
    bytes: int  # that are still to be written, about; of foreground at most
    free: int  # bytes on the disk


@dataclass(frozen=True)
class Summary:
    """What a folder holds in the end."""

    images: int
    failed: int
    bytes: int


@contextmanager
def begin(
    folder: Path,
    find: Callable[[], Iterable[Source]],
    encoder: Encoder,
    settings: ExtractSettings,
    *,
    masks: Path | None = None,
    progress: Progress = silent,
) -> Iterator[Job]:
    """The extraction of the images that `find` names, begun or resumed; nobody else writes the folder meanwhile."""
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
        job = _with_room(Job(Work(folder, about, masks), tasks, sum(len(about.images_of(n)) for n in done), 0, 0))
        if about.pca is not None and not (folder / reduction.NAME).exists():
            reduction.write(folder, _projection(folder, about, encoder, progress))
        yield job


def run(job: Job, encoder: Encoder, *, progress: Progress = silent) -> Summary:
    """Encode what is missing, in this process."""
    done, total = job.resumed, job.work.about.images
    progress("extract", done, total)
    for task in job.tasks:
        counted = done
        line = encode_shard(job.work, task, encoder, lambda n, counted=counted: progress("extract", counted + n, total))
        index.append(job.work.folder, [line])
        done += task.images
    return finish(job)


def finish(job: Job) -> Summary:
    """Put the folder in order once all shards are there."""
    folder = job.work.folder
    stored, failed = writing.finish(folder, job.work.about)
    size = sum(line.size for _, line in index.offsets(folder))
    return Summary(stored, failed, size)


def encode_shard(
    work: Work, task: Task, encoder: Encoder, progress: Callable[[int], None] = lambda done: None
) -> index.Line:
    """Encode and write a shard; its bytes depend on the images and the encoder alone."""
    about = work.about
    projection = reduction.read(work.folder, about)
    given = plan.read(work.folder, task.offset, task.images)
    entries, failures = [], []
    for number, one in enumerate(encoding.encode(encoder, given, batch_size=about.batch_size), 1):
        if isinstance(one, Failure):
            failures.append(one)
        else:
            try:
                mask = None if work.masks is None else _mask(work.masks, one.source, one.features.size)
                entries.append(
                    contents.entry(
                        one.source, one.sha256, one.features, what=about.what, projection=projection, mask=mask
                    )
                )
            except GecoError as error:
                failures.append(Failure(one.source.name, str(error)))
        progress(number)
    order = {source.name: place for place, source in enumerate(given)}
    failures.sort(key=lambda failure: order[failure.name])
    return writing.write_shard(work.folder, task.shard, about, entries, failures)


# --- a folder that is new, and one that is there ----------------------------------------------------------------------


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
        foreground=None if settings.what != "foreground" else BORDER if masks is None else MASKS,
    )


def _with_room(job: Job) -> Job:
    """The job with what it still writes; an error if the disk has no room for that."""
    about, folder = job.work.about, job.work.folder
    size = sum(task.images for task in job.tasks) * (about.image_bytes + OVERHEAD)
    free = shutil.disk_usage(folder).free
    if size > free and about.what != "foreground":  # of which nobody knows how much there is
        raise FileError(
            f"{folder}: {about.images:,} images need {_amount(size)} more, and {_amount(free)} are free; give a disk "
            "with room as --out, or store less (--pca 64, --what global)"
        )
    try:
        files.try_room(folder, min(size, TRIED))
    except OSError as error:
        raise FileError(
            f"{folder} cannot be written: {(error.strerror or str(error)).lower()}; give another --out"
        ) from None
    return replace(job, bytes=size, free=free)


def _amount(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


# --- what is looked at beforehand -------------------------------------------------------------------------------------


def _readable(encoder: Encoder, given: Iterable[Source]) -> Iterator[FeatureMap]:
    for source in given:
        for one in encoding.encode(encoder, [source], batch_size=1):
            if not isinstance(one, Failure):
                yield one.features


def _projection(folder: Path, about: Manifest, encoder: Encoder, progress: Progress) -> Tensor:
    """The projection found on images that are spread over the whole list."""
    step = max(1, about.images // SAMPLE)
    places = plan.offsets(folder, step)[:SAMPLE]
    sample = [plan.read(folder, place, 1)[0] for place in places]

    def maps() -> Iterator[FeatureMap]:
        for number, one in enumerate(encoding.encode(encoder, sample, batch_size=about.batch_size), 1):
            progress("sample for PCA", number, len(sample))
            if not isinstance(one, Failure):
                yield one.features

    return reduction.fit(maps(), about.dim)


def _mask(folder: Path, source: Source, size: Size) -> Bool[Tensor, "h w"]:
    """The mask in a folder that has the image's name."""
    name = Path(source.name)
    choices = [folder / f"{name.stem}.png"]
    if not name.is_absolute():  # or else this would be the image itself
        choices.insert(0, folder / name.with_suffix(".png"))
    path = next((path for path in choices if path.is_file()), None)
    if path is None or path.resolve() == Path(source.path).resolve():
        raise MissingFileError(f"{folder} has no mask for {source.name}; expected {choices[-1].name}")
    mask = images.read_mask(MaskFile(path))
    if tuple(mask.shape) != tuple(size):
        raise InputError(f"{path} is {tuple(mask.shape)} pixels, its image {tuple(size)}; expected the same size")
    return mask
