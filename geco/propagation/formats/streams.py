"""Tracks of a video written while they are found: DeepLabCut's tables, SLEAP's projects, our own table of points.

The file grows by some frames at a time and is whole after each of these steps, so a run that is stopped keeps what was
done, and memory does not grow with the video.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, TracebackType

import torch

from geco import checks
from geco.errors import FileError, GecoError, InputError
from geco.propagation.annotations import UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.propagation.formats.registry import ALIASES, MODULES
from geco.system import documents, files
from geco.types import Skeleton

# Endings of the files that each format is written to; DeepLabCut itself writes both.
TRACK_FORMATS = {"csv": (".csv",), "deeplabcut": (".csv", ".h5"), "sleap": (".slp",)}
CHUNK = 128  # frames that are written together


def track_format(format: str) -> str:
    """The name of a format that tracks are written in; our table of points for one that holds images only."""
    name = ALIASES.get(format, format)
    checks.choice(name, "the format of tracks", tuple(MODULES))
    return name if name in TRACK_FORMATS else "csv"


class TrackWriter:
    """A file of tracks; frames are added one by one, and are on disk after every few and once it is closed.

    What was in the file before is replaced when the first frames are written. Frames have one animal each. Likelihoods
    are one minus the uncertainty in formats that hold no uncertainties, 0 in gaps.
    """

    def __init__(
        self,
        path: str | Path,
        skeleton: Skeleton,
        *,
        format: str,
        edges: Sequence[tuple[int, int]] = (),
        category: str = "animal",
        chunk: int = CHUNK,
    ) -> None:
        self.path = checks.path(path, "the file of tracks")
        self.format = checks.choice(ALIASES.get(format, format), "the format of tracks", tuple(TRACK_FORMATS))
        endings = TRACK_FORMATS[self.format]
        if self.path.suffix.lower() not in endings:
            expected = " or ".join(endings)
            raise InputError(f"tracks in the format {self.format} end in {expected}, got {documents.place(self.path)}")
        if self.path.is_dir():
            raise FileError(f"{self.path} is a folder; expected the name of a file")
        self._module: ModuleType = importlib.import_module(f"geco.propagation.formats.{MODULES[self.format]}")
        self._labels = LabelSet(skeleton, (), tuple(edges), category=category)
        self._chunk = checks.whole(chunk, "chunk", least=1)
        self._pending: list[LabelledImage] = []
        self.frames = 0  # on disk

    def __enter__(self) -> "TrackWriter":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def add(self, frame: LabelledImage) -> None:
        """Add a frame of the video, with one animal."""
        if frame.frame is None or len(frame.animals) != 1:
            raise InputError(f"{frame.path}: tracks are of frames with one animal, got {len(frame.animals)}")
        (animal,) = frame.animals
        shown = animal if self.format == "csv" else _with_likelihood(animal)
        # The size of SLEAP's videos comes with the number of frames, which is not known yet.
        size = None if self.format == "sleap" else frame.size
        self._pending.append(replace(frame, animals=(shown,), size=size))
        if len(self._pending) >= self._chunk:
            self.close()

    def close(self) -> None:
        """Write what is not yet on disk."""
        if not self._pending:
            return
        labels = replace(self._labels, images=tuple(self._pending))
        self._pending = []
        begin = self.frames == 0
        try:
            if begin:
                files.replace(self.path, lambda draft: self._append(labels, draft, begin=True))
            else:
                self._append(labels, self.path, begin=False)
        except OSError as error:
            if isinstance(error, GecoError):
                raise
            raise FileError(f"{documents.place(self.path)} cannot be written: {error.strerror or error}") from None
        self.frames += len(labels.images)

    def _append(self, labels: LabelSet, path: Path, *, begin: bool) -> None:
        self._module.append(labels, path, output=self.path, begin=begin)


def _with_likelihood(animal: Animal) -> Animal:
    """The animal with likelihoods for scores, as those formats have them, and without its name."""
    score = animal.score
    if animal.uncertainty is not None:
        score = (1 - animal.uncertainty).where(animal.state == VISIBLE, 0.0)
        score = score.where(animal.state != UNKNOWN, torch.nan)
    score = torch.where(animal.state == VISIBLE, 1.0, 0.0) if score is None else score
    return replace(animal, score=score, track="", box=None)
