"""`geco evaluate fewshot`: keypoints of a few labelled animals carried to others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _outputs, _reports
from geco.cli._options import Device, Dtype, InputSize, load_model
from geco.cli._progress import progress_bars
from geco.errors import InputError
from geco.evaluation.settings import FewShotProtocol

if TYPE_CHECKING:
    from geco.evaluation import Report

DEFAULTS = FewShotProtocol()


def fewshot(
    dataset: Annotated[str, typer.Argument(help="Dataset; see [b]geco data list[/b].", show_default=False)],
    root: Annotated[Path, typer.Argument(help="Its folder.", show_default=False)],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Name, run folder or hub id; several times to compare them."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split whose animals are references and targets.")] = "val",
    references: Annotated[str, typer.Option(help="Numbers of labelled animals.")] = ",".join(
        map(str, DEFAULTS.references)
    ),
    draws: Annotated[int, typer.Option(min=1, help="Random draws of references and targets.")] = DEFAULTS.draws,
    targets: Annotated[
        int, typer.Option(min=1, help="Animals labelled in each draw of a category, at most.")
    ] = DEFAULTS.targets or 1,
    alpha: Annotated[
        float, typer.Option(help="Share of the image's longer side within which a point is right.")
    ] = DEFAULTS.alpha,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="References vote on the mirror image too, at twice the cost.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the draws and the bootstrap.")] = DEFAULTS.seed,
    size: InputSize = None,
    out: Annotated[Path | None, _outputs.option("Run folder for tables and figures; makes the run resumable.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder to keep feature maps in, for later runs.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only this many pairs of the split, spread evenly.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Option of the loader, key=value.")] = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Keypoints from 1, 2, 5, … labelled animals: PCK, left/right, hidden points, and how reliable the uncertainty is.

    The animals are those of the split's pairs, by category; the chosen split is also where the references come from.

    Example: [bold]geco evaluate fewshot animalpose data/animalpose --set crop=square --out runs/few[/]

    Example: [bold]geco evaluate fewshot cub data/CUB --split test -m geco-s -m focus-small --references 1,10[/]
    """
    from geco import data, evaluation

    protocol = replace(
        DEFAULTS,
        references=_reports.whole_numbers(references, option="--references"),
        draws=draws,
        targets=targets,
        labels=replace(DEFAULTS.labels, radius=alpha, mirror=mirror),
        seed=seed,
    )
    out = None if out is None else _outputs.folder(out)
    pairs = data.load(dataset, root, split, settings or (), limit=limit)
    if not isinstance(pairs, data.PairDataset):
        raise InputError(f"{dataset} has part maps and no keypoints; use geco evaluate parts")
    names: Sequence[str | None] = model or (None,)
    reports: list[Report] = []
    for name in names:
        encoder = load_model(name, size=size, device=device, dtype=dtype)
        label = encoder.name if encoder.name not in {r.label for r in reports} else f"{encoder.name}-{len(reports) + 1}"
        folder = out if out is None or len(names) == 1 else out / label
        with progress_bars() as progress:
            report = evaluation.fewshot.run(
                encoder,
                pairs,
                protocol,
                label=label,
                data=f"{dataset} {split}",
                folder=folder,
                cache=cache,
                progress=progress,
            )
        about = {"name": encoder.name, "fingerprint": encoder.fingerprint(), "size": encoder.input_size}
        report = replace(report, settings={**report.settings, "model": about, "options": settings or []})
        alone = len(names) == 1
        figures = None if folder is None else evaluation.fewshot.draw([report])
        _reports.present(report, out=folder, as_json=as_json and alone, figures=figures, quiet=as_json and not alone)
        reports.append(report)
    if len(reports) > 1:
        _together(reports, out=out, as_json=as_json)


def _together(reports: "list[Report]", *, out: Path | None, as_json: bool) -> None:
    """Several models side by side."""
    from geco import evaluation

    comparison = evaluation.Report(
        benchmark="few-shot, compared",
        label=" and ".join(report.label for report in reports),
        data=reports[0].data,
        measures=tuple(measure.of(report.label) for report in reports for measure in report.measures),
        tables=(evaluation.side_by_side(reports),),
        settings={"runs": [report.settings for report in reports]},
        provenance=reports[0].provenance,
    )
    _reports.present(comparison, out=out, as_json=as_json, figures=evaluation.fewshot.draw(reports) if out else None)
