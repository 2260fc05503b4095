"""DeepLabCut's labels written: a table (CSV or HDF5), or the folder of a project with the images in it."""

import datetime
import math
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from geco.data import PIXEL_CENTRE
from geco.errors import InputError, MissingPackageError
from geco.propagation.annotations import VISIBLE, Animal, LabelledImage, LabelSet
from geco.propagation.formats import tables
from geco.propagation.formats.contract import marks_of, refuse_frames, size_of
from geco.propagation.formats.deeplabcut.frames import LEVELS

SCORER = "geco"
KEY = "df_with_missing"  # what DeepLabCut calls its table in a file


def write(labels: LabelSet, path: Path, *, output: Path) -> None:
    """Write a table, or a project if the output has no ending."""
    if not output.suffix:
        _write_project(labels, path, output)
    else:
        rows = [_row_name(image) for image in labels.images]
        _write_table(labels, path, rows, individuals=_individuals(labels), ending=output.suffix.lower())


def _row_name(image: LabelledImage) -> tuple[str, ...] | int:
    """What a row is called: the number of a frame, or the image in its project."""
    if image.frame is not None:
        return image.frame
    return "labeled-data", image.path.absolute().parent.name or "images", image.path.name


def _write_table(
    labels: LabelSet, path: Path, rows: Sequence[tuple[str, ...] | int], *, individuals: list[str], ending: str
) -> None:
    if len(set(rows)) < len(rows):
        twice = next(row for row in rows if list(rows).count(row) > 1)
        raise InputError(
            f"two images are both called {twice} in a table of DeepLabCut; put them into different folders"
        )
    films = {image.path for image in labels.images if image.frame is not None}
    if len(films) > 1 or (films and any(image.frame is None for image in labels.images)):
        raise InputError("a table of DeepLabCut holds images, or frames of one video; write the others apart")
    header = _header(labels, individuals, predicted=bool(films))
    values = [_values(image, labels, individuals, predicted=bool(films)) for image in labels.images]
    if ending == ".csv":
        tables.write(path, [*_head_lines(header, columns=1 if films else 3), *_lines(rows, values)])
    else:
        _write_hdf5(path, header, rows, values)


def append(labels: LabelSet, path: Path, *, output: Path, begin: bool) -> None:
    """Write frames of a video to the end of a table, or to a new one; HDF5 in the layout "table", which can grow."""
    rows = [int(image.frame or 0) for image in labels.images]
    header = _header(labels, [], predicted=True)
    values = [_values(image, labels, [], predicted=True) for image in labels.images]
    if output.suffix.lower() == ".csv":
        head = _head_lines(header, columns=1) if begin else []
        tables.append(path, [*head, *_lines(rows, values)])
    else:
        _write_hdf5(path, header, rows, values, format="table", append=not begin, mode="w" if begin else "a")


def _head_lines(header: list[tuple[str, ...]], *, columns: int) -> list[list[object]]:
    """The first lines of a CSV file, in which this many columns name a row: three for images, one for frames."""
    levels = zip(LEVELS[len(header[0])], zip(*header, strict=True), strict=True)
    return [[name, *[""] * (columns - 1), *level] for name, level in levels]


def _lines(rows: Sequence[tuple[str, ...] | int], values: list[list[float]]) -> list[list[object]]:
    starts = [list(row) if isinstance(row, tuple) else [row] for row in rows]
    pairs = zip(starts, values, strict=True)
    return [[*start, *(tables.shown(value, 6) for value in numbers)] for start, numbers in pairs]


def _individuals(labels: LabelSet) -> list[str]:
    """Names of the individuals; none if there is never more than one animal, and none has a name."""
    names: dict[str, None] = {}
    several = False
    for image in labels.images:
        called = [_called(animal, place) for place, animal in enumerate(image.animals, 1)]
        if len(set(called)) < len(called):
            raise InputError(f"{image.path}: two animals are called {called[0]}; DeepLabCut needs a name for each")
        several |= len(called) > 1 or any(animal.track for animal in image.animals)
        names |= dict.fromkeys(called)
    return list(names) if several else []


def _called(animal: Animal, place: int) -> str:
    return animal.track or f"individual{place}"


def _header(labels: LabelSet, individuals: list[str], *, predicted: bool) -> list[tuple[str, ...]]:
    scorer = labels.details.get("scorer") or SCORER
    axes = ("x", "y", "likelihood") if predicted else ("x", "y")
    middle: list[tuple[str, ...]] = [(individual,) for individual in individuals] or [()]
    return [(scorer, *who, part, axis) for who in middle for part in labels.skeleton.names for axis in axes]


def _values(image: LabelledImage, labels: LabelSet, individuals: list[str], *, predicted: bool) -> list[float]:
    """The numbers of a row; only visible points have a place, as a hidden one would be taken for visible."""
    places = enumerate(image.animals, 1)
    animals = {_called(animal, place) if individuals else "": animal for place, animal in places}
    numbers: list[float] = []
    for individual in individuals or [""]:
        animal = animals.get(individual)
        marks = marks_of(animal, shift=PIXEL_CENTRE) if animal is not None else [None] * len(labels.skeleton)
        for mark in marks:
            shown = mark is not None and mark.state == VISIBLE
            numbers += [mark.x, mark.y] if mark is not None and shown else [math.nan, math.nan]
            if predicted:
                score = math.nan if mark is None else mark.score
                numbers.append(round(score, 6) if score == score else float(shown))
    return numbers


def _write_hdf5(
    path: Path,
    header: list[tuple[str, ...]],
    rows: Sequence[tuple[str, ...] | int],
    values: list[list[float]],
    *,
    mode: str = "w",
    **layout: Any,
) -> None:
    """Write a table with pandas, in its layout "fixed" (which old releases read) unless another is asked for."""
    try:
        import pandas
        import tables as _tables  # noqa: F401 (pandas needs it)
    except ImportError:
        raise MissingPackageError.of_extra("labels", "PyTables", what="writing HDF5 of DeepLabCut") from None
    columns = pandas.MultiIndex.from_tuples(header, names=LEVELS[len(header[0])])
    index = pandas.MultiIndex.from_tuples(rows) if isinstance(rows[0], tuple) else pandas.Index(list(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of columns that Python could not use as identifiers
        frame = pandas.DataFrame(values, index=index, columns=columns, dtype=float)
        frame.to_hdf(str(path), key=KEY, mode=mode, **layout)


# --- projects ---------------------------------------------------------------------------------------------------------


def _write_project(labels: LabelSet, folder: Path, output: Path) -> None:
    """Fill a folder with a project: config.yaml, and images with their tables in labeled-data."""
    refuse_frames(labels, "a project of DeepLabCut")
    scorer, individuals = labels.details.get("scorer") or SCORER, _individuals(labels)
    groups: dict[Path, list[LabelledImage]] = {}
    for image in labels.images:
        groups.setdefault(image.path.absolute().parent, []).append(image)
    names: dict[Path, str] = {}
    for place in groups:
        name = place.name or "images"
        same = sum(other == name or other.startswith(f"{name}-") for other in names.values())
        names[place] = f"{name}-{same + 1}" if same else name
    for place, images in groups.items():
        part = folder / "labeled-data" / names[place]
        part.mkdir(parents=True)
        for image in images:
            try:
                shutil.copyfile(image.path, part / image.path.name)
            except OSError as error:
                raise InputError(f"{image.path} cannot be copied into the project: {error.strerror or error}") from None
        rows = [("labeled-data", names[place], image.path.name) for image in images]
        some = replace(labels, images=images)
        for ending in (".csv", ".h5"):
            table = part / f"CollectedData_{scorer}{ending}"
            _write_table(some, table, rows, individuals=individuals, ending=ending)
    _write_config(labels, folder / "config.yaml", output, {names[place]: images for place, images in groups.items()})


def _write_config(labels: LabelSet, path: Path, output: Path, videos: dict[str, list[LabelledImage]]) -> None:
    try:
        import yaml
    except ImportError:
        raise MissingPackageError.of_extra("labels", "PyYAML", what="writing a project of DeepLabCut") from None
    individuals, names = _individuals(labels), list(labels.skeleton.names)
    crops = {}
    for name, images in videos.items():
        height, width = size_of(images[0]) or (0, 0)
        crops[f"{output.absolute() / 'videos' / name}.mp4"] = {"crop": f"0, {width}, 0, {height}"}
    several = {"individuals": individuals, "uniquebodyparts": [], "multianimalbodyparts": names, "bodyparts": "MULTI!"}
    config: dict[str, Any] = {
        "Task": labels.category,
        "scorer": labels.details.get("scorer") or SCORER,
        "date": datetime.date.today().strftime("%b%d"),
        "multianimalproject": bool(individuals),
        "identity": False,
        "project_path": str(output.absolute()),
        "video_sets": crops,
        **(several if individuals else {"bodyparts": names}),
        "skeleton": [[names[start], names[end]] for start, end in labels.edges],
        "TrainingFraction": [0.95],
        "iteration": 0,
        "dotsize": 6,
        "alphavalue": 0.7,
        "pcutoff": 0.6,
        "colormap": "rainbow",
    }
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
