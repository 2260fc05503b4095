"""What every reader and writer of labels shares: the file and where its images are, marks of keypoints, assembly."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from geco import checks, images
from geco.data import named
from geco.errors import GecoError, InputError, MissingFileError
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.system import documents
from geco.types import Size, Skeleton

KEYPOINTS = 1000  # names of a skeleton: more is a mistake, and would cost memory for every animal
DIGITS = 3  # of a pixel that are written: 0.0005 px is what rounding costs

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Source:
    """A file (or folder) of labels, and what the user says about it."""

    path: Path
    images: Path | None = None  # the folder of its images; of a file that names none, its image
    category: str | None = None  # the one to read, of several
    faults: list[str] | None = None  # collects what is left out; without it, that is an error
    document: Any = None  # the JSON in it, if that has been parsed already


@dataclass(frozen=True)
class Mark:
    """One keypoint as a file has it, in the file's own coordinates; NaN is what is not said."""

    x: float = math.nan
    y: float = math.nan
    state: int = UNKNOWN
    score: float = math.nan
    uncertainty: float = math.nan

    @property
    def placed(self) -> bool:
        """Whether it has a place."""
        return self.x == self.x and self.y == self.y


@dataclass
class Marked:
    """An animal as it is read: marks by the names of keypoints."""

    marks: dict[str, Mark] = field(default_factory=dict)
    box: Box | None = None
    track: str = ""


@dataclass
class Entry:
    """An image as it is read: the name that the file gives it, and other names under which it may be found."""

    name: str
    animals: list[Marked] = field(default_factory=list)
    frame: int | None = None
    size: Size | None = None
    aliases: tuple[str, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------


def check_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The names of keypoints, which must be several different texts."""
    if not names:
        raise InputError(f"{where} names no keypoints; expected at least one")
    if len(names) > KEYPOINTS:
        raise InputError(f"{where} names {len(names):,} keypoints, above the limit of {KEYPOINTS:,}")
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"{where}: the name of a keypoint should be text, got {checks.shown(name)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InputError(f"{where} names the keypoint {checks.shown(twice)} twice; give each its own name")
    return tuple(names)


def one_kind(kinds: Mapping[str, Sequence[str]], source: Source) -> tuple[str, tuple[str, ...]]:
    """Category and keypoint names that the labels have, or those of the category that the user chose."""
    if source.category is not None:
        if source.category not in kinds:
            known = documents.listed(kinds)
            raise InputError(f"{source.path} has no category {checks.shown(source.category)}; it has {known}")
        return source.category, check_names(kinds[source.category], str(source.path))
    if len({tuple(names) for names in kinds.values()}) > 1:
        about = documents.listed(f"{kind}: {len(names)}" for kind, names in kinds.items())
        raise InputError(
            f"{source.path} mixes skeletons: categories with different keypoints ({about}); choose one with category="
        )
    category, names = next(iter(kinds.items()))
    return category if len(kinds) == 1 else "animal", check_names(names, str(source.path))


def box_of(corners: Sequence[float]) -> Box | None:
    """The box (x0, y0, x1, y1); None if it has no area, as some tools write for "unknown"."""
    x0, y0, x1, y1 = corners
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def assemble(
    source: Source,
    names: Sequence[str],
    entries: Iterable[Entry],
    *,
    shift: float,
    bases: Sequence[Path],
    skeleton: Skeleton | None = None,
    **about: Any,
) -> LabelSet:
    """The labels: images found under the bases (or where the user says), points moved to the corner-origin convention.

    `about` is what else a LabelSet holds; without a skeleton, counterparts follow from the names.
    """
    names = check_names(names, str(source.path))
    entries = list(entries)
    if not entries:
        raise InputError(f"{source.path} holds no images; expected at least one with labels")
    places = _locate(source, entries, bases)
    labelled = []
    for entry, place in zip(entries, places, strict=True):
        if place is not None:
            where = f"{source.path}: {entry.name}"
            animals = tuple(_animal(animal, names, shift, where) for animal in entry.animals)
            labelled.append(LabelledImage(place, animals, entry.frame, entry.size))
    return LabelSet(skeleton or named(names), tuple(labelled), **about)


def _animal(marked: Marked, names: tuple[str, ...], shift: float, where: str) -> Animal:
    unknown = set(marked.marks) - set(names)
    if unknown:
        raise InputError(
            f"{where}: there is no keypoint {checks.shown(min(unknown))}; the keypoints are {documents.listed(names)}"
        )
    marks = [marked.marks.get(name, Mark()) for name in names]
    for name, mark in zip(names, marks, strict=True):
        if mark.state == VISIBLE and not mark.placed:
            raise InputError(f"{where}: {checks.shown(name)} is visible, but has no place")
    xy = torch.tensor([(mark.x, mark.y) if mark.placed else (math.nan, math.nan) for mark in marks]) + shift
    state = torch.tensor([mark.state for mark in marks])
    xy = xy.where((state != UNKNOWN)[:, None], math.nan)
    scores, uncertainties = ([getattr(mark, key) for mark in marks] for key in ("score", "uncertainty"))
    known = [torch.tensor(v) if any(x == x for x in v) else None for v in (scores, uncertainties)]
    return Animal(xy, state, marked.box, marked.track, *known)


def _locate(source: Source, entries: Sequence[Entry], bases: Sequence[Path]) -> list[Path | None]:
    """Where each image is; one line for those that are nowhere."""
    if source.images is not None:
        if not source.images.exists():
            raise MissingFileError(f"{source.images}: no such folder; expected the images of {source.path}")
        bases = (source.images,)
    found: dict[str, Path | None] = {}
    owners: dict[Path, str] = {}
    for entry in entries:
        if entry.name not in found:
            names = (entry.name, *entry.aliases)
            place = next((path for name in names if (path := _find(name, bases)) is not None), None)
            found[entry.name] = place
            if place is not None and owners.setdefault(place, entry.name) != entry.name:
                raise InputError(
                    f"{source.path}: {entry.name} and {owners[place]} both lead to {place}; put the images where "
                    "their names say, or give the folder with images="
                )
    missing = [name for name, place in found.items() if place is None]
    if missing:
        nowhere = f"{len(missing)} of its {len(found)} images {'is' if len(missing) == 1 else 'are'}"
        looked = documents.place(bases[0])
        shown = documents.listed((name if len(name) < 40 else f"…{name[-39:]}" for name in missing), most=60)
        message = f"{documents.place(source.path)}: {nowhere} not there: {shown}"
        error = MissingFileError(f"{message}; looked in {looked}; say where with images=")
        if source.faults is None or len(missing) == len(found):
            raise error
        source.faults.append(str(error))
    return [found[entry.name] for entry in entries]


def _find(name: str, bases: Sequence[Path]) -> Path | None:
    """The file of this name, or of its last parts, under one of the bases: labels move between machines."""
    if not name or "\0" in name:
        return None
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", ".")]
    for start in range(len(parts)):
        for base in bases:
            if checks.is_file(place := base.joinpath(*parts[start:])):
                return place
        if not start and Path(name).is_absolute() and checks.is_file(Path(name)):
            return Path(name)
    return None


# --- writing ----------------------------------------------------------------------------------------------------------


def marks_of(animal: Animal, *, shift: float) -> list[Mark]:
    """The keypoints of an animal in the coordinates of a format that counts from `shift` (a pixel's centre: 0.5)."""
    count = len(animal.state)
    scores = [math.nan] * count if animal.score is None else animal.score.tolist()
    uncertainties = [math.nan] * count if animal.uncertainty is None else animal.uncertainty.tolist()
    rows = zip(animal.xy.tolist(), animal.state.tolist(), scores, uncertainties, strict=True)
    return [
        Mark(round(x - shift, DIGITS), round(y - shift, DIGITS), state, score, uncertainty)
        if state != UNKNOWN and math.isfinite(x) and math.isfinite(y)
        else Mark(state=state, score=score, uncertainty=uncertainty)
        for (x, y), state, score, uncertainty in rows
    ]


def extent(marks: Iterable[Mark]) -> Box | None:
    """The smallest box around marks that have a place; None without any."""
    placed = [mark for mark in marks if mark.placed]
    if not placed:
        return None
    xs, ys = [mark.x for mark in placed], [mark.y for mark in placed]
    return min(xs), min(ys), max(xs), max(ys)


def written_name(path: Path, output: Path) -> str:
    """An image as a file of labels names it: relative to the folder of the labels if it lies there, else in full."""
    full, folder = path.absolute(), output.parent.absolute()
    return full.relative_to(folder).as_posix() if full.is_relative_to(folder) else full.as_posix()


def size_of(image: LabelledImage) -> Size | None:
    """(height, width) of a labelled image, from its file if the labels do not say; None if that cannot be read."""
    if image.size is not None or image.frame is not None:
        return image.size
    try:
        return images.size_of(image.path)
    except GecoError:
        return None


def refuse_frames(labels: LabelSet, format_name: str) -> None:
    """Raise if labels are of frames of a video, which a format for images cannot say."""
    image = next((image for image in labels.images if image.frame is not None), None)
    if image is not None:
        raise InputError(
            f"{image.path} is a video, and {format_name} holds labels of images; write coco, csv, deeplabcut or sleap"
        )


def has_states(labels: LabelSet, state: int = HIDDEN) -> int:
    """How many keypoints have this state."""
    return sum(int((animal.state == state).sum()) for image in labels.images for animal in image.animals)
