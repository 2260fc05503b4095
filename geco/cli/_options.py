"""Options that several commands share, and what they stand for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from geco.cli._terminal import notes
from geco.errors import InputError

if TYPE_CHECKING:
    from geco.models import Extractor

Source = Annotated[Path, typer.Argument(help="Source image.", show_default=False)]
Target = Annotated[Path, typer.Argument(help="Target image.", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Name, run folder, hub id or exported file; see [b]geco info[/b].",
        show_default="the packaged model",
    ),
]
Layer = Annotated[
    int | None,
    typer.Option(
        "--layer", "--layers", min=1, help="Block of a bare backbone to read features from.", show_default="the model's"
    ),
]
InputSize = Annotated[
    int | None,
    typer.Option(
        "--size",
        "--sizes",
        min=1,
        help="Side of the square that images are resized to, in pixels.",
        show_default="the model's",
    ),
]
Resize = Annotated[
    Literal["squash", "fit"] | None,
    typer.Option(
        "--resize", help="squash: resize images to a square; fit: keep their aspect ratio.", show_default="the model's"
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Encode even at a size that is refused for its cost.")]
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


def load_model(name: str | None, *, size: int | None = None, device: str = "auto", **options: Any) -> "Extractor":
    """The model, with a spinner while it loads and one line that says what it is."""
    with notes.status("loading the model"):
        from geco import api

        model = api.load(name, size=size, device=device, **options)
    kind = ("whole" if model.config.base else "adapter") if model.adapted else "bare backbone"
    facts = [kind, *(f"{key} {value}" for key, value in model.config.options.items())]
    facts += [
        f"{model.input_size} px{', fit' * (model.config.aspect == 'fit')}",
        str(model.device),
        *([dtype] if (dtype := model.dtype) != "float32" else []),
    ]
    notes.print(f"{model.name} ({', '.join(facts)})", style="dim")
    if model.note:
        notes.print(model.note, style="dim")
    return model


def title(model: "Extractor") -> str:
    """The model as the title of a picture."""
    return model.name if model.adapted else f"{model.name} (bare backbone)"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """A spinner, then how long it took."""
    start = time.perf_counter()
    with notes.status(what):
        yield
    notes.print(f"{what}: {time.perf_counter() - start:.1f} s", style="dim")
