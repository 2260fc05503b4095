"""`geco export`: a model as an ONNX or OpenVINO file, for programs without torch, checked against the model."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geco.cli import _options as options
from geco.cli import _outputs
from geco.cli._progress import progress_bars
from geco.errors import InputError, MissingFileError
from geco.export.settings import ExportSettings

if TYPE_CHECKING:
    from geco.export import Outcome
    from geco.types import Encoder, PairSequence

PANEL = "Measuring"

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")  # that are looked for in a folder
MOST_IMAGES = 300  # more do not change the ranges that int8 takes from them
RADII = (0.1, 0.05)
SPLIT, LIMIT = "val", 200  # of a dataset that is checked with


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", rich_help_panel=PANEL)(export_model)


def export_model(
    output: Annotated[Path, _outputs.option("File to write, .onnx or .xml (OpenVINO; its weights as .bin beside it).")],
    model: options.Model = None,
    size: options.InputSize = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic/--fixed", help="Take images of any size, or of --size only.")
    ] = True,
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits: half the file size.")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="Weights and activations in 8 bits, calibrated.")] = False,
    image_paths: Annotated[
        list[Path] | None,
        typer.Option(
            "--images",
            help="Images, or a folder of them, to check and calibrate with; may be given several times.",
            show_default="those that ship with gradio",
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(help="Dataset to measure what --int8 loses on: name=ROOT.", show_default="warped images"),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of that dataset.", show_default=SPLIT)] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Pairs of that dataset, spread evenly.", show_default=str(LIMIT))
    ] = None,
    layer: options.Layer = None,
    force: options.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Write a model as a file that ONNX Runtime, OpenVINO and others run, with adapter merged and metadata inside.

    It takes normalised images and returns feature maps. It is compared with torch on real images, and not written
    if a feature differs by more than 0.001, or if --int8 loses more than one point of PCK.

    Example: [b]geco export -o geco-s.onnx[/b], then [b]geco transfer lion.jpg cheetah.jpg -p 103,65 -m geco-s.onnx[/b]

    Example: [b]geco export -m runs/animals -o animals.xml --int8 --images photos[/b]
    """
    from geco import export, images
    from geco.models import Geco, default_model

    if half and int8:
        raise options.OptionError("give --half or --int8, not both")
    if check is None and not (split is None and limit is None):
        raise options.OptionError("--split and --limit are of the dataset that --check names; give --check name=ROOT")
    if check is not None and not int8:
        raise options.OptionError("--check measures what --int8 loses; give --int8 too")
    settings = ExportSettings(dynamic=dynamic, precision="int8" if int8 else "float16" if half else "float32")
    files = _image_files(image_paths)
    _outputs.file(output, endings=tuple(export.ENDINGS), inputs=files)
    if output.suffix.lower() == ".xml":
        _outputs.spare(output.with_suffix(".bin"), files)
    pairs = None if check is None else _pairs(check, split or SPLIT, limit or LIMIT)
    pictures = [images.read(path) for path in files]
    with options.notes.status("loading the model"):
        encoder = Geco.for_inference(
            default_model() if model is None else model, size=size, device="cpu", layer=layer, force=force
        )
    export.check_exportable(encoder, output, settings)
    quality = None if pairs is None else lambda encoder: _found(encoder, pairs)
    with progress_bars() as progress:
        outcome = export.write(encoder, output, pictures, settings, quality=quality, progress=progress)
    _report(outcome, as_json=as_json)


def _image_files(given: list[Path] | None) -> list[Path]:
    """The files that are named, those of folders included; else the images of the gallery."""
    if given is None:
        from geco.demo import gallery

        try:
            return list(gallery.find_images().values())
        except MissingFileError:
            raise MissingFileError(
                "an exported model is checked on images: give some with --images, or pip install --no-deps gradio"
            ) from None
    files: list[Path] = []
    for place in given:
        inside = sorted(place.iterdir()) if place.is_dir() else [place]
        inside = inside if not place.is_dir() else [path for path in inside if path.suffix.lower() in IMAGE_ENDINGS]
        if not inside:
            raise InputError(f"{place} holds no images ({', '.join(IMAGE_ENDINGS)})")
        files += inside
    step = max(1, len(files) // MOST_IMAGES)
    return files[::step][:MOST_IMAGES]


def _pairs(text: str, split: str, limit: int) -> "PairSequence":
    """The annotated pairs that --check names."""
    from geco import data

    name, sign, root = text.partition("=")
    if not sign:
        raise options.OptionError(f"--check takes name=ROOT, like animalpose=data/Animal-Pose, got {text!r}")
    dataset = data.load(name, root, split, limit=limit)
    if isinstance(dataset, data.PartDataset):
        raise InputError(f"{name} has part maps and no pairs of keypoints to check with; animalpose has")
    return dataset


def _found(encoder: "Encoder", pairs: "PairSequence") -> dict[str, float]:
    """PCK on annotated pairs in %, by radius."""
    from geco import evaluation
    from geco.evaluation.settings import KeypointSettings, Protocol

    protocol = Protocol(alphas=RADII)
    settings = KeypointSettings(radii=RADII, resamples=1)
    report = evaluation.keypoints.run(encoder, pairs, [protocol], settings=settings)
    return {f"PCK@{radius:g}": 100 * report.measure("PCK", protocol.name, radius).value for radius in RADII}


def _report(outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        facts = {
            "file": str(outcome.path),
            "bytes": outcome.size,
            "difference": outcome.parity.difference,
            "cosine": outcome.parity.cosine,
            "before": dict(outcome.before),
            "after": dict(outcome.after),
        }
        json.dump(facts, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    print(f"{outcome.path}: {outcome.size / 1e6:.1f} MB; {outcome.parity}")
    for name, before in outcome.before.items():
        print(f"{name}: {before:.1f} % in torch, {outcome.after[name]:.1f} % in int8")
