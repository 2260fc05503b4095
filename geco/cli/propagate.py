"""`geco propagate`: keypoints of a few labelled images → the keypoints of many others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from geco.cli import _options as options
from geco.cli import _outputs, _review, _video
from geco.cli._progress import progress_bars
from geco.cli._terminal import notes
from geco.errors import InputError
from geco.propagation.settings import KeypointSettings

if TYPE_CHECKING:
    from geco.propagation import Boxes, Journal, LabelledImage, LabelSet, Propagator

PANEL = "Images"
DEFAULTS = KeypointSettings()
SHOWN_FAILURES = 5


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("propagate", rich_help_panel=PANEL)(propagate)


def propagate(
    labels: Annotated[
        Path,
        typer.Argument(
            help="Labelled images: COCO keypoints, DeepLabCut, SLEAP, Label Studio, CVAT, or a CSV of points.",
            show_default=False,
        ),
    ],
    pictures: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGES", help="Images (or videos) to label: files, folders, patterns.", show_default=False
        ),
    ],
    output: Annotated[Path, _outputs.option("File to write; for videos, the folder of their tracks.")] = Path(
        "propagated.json"
    ),
    label_format: Annotated[
        str | None, typer.Option("--format", help="Format of the file that is written.", show_default="that of LABELS")
    ] = None,
    images_folder: Annotated[
        Path | None,
        typer.Option("--images", help="Where the labelled images are.", show_default="as LABELS says, or beside it"),
    ] = None,
    references: Annotated[
        int, typer.Option(min=1, help="Labelled animals that vote on an image, at most: the most similar ones.")
    ] = DEFAULTS.references,
    boxes_file: Annotated[
        Path | None,
        typer.Option(
            "--boxes", help="Where the animals are: a CSV (image,x0,y0,x1,y1), COCO's or MegaDetector's JSON."
        ),
    ] = None,
    crop: Annotated[
        Literal["whole", "auto"],
        typer.Option(help="auto: find the animals first, several per image, by what the labelled ones look like."),
    ] = DEFAULTS.crop,
    second_look: Annotated[
        bool,
        typer.Option(help="Encode a crop around the points found again: twice the time, more accurate."),
    ] = True,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Let mirror images vote too: twice the time, worth it with few labels.")
    ] = False,
    review: Annotated[
        bool, typer.Option("--review", help="Also write a page to check and correct the results, most uncertain first.")
    ] = False,
    round_number: Annotated[
        int, typer.Option("--round", min=1, help="Number of this round: 2, 3, … with --corrected, after a review.")
    ] = 1,
    corrected: Annotated[
        list[Path] | None,
        typer.Option(help="Corrected results of earlier rounds, in any format; they join LABELS.", show_default=False),
    ] = None,
    overlay: Annotated[bool, typer.Option("--overlay", help="Also write each video with its points drawn.")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            "--bin",
            min=-1,
            max=1,
            help="Below this similarity a point is not visible.",
            show_default="found on LABELS",
        ),
    ] = None,
    model: options.Model = None,
    layer: options.Layer = None,
    size: options.InputSize = None,
    force: options.Force = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Label many images from a few: every keypoint with its place, whether it is visible, and how uncertain that is.

    Killed or interrupted, the same command resumes. Images that cannot be read are left out and named at the end.

    Example: [b]geco propagate labels.json photos/ -o all.json --review[/b]

    Example: [b]geco propagate CollectedData_me.csv 'camera/*.jpg' --format coco -o all.json --crop auto[/b]

    Example: [b]geco propagate labels.slp walk.mp4 -o tracks/ --overlay[/b]

    Example: [b]geco propagate labels.json photos/ -o all.json --round 2 --corrected corrections.json[/b]
    """
    from geco import propagation
    from geco.system import listing

    corrected = corrected or []
    paths = listing.image_files(pictures, also=propagation.VIDEO_ENDINGS)
    films = [path for path in paths if propagation.is_video(path)]
    _check_kinds(paths, films, overlay=overlay, others=[boxes_file, review, corrected])
    result = propagation.numbered(output, round_number)
    _outputs.spare(result, [labels, *corrected, *([boxes_file] if boxes_file else []), *paths])
    given = _labels(labels, images_folder, output, round_number, corrected)
    wanted = "" if films else propagation.format_for(result, given.format, label_format)
    _outputs.folder(result if films else result.parent)
    boxes = None if boxes_file is None else propagation.read_boxes(boxes_file)
    settings = replace(
        DEFAULTS, references=references, second_look=second_look, threshold=threshold, crop=crop, mirror=mirror
    )
    encoder = options.load_model(model, layer=layer, size=size, force=force, device=device, dtype=dtype)
    with options.timed(f"learning {given.labelled} labelled points"):
        propagator = propagation.Propagator.of(encoder, given, settings)
    if films:
        _video.propagate_videos(films, propagator, output, labels=given, label_format=label_format, overlay=overlay)
        return
    facts = {
        "labels": propagation.digest(given),
        "boxes": None if boxes is None else boxes.digest(),
        "model": encoder.fingerprint(),
        "settings": [references, second_look, threshold, crop, mirror],
    }
    journal = propagation.Journal(result, facts)
    failures = _label(propagator, paths, boxes, journal)
    done = [journal.done[path] for path in paths if path in journal.done]
    made: LabelSet = replace(given, images=[one.image for one in done])
    if done:
        propagation.write_annotations(made, result, format=wanted)
        for line in propagation.lost(made, wanted):
            notes.print(line, style="yellow")
    page = _review.write(result, done, made, propagator) if review and done else None
    journal.remove()
    if as_json:
        _print_json(propagator, made, failures, [result] if page is None else [result, page])
    _report(propagator, made, failures, result, page)
    if failures:
        rest = f"the others are in {result}" if done else "nothing was written"
        raise InputError(f"{len(failures)} of {len(failures) + len(done)} images were left out; {rest}")


def _check_kinds(paths: Sequence[Path], films: Sequence[Path], *, overlay: bool, others: Sequence[object]) -> None:
    """Refuse options that are not for what is given."""
    if films and len(films) < len(paths):
        raise options.OptionError(
            f"{films[0].name} is a video, and {len(paths) - len(films)} others are none; give one kind at a time"
        )
    if films and any(others):
        raise options.OptionError("--boxes, --review and --corrected are for images, not for videos")
    if overlay and not films:
        raise options.OptionError("--overlay is for videos")


def _labels(
    path: Path, images_folder: Path | None, output: Path, round_number: int, corrected: Sequence[Path]
) -> "LabelSet":
    """The labels, and what was corrected after earlier rounds."""
    from geco import propagation

    if (round_number > 1) != bool(corrected):
        raise options.OptionError(
            "--round 2 (or more) and --corrected FILE go together: the file has what you corrected"
        )
    faults: list[str] = []
    given = propagation.read_annotations(path, images=images_folder, faults=faults)
    fixed = [propagation.read_annotations(file, images=images_folder, faults=faults) for file in corrected]
    for fault in faults[:SHOWN_FAILURES]:
        notes.print(f"left out: {fault}", style="yellow")
    if not corrected:
        return given
    before = propagation.numbered(output, round_number - 1)
    previous = propagation.read_annotations(before, images=images_folder, faults=[]) if before.exists() else None
    given, counts = propagation.join_corrections(given, fixed, previous)
    for file, count in zip(corrected, counts, strict=True):
        notes.print(f"{file}: {count} corrected images join the labels")
    return given


def _label(
    propagator: "Propagator", paths: Sequence[Path], boxes: "Boxes | None", journal: "Journal"
) -> dict[Path, str]:
    """Label the images that are not done and note each in the journal; what went wrong with which."""
    from geco.propagation import label_files

    failures: dict[Path, str] = {}
    where = None if boxes is None else boxes.of
    missing = [path for path in paths if path not in journal.done]
    if len(missing) < len(paths):
        notes.print(f"resumes after {len(paths) - len(missing)} of {len(paths)} images")
    with progress_bars() as update:
        update("labelling", len(paths) - len(missing), len(paths))
        for result in label_files(propagator, missing, where, failures):
            journal.add(result)
            update("labelling", len(journal.done), len(paths))
    return failures


def _visible(images: "Sequence[LabelledImage]") -> int:
    from geco.propagation import VISIBLE

    return sum(int((animal.state == VISIBLE).sum()) for image in images for animal in image.animals)


def _print_json(propagator: "Propagator", made: "LabelSet", failures: dict[Path, str], written: list[Path]) -> None:
    import json

    from geco.propagation import expected_errors

    calibration = propagator.calibration
    summary = {
        "images": len(made.images),
        "animals": sum(len(image.animals) for image in made.images),
        "visible": _visible(made.images),
        "threshold": round(calibration.threshold, 4),
        "held_out": calibration.held_out,
        "expected_errors": round(sum(expected_errors(image.animals) for image in made.images), 1),
        "failed": {str(path): reason for path, reason in failures.items()},
        "written": [str(path) for path in written],
    }
    print(json.dumps(summary, indent=1))


def _report(
    propagator: "Propagator", made: "LabelSet", failures: dict[Path, str], result: Path, page: Path | None
) -> None:
    calibration = propagator.calibration
    animals = sum(len(image.animals) for image in made.images)
    how = f"found on {calibration.held_out} labelled animals" if calibration.held_out else "the model's own"
    notes.print(f"threshold {calibration.threshold:.2f} ({how})")
    notes.print(f"{animals} animals, {_visible(made.images)} of {animals * len(made.skeleton)} points visible")
    for reason in list(failures.values())[:SHOWN_FAILURES]:
        notes.print(f"left out: {reason}", style="yellow")
    if made.images:
        notes.print(f"{len(made.images)} images: {result}")
    if page is not None:
        notes.print(f"to review: {page}")
