"""`geco extract`: the features of a collection, in a folder that resumes and is read by name."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._progress import Update, progress_bars
from geco.cli._terminal import notes
from geco.errors import InputError
from geco.extraction.settings import ExtractSettings
from geco.system import documents

if TYPE_CHECKING:
    from geco.extraction import Job, bulk

PANEL = "Images"
DEFAULTS = ExtractSettings()


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("extract", rich_help_panel=PANEL)(extract)


def extract(
    pictures: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGES",
            help="Images: files, folders, patterns, .tar archives, lists of paths (.txt), tables (.csv, .parquet).",
            show_default=False,
        ),
    ],
    output: Annotated[Path, _outputs.option("Folder to write.")] = Path("features"),
    what: Annotated[
        Literal["maps", "global", "foreground"],
        typer.Option(help="Whole maps, one vector for each image, or the patches of the foreground."),
    ] = DEFAULTS.what,
    masks: Annotated[
        Path | None,
        typer.Option(
            help="Folder of masks named like the images (.png), for --what foreground.",
            show_default="what is unlike the image's border",
        ),
    ] = None,
    pca: Annotated[
        int | None,
        typer.Option(min=1, help="Reduce each descriptor to this many principal components.", show_default="all"),
    ] = DEFAULTS.pca,
    file_format: Annotated[
        Literal["safetensors", "parquet"], typer.Option("--format", help="Format of the shards.")
    ] = DEFAULTS.format,
    column: Annotated[
        str | None, typer.Option(help="Column of a table that holds the paths.", show_default="path, or the only one")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder that paths in lists and tables are relative to.", show_default="the folder of that file"
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images encoded at once.")] = (
        DEFAULTS.batch_size
    ),
    draft: Annotated[
        bool,
        typer.Option("--draft", help="Decode large JPEG files at a fraction of their size; nearly the same features."),
    ] = DEFAULTS.draft,
    per_shard: Annotated[
        int | None,
        typer.Option("--per-shard", min=1, help="Images per shard.", show_default="about 128 MB of them"),
    ] = DEFAULTS.per_shard,
    ray: Annotated[bool, typer.Option("--ray", help="Encode in several processes, with the extra ray.")] = False,
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", help="Ray cluster: auto, HOST:PORT or ray://HOST:PORT; implies --ray."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that encode, with --ray.", show_default="as many as fit"),
    ] = None,
    worker_cpus: Annotated[int, typer.Option("--worker-cpus", min=1, help="CPUs per process.")] = 1,
    worker_gpus: Annotated[float, typer.Option("--worker-gpus", min=0, help="GPUs per process, like 1 or 0.5.")] = 0,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    resize: options.Resize = None,
    force: options.Force = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write the features of many images to a folder of shards; [b]geco.extraction.open[/b] reads any of them by name.

    Interrupted or killed, the same command resumes. Images that cannot be read are listed in failed.csv.

    Example: [b]geco extract photos/ -o features/[/b]

    Example: [b]geco extract 'archive/*.tar' -o features/ --pca 64 --what foreground[/b]

    Example: [b]geco extract images.csv --column file -o features/ --format parquet --json[/b]

    Example: [b]geco extract photos/ -o features/ --ray --workers 4 --worker-gpus 1[/b]
    """
    from geco import api
    from geco.extraction import begin, bulk, cluster, find

    if masks is not None and what != "foreground":
        raise options.OptionError("--masks is for --what foreground")
    if masks is not None and not masks.is_dir():
        raise options.OptionError(f"--masks must be a folder of masks, got {str(masks)!r}")
    settings = ExtractSettings(what, file_format, pca, batch_size, draft=draft, per_shard=per_shard)
    if ray_address is not None:
        cluster.check_address(ray_address)
    _check_apart(output, pictures)
    _outputs.folder(output)
    sources = partial(find, pictures, column=column, root=root)
    how: dict[str, Any] = {
        "layer": layer,
        "size": size,
        "resize": resize,
        "force": force,
        "device": device,
        "dtype": dtype,
    }
    load = partial(api.load, model, **how)
    encoder = options.load_model(model, **how)
    start = time.perf_counter()
    with progress_bars() as update, begin(output, sources, encoder, settings, masks=masks) as job:
        _announce(job)
        progress = _with_rate(update, job.resumed)
        if ray or ray_address:
            room: dict[str, Any] = {"workers": workers, "cpus": worker_cpus, "gpus": worker_gpus}
            summary = cluster.run(job, load, address=ray_address, **room, progress=progress)
        else:
            summary = bulk.run(job, encoder, progress=progress)
    _report(output, job, summary, time.perf_counter() - start, as_json=as_json)


def _check_apart(output: Path, places: Sequence[str]) -> None:
    """Refuse to write among the images, or to read what is written."""
    target = output.resolve()
    for place in map(Path, places):
        source = place.resolve()
        if not source.exists():
            continue
        if target == source or (source.is_dir() and source in target.parents):
            raise InputError(f"{output} is inside {place}, whose images are read; give an --out elsewhere")
        if target in source.parents:
            raise InputError(f"{place} is inside {output}, where features are written; give another --out")


def _announce(job: "Job") -> None:
    about = job.work.about
    if job.resumed:
        notes.print(f"resumes after {job.resumed:,} of {about.images:,} images")
    missing = about.images - job.resumed
    most = "at most " if about.what == "foreground" else ""
    if missing:
        need = (
            f"{most}{documents.amount(job.bytes)} in {len(job.tasks):,} shards"
            if job.bytes
            else f"{len(job.tasks):,} shards"
        )
        notes.print(f"{missing:,} images: {need}; {documents.amount(job.free)} are free")


def _with_rate(update: Update, resumed: int) -> Callable[[str, int, int], None]:
    """Progress with the images encoded in a second."""
    start = time.perf_counter()

    def progress(what: str, done: int, total: int) -> None:
        seconds = time.perf_counter() - start
        update(what, done, total, f"{(done - resumed) / max(seconds, 1e-3):.1f} images/s")

    return progress


def _report(output: Path, job: "Job", summary: "bulk.Summary", seconds: float, *, as_json: bool) -> None:
    from geco.extraction import FAILED

    about, encoded = job.work.about, job.work.about.images - job.resumed
    if as_json:
        facts = {
            "folder": str(output),
            "model": about.model,
            "fingerprint": about.fingerprint,
            "what": about.what,
            "dim": about.dim,
            "images": summary.images,
            "failed": summary.failed,
            "encoded": encoded,
            "bytes": summary.bytes,
            "seconds": round(seconds, 2),
        }
        print(json.dumps(facts, indent=1))
    if summary.failed:
        notes.print(f"{summary.failed:,} images could not be read: {output / FAILED}", style="yellow")
    if not summary.images:
        raise InputError(f"none of {about.images:,} images could be read; {output / FAILED} says why")
    rate = f", {encoded / seconds:.1f} images/s" if encoded else ", nothing was left to do"
    notes.print(f"{summary.images:,} images, {documents.amount(summary.bytes)}{rate}: {output}")
