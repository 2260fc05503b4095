"""`geco bench`: how long encoding takes, bare backbone, adapter and merged adapter side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli._options import Model
from geco.config.evaluation import RuntimeProtocol

if TYPE_CHECKING:
    from geco.model import Geco

PANEL = "Measuring"

DEFAULTS = RuntimeProtocol()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench", rich_help_panel=PANEL)(bench)


def bench(
    model: Model = None,
    batches: Annotated[str, typer.Option(help="Images at once: 1,8.")] = ",".join(map(str, DEFAULTS.batches)),
    sizes: Annotated[str | None, typer.Option(help="Sides of the images: 224,518.", show_default="the model's")] = None,
    dtypes: Annotated[str, typer.Option(help="float32, float16, bfloat16.")] = ",".join(DEFAULTS.dtypes),
    devices: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    warmup: Annotated[int, typer.Option(min=1, help="Calls that are not timed.")] = DEFAULTS.warmup,
    repeats: Annotated[int, typer.Option(min=1, help="Calls that are.")] = DEFAULTS.repeats,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the CPU.", show_default="torch's")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Time a model: median and spread of a call, images per second, memory, parameters.

    Inputs are random and already on the device: reading and resizing photographs is not part of it.

    Example: [bold]geco bench --model focus-small --batches 1,8 --sizes 224,518 --dtypes float32,bfloat16[/]
    """
    import torch

    from geco.benchmarks import runtime
    from geco.cli import _evaluation as shared
    from geco.model import Geco, choose_device
    from geco.weights import default_model

    encoder = Geco.from_pretrained(model or default_model(), device="cpu")
    if threads is not None:
        torch.set_num_threads(threads)
    protocol = RuntimeProtocol(
        batches=_whole(batches, "--batches"),
        sizes=_whole(sizes, "--sizes") if sizes else (encoder.input_size,),
        dtypes=tuple(dtypes.split(",")),
        devices=tuple(str(choose_device(name)) for name in devices.split(",")),
        warmup=warmup,
        repeats=repeats,
    )
    with shared.progress_bars() as progress:
        report = runtime.run(_variants(encoder), protocol, patch=encoder.patch, progress=progress)
    shared.present(report, out=out, as_json=as_json)


def _whole(text: str, option: str) -> tuple[int, ...]:
    from geco.cli import _evaluation as shared

    return tuple(number for number in shared.numbers(text, option=option) if number is not None)


def _variants(model: "Geco") -> "dict[str, Geco]":
    """The model; if it has an adapter, also its bare backbone and the merged model."""
    from copy import deepcopy

    from geco.model import Geco

    if not model.adapted:
        return {model.name: model}
    config = model.config
    bare = Geco.from_pretrained(config.backbone, layer=config.layer, norm=config.norm, device="cpu")
    return {bare.name: bare, f"{model.name} unmerged": model, f"{model.name} merged": deepcopy(model).merge()}
