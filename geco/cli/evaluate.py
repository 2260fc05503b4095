"""`geco evaluate`: the paper's tables, for any model on any dataset."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geco.cli import _outputs, _reports
from geco.cli._fewshot_reports import fewshot
from geco.cli._options import Device, Dtype, Force, Resize, load_model
from geco.cli._pose_reports import pose, surface
from geco.cli._progress import progress_bars
from geco.cli._search_reports import search
from geco.errors import InputError
from geco.evaluation.settings import PROTOCOLS, KeypointSettings, PartsProtocol, protocols_named

if TYPE_CHECKING:
    from geco.data import PairDataset, PartDataset
    from geco.evaluation import Report
    from geco.models import Extractor

PANEL = "Measuring"

KEYPOINTS, PARTS = KeypointSettings(), PartsProtocol()
GIGA = 1024**3
MOST_MEMORY = 1e6  # GB

Dataset = Annotated[str, typer.Argument(help="Dataset; see [b]geco data list[/b].", show_default=False)]
Root = Annotated[Path, typer.Argument(help="Its folder.", show_default=False)]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Name, run folder or hub id; several times to evaluate several."),
]
Layers = Annotated[
    str | None, typer.Option("--layers", "--layer", help="Blocks of a bare backbone to read features from: 9,10,11,12.")
]
Norm = Annotated[
    bool | None,
    typer.Option(
        "--norm/--no-norm",
        help="Read a bare backbone after or before its final norm.",
        show_default="the backbone's",
    ),
]
Sizes = Annotated[
    str | None, typer.Option("--sizes", "--size", help="Sides of the square that images are resized to: 224,392,518.")
]
Out = Annotated[
    Path | None,
    _outputs.option("Run folder for tables and figures; makes the run resumable."),
]
Cache = Annotated[Path | None, typer.Option(help="Folder to keep feature maps in, for later runs.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only this many, spread evenly over the split.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Option of the loader, key=value.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Evaluate features: keypoint transfer, parts, poses, search.", no_args_is_help=True)
    group.command("keypoints")(keypoints)
    group.command("parts")(parts)
    group.command("fewshot")(fewshot)
    group.command("pose")(pose)
    group.command("surface")(surface)
    group.command("search")(search)
    app.add_typer(group, name="evaluate", rich_help_panel=PANEL)


def keypoints(
    dataset: Dataset,
    root: Root,
    model: Models = None,
    split: Annotated[str, typer.Option(help="Split to evaluate on.")] = "test",
    protocol: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(PROTOCOLS)}; several at no extra cost.")
    ] = None,
    compare: Annotated[tuple[str, str] | None, typer.Option(help="Two models to compare on the same pairs.")] = None,
    layers: Layers = None,
    norm: Norm = None,
    sizes: Sizes = None,
    resize: Resize = None,
    force: Force = False,
    out: Out = None,
    cache: Cache = None,
    limit: Limit = None,
    settings: Set = None,
    failures: Annotated[
        int, typer.Option(min=0, help="Pairs per category on sheets of misses, the worst first; needs --out.")
    ] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Images encoded at once.")] = KEYPOINTS.batch_size,
    memory: Annotated[float, typer.Option(help="GB of feature maps in memory.")] = KEYPOINTS.memory / GIGA,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = KEYPOINTS.seed,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """PCK and PGCK with intervals, per category; how often hidden points are sent to their twin.

    Under [b]accelerate launch[/b] or torchrun the work is shared between processes (give --out).

    Example: [bold]geco evaluate keypoints cub data/CUB_200_2011 --protocol geco --protocol bbox-image --out runs/cub[/]

    Example: [bold]geco evaluate keypoints spair data/SPair-71k --compare dinov2-small runs/mine[/]

    Example: [bold]geco evaluate keypoints coco my-animals --split val --failures 6 --out runs/mine[/]
    """
    from geco import checks, data, evaluation
    from geco.system import Processes

    named = protocols_named(tuple(protocol or ("geco",)))
    if failures and out is None:
        raise InputError("--failures draws sheets into the run folder; give --out FOLDER as well")
    out = None if out is None else _outputs.folder(out)
    names = compare or model or (None,)
    pairs = _pairs(data.load(dataset, root, split, settings or (), limit=limit), dataset)
    how = replace(
        KEYPOINTS,
        batch_size=batch_size,
        memory=int(checks.number(memory, "--memory", least=0, most=MOST_MEMORY) * GIGA),
        seed=seed,
    )
    processes = Processes.launched()
    variants = [
        (name, layer, size)
        for name in names
        for layer in (_reports.whole_numbers(layers, option="--layers") if layers is not None else (None,))
        for size in (_reports.whole_numbers(sizes, option="--sizes") if sizes is not None else (None,))
    ]
    alone = len(variants) == 1
    reports: list[Report] = []
    for name, layer, size in variants:
        encoder = load_model(
            name, layer=layer, norm=norm, size=size, resize=resize, force=force, device=device, dtype=dtype
        )
        protocols = [protocol.visible_above(encoder.threshold) for protocol in named]
        label = _label(encoder, layer, size, taken={report.label for report in reports})
        folder = out if out is None or alone else out / label
        with progress_bars(shown=processes.index == 0) as progress:
            predictions = evaluation.keypoints.predict(
                encoder,
                pairs,
                evaluation.keypoints.ways(protocols),
                settings=how,
                folder=folder,
                cache=cache,
                processes=processes,
                progress=progress,
            )
        if processes.index:
            continue
        report = evaluation.keypoints.summarise(
            pairs, predictions, protocols, settings=how, label=label, data=f"{dataset} {split}"
        )
        report = replace(report, settings={**report.settings, "model": _about(encoder)})
        figures = None
        if folder is not None:
            sheets = evaluation.keypoints.draw_examples(encoder, pairs, predictions, protocols, count=how.examples)
            figures = {**evaluation.keypoints.draw([report]), **sheets}
        if figures is not None and failures:
            missed = evaluation.keypoints.misses(pairs, predictions, protocols[0], how)
            report = replace(report, tables=(*report.tables, *missed))
            figures |= evaluation.keypoints.draw_failures(pairs, predictions, protocols[0], how, count=failures)
        _reports.present(report, out=folder, as_json=as_json and alone, figures=figures, quiet=as_json and not alone)
        reports.append(report)
    if len(reports) > 1:
        _together(reports, compare=compare is not None, out=out, as_json=as_json)


def _pairs(dataset: "PairDataset | PartDataset", name: str) -> "PairDataset":
    from geco.data import PartDataset

    if isinstance(dataset, PartDataset):
        raise InputError(f"{name} has part maps and no pairs of keypoints; use geco evaluate parts")
    return dataset


def _label(model: "Extractor", layer: int | None, size: int | None, *, taken: set[str]) -> str:
    """Name of a variant, different from those taken: two run folders may end in the same word."""
    label = model.name + (f"-layer{layer}" if layer else "") + (f"-{size}px" if size else "")
    label += "-fit" if model.config.aspect == "fit" else ""
    return label if label not in taken else next(n for i in range(2, 99) if (n := f"{label}-{i}") not in taken)


def _about(model: "Extractor") -> dict[str, Any]:
    """What the report says of the model; its options stand beside the other settings, as in release 0.1."""
    config = asdict(model.config)
    known = {"name": model.name, "fingerprint": model.fingerprint(), "dtype": model.dtype}
    return {**known, **config.pop("options"), **config}


def _together(reports: "list[Report]", *, compare: bool, out: Path | None, as_json: bool) -> None:
    """Several models side by side, and the paired differences of two."""
    from geco import evaluation

    tables = [evaluation.side_by_side(reports)]
    if compare:
        tables.append(evaluation.keypoints.compare(*reports))
    comparison = evaluation.Report(
        benchmark="keypoints, compared",
        label=" and ".join(report.label for report in reports),
        data=reports[0].data,
        measures=tuple(measure.of(report.label) for report in reports for measure in report.measures),
        tables=tuple(tables),
        settings={"runs": [report.settings for report in reports]},
        provenance=reports[0].provenance,
    )
    figures = evaluation.keypoints.draw(reports) if out else None
    _reports.present(comparison, out=out, as_json=as_json, figures=figures)


def parts(
    dataset: Dataset,
    root: Root,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Name, run folder or hub id.")] = None,
    unit: Annotated[str, typer.Option(help="patch, or pixel of the upsampled features.")] = PARTS.unit,
    train_images: Annotated[
        int | None, typer.Option(min=1, help="At most this many per category for the centroids.")
    ] = PARTS.train_images,
    components: Annotated[
        int | None, typer.Option(min=1, help="Reduce features to this many principal components first.")
    ] = PARTS.components,
    distance: Annotated[str, typer.Option(help="euclid or cosine.")] = PARTS.distance,
    background: Annotated[bool, typer.Option(help="Count the given background as a part.")] = PARTS.background,
    out: Out = None,
    limit: Limit = None,
    settings: Set = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Part labels by nearest centroid: mIoU, accuracy, and both among left/right parts only.

    Example: [bold]geco evaluate parts pascal-part data/PASCAL-VOC --out runs/parts[/]
    """
    from geco import data, evaluation

    out = None if out is None else _outputs.folder(out)
    protocol = PartsProtocol(
        unit=unit,  # type: ignore[arg-type]
        train_images=train_images,
        components=components,
        distance=distance,  # type: ignore[arg-type]
        background=background,
    )
    splits = (data.load(dataset, root, split, settings or (), limit=limit) for split in ("train", "test"))
    train, test = (_part_views(split, dataset) for split in splits)
    encoder = load_model(model, device=device, dtype=dtype)
    with progress_bars() as progress:
        report = evaluation.parts.run(
            encoder, train, test, protocol, label=encoder.name, data=dataset, progress=progress
        )
    report = replace(report, settings={**report.settings, "model": _about(encoder)})
    figures = None
    if out is not None:
        figures = {**evaluation.parts.draw(report), **evaluation.parts.pictures(encoder, train, test, protocol)}
    _reports.present(report, out=out, as_json=as_json, figures=figures)


def _part_views(dataset: "PairDataset | PartDataset", name: str) -> "PartDataset":
    from geco.data import PartDataset

    if not isinstance(dataset, PartDataset):
        raise InputError(f"{name} has no part maps to evaluate on; pascal-part has")
    return dataset
