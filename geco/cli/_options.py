"""Options that several commands share, and what they stand for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from geco.cli._terminal import notes
from geco.errors import InputError, MissingFileError

if TYPE_CHECKING:
    from geco.models import Geco

Source = Annotated[Path, typer.Argument(help="Source image.", show_default=False)]
Target = Annotated[Path, typer.Argument(help="Target image.", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Name, run folder or hub id; see [b]geco info[/b].",
        show_default="the packaged model",
    ),
]
Layer = Annotated[
    int | None,
    typer.Option("--layer", "--layers", min=1, help="Block to read, of a bare backbone.", show_default="the model's"),
]
InputSize = Annotated[
    int | None,
    typer.Option("--size", "--sizes", min=1, help="Side the images are squashed to.", show_default="the model's"),
]
Force = Annotated[bool, typer.Option("--force", help="Encode at a size whose cost is refused otherwise.")]
Device = Annotated[str, typer.Option("--device", "--devices", help="auto, cpu, cuda, cuda:N or mps.")]
Dtype = Annotated[Literal["float32", "float16", "bfloat16"], typer.Option("--dtype", help="Precision of the weights.")]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", "--bin", help="Below this similarity a point is not visible.", show_default="the model's"
    ),
]


class OptionError(InputError):
    """A mistake in the options of a command: exit code 2."""


def load_model(name: str | None, *, size: int | None = None, device: str = "auto", **options: Any) -> "Geco":
    """The model, with a spinner while it loads and one line that says what it is."""
    with notes.status("loading the model"):
        from geco import api

        model = api.load(name, size=size, device=device, **options)
    kind = "adapter" if model.adapted else "bare backbone"
    facts = [kind, *(f"{key} {value}" for key, value in model.config.options.items())]
    facts += [f"{model.input_size} px", str(model.device), *([dtype] if (dtype := model.dtype) != "float32" else [])]
    notes.print(f"{model.name} ({', '.join(facts)})", style="dim")
    if model.note:
        notes.print(model.note, style="dim")
    return model


def title(model: "Geco") -> str:
    """The model as the title of a picture."""
    return model.name if model.adapted else f"{model.name} (bare backbone)"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """A spinner, then how long it took."""
    start = time.perf_counter()
    with notes.status(what):
        yield
    notes.print(f"{what}: {time.perf_counter() - start:.1f} s", style="dim")


def read_points(points: list[str], file: Path | None) -> tuple[list[tuple[float, float]], list[str]]:
    """Points (x, y) and their names from `--points x,y` options or a CSV file with columns x, y and perhaps name."""
    if file is not None and points:
        raise OptionError("give points with --points or with --points-file, not both")
    if file is not None:
        return _from_csv(file)
    if not points:
        raise OptionError("no points: give --points x,y (several times, or several pairs), or --points-file points.csv")
    return [_pair(text) for option in points for text in option.split()], []


def _pair(text: str) -> tuple[float, float]:
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"a point is x,y in pixels, like 120,80, got {text!r}") from None
    return x, y


def _from_csv(file: Path) -> tuple[list[tuple[float, float]], list[str]]:
    import csv

    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines))
    except FileNotFoundError:
        raise MissingFileError(f"{file}: no such file; expected a CSV with the columns x, y and perhaps name") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} is not a CSV text file: {error}") from None
    if not rows or not {"x", "y"} <= set(rows[0]):
        raise InputError(f"{file} must start with a header line that has x and y, and hold at least one point")
    points = []
    for number, row in enumerate(rows, start=2):
        try:
            points.append((float(row["x"]), float(row["y"])))
        except (TypeError, ValueError):
            raise InputError(
                f"{file}, line {number}: x and y must be numbers, got {row['x']!r}, {row['y']!r}"
            ) from None
    return points, [row.get("name") or "" for row in rows] if "name" in rows[0] else []
