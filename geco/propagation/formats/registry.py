"""Reading and writing labels of any format: which one a file is in, told from its content, and which one to write."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from geco import checks
from geco.errors import FileError, InputError
from geco.propagation.annotations import HIDDEN, LabelSet
from geco.propagation.formats import hdf5, tables
from geco.propagation.formats.contract import Source, has_states
from geco.system import documents, files, signatures

MODULES = {
    "coco": "coco",
    "csv": "points",
    "cvat": "cvat",
    "deeplabcut": "deeplabcut",
    "labelstudio": "labelstudio",
    "sleap": "sleap",
}
FORMATS = tuple(MODULES)  # names of the label formats
ALIASES = {"dlc": "deeplabcut", "slp": "sleap", "label-studio": "labelstudio", "points": "csv"}
DEFAULT = {".json": "coco", ".csv": "csv", ".xml": "cvat", ".slp": "sleap", ".h5": "deeplabcut", "": "deeplabcut"}
START = 4096  # bytes that are looked at
READABLE = "COCO keypoints, DeepLabCut, SLEAP, Label Studio, CVAT or a table of points"


def read_annotations(
    path: str | Path,
    *,
    format: str | None = None,
    images: str | Path | None = None,
    category: str | None = None,
    faults: list[str] | None = None,
) -> LabelSet:
    """The labels in a file, or in the folder of a DeepLabCut project; the format is told from the content.

    `images` is the folder of the images, if they are not where the labels say, or the one image (or video) of a table
    that names none. `category` chooses one of several kinds of animals with different keypoints. `faults` collects
    what is left out (labels of images that are not there) instead of raising.
    """
    path = checks.path(path, "the file of labels")
    place = None if images is None else checks.path(images, "images")
    if path.is_dir():
        name, document = _of_folder(path, format), None
    else:
        documents.check_file(path, expected=f"labels: {READABLE}")
        name, document = (_chosen(format), None) if format else recognise(path)
    return _module(name).read(Source(path, place, category, faults, document))


def write_annotations(labels: LabelSet, path: str | Path, *, format: str | None = None) -> Path:
    """The file (or folder) that the labels are written to, whole or not at all.

    Without a format, it is the one that the labels were read from if it has this ending, else the usual one of the
    ending: .json COCO, .csv a table of points, .xml CVAT, .slp SLEAP, .h5 or a new folder DeepLabCut.
    """
    output = checks.path(path, "the file of labels")
    name = format_for(output, labels.format, format)
    if not labels.images:
        raise InputError(f"there are no labels to write to {output}")
    module = _module(name)
    if name == "deeplabcut" and not output.suffix:
        return _write_folder(module, labels, output)
    if output.is_dir():
        raise FileError(f"{output} is a folder; expected the name of a file")
    try:
        return files.replace(output, lambda draft: module.write(labels, draft, output=output))
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{documents.place(output)} cannot be written: {error.strerror or error}") from None


def format_for(output: Path, came_from: str, format: str | None = None) -> str:
    """The format to write: the one asked for, which must fit the ending; the one it came from; or the ending's."""
    ending = output.suffix.lower()
    if format is not None:
        name = _chosen(format)
        endings = _module(name).ENDINGS
        if ending not in endings:
            usual = ", ".join(repr(one) if one else "no ending (a folder)" for one in endings)
            raise InputError(f"labels in the format {name} end in {usual}, got {documents.place(output.name)}")
        return name
    if ending not in DEFAULT:
        usual = ", ".join(one for one in DEFAULT if one)
        raise InputError(f"{documents.place(output)}: labels end in {usual}, got {ending!r}; or choose a format")
    if came_from in MODULES and ending in _module(came_from).ENDINGS:
        return came_from
    return DEFAULT[ending]


def lost(labels: LabelSet, format: str) -> tuple[str, ...]:
    """What a format cannot hold of these labels, one line each."""
    name = _chosen(format)
    animals = [animal for image in labels.images for animal in image.animals]
    lines = []
    hidden = has_states(labels, HIDDEN)
    if hidden and name == "deeplabcut":
        lines.append(f"DeepLabCut cannot say that a point is hidden: {hidden} hidden points are not labelled there")
    boxes = sum(animal.box is not None for animal in animals)
    if boxes and name in ("deeplabcut", "sleap"):
        lines.append(f"{name} holds no boxes: {boxes} are left out")
    if any(animal.uncertainty is not None for animal in animals) and name not in ("coco", "csv", "cvat"):
        lines.append(f"{name} holds no uncertainties; coco and csv do")
    return tuple(lines)


def recognise(path: Path) -> tuple[str, Any]:
    """The format of a file, and the JSON in it if it is JSON."""
    with path.open("rb") as file:
        start = file.read(START)
    if start.startswith(hdf5.SIGNATURE):
        return _of_hdf5(path), None
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith((b"{", b"[")):
        return _of_json(path)
    about = signatures.foreign(start)
    if about and not text.lower().startswith(b"<?xml"):
        raise InputError(f"{path} holds no labels: it is {about}")
    if text.startswith(b"<"):
        return "cvat", None
    if path.suffix.lower() in (".yaml", ".yml"):
        return "deeplabcut", None
    header = tables.read(path, expected=READABLE)[0]
    for name in ("deeplabcut", "csv"):
        if _module(name).recognises(header):
            return name, None
    raise InputError(f"{path} is a table with {checks.shown(header)}; expected {READABLE}")


def _of_hdf5(path: Path) -> str:
    with hdf5.opened(path, expected=READABLE) as file:
        keys = {key if isinstance(key, str) else repr(key) for key in file}  # damaged names are bytes
    if _module("sleap").recognises(keys):
        return "sleap"
    if _module("deeplabcut").recognises_keys(keys):
        return "deeplabcut"
    if {"tracks", "node_names"} <= keys:
        raise InputError(f"{path} is a table of tracks that SLEAP exported; expected its labels (.slp)")
    raise InputError(f"{path} is HDF5 with {documents.listed(sorted(keys)) or 'nothing'}; expected {READABLE}")


def _of_json(path: Path) -> tuple[str, Any]:
    document = documents.parse(documents.read_text(path, expected=READABLE), name=str(path), kind=object, finite=False)
    for name in ("coco", "labelstudio"):
        if _module(name).recognises(document):
            return name, document
    found: Sequence[str] = list(document) if isinstance(document, dict) else []
    about = f"an object with {documents.listed(map(str, found))}" if found else checks.shown(document)
    raise InputError(f"{documents.place(path)} is JSON of another kind, {about}; expected {READABLE}")


def _of_folder(path: Path, format: str | None) -> str:
    if format is not None and _chosen(format) != "deeplabcut":
        raise InputError(f"{path} is a folder; expected a file of labels")
    if not _module("deeplabcut").recognises_folder(path):
        raise InputError(f"{path} is a folder without config.yaml; expected a file of labels or a DeepLabCut project")
    return "deeplabcut"


def _write_folder(module: ModuleType, labels: LabelSet, output: Path) -> Path:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FileError(f"{output} exists already; give the project a new folder")
    with files.draft_folder(output) as draft:
        module.write(labels, draft, output=output)
        draft.chmod(0o755)  # a temporary folder is private
        draft.replace(output)
    return output


def _chosen(format: Any) -> str:
    name = ALIASES.get(format, format) if isinstance(format, str) else format
    return checks.choice(name, "the format of labels", FORMATS)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"geco.propagation.formats.{MODULES[name]}")
