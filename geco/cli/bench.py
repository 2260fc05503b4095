"""`geco bench`: how long encoding takes, bare backbone, adapter and merged adapter side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _outputs, _reports
from geco.cli._options import Force, Model
from geco.cli._progress import progress_bars
from geco.evaluation.settings import RuntimeProtocol

if TYPE_CHECKING:
    from geco.models import Geco

PANEL = "Measuring"

DEFAULTS = RuntimeProtocol()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench", rich_help_panel=PANEL)(bench)


def bench(
    model: Model = None,
    batches: Annotated[str, typer.Option(help="Images at once: 1,8.")] = ",".join(map(str, DEFAULTS.batches)),
    sizes: Annotated[
        str | None, typer.Option("--sizes", "--size", help="Sides of the images: 224,518.", show_default="the model's")
    ] = None,
    force: Force = False,
    dtypes: Annotated[str, typer.Option(help="float32, float16, bfloat16.")] = ",".join(DEFAULTS.dtypes),
    devices: Annotated[str, typer.Option("--devices", "--device", help="auto, cpu, cuda, mps.")] = "auto",
    warmup: Annotated[int, typer.Option(min=1, help="Calls that are not timed.")] = DEFAULTS.warmup,
    repeats: Annotated[int, typer.Option(min=1, help="Calls that are.")] = DEFAULTS.repeats,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Of the CPU.", show_default="torch's")] = None,
    out: Annotated[Path | None, _outputs.option("Folder for tables.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Time a model: median and spread of a call, images per second, memory, parameters.

    Inputs are random and already on the device: reading and resizing photographs is not part of it.

    Example: [bold]geco bench --model focus-small --batches 1,8 --sizes 224,518 --dtypes float32,bfloat16[/]
    """
    import torch

    from geco import evaluation, system
    from geco.models import Geco, default_model

    out = None if out is None else _outputs.folder(out)
    encoder = Geco.from_pretrained(model or default_model(), device="cpu")
    if threads is not None:
        torch.set_num_threads(threads)
    protocol = RuntimeProtocol(
        batches=_reports.whole_numbers(batches, option="--batches"),
        sizes=_reports.whole_numbers(sizes, option="--sizes") if sizes is not None else (encoder.input_size,),
        dtypes=tuple(dtypes.split(",")),
        devices=tuple(str(system.devices.choose(name)) for name in devices.split(",")),
        warmup=warmup,
        repeats=repeats,
    )
    multiple = encoder.backbone.multiple
    with progress_bars() as progress:
        report = evaluation.runtime.run(_variants(encoder), protocol, multiple=multiple, force=force, progress=progress)
    _reports.present(report, out=out, as_json=as_json)


def _variants(model: "Geco") -> "dict[str, Geco]":
    """The model; if it has an adapter, also its bare backbone and the merged model."""
    from copy import deepcopy

    from geco.evaluation import runtime
    from geco.models import Geco

    if not model.adapted:
        return {model.name: model}
    bare = Geco.from_pretrained(model.config.backbone, device="cpu", **model.config.options)
    return {bare.name: bare, f"{model.name} unmerged": model, f"{model.name}{runtime.MERGED}": deepcopy(model).merge()}
