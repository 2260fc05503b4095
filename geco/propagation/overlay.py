"""Videos written: frames with the points of their animals on them, as MP4."""

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image as Pillow
from torch import Tensor

from geco import checks, viz
from geco.errors import FileError, InputError
from geco.propagation.annotations import VISIBLE, Animal
from geco.propagation.video import library
from geco.system import documents, files
from geco.types import Skeleton

CLOCK = 90_000  # ticks per second
CODECS = (("libx264", {"crf": "20", "preset": "veryfast"}), ("mpeg4", {"qscale": "3"}))


class OverlayWriter:
    """An MP4 that is written frame by frame: a disc with its name at each visible point, nothing at hidden ones.

    H.264, or MPEG-4 where PyAV has no encoder for it; time stamps are kept. The file is there once the writer is
    closed, also after an error: what was added until then is a whole video.
    """

    def __init__(
        self, path: str | Path, skeleton: Skeleton, *, edges: Sequence[tuple[int, int]] = (), names: bool = True
    ) -> None:
        self.path = checks.path(path, "the video to write")
        if self.path.suffix.lower() != ".mp4":
            raise InputError(f"a video is written as .mp4, got {documents.place(self.path)}")
        self._edges, self._names = edges, skeleton.names if names else ()
        self._draft = self.path.with_name(f".{self.path.name}{files.DRAFT}")
        self._container: Any = None
        self._stream: Any = None
        self._first, self._before = 0.0, -1

    def __enter__(self) -> "OverlayWriter":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def add(self, pixels: UInt8[Tensor, "3 h w"], time: float, animals: Sequence[Animal]) -> None:
        """Draw the animals on the next frame, shown at a time in seconds."""
        marks = [(animal.xy, animal.state == VISIBLE) for animal in animals]
        picture = viz.stamp(pixels, marks, edges=self._edges, names=self._names)
        if self._container is None:
            self._open(picture.size, time)
        try:
            frame = library().VideoFrame.from_ndarray(
                _fitted(picture, (self._stream.width, self._stream.height)), format="rgb24"
            )
            self._before = frame.pts = max(self._before + 1, round((time - self._first) * CLOCK))
            frame.time_base = Fraction(1, CLOCK)
            self._container.mux(self._stream.encode(frame))
        except OSError as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """Finish the file; without any frame there is none."""
        if self._container is None:
            return
        container, self._container = self._container, None
        try:
            container.mux(self._stream.encode(None))
            container.close()
            self._draft.replace(self.path)
        except OSError as error:
            raise self._failure(error) from None
        finally:
            self._draft.unlink(missing_ok=True)

    def _open(self, size: tuple[int, int], time: float) -> None:
        files.make_folder(self.path.parent)
        try:
            self._container = library().open(str(self._draft), "w", format="mp4", options={"movflags": "faststart"})
        except OSError as error:
            raise self._failure(error) from None
        self._stream = _stream(self._container)
        self._stream.width, self._stream.height = (side + side % 2 for side in size)  # yuv420p needs even sides
        self._stream.pix_fmt = "yuv420p"
        self._stream.time_base = self._stream.codec_context.time_base = Fraction(1, CLOCK)
        self._first = time

    def _failure(self, error: OSError) -> FileError:
        return FileError(f"{documents.place(self.path)} cannot be written: {error.strerror or error}")


def _stream(container: Any) -> Any:
    av = library()
    for codec, options in CODECS:
        with suppress(av.error.FFmpegError, ValueError):
            return container.add_stream(codec, rate=30, options=options)
    raise FileError(f"this build of PyAV encodes neither {' nor '.join(codec for codec, _ in CODECS)}; install another")


def _fitted(picture: Pillow.Image, size: tuple[int, int]) -> np.ndarray:
    """The picture as an array of this (width, height): its last row and column are repeated, or it is cut off."""
    array = np.asarray(picture)[: size[1], : size[0]]
    below, beside = size[1] - array.shape[0], size[0] - array.shape[1]
    return np.ascontiguousarray(np.pad(array, ((0, below), (0, beside), (0, 0)), mode="edge"))
