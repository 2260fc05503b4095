"""`geco transfer`: points of one image, found in others."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from geco.cli import _matches, _outputs, _regions
from geco.cli import _options as options
from geco.cli._points import Named, read_points
from geco.errors import GecoError, InputError
from geco.matching.settings import MatchSettings

if TYPE_CHECKING:
    from geco.matching import Placed, Region
    from geco.propagation import LabelledImage
    from geco.types import Matches

PANEL = "Images"

DEFAULTS = MatchSettings()
PICTURE, LABELS = "transfer.png", "points.csv"
LABEL_ENDINGS = (".csv", ".json")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL)(transfer)


def transfer(
    source: options.Source,
    targets: Annotated[
        list[Path], typer.Argument(metavar="TARGET...", help="Target images, folders or patterns.", show_default=False)
    ],
    points: Annotated[
        list[str] | None,
        typer.Option(
            "--points", "--point", "-p", help="x,y in pixels of the source; repeat, or quote several; or a CSV."
        ),
    ] = None,
    points_file: Annotated[
        Path | None, typer.Option(help="CSV with the columns x, y and perhaps name; or one that --out wrote.")
    ] = None,
    output: Annotated[
        Path | None,
        _outputs.option(
            "Picture; a table of points (.csv, or .json for COCO), readable as --points and as labels; or a folder for "
            "both.",
            default="transfer.png for one target",
        ),
    ] = None,
    source_box: _regions.SourceBox = None,
    target_boxes: _regions.TargetBoxes = None,
    source_mask: _regions.SourceMask = None,
    target_masks: _regions.TargetMasks = None,
    mode: Annotated[
        Literal["nearest", "soft", "transport"], typer.Option(help="How the place is chosen.")
    ] = DEFAULTS.mode,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    resize: options.Resize = None,
    force: options.Force = False,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: _matches.AsJson = False,
    as_csv: _matches.AsCsv = False,
) -> None:
    """Carry points of one image to others; says which of them are not visible there.

    With several targets the model is loaded once; targets that cannot be read are named at the end.

    Example: [b]geco transfer lion.jpg cheetah.jpg -p 103,65 -p 133,65 --json[/b]

    Example: [b]geco transfer lion.jpg photos/ --points-file eyes.csv -o found.csv[/b]

    Example: [b]geco transfer lion.jpg herd.jpg -p 103,65 --box 40,20,220,230 --target-box 310,80,420,200[/b]
    """
    from geco import api, images
    from geco.matching import Region
    from geco.system import listing

    for_scripts = _matches.choose(as_json, as_csv)
    if source_mask is not None and mode != "transport":
        raise options.OptionError("--mask is used by --mode transport; --target-mask restricts the answers")
    named = read_points(points or [], points_file, image=source)
    paths = listing.image_files(targets)
    boxes, masks = _regions.boxes(target_boxes, len(paths)), _regions.masks(target_masks, paths)
    inputs = [source, *paths, *map(Path, points or ()), *filter(None, (points_file, source_mask, *masks))]
    writing = Writing.planned(output, paths, inputs=inputs, default=not for_scripts)
    # What can be read is read, and points are checked, before the model is loaded: a typo costs no waiting.
    start = Region(images.read(source), _regions.box(source_box), source_mask)
    api.check_points(named.places, start)
    queue = Queue([Region(path, box, mask) for path, box, mask in zip(paths, boxes, masks, strict=True)])
    encoder = options.load_model(model, layer=layer, size=size, resize=resize, force=force, device=device, dtype=dtype)
    settings = api.match_settings(encoder, threshold=threshold, mode=mode)
    table: _matches.Rows = []
    for matches in api.transfer(start, iter(queue), named.places, model=encoder, settings=settings):
        path = queue.next_path()
        rows = _matches.rows(matches, named.names, image=str(path))
        table += rows
        if not for_scripts:
            _matches.show(rows, str(path))
        writing.add(source, path, matches, named, title=options.title(encoder))
    _matches.dump(table, as_json=as_json, as_csv=as_csv)
    writing.finish(named)
    _matches.summary(table, written=writing.said)
    queue.check()


class Queue:
    """Targets as they are read, one after the other; what cannot be read is left out if there are others."""

    def __init__(self, regions: "Sequence[Region]") -> None:
        from geco.matching import place

        self.regions, self.faults = regions, list[str]()
        self._read: deque[Path] = deque()
        self._single = [place(self._pixels(regions[0]))] if len(regions) == 1 else []

    def __iter__(self) -> "Iterator[Placed]":
        from geco.matching import place

        for region in self.regions:
            try:
                placed = self._single.pop() if self._single else place(self._pixels(region))
            except GecoError as error:
                self.faults.append(str(error))
            else:
                self._read.append(Path(str(region.image)))
                yield placed

    def next_path(self) -> Path:
        """The file of the next target whose matches have not been asked for."""
        return self._read.popleft()

    def check(self) -> None:
        """Raise if a target was left out."""
        if self.faults:
            raise InputError(f"{len(self.faults)} of {len(self.regions)} targets left out: {self.faults[0]}")

    @staticmethod
    def _pixels(region: "Region") -> "Region":
        from geco import images

        return replace(region, image=images.read(region.image))  # type: ignore[arg-type]


@dataclass
class Writing:
    """What is written: pictures of some targets, and a table of the points of all."""

    pictures: dict[Path, Path]
    labels: Path | None
    said: str  # for people
    found: "list[LabelledImage]" = field(default_factory=list)

    @classmethod
    def planned(cls, output: Path | None, targets: Sequence[Path], *, inputs: list[Path], default: bool) -> "Writing":
        """What an --out names: a file for one target, a table of points, or a folder for several targets."""
        one = len(targets) == 1
        if output is None and not (default and one):
            return cls({}, None, "")
        output = output or Path(PICTURE)
        if output.suffix.lower() in LABEL_ENDINGS:
            return cls({}, _outputs.file(output, endings=LABEL_ENDINGS, inputs=inputs), f"points: {output}")
        if one:
            picture = _outputs.picture(output, name=PICTURE, inputs=inputs, others=LABEL_ENDINGS)
            return cls({targets[0]: picture}, None, f"picture: {picture}")
        if output.suffix.lower() in _outputs.PICTURES:
            raise options.OptionError(f"{len(targets)} targets need --out FOLDER or FILE.csv, got {str(output)!r}")
        names = _outputs.names(targets)
        pictures = {path: output / f"{name}-{PICTURE}" for path, name in zip(targets, names, strict=True)}
        for path in (*pictures.values(), output / LABELS):
            _outputs.spare(path, inputs)
        _outputs.folder(output)
        return cls(pictures, output / LABELS, f"pictures and {LABELS}: {output}")

    def add(self, source: Path, target: Path, matches: "Matches", named: Named, *, title: str) -> None:
        """Draw one target, if it is to be drawn, and keep its points for the table."""
        if target in self.pictures:
            from geco import images, viz

            pictures, labels = (images.read(source), images.read(target)), (source.name, target.name)
            figure = viz.draw_transfer(*pictures, matches, names=named.names, title=title, labels=labels)
            viz.save(figure, self.pictures[target])
        if self.labels is not None:
            import torch

            from geco.propagation import HIDDEN, VISIBLE, Animal, LabelledImage

            state = torch.where(matches.visible, VISIBLE, HIDDEN).cpu()
            animal = Animal(matches.target.cpu(), state, score=matches.score.cpu())
            self.found.append(LabelledImage(target, (animal,)))

    def finish(self, named: Named) -> None:
        """Write the table of points."""
        if self.labels is not None and self.found:
            from geco.data import named as skeleton_of
            from geco.propagation import LabelSet, write_annotations

            write_annotations(LabelSet(skeleton_of(keypoint_names(named)), self.found), self.labels)


def keypoint_names(named: Named) -> list[str]:
    """A name for each point, all different: its own, or "point 1" and so on."""
    names = [name.strip() or f"point {i}" for i, name in enumerate(named.names or [""] * len(named.places), 1)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two points are called {twice!r}; a table of points needs different names")
    return names
