"""Extracting a collection in one process: one shard after the other, each a piece of work of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Bool, Float
from torch import Tensor

from geco import images
from geco.errors import GecoError, InputError, MissingFileError
from geco.extraction import contents, encoding, index, plan, reduction, writing
from geco.extraction.jobs import Job, Task, Work
from geco.extraction.manifest import Manifest
from geco.extraction.records import Failure, Source
from geco.system import Progress, silent
from geco.types import Encoder, FeatureMap, MaskFile, Size

SAMPLE = 256  # images that a projection is found on, spread evenly


@dataclass(frozen=True)
class Summary:
    """What a folder holds in the end."""

    images: int
    failed: int
    bytes: int


def run(job: Job, encoder: Encoder, *, progress: Progress = silent) -> Summary:
    """Encode what is missing, in this process."""
    prepare(job.work, lambda: encoder, progress=progress)
    done, total = job.resumed, job.work.about.images
    progress("extract", done, total)
    for task in job.tasks:
        counted = done
        line = encode_shard(job.work, task, encoder, lambda n, counted=counted: progress("extract", counted + n, total))
        index.append(job.work.folder, [line])
        done += task.images
    return finish(job)


def prepare(work: Work, load: Callable[[], Encoder], *, progress: Progress = silent) -> None:
    """Find the projection, if one is asked for and has not been found before."""
    if work.about.pca is not None and not (work.folder / reduction.NAME).exists():
        reduction.write(work.folder, _projection(work.folder, work.about, load(), progress))


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
    for number, one in enumerate(encoding.encode(encoder, given, batch_size=about.batch_size, draft=about.draft), 1):
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


def _projection(folder: Path, about: Manifest, encoder: Encoder, progress: Progress) -> Float[Tensor, "k c"]:
    """The projection found on images that are spread over the whole list."""
    step = max(1, about.images // SAMPLE)
    places = plan.offsets(folder, step)[:SAMPLE]
    sample = [plan.read(folder, place, 1)[0] for place in places]

    def maps() -> Iterator[FeatureMap]:
        for number, one in enumerate(
            encoding.encode(encoder, sample, batch_size=about.batch_size, draft=about.draft), 1
        ):
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
