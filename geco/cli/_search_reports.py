"""`geco evaluate search`: annotated keypoints of held-out images, searched for in all images."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _outputs, _reports
from geco.cli._options import Device, Dtype, InputSize, OptionError, load_model
from geco.cli._progress import Update, progress_bars
from geco.cli._recipe import sources_named
from geco.cli._terminal import notes
from geco.errors import InputError
from geco.evaluation.settings import SearchProtocol

if TYPE_CHECKING:
    from geco import evaluation
    from geco.data import PairDataset
    from geco.evaluation import Report
    from geco.models import Extractor
    from geco.search import PartIndex

DEFAULTS = SearchProtocol()
HELD_OUT = "test"  # the split whose images ask


def search(
    data: Annotated[
        list[str] | None, typer.Option("--data", help="Dataset and its folder, name=ROOT; several times.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Name, run folder or hub id; several times to compare them."),
    ] = None,
    loader: Annotated[
        list[str] | None, typer.Option("--loader", help="Option of a dataset, dataset.key=value.")
    ] = None,
    questions: Annotated[
        int, typer.Option(min=1, help="Keypoints of each category that are searched for.")
    ] = DEFAULTS.questions,
    kind: Annotated[str, typer.Option(help="Kind of index: auto, flat or ivfpq.")] = DEFAULTS.index.kind,
    shortlist: Annotated[
        int, typer.Option(min=1, help="Best images of the index whose maps are scored exactly.")
    ] = DEFAULTS.search.shortlist,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the questions and the bootstrap.")] = DEFAULTS.seed,
    limit: Annotated[int | None, typer.Option(min=1, help="Only this many pairs of each split, spread evenly.")] = None,
    size: InputSize = None,
    out: Annotated[Path, _outputs.option("Run folder: features and indices, kept for the next run; tables.")] = Path(
        "runs/search"
    ),
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Search for keypoints in all images of datasets: recall against brute force, precision, left/right, cost.

    Keypoints of the images of the test splits are the questions; the images of all splits are searched.
    Extraction resumes where it was.

    Example: [bold]geco evaluate search --data cub=data/CUB --data pfwillow=data/PF-WILLOW -m focus-small -m geco-s[/]
    """
    from geco import evaluation

    index_settings = replace(DEFAULTS.index, kind=kind)  # type: ignore[arg-type]
    search_settings = replace(DEFAULTS.search, shortlist=shortlist)
    protocol = replace(DEFAULTS, questions=questions, seed=seed, index=index_settings, search=search_settings)
    out = _outputs.folder(out)
    gallery = _gallery(data or (), loader or (), limit)
    names: Sequence[str | None] = model or (None,)
    reports: list[Report] = []
    for name in names:
        encoder = load_model(name, size=size, device=device, dtype=dtype)
        label = encoder.name if encoder.name not in {r.label for r in reports} else f"{encoder.name}-{len(reports) + 1}"
        with progress_bars() as progress:
            index = _indexed(encoder, gallery, out / label, protocol, progress)
            report = evaluation.search.run(
                index, gallery, protocol, label=label, data=", ".join(data or ()), progress=progress
            )
        alone = len(names) == 1
        folder = out if alone else out / label
        _reports.present(report, out=folder, as_json=as_json and alone, quiet=as_json and not alone)
        reports.append(report)
    if len(reports) > 1:
        _reports.present(_together(reports), out=out, as_json=as_json)


def _gallery(texts: Sequence[str], loader: Sequence[str], limit: int | None) -> "evaluation.search.Gallery":
    from geco import data, evaluation

    if not texts:
        raise OptionError("no datasets: give --data name=ROOT, like cub=data/CUB_200_2011; see geco data list")

    def splits() -> "Iterator[tuple[str, PairDataset, bool]]":
        for source in sources_named(texts, loader, ()):
            for split in data.find(source.name).splits:
                try:
                    pairs = data.load(source.name, source.root, split, source.options, limit=limit)
                except data.EmptySplitError:
                    continue
                if not isinstance(pairs, data.PairDataset):
                    raise InputError(f"{source.name} has part maps and no keypoints to search for")
                yield source.name, pairs, split == HELD_OUT

    with notes.status("reading the datasets"):
        gallery = evaluation.search.gather(splits())
    notes.print(f"{len(gallery.objects):,} images, {len(gallery.held_out):,} of them held out")
    return gallery


def _indexed(
    encoder: "Extractor", gallery: "evaluation.search.Gallery", folder: Path, protocol: SearchProtocol, progress: Update
) -> "PartIndex":
    """The index of all images of the gallery; features that a run has left are used again."""
    from geco import extraction, search
    from geco.extraction.settings import ExtractSettings

    paths = sorted(path.resolve() for path in gallery.objects)
    sources = [extraction.Source(str(path), str(path)) for path in paths]
    features = folder / "features"
    with extraction.begin(features, lambda: sources, encoder, ExtractSettings()) as job:
        extraction.bulk.run(job, encoder, progress=progress)
    index = search.build_index(extraction.open(features), protocol.index, progress=progress)
    search.write_index(index, folder / "index", features=features, settings=protocol.index)
    return index


def _together(reports: "Sequence[Report]") -> "Report":
    """Several models side by side."""
    from geco import evaluation

    return evaluation.Report(
        benchmark="search, compared",
        label=" and ".join(report.label for report in reports),
        data=reports[0].data,
        measures=tuple(measure.of(report.label) for report in reports for measure in report.measures),
        tables=(evaluation.side_by_side(reports),),
        settings={"runs": [report.settings for report in reports]},
        provenance=reports[0].provenance,
    )
