"""Videos on the command line: tracks and an overlay of one video, written while it is read."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from geco.cli import _outputs
from geco.cli._progress import Update, progress_bars
from geco.cli._terminal import notes
from geco.errors import FileError, InputError
from geco.propagation.settings import TrackSettings

if TYPE_CHECKING:
    from geco.propagation import LabelSet, Propagator

TRACKING = TrackSettings()


@dataclass(frozen=True)
class TrackedVideo:
    """What became of a video."""

    files: tuple[Path, ...]  # that were written
    frames: int
    visible: int  # points
    hidden: int  # … and gaps
    faults: tuple[str, ...] = ()  # one line each: what was not done

    def summary(self, path: Path) -> str:
        """One line for the terminal."""
        points = self.visible + self.hidden
        share = f"{self.visible / points:.0%} of the points visible" if points else "no points"
        written = ", ".join(str(file) for file in self.files)
        return f"{path}: {self.frames} frames, {share} → {written}"


def propagate_video(
    path: Path,
    propagator: "Propagator",
    out: Path,
    *,
    labels: "LabelSet",
    format: str | None = None,
    overlay: bool = False,
    name: str | None = None,
    settings: TrackSettings = TRACKING,
    progress: Update | None = None,
    inputs: Iterable[Path] = (),
) -> TrackedVideo:
    """Write tracks of a video into the folder `out`, named after it (or `name`): what was done stays, if it is stopped.

    `labels` are those that the propagator was made of. Tracks are in their format, in `format`, or, if that one holds
    no videos, in our table of points; `overlay` adds an MP4 with the points drawn. Nothing is written over `inputs`,
    and nothing at all if the video cannot be read.
    """
    from geco import propagation

    chosen = propagation.track_format(format or labels.format)
    stem = name or path.stem
    tables = [out / f"{stem}{ending}" for ending in propagation.TRACK_FORMATS[chosen]]
    film = out / f"{stem}-overlay.mp4"
    for target in [*tables, *([film] if overlay else [])]:
        _outputs.spare(target, [path, *inputs])
    _outputs.folder(out)
    total = propagation.video_info(path).frames or 0
    own = propagation.labelled_frames(labels, path)
    faults: list[str] = []
    tracked = propagation.track(path, propagator, None, settings, labelled=own, pixels=overlay, faults=faults)
    about = {"edges": labels.edges, "category": labels.category}
    frames = visible = hidden = 0
    with ExitStack() as stack:
        writers = [
            stack.enter_context(propagation.TrackWriter(table, labels.skeleton, format=chosen, **about))  # type: ignore[arg-type]
            for table in tables
        ]
        drawing = propagation.OverlayWriter(film, labels.skeleton, edges=labels.edges) if overlay else None
        if drawing is not None:
            stack.enter_context(drawing)
        for frame in tracked:
            for writer in writers:
                writer.add(frame.labelled(path))
            if drawing is not None and frame.pixels is not None:
                drawing.add(frame.pixels, frame.time, [frame.animal])
            frames += 1
            visible += int((frame.animal.state == propagation.VISIBLE).sum())
            hidden += int((frame.animal.state == propagation.HIDDEN).sum())
            if progress is not None:
                progress(path.name, frames, max(total, frames))
    return TrackedVideo((*tables, *([film] if overlay else [])), frames, visible, hidden, tuple(faults))


def propagate_videos(
    films: Sequence[Path],
    propagator: "Propagator",
    out: Path,
    *,
    labels: "LabelSet",
    label_format: str | None,
    overlay: bool,
) -> None:
    """Write the tracks of each video into the folder; those that cannot be read are named at the end."""
    faults: list[str] = []
    for path, name in zip(films, _outputs.names(films), strict=True):
        try:
            with progress_bars() as update:
                made = propagate_video(
                    path,
                    propagator,
                    out,
                    labels=labels,
                    format=label_format,
                    overlay=overlay,
                    name=name,
                    progress=update,
                    inputs=films,
                )
        except (FileError, InputError) as error:
            faults.append(str(error))
            continue
        faults += made.faults
        notes.print(made.summary(path))
    for fault in faults[1:]:
        notes.print(fault, style="yellow")
    if faults:
        raise InputError(faults[0])
