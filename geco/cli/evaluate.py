"""`geco evaluate`: the paper's tables, for any model on any dataset."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli._options import Device, load_model
from geco.config.evaluation import PROTOCOLS, KeypointSettings, PartsProtocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from geco.model import Geco
    from geco.report import Report

PANEL = "Measuring"

KEYPOINTS, PARTS = KeypointSettings(), PartsProtocol()
GIGA = 1024**3

Dataset = Annotated[str, typer.Argument(help="Dataset; see [b]geco data list[/b].", show_default=False)]
Root = Annotated[Path, typer.Argument(help="Its folder.", show_default=False)]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Name, run folder or hub id; several times to judge several."),
]
Layers = Annotated[str | None, typer.Option(help="Blocks to read, of a bare backbone: 9,10,11,12.")]
Norm = Annotated[
    bool | None,
    typer.Option(
        "--norm/--no-norm",
        help="Read a bare backbone after or before its final norm.",
        show_default="the backbone's",
    ),
]
Sizes = Annotated[str | None, typer.Option(help="Sides the images are squashed to: 224,392,518.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Run folder: makes the run resumable, gets tables and figures."),
]
Cache = Annotated[Path | None, typer.Option(help="Folder of feature maps that outlives the run.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only so many, spread evenly over the split.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Option of the loader, key=value.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Judge features: keypoint transfer and parts.", no_args_is_help=True)
    group.command("keypoints")(keypoints)
    group.command("parts")(parts)
    app.add_typer(group, name="evaluate", rich_help_panel=PANEL)


def keypoints(
    dataset: Dataset,
    root: Root,
    model: Models = None,
    split: Annotated[str, typer.Option(help="Split to judge on.")] = "test",
    protocol: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(PROTOCOLS)}; several at no extra cost.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(help="Two models, judged on the same pairs: differences.")
    ] = None,
    layers: Layers = None,
    norm: Norm = None,
    sizes: Sizes = None,
    out: Out = None,
    cache: Cache = None,
    limit: Limit = None,
    settings: Set = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images encoded at once.")] = KEYPOINTS.batch_size,
    memory: Annotated[float, typer.Option(help="GB of feature maps in memory.")] = KEYPOINTS.memory / GIGA,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = KEYPOINTS.seed,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """PCK and PGCK with intervals, per category; how often hidden points are sent to their twin.

    Under [b]accelerate launch[/b] or torchrun the work is shared between processes (give --out).

    Example: [bold]geco evaluate keypoints cub data/CUB_200_2011 --protocol geco --protocol bbox-image --out runs/cub[/]

    Example: [bold]geco evaluate keypoints spair data/SPair-71k --compare dinov2-small runs/mine[/]
    """
    from geco.benchmarks import keypoints as benchmark
    from geco.cli import _evaluation as shared
    from geco.config.evaluation import protocols_named

    chosen = protocols_named(tuple(protocol or ("geco",)))
    names = list(compare) if compare else (model or [None])  # type: ignore[list-item]
    pairs = shared.load_data(dataset, root, split, settings or (), limit)
    how = replace(KEYPOINTS, batch_size=batch_size, memory=int(memory * GIGA), seed=seed)
    processes = shared.processes()
    variants = [
        (name, layer, size)
        for name in names
        for layer in shared.numbers(layers, option="--layers")
        for size in shared.numbers(sizes, option="--sizes")
    ]
    reports: list[Report] = []
    for name, layer, size in variants:
        encoder = load_model(name, layer=layer, norm=norm, size=size, device=device)
        label = _label(encoder, layer, size, taken={report.label for report in reports})
        judged_by = [replace(one, match=replace(one.match, bin=encoder.config.bin)) for one in chosen]
        folder = out if out is None or len(variants) == 1 else out / label
        with shared.progress_bars(shown=processes.index == 0) as progress:
            made = benchmark.predict(
                encoder,
                pairs,
                benchmark.ways(judged_by),
                settings=how,
                folder=folder,
                cache=cache,
                processes=processes,
                progress=progress,
            )
        if processes.index:
            continue
        report = benchmark.summarise(pairs, made, judged_by, settings=how, label=label, data=f"{dataset} {split}")
        report = replace(report, settings={**report.settings, "model": _about(encoder)})
        figures = _keypoint_figures(encoder, pairs, made, report, how) if folder else None
        alone = len(variants) == 1
        shared.present(report, out=folder, as_json=as_json and alone, figures=figures, quiet=as_json and not alone)
        reports.append(report)
    if len(reports) > 1:
        _together(reports, compare=compare is not None, out=out, as_json=as_json)


def _label(model: "Geco", layer: int | None, size: int | None, *, taken: set[str]) -> str:
    """Name of a variant, different from those taken: two run folders may end in the same word."""
    label = model.name + (f"-layer{layer}" if layer else "") + (f"-{size}px" if size else "")
    return label if label not in taken else next(n for i in range(2, 99) if (n := f"{label}-{i}") not in taken)


def _about(model: "Geco") -> dict[str, Any]:
    from dataclasses import asdict

    return {"name": model.name, "fingerprint": model.fingerprint(), **asdict(model.config)}


def _keypoint_figures(
    model: "Geco", pairs: Any, made: Any, report: "Report", how: KeypointSettings
) -> dict[str, "Figure"]:
    from geco import figures
    from geco.benchmarks import keypoints as benchmark

    drawn = benchmark.draw([report])
    for case, some in benchmark.examples(model, pairs, made, count=how.examples).items():
        if some:
            drawn[f"examples_{case}"] = figures.sheet(some, title=f"{case}: {figures.MEANING[case]}")
    return drawn


def _together(reports: "list[Report]", *, compare: bool, out: Path | None, as_json: bool) -> None:
    """Several models side by side, and the paired differences of two."""
    from geco.benchmarks import keypoints as benchmark
    from geco.cli import _evaluation as shared
    from geco.report import Report, side_by_side

    tables = [side_by_side(reports)]
    if compare:
        tables.append(benchmark.compare(*reports))
    both = Report(
        benchmark="keypoints, compared",
        label=" and ".join(report.label for report in reports),
        data=reports[0].data,
        values={f"{r.label}: {key}": value for r in reports for key, value in r.values.items()},
        tables=tuple(tables),
        settings={"runs": [report.settings for report in reports]},
        provenance=reports[0].provenance,
    )
    shared.present(both, out=out, as_json=as_json, figures=benchmark.draw(reports) if out else None)


def parts(
    dataset: Dataset,
    root: Root,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Name, run folder or hub id.")] = None,
    unit: Annotated[str, typer.Option(help="patch, or pixel of the upsampled features.")] = PARTS.unit,
    train_images: Annotated[
        int | None, typer.Option(min=1, help="At most so many per category for the centroids.")
    ] = PARTS.train_images,
    components: Annotated[int | None, typer.Option(min=1, help="Of a PCA before.")] = PARTS.components,
    distance: Annotated[str, typer.Option(help="euclid or cosine.")] = PARTS.distance,
    background: Annotated[bool, typer.Option(help="Count the given background as a part.")] = PARTS.background,
    out: Out = None,
    limit: Limit = None,
    settings: Set = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Part labels by nearest centroid: mIoU, accuracy, and both among left/right parts only.

    Example: [bold]geco evaluate parts pascal-part data/PASCAL-VOC --out runs/parts[/]
    """
    from geco.benchmarks import parts as benchmark
    from geco.cli import _evaluation as shared

    protocol = PartsProtocol(
        unit=benchmark.choose("unit", unit, ("patch", "pixel")),
        train_images=train_images,
        components=components,
        distance=benchmark.choose("distance", distance, ("euclid", "cosine")),
        background=background,
    )
    train, test = (shared.load_data(dataset, root, split, settings or (), limit) for split in ("train", "test"))
    if not hasattr(test, "skeletons"):
        raise ValueError(f"{dataset} has no part masks to judge by; pascal-part has")
    encoder = load_model(model, layer=None, size=None, device=device)
    with shared.progress_bars() as progress:
        report = benchmark.run(encoder, train, test, protocol, label=encoder.name, data=dataset, progress=progress)
    report = replace(report, settings={**report.settings, "model": _about(encoder)})
    figures = None
    if out is not None:
        figures = {**benchmark.draw(report), **benchmark.pictures(encoder, train, test, protocol)}
    shared.present(report, out=out, as_json=as_json, figures=figures)
