"""Parts of images on a command line: boxes and masks, of the source and of each target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from geco.cli._options import OptionError
from geco.errors import MissingFileError
from geco.system import listing

SourceBox = Annotated[
    str | None,
    typer.Option(
        "--box", "--source-box", help="Use only this box of the source: x0,y0,x1,y1 in pixels.", metavar="BOX"
    ),
]
TargetBoxes = Annotated[
    list[str] | None,
    typer.Option(
        "--target-box", help="The same for the target; for several targets, one for all or one for each.", metavar="BOX"
    ),
]
SourceMask = Annotated[
    Path | None, typer.Option("--mask", "--source-mask", help="Mask of the object in the source (an image file).")
]
TargetMasks = Annotated[
    list[Path] | None,
    typer.Option(
        "--target-mask",
        help="Mask of the object in the target, to which answers are restricted; for several targets, one for all, one "
        "for each, or a folder of masks with the targets' names.",
    ),
]

Box = tuple[float, float, float, float]
T = TypeVar("T")


def box(text: str | None) -> Box | None:
    """The box that an option names."""
    if text is None:
        return None
    try:
        x0, y0, x1, y1 = (float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"a box is x0,y0,x1,y1 in pixels, like 20,10,180,140, got {text!r}") from None
    return x0, y0, x1, y1


def boxes(texts: Sequence[str] | None, count: int) -> list[Box | None]:
    """A box for each target."""
    return _each([box(text) for text in texts or ()], count, option="--target-box")


def masks(paths: Sequence[Path] | None, targets: Sequence[Path]) -> list[Path | None]:
    """A mask file for each target."""
    if paths and len(paths) == 1 and paths[0].is_dir():
        return [_mask_in(paths[0], target) for target in targets]
    return _each(list(paths or ()), len(targets), option="--target-mask")


def _each(values: Sequence[T], count: int, *, option: str) -> list[T | None]:
    if len(values) <= 1:
        return [values[0] if values else None] * count
    if len(values) != count:
        raise OptionError(f"{option} is given {len(values)} times for {count} targets; give one for all, or one each")
    return list(values)


def _mask_in(folder: Path, target: Path) -> Path:
    """The mask in a folder that has the target's name."""
    names = [target.stem + ending for ending in (".png", *listing.ENDINGS)]
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise MissingFileError(f"{folder} has no mask for {target.name}; expected {names[0]}")
    return found
