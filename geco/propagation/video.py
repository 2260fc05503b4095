"""Videos read: frames in order, one at a time, upright.

PyAV decodes. Frames are numbered from 0 in the order they are shown, as DeepLabCut and SLEAP number them.
"""

import math
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from geco import checks
from geco.errors import InputError, MissingPackageError
from geco.images import ImageLimits, check_size
from geco.system import documents
from geco.types import Size

VIDEO = "a video (MP4, MOV, MKV, WebM, AVI, MPEG or GIF)"
# Lists of other files, which ffmpeg would open or fetch, and single images are none of these.
CONTAINERS = "mov,matroska,webm,avi,mpeg,mpegts,mpegvideo,h264,hevc,m4v,flv,ogg,asf,mxf,dv,ivf,gif,yuv4mpegpipe,wtv,nut"
LATE = 1.5  # intervals between frames that may be missing at the end of a video
VAGUE = 0.05  # of its length, where only the container tells it: sound may be longer than the picture
ANY_SIZE = ImageLimits(shortest_side=1)
MATRIX = struct.Struct("9i")  # a b u c d v x y w
# Endings of file names that are taken for videos.
VIDEO_ENDINGS = (
    ".mp4",
    ".mov",
    ".m4v",
    ".mkv",
    ".webm",
    ".avi",
    ".mpg",
    ".mpeg",
    ".mts",
    ".m2ts",
    ".wmv",
    ".flv",
    ".ogv",
)


@dataclass(frozen=True)
class VideoFrame:
    """One frame of a video."""

    number: int  # from 0
    time: float  # seconds after the first frame
    pixels: UInt8[Tensor, "3 h w"]


@dataclass(frozen=True)
class VideoInfo:
    """What a video says of itself."""

    size: Size  # (height, width), upright
    rate: float | None  # frames per second, on average
    seconds: float | None

    @property
    def frames(self) -> int | None:
        """Approximate number of frames."""
        return round(self.seconds * self.rate) if self.seconds and self.rate else None


def is_video(path: str | Path) -> bool:
    """Whether a file is a video by the ending of its name; GIF and WebP count as images."""
    return Path(path).suffix.lower() in VIDEO_ENDINGS


def video_info(path: str | Path) -> VideoInfo:
    """Size, rate and length of a video; its first frame is decoded, for the size."""
    path = checks.path(path, "a video")
    with _opened(path) as (container, stream):
        seconds = _seconds(container, stream)[0]
        rate = float(stream.average_rate) if stream.average_rate else None
    first = next(frames(path, stop=1), None)
    assert first is not None  # a video without frames raises
    return VideoInfo((first.pixels.shape[-2], first.pixels.shape[-1]), rate, seconds)


def frames(
    path: str | Path,
    *,
    start: int = 0,
    stop: int | None = None,
    step: int = 1,
    faults: list[str] | None = None,
) -> Iterator[VideoFrame]:
    """The frames of a video in order, from number `start` up to `stop`, every `step`-th; one is in memory at a time.

    Time stamps are the video's own, so a variable rate is kept; frames are rotated as the video says. What cannot be
    decoded is left out, and after the last frame one line says so: it is appended to `faults`, or raised without them.
    """
    path = checks.path(path, "a video")
    checks.whole(start, "start", least=0)
    checks.whole(step, "step", least=1)
    if stop is not None:
        checks.whole(stop, "stop", least=0)
    return _frames(path, start, stop, step, faults)


def pick(path: str | Path, numbers: Collection[int]) -> Iterator[tuple[int, UInt8[Tensor, "3 _ _"]]]:
    """Some frames, in the order of the video: their numbers and pixels; a number that there is not raises."""
    missing = {checks.whole(number, "the number of a frame", least=0) for number in numbers}
    if not missing:
        return
    faults: list[str] = []
    for frame in frames(path, stop=max(missing) + 1, faults=faults):
        if frame.number in missing:
            missing.remove(frame.number)
            yield frame.number, frame.pixels
    if missing:
        about = f"; {faults[0]}" if faults else ""
        raise InputError(f"{documents.place(Path(path))} has no frame {min(missing)}{about}")


def _frames(path: Path, start: int, stop: int | None, step: int, faults: list[str] | None) -> Iterator[VideoFrame]:
    with _opened(path) as (container, stream):
        clock = _Clock()
        for frame in _decoded(container, stream, clock):
            number = clock.tick(frame)
            if stop is not None and number >= stop:
                return
            if number >= start and (number - start) % step == 0:
                check_size((frame.width, frame.height), f"{path}, frame {number},", ANY_SIZE)
                yield VideoFrame(number, clock.time, _upright(frame))
        message = clock.verdict(path, *_seconds(container, stream))
    if message:
        if faults is None or clock.number < 0:
            raise InputError(message)
        faults.append(message)


def _decoded(container: Any, stream: Any, clock: "_Clock") -> Iterator[Any]:
    """Decoded frames; packets that cannot be decoded are counted."""
    av = library()
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except (av.error.FFmpegError, OSError):  # the file ends in the middle of something
            clock.broken = True
            return
        if packet is None:
            return
        try:
            decoded = packet.decode()
        except (av.error.FFmpegError, OSError):
            clock.lost += 1
            continue
        for frame in decoded:
            if frame.is_corrupt:
                clock.lost += 1
            else:
                yield frame


class _Clock:
    """Numbers and times of frames, and what was missed."""

    def __init__(self) -> None:
        self.number, self.time, self.lost, self.broken = -1, 0.0, 0, False
        self._first: float | None = None
        self._shortest, self._longest, self._last = math.inf, 0.0, 0.0  # intervals; and how long the last frame lasts
        self._counted = 0  # losses that numbers have been moved on for

    def tick(self, frame: Any) -> int:
        """The number of this frame. After losses it follows from the time, if frames have come at a constant rate."""
        time = float(frame.time) if frame.time is not None else (self._first or 0.0) + self.time + self._longest
        self._first = time if self._first is None else self._first
        interval = time - self._first - self.time
        regular = self._longest > 0 and self._longest - self._shortest < 0.1 * self._longest
        missed = self.lost - self._counted
        if missed and regular:
            self.number += max(1, round(interval / self._longest))
        else:
            self.number += 1 + missed
            if self.number and not missed:
                self._shortest, self._longest = min(self._shortest, interval), max(self._longest, interval)
        self._counted = self.lost
        self.time = time - self._first
        told = float((frame.duration or 0) * (frame.time_base or 0))  # how long it is shown, if the video says
        self._last = told or self._longest
        return self.number

    def verdict(self, path: Path, seconds: float | None, certain: bool) -> str | None:
        """What was missed of a video that should last so long; None if nothing was."""
        if self.number < 0:
            return f"{documents.place(path)} has no frame that can be decoded: it is damaged or cut short"
        end = self.time + self._last
        slack = max(LATE * max(self._last, self._longest), 0.0 if certain else VAGUE * (seconds or 0.0))
        about = []
        if seconds is not None and seconds - end > slack:
            about.append(f"it ends after {end:.2f} of {seconds:.2f} s")
        elif self.broken:
            about.append(f"it breaks off after {end:.2f} s")
        if self.lost:
            about.append(f"{self.lost} part{'s' * (self.lost > 1)} could not be decoded")
        return f"{documents.place(path)} is damaged or cut short: {', '.join(about)}" if about else None


def _seconds(container: Any, stream: Any) -> tuple[float | None, bool]:
    """How long the picture lasts, and whether its own stream says so."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base), True
    return (container.duration / 1e6, len(container.streams) == 1) if container.duration else (None, False)


def _upright(frame: Any) -> UInt8[Tensor, "3 h w"]:
    """RGB pixels, rotated and mirrored as the video's display matrix says, in steps of 90°.

    The matrix takes (x, y) to (a x + c y, b x + d y); PyAV's `rotation` does not tell a mirrored frame from one that
    is upside down.
    """
    pixels = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is not None and len(bytes(matrix)) >= MATRIX.size:
        a, b, _, c, d, *_ = MATRIX.unpack_from(bytes(matrix))
        if abs(a) + abs(d) < abs(b) + abs(c):
            pixels, a, d = pixels.mT, c, b
        pixels = pixels.flip([axis for axis, side in ((2, a), (1, d)) if side < 0])
    return pixels.contiguous()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """A video and its stream of pictures; only files of known containers are opened, nothing that leads elsewhere."""
    av = library()
    documents.check_file(path, expected=VIDEO)
    try:
        container = av.open(str(path), options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"})
    except (av.error.FFmpegError, OSError, ValueError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:80].lower()
        raise InputError(f"{documents.place(path)} cannot be read as a video: {reason}; expected {VIDEO}") from None
    with container:
        streams = [stream for stream in container.streams.video if not _is_cover(stream)]
        if not streams:
            raise InputError(f"{documents.place(path)} has no moving picture; expected {VIDEO}")
        yield container, streams[0]


def _is_cover(stream: Any) -> bool:
    """Whether a stream is a single picture that goes with sound."""
    return "attached_pic" in str(getattr(stream, "disposition", "")).lower()


def library() -> Any:
    """The package PyAV."""
    try:
        import av
    except ImportError:
        raise MissingPackageError.of_extra("video", "av", what="reading or writing a video") from None
    return av
