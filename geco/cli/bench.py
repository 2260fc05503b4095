"""`geco bench`: how long encoding takes, bare backbone, adapter and merged adapter side by side; or a whole frame."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _outputs, _reports
from geco.cli._options import Force, OptionError
from geco.cli._progress import progress_bars
from geco.cli._terminal import notes
from geco.evaluation.settings import FrameProtocol, RuntimeProtocol

if TYPE_CHECKING:
    from geco.export import Exported
    from geco.models import Extractor, Geco

PANEL = "Measuring"

DEFAULTS, FRAMES = RuntimeProtocol(), FrameProtocol()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench", rich_help_panel=PANEL)(bench)


def bench(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Name, run folder or hub id; with --end-to-end, several times."),
    ] = None,
    end_to_end: Annotated[
        bool,
        typer.Option("--end-to-end", help="Time a decoded frame → resize → features → points transferred."),
    ] = False,
    frame: Annotated[str, typer.Option(help="Width and height of a frame.")] = f"{FRAMES.frame[1]}x{FRAMES.frame[0]}",
    points: Annotated[int, typer.Option(min=1, help="Points transferred to each frame.")] = FRAMES.points,
    batches: Annotated[str, typer.Option(help="Batch sizes: 1,8.")] = ",".join(map(str, DEFAULTS.batches)),
    sizes: Annotated[
        str | None, typer.Option("--sizes", "--size", help="Sides of the images: 224,518.", show_default="the model's")
    ] = None,
    force: Force = False,
    dtypes: Annotated[str, typer.Option(help="float32, float16, bfloat16.")] = ",".join(DEFAULTS.dtypes),
    devices: Annotated[str, typer.Option("--devices", "--device", help="auto, cpu, cuda, mps.")] = "auto",
    warmup: Annotated[int, typer.Option(min=1, help="Calls before timing starts.")] = DEFAULTS.warmup,
    repeats: Annotated[int, typer.Option(min=1, help="Calls that are timed.")] = DEFAULTS.repeats,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads.", show_default="torch's")] = None,
    out: Annotated[Path | None, _outputs.option("Folder for tables.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Time a model: median and spread of a call, images per second, memory, parameters.

    Inputs are random and already on the device: reading and resizing images is not part of it, unless
    --end-to-end is given. Sizes are rounded to what the backbone takes.

    Example: [bold]geco bench --model focus-small --batches 1,8 --sizes 224,518 --dtypes float32,bfloat16[/]

    Example: [bold]geco bench --end-to-end -m geco-s -m focus-small --size 224[/]
    """
    import torch

    from geco import evaluation, export, models, system

    out = None if out is None else _outputs.folder(out)
    if threads is not None:
        torch.set_num_threads(threads)  # before the model is loaded: exported ones take their number then
    given = None if sizes is None else _reports.whole_numbers(sizes, option="--sizes")
    if end_to_end:
        frames = FrameProtocol(_frame(frame), points=points, warmup=warmup, repeats=repeats)
        encoders = _encoders(
            model or [models.default_model()], given, devices.split(","), dtypes.split(","), force=force
        )
        with progress_bars() as progress:
            report = evaluation.frames.run(encoders, frames, progress=progress)
        _reports.present(report, out=out, as_json=as_json)
        return
    if model is not None and len(model) > 1:
        raise OptionError("one model is timed beside its variants; --end-to-end takes several")
    encoder, variants = _variants(model[0] if model else None)
    multiple = encoder.stride if isinstance(encoder, export.Exported) else encoder.backbone.multiple
    protocol = RuntimeProtocol(
        batches=_reports.whole_numbers(batches, option="--batches"),
        sizes=(encoder.input_size,) if given is None else _rounded(given, multiple),
        dtypes=tuple(dtypes.split(",")),
        devices=tuple(str(system.devices.choose(name)) for name in devices.split(",")),
        warmup=warmup,
        repeats=repeats,
    )
    with progress_bars() as progress:
        report = evaluation.runtime.run(variants, protocol, multiple=multiple, force=force, progress=progress)
    _reports.present(report, out=out, as_json=as_json)


def _frame(text: str) -> tuple[int, int]:
    """(height, width) of a frame given as WIDTHxHEIGHT."""
    try:
        width, height = (int(side) for side in text.lower().replace("×", "x").split("x"))
    except ValueError:
        raise OptionError(f"a frame is WIDTHxHEIGHT in pixels, like 640x480, got {text!r}") from None
    return height, width


def _rounded(sizes: tuple[int, ...], multiple: int) -> tuple[int, ...]:
    """The sizes as multiples of what the backbone takes, each once; says which were changed."""
    from geco import images

    near = [images.fit((size, size), multiple=multiple)[0] for size in sizes]
    for size, rounded in zip(sizes, near, strict=True):
        if size != rounded:
            notes.print(f"size {size} → {rounded}: the backbone takes multiples of {multiple}", style="dim")
    return tuple(dict.fromkeys(near))


def _encoders(
    names: Sequence[str], sizes: tuple[int, ...] | None, places: Sequence[str], dtypes: Sequence[str], *, force: bool
) -> "dict[str, Extractor]":
    """The models under all conditions, by names that say which."""
    from geco import api

    encoders: dict[str, Extractor] = {}
    for name, size, place, dtype in product(names, sizes or (None,), places, dtypes):
        model = api.load(name, size=size, device=place, dtype=dtype, force=force)
        about = [f"{model.input_size} px", *([dtype] if dtype != "float32" else [])]
        about += [str(model.device)] if len(places) > 1 else []
        label = f"{model.name}, {', '.join(about)}"
        encoders[label if label not in encoders else f"{label} ({len(encoders) + 1})"] = model
    return encoders


def _variants(name: str | None) -> "tuple[Geco | Exported, dict[str, Any]]":
    """The model, and what is timed: itself; if it has an adapter, also its bare backbone and the merged model."""
    from copy import deepcopy

    from geco import export
    from geco.evaluation import runtime
    from geco.models import Geco, adapter_config, default_model, find_adapter

    if export.is_exported(name):
        exported = export.load(str(name))
        return exported, {exported.name: exported}
    name = name or default_model()
    folder = find_adapter(name)
    if folder is None or adapter_config(folder).lora is None:
        whole = Geco.for_inference(name, device="cpu")
        return whole, {whole.name: whole}
    model = Geco.from_pretrained(name, device="cpu")
    bare = Geco.from_pretrained(model.config.backbone, device="cpu", **model.config.options)
    merged = deepcopy(model).merge()
    return model, {bare.name: bare, f"{model.name} unmerged": model, f"{model.name}{runtime.MERGED}": merged}
