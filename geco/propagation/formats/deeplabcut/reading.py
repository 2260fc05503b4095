"""DeepLabCut's labels read: one table, or every table of a project."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from geco import checks
from geco.data import PIXEL_CENTRE
from geco.errors import InputError, MissingFileError, MissingPackageError
from geco.propagation.annotations import UNKNOWN, VISIBLE, LabelSet
from geco.propagation.formats.contract import Entry, Mark, Marked, Source, assemble, one_kind
from geco.propagation.formats.deeplabcut.frames import EXPECTED, Frame, read_csv, read_hdf5
from geco.system import documents

PROJECT = "a project of DeepLabCut: a folder with config.yaml and labeled-data"
VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".m4v", ".webm", ".mpg", ".mpeg", ".mts")
CONFIG = 4 * 2**20  # bytes
UNIQUE = "single"  # what DeepLabCut calls the owner of points that belong to no individual
INDIVIDUALS = "individuals"


def recognises(header: list[str]) -> bool:
    """Whether the first row of a table is DeepLabCut's."""
    return bool(header) and header[0] == "scorer"


def recognises_keys(keys: set[str]) -> bool:
    """Whether an HDF5 file with these entries may be DeepLabCut's."""
    return bool({"df_with_missing", "keypoints", "df"} & keys)


def recognises_folder(path: Path) -> bool:
    """Whether a folder is a project."""
    return (path / "config.yaml").is_file()


def read(source: Source) -> LabelSet:
    """The labels in a table, or in all tables of a project."""
    path = source.path
    if path.is_dir() or path.suffix.lower() in (".yaml", ".yml"):
        return _read_project(source)
    frame = _table(path)
    if isinstance(frame.index[0], int):
        return _labels(replace(source, images=None), [frame], _video(source), bases=(_video(source).parent,))
    # A table lies in <project>/labeled-data/<video>, and its rows name images from the project's folder on.
    return _labels(source, [frame], None, bases=(path.parent, path.absolute().parent.parent.parent))


def _table(path: Path) -> Frame:
    documents.check_file(path, expected=EXPECTED)
    return read_csv(path) if path.suffix.lower() == ".csv" else read_hdf5(path)


def _video(source: Source) -> Path:
    """The video whose frames a table numbers: the one that the user names, or that the table is named after."""
    if source.images is not None and checks.is_file(source.images):
        return source.images
    folder = source.images or source.path.parent
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    videos = [file for file in files if file.suffix.lower() in VIDEOS and source.path.stem.startswith(file.stem)]
    if not videos:
        raise MissingFileError(f"{source.path} numbers the frames of a video that is not there; name it with images=")
    return max(videos, key=lambda video: len(video.stem))


def _labels(source: Source, frames: list[Frame], video: Path | None, **options: Any) -> LabelSet:
    scorers = {column[0] for frame in frames for column in frame.columns}
    kinds: dict[str, list[str]] = {}
    for frame in frames:
        for _, individual, part, _ in frame.columns:
            parts = kinds.setdefault(UNIQUE if individual == UNIQUE else INDIVIDUALS, [])
            if part not in parts:
                parts.append(part)
    kind, names = one_kind(kinds, source)
    known = options.pop("names", [])
    order = [name for name in known if name in names] if set(names) <= set(known) else list(names)
    unused = [name for name in known if name not in names] if kind == INDIVIDUALS else []
    entries = [entry for frame in frames for entry in _entries(frame, kind, video)]
    if len(scorers) > 1:
        raise InputError(f"{source.path} has labels of several people ({documents.listed(sorted(scorers))}); keep one")
    options.setdefault("category", "animal")
    source = replace(source, category=None)
    details = {"scorer": scorers.pop()}
    return assemble(
        source, [*order, *unused], entries, shift=PIXEL_CENTRE, format="deeplabcut", details=details, **options
    )


def _entries(frame: Frame, kind: str, video: Path | None) -> Iterator[Entry]:
    for image, row in zip(frame.index, frame.values.tolist(), strict=True):
        places: dict[str, dict[str, dict[str, float]]] = {}
        for (_, individual, part, axis), value in zip(frame.columns, row, strict=True):
            if kind == (UNIQUE if individual == UNIQUE else INDIVIDUALS):
                places.setdefault(individual, {}).setdefault(part, {})[axis] = value
        entry = Entry(str(image)) if video is None else Entry(video.name, frame=int(image))
        for individual, parts in places.items():
            marks = {part: _mark(place) for part, place in parts.items()}
            if any(mark.placed for mark in marks.values()):
                entry.animals.append(Marked(marks, track=individual))
        yield entry


def _mark(place: dict[str, float]) -> Mark:
    x, y = place.get("x", math.nan), place.get("y", math.nan)
    labelled = x == x and y == y
    return Mark(x, y, VISIBLE if labelled else UNKNOWN, place.get("likelihood", math.nan)) if labelled else Mark()


# --- projects ---------------------------------------------------------------------------------------------------------


def _read_project(source: Source) -> LabelSet:
    folder = source.path if source.path.is_dir() else source.path.parent
    config = _config(source.path if source.path.is_file() else folder / "config.yaml")
    files = sorted(_project_tables(folder, config))
    if not files:
        raise MissingFileError(f"{folder / 'labeled-data'} holds no CollectedData_….csv or .h5; expected {PROJECT}")
    frames = [_table(file) for file in files]
    parts = config.get("multianimalbodyparts") if config.get("multianimalproject") else config.get("bodyparts")
    names = [str(part) for part in parts] if isinstance(parts, list) else []
    labels = _labels(source, frames, None, bases=(folder,), names=names, category=str(config.get("Task") or "animal"))
    return replace(labels, edges=tuple(_edges(config, labels.skeleton.names)))


def _config(path: Path) -> dict[str, Any]:
    text = documents.read_text(path, expected=PROJECT, largest=CONFIG)
    try:
        import yaml
    except ImportError:
        raise MissingPackageError.of_extra("labels", "PyYAML", what="reading a project of DeepLabCut") from None
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"{path} is not YAML that can be read: {reason}; expected {PROJECT}") from None
    if not isinstance(config, dict) or not {"scorer", "bodyparts", "multianimalbodyparts"} & set(config):
        raise InputError(f"{path} has no scorer and no bodyparts; expected {PROJECT}")
    return config


def _project_tables(folder: Path, config: dict[str, Any]) -> Iterator[Path]:
    """The table of labels of every video: that of the project's scorer, HDF5 (which DeepLabCut itself reads) first."""
    labelled = folder / "labeled-data"
    for part in sorted(labelled.iterdir()) if labelled.is_dir() else ():
        for ending in (".h5", ".csv"):
            own = part / f"CollectedData_{config.get('scorer')}{ending}"
            found = [own] if checks.is_file(own) else sorted(part.glob(f"CollectedData_*{ending}"))
            if found:
                yield found[0]
                break


def _edges(config: dict[str, Any], names: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    lines = config.get("skeleton")
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, list) and len(line) == 2 and all(str(end) in names for end in line):
            yield names.index(str(line[0])), names.index(str(line[1]))
