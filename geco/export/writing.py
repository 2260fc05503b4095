"""Writing: a model → a file that is checked against it before it takes the place of another, or none at all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jaxtyping import UInt8
from torch import Tensor

from geco.errors import FileError, InputError
from geco.export import onnx, openvino, parity, quantisation
from geco.export.engine import Exported, load
from geco.export.loading import ENDINGS
from geco.export.metadata import of_model
from geco.export.parity import Parity
from geco.export.settings import MOST_LOST, ExportSettings
from geco.export.tracing import check_traceable, trace
from geco.export.warps import share_found, warped_pairs
from geco.models import Geco
from geco.system import Progress, files, silent
from geco.types import Encoder

USUAL = ExportSettings()
WRITERS = {".onnx": onnx, ".xml": openvino}
STEPS = ("traced", "written", "compared", "quality")
Quality = Callable[[Encoder], Mapping[str, float]]  # percentages, by name, of what a model finds


@dataclass(frozen=True)
class Outcome:
    """What was written, and how far it is from its model."""

    path: Path
    size: int  # bytes
    parity: Parity
    before: Mapping[str, float] = field(default_factory=dict)  # what the model finds, in %, if the file is quantised
    after: Mapping[str, float] = field(default_factory=dict)  # … and what the file finds

    @property
    def lost(self) -> float:
        """Percentage points that quantisation costs at most."""
        return max((self.before[name] - self.after[name] for name in self.before), default=0.0)


def check_exportable(model: Geco, path: Path, settings: ExportSettings) -> None:
    """Refuse what cannot be exported, before the expensive work begins."""
    check_traceable(model)
    if model.dtype != "float32" or model.device.type != "cpu":
        raise InputError(f"a model is exported from float32 on the cpu, got {model.dtype} on {model.device}")
    if model.config.aspect != "squash":
        raise InputError(f"{model.name} keeps the ratio of images (aspect {model.config.aspect}); exported ones squash")
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"an exported model ends in {' or '.join(ENDINGS)}, got {str(path)!r}")
    WRITERS[path.suffix.lower()].require()
    if settings.precision == "int8":
        quantisation.require()


def write(
    model: Geco,
    path: str | Path,
    pictures: Sequence[UInt8[Tensor, "3 _ _"]],
    settings: ExportSettings = USUAL,
    *,
    quality: Quality | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Write the model as .onnx or .xml and say how far the file is from it; one that is too far is not written.

    The two are compared on these images. int8 also takes its ranges from them, and is measured by `quality`, in %
    by name: PCK on annotated pairs, say; on warps of the same images unless given.
    """
    path = Path(path)
    check_exportable(model, path, settings)
    program = trace(model, dynamic=settings.dynamic)
    progress("export", 1, len(STEPS))
    metadata = of_model(model, dynamic=settings.dynamic, precision=settings.precision)
    calibration = [model.prepare(picture)["pixels"][None].numpy() for picture in pictures]
    try:
        with files.draft_folder(path) as folder:
            draft = folder / path.with_suffix(path.suffix.lower()).name
            WRITERS[draft.suffix].write(program, draft, metadata, calibration)
            progress("export", 2, len(STEPS))
            outcome = _checked(model, load(draft, force=True), path, pictures, settings, quality, progress)
            _put(draft, path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} cannot be written: {error.strerror or error}; give another --out") from None
    return outcome


def _checked(
    model: Geco,
    exported: Exported,
    path: Path,
    pictures: Sequence[UInt8[Tensor, "3 _ _"]],
    settings: ExportSettings,
    quality: Quality | None,
    progress: Progress,
) -> Outcome:
    near = parity.compare(model, exported, pictures, dynamic=settings.dynamic)
    parity.check(near, settings.precision, name=str(path))
    progress("export", 3, len(STEPS))
    size = sum(place.stat().st_size for place in exported.path.parent.iterdir())
    outcome = Outcome(path, size, near)
    if settings.precision == "int8":
        if quality is None:
            pairs = warped_pairs(pictures)
            quality = lambda encoder: share_found(encoder, pairs)  # noqa: E731
        outcome = Outcome(path, size, near, before=quality(model), after=quality(exported))
        if not outcome.lost <= MOST_LOST:
            told = ", ".join(
                f"{name} {outcome.before[name]:.1f} → {outcome.after[name]:.1f}" for name in outcome.before
            )
            raise InputError(
                f"{path} was not written: int8 loses {outcome.lost:.1f} points ({told}), at most {MOST_LOST:g} is "
                "accepted; calibrate with more --images, or use --half"
            )
    progress("export", 4, len(STEPS))
    return outcome


def _put(draft: Path, path: Path) -> None:
    """The finished file in its place; the graph of OpenVINO last, so that it never stands beside foreign weights."""
    if draft.suffix == ".xml":
        path.unlink(missing_ok=True)
        draft.with_suffix(openvino.WEIGHTS).replace(path.with_suffix(openvino.WEIGHTS))
    draft.replace(path)
