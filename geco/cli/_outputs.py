"""Where results go: checked before the expensive work begins, and never onto an input."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from geco.cli._options import OptionError
from geco.errors import FileError, InputError
from geco.system import files

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".pdf", ".svg")
FEATURES = (".safetensors",)
ROOM = 1_000_000  # bytes that must fit, at the least


def as_path(text: str | Path) -> Path:
    """The path that an option names."""
    if str(text) in ("", "-"):
        raise typer.BadParameter(f"expected the name of a file or folder, got {str(text)!r}")
    return Path(text)


def option(help_text: str, *, default: bool | str = True) -> Any:
    """`--out`, `-o` or `--output`: one option for every command that writes; `default` is what the help shows."""
    return typer.Option("--out", "-o", "--output", help=help_text, show_default=default, parser=as_path, metavar="PATH")


Picture = Annotated[
    Path | None,
    option(
        f"Picture to write ({', '.join(ending[1:] for ending in PICTURES)}), or a folder.",
        default="one named after the command",
    ),
]


def picture(path: Path, *, name: str, inputs: Iterable[Path], others: Sequence[str] = ()) -> Path:
    """The file a picture is written to: `path`, or `name` in it if it is a folder; the command takes `others` too."""
    return file(path / name if path.is_dir() else path, endings=(*PICTURES, *others), inputs=inputs)


def file(path: Path, *, endings: Sequence[str], inputs: Iterable[Path]) -> Path:
    """The path, if it has one of these endings, is none of the inputs and can be written."""
    if path.suffix.lower() not in endings:
        raise OptionError(f"--out must end in {', '.join(endings)}, got {str(path)!r}")
    if path.is_dir():
        raise FileError(f"{path} is a folder; give --out the name of a file")
    spare(path, inputs)
    _try(path.parent)
    return path


def folder(path: Path) -> Path:
    """The path, if it is a folder that can be written to, or can become one."""
    _try(path)
    return path


def spare(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over an input, by whatever name it goes."""
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise InputError(f"{path} is an input and would be overwritten; give another --out")


def names(paths: Sequence[Path]) -> list[str]:
    """A name for the results of each image: its stem, with ending and number where stems repeat."""
    stems = Counter(path.stem.lower() for path in paths)
    taken: Counter[str] = Counter()
    unique = []
    for path in paths:
        name = path.stem if stems[path.stem.lower()] == 1 else path.name.replace(".", "-")
        taken[name.lower()] += 1
        unique.append(name if taken[name.lower()] == 1 else f"{name}-{taken[name.lower()]}")
    return unique


def _try(place: Path) -> None:
    """Write into the folder, or into the nearest one that exists: a command that fails later leaves no empty folder."""
    try:
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        is_folder = existing.is_dir()
        if is_folder:
            files.try_room(existing, ROOM)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FileError(f"{place} cannot be written to: {reason}; give another --out") from None
    if not is_folder:
        raise FileError(f"{existing} is a file, not a folder; give another --out")
