"""`geco evaluate pose` and `geco evaluate surface`: 2D–3D matching, rendered and on images."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from geco.cli import _outputs, _reports
from geco.cli._options import Device, Dtype, InputSize, load_model
from geco.cli._progress import progress_bars
from geco.errors import InputError
from geco.evaluation.settings import PoseProtocol, SurfaceProtocol
from geco.pose.settings import PnpSettings

if TYPE_CHECKING:
    from geco.evaluation import Report, Table
    from geco.models import Extractor

POSE, SURFACE = PoseProtocol(), SurfaceProtocol()
Models = Annotated[
    list[str] | None, typer.Option("--model", "-m", help="Name, run folder or hub id; several to compare them.")
]
Views = Annotated[int, typer.Option(min=1, help="Rendered views a mesh is decorated from.")]
Looks = Annotated[Literal["own", "varied"], typer.Option(help="The mesh's own colours only, or other coats too.")]
Out = Annotated[Path | None, _outputs.option("Folder for tables and figures.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Option of the loader, key=value.")]


def pose(
    meshes: Annotated[list[Path], typer.Argument(help="Meshes, each decorated and tested.", show_default=False)],
    on: Annotated[
        list[Path] | None, typer.Option(help="Test the mesh on images of these rigged meshes instead.")
    ] = None,
    model: Models = None,
    views: Views = POSE.decorate.views,
    images: Annotated[int, typer.Option(min=1, help="Novel images of each mesh.")] = POSE.images,
    engine: Annotated[
        Literal["opencv", "poselib"], typer.Option(help="Library whose RANSAC solves the pose.")
    ] = POSE.solve.pnp.engine,
    looks: Looks = POSE.decorate.looks,
    size: InputSize = None,
    seed: Annotated[int, typer.Option(help="Random seed of views, test images and bootstrap.")] = POSE.seed,
    out: Out = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """2D–3D matching and pose as in the paper: geodesic and rotation errors on novel images of decorated meshes.

    Example: [bold]geco evaluate pose horse.glb cow.glb -m focus-small -m geco-s --out runs/pose[/]

    Example: [bold]geco evaluate pose horse.glb --on donkey.glb --on deer.glb[/]
    """
    from geco import evaluation
    from geco import pose as room

    out = None if out is None else _outputs.folder(out)
    protocol = replace(
        POSE,
        images=images,
        seed=seed,
        decorate=replace(POSE.decorate, views=views, looks=looks, seed=seed),
        solve=replace(POSE.solve, pnp=PnpSettings(engine=engine)),
    )
    decorated, others = [room.load_mesh(path) for path in meshes], [room.load_mesh(path) for path in on or ()]
    reports: list[Report] = []
    for name in _names(model):
        encoder = load_model(name, size=size, device=device, dtype=dtype)
        with progress_bars() as progress:
            report, trials = evaluation.pose.run(
                encoder, decorated, protocol, others=others, label=encoder.name, progress=progress
            )
        report = _named(report, encoder)
        folder = out / encoder.name if out and model and len(model) > 1 else out
        figures = evaluation.pose.draw(trials, decorated, protocol) if folder else None
        _reports.present(report, out=folder, as_json=as_json and len(model or "1") == 1, figures=figures, quiet=as_json)
        reports.append(report)
    if len(reports) == 2:
        _together(reports, [evaluation.pose.compare(reports[0], reports[1], protocol)], out=out, as_json=as_json)


def surface(
    mesh: Annotated[Path, typer.Argument(help="Rigged mesh.", show_default=False)],
    dataset: Annotated[str, typer.Argument(help="Dataset with Animal-Pose's keypoints.", show_default=False)],
    root: Annotated[Path, typer.Argument(help="Its folder.", show_default=False)],
    category: Annotated[str, typer.Option(help="Images of this category.")] = "horse",
    split: Annotated[str, typer.Option(help="Split to evaluate on.")] = "val",
    model: Models = None,
    views: Views = SURFACE.decorate.views,
    looks: Looks = SURFACE.decorate.looks,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N images.")] = None,
    settings: Set = None,
    size: InputSize = None,
    out: Out = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Keypoints of images on a rendered mesh: how far along it they land, and on which side.

    Example: [bold]geco evaluate surface horse.glb animalpose data/Animal-Pose --category horse --set crop=square[/]
    """
    from geco import data, evaluation
    from geco import pose as room

    out = None if out is None else _outputs.folder(out)
    protocol = replace(SURFACE, decorate=replace(SURFACE.decorate, views=views, looks=looks))
    pairs = data.load(dataset, root, split, settings or ())
    if isinstance(pairs, data.PartDataset):
        raise InputError(f"{dataset} has part maps and no keypoints; animalpose has")
    shown = evaluation.surface.annotated_views(pairs, category)[:limit]
    loaded = room.load_mesh(mesh)
    reports: list[Report] = []
    for name in _names(model):
        encoder = load_model(name, size=size, device=device, dtype=dtype)
        with progress_bars() as progress:
            report = evaluation.surface.run(
                encoder,
                loaded,
                shown,
                protocol,
                label=encoder.name,
                data=f"{category}s of {dataset} {split} on {loaded.name}",
                progress=progress,
            )
        report = _named(report, encoder)
        folder = out / encoder.name if out and model and len(model) > 1 else out
        _reports.present(report, out=folder, as_json=as_json and len(model or "1") == 1, quiet=as_json)
        reports.append(report)
    if len(reports) > 1:
        _together(reports, [], out=out, as_json=as_json)


def _names(model: list[str] | None) -> list[str | None]:
    """The models asked for; None is the packaged one."""
    return [*model] if model else [None]


def _named(report: "Report", encoder: "Extractor") -> "Report":
    about = {"name": encoder.name, "fingerprint": encoder.fingerprint(), "size": encoder.input_size}
    return replace(report, settings={**report.settings, "model": about})


def _together(reports: "list[Report]", tables: "list[Table]", *, out: Path | None, as_json: bool) -> None:
    """Several models side by side, with their differences if there are two."""
    from geco import evaluation

    side = replace(evaluation.side_by_side(reports), digits=3)
    comparison = evaluation.Report(
        benchmark=f"{reports[0].benchmark}, compared",
        label=" and ".join(report.label for report in reports),
        data=reports[0].data,
        measures=tuple(measure.of(report.label) for report in reports for measure in report.measures),
        tables=(side, *tables),
        settings={"runs": [report.settings for report in reports]},
        provenance=reports[0].provenance,
    )
    _reports.present(comparison, out=out, as_json=as_json)
