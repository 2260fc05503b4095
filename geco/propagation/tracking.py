"""Tracking: the keypoints of one animal through the frames of a video.

Each frame is compared with the labelled animals as any image is (`voting`), in a window that follows the animal. The
places that score highest are checked by the way back: what is there must lead to where the point is labelled. Then
`paths` choose among them over several frames. A point that is not visible has no place: its track has a gap.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from geco import checks, geometry, matching
from geco.errors import InputError
from geco.propagation import video as videos
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet, with_labels
from geco.propagation.calibration import FEWEST, Calibration
from geco.propagation.following import inner_box, moved_window, shifted, way_back
from geco.propagation.keypoints import Propagator
from geco.propagation.paths import NEVER, Choice, Paths, Peaks, find_peaks
from geco.propagation.references import FEWEST_POINTS, Box, encode, mean_descriptor, pixels_in, window_of
from geco.propagation.settings import TrackSettings
from geco.propagation.video import VideoFrame
from geco.propagation.voting import FINE, Votes
from geco.types import Encoder, FeatureMap, Size

DEFAULTS = TrackSettings()
NEAR = 0.1  # of the window's side: a way back that ends nearer confirms a place …
FAR = 0.3  # … and all that end farther speak against it alike
WITNESSES = 5  # references at most that the way back leads to: those most like the frame
STILL = 0.05  # of the animal's length that a point may always move: patches are no finer
CERTAIN = 10.0  # evidence beyond what any similarities add up to: a label's
CONFIRMED = 0.05  # share of the points that the way back confirms which may still be hidden …
BELOW = 0.1  # … and how far below their median that must be: where all are alike, none is hidden
RECENT = 64  # frames that a threshold is found on, where the labels do not tell one
SHORTEST = 1 / 120  # seconds between frames whose times say nothing
SLOW = 0.15  # of the window's side that an animal may move during a batch: windows that stand still measure better
NARROWEST, WIDEST = 16, 2.0  # pixels; of the frame's longer side: windows that can hold an animal


@dataclass(frozen=True)
class TrackedFrame:
    """A frame of a video and the animal on it."""

    number: int  # from 0
    time: float  # seconds after the first frame
    size: Size
    animal: Animal  # of hidden points, the place is not known
    pixels: UInt8[Tensor, "3 h w"] | None = None  # if they were asked for

    def labelled(self, path: str | Path) -> LabelledImage:
        """The frame as labels of the video at this path."""
        return LabelledImage(Path(path), (self.animal,), self.number, self.size)


def track(
    video: str | Path,
    labels: LabelSet | Propagator,
    encoder: Encoder | None = None,
    settings: TrackSettings = DEFAULTS,
    *,
    labelled: Mapping[int, Animal] | None = None,
    start: int = 0,
    stop: int | None = None,
    step: int = 1,
    pixels: bool = False,
    faults: list[str] | None = None,
) -> Iterator[TrackedFrame]:
    """The frames of a video with the keypoints of the animal on them, in order, a few frames after they are read.

    Labels are of images of any kind, frames of this video among them: those, or the ones that `labelled` gives by
    their numbers, come out as they are labelled. An encoder is needed with labels; a propagator has its own. What
    cannot be decoded of the video is left out, and one line about it goes to `faults`, or is raised after the last
    frame. With `pixels` each frame brings its own; without them, memory holds only the frames of a batch.
    """
    path = checks.path(video, "a video")
    if isinstance(labels, LabelSet):
        if encoder is None:
            raise InputError("tracking from labels needs an encoder, such as geco.load(); a Propagator has its own")
        matching.check_single(encoder)
        labelled = labelled_frames(labels, path) if labelled is None else labelled
        labels = Propagator.of(encoder, labels)
    for number, animal in (labelled or {}).items():
        if len(animal.state) != len(labels.skeleton):
            raise InputError(
                f"frame {number}: {len(animal.state)} keypoints, but the labels have {len(labels.skeleton)}"
            )
    tracker = Tracker(labels, settings, labelled or {}, keep_pixels=pixels)
    frames = videos.frames(path, start=start, stop=stop, step=step, faults=faults)
    return tracker.run(frames)


def labelled_frames(labels: LabelSet, video: str | Path) -> dict[int, Animal]:
    """The animals that are labelled on frames of this video, by number; frames with several are left out."""
    path = Path(video)
    own = [image for image in labels.images if image.frame is not None and _is_same(image.path, path)]
    return {int(image.frame or 0): image.animals[0] for image in own if len(image.animals) == 1}


def _is_same(one: Path, other: Path) -> bool:
    return one == other or (checks.is_file(one) and checks.is_file(other) and one.samefile(other))


@dataclass(frozen=True)
class _Seen:
    """A frame that has been compared with the labels, and waits until the paths through it are decided."""

    frame: TrackedFrame
    window: Box
    calibration: Calibration
    maps: Float[Tensor, "k h w"]
    known: Bool[Tensor, "k"]
    index: Int[Tensor, "k m"]  # of the peaks, in the flattened maps
    xy: Float[Tensor, "k m 2"]  # in pixels of the frame
    score: Float[Tensor, "k m"]
    misses: Float[Tensor, "k m"]  # where the way back from a peak ends, as a share of the window's side

    @property
    def size(self) -> Size:
        """(height, width) of the window."""
        return self.window[3] - self.window[1], self.window[2] - self.window[0]


class Tracker:
    """What is known of a video so far: where the animal is, paths that are not decided, scores of confirmed points."""

    def __init__(
        self,
        propagator: Propagator,
        settings: TrackSettings,
        labelled: Mapping[int, Animal],
        *,
        keep_pixels: bool = False,
    ) -> None:
        self.propagator, self.settings, self.labelled = propagator, settings, labelled
        self.keep_pixels = keep_pixels
        self.paths: Paths[_Seen] = Paths(motion=settings.motion, switch=settings.switch, lag=settings.lag)
        self.window: Box | None = None  # around the animal; None: not known
        self.since = 0.0  # time of the frame that the window was found on
        self.velocity = 0.0, 0.0  # of the window, pixels per second
        self.confirmed: deque[Tensor] = deque(maxlen=RECENT)
        self.time: float | None = None

    def run(self, frames: Iterable[VideoFrame]) -> Iterator[TrackedFrame]:
        """The frames, batch by batch; those read before an error come out before it."""
        failure: list[Exception] = []
        readable = _until_error(iter(frames), failure)
        size = 1  # batches grow: at first it is not known where the animal goes
        while batch := list(islice(readable, min(size, self.settings.batch))):
            size *= 2
            for seen, choice in self._follow(batch):
                yield self._result(seen, choice)
            batch.clear()  # before the next one is read
        for seen, choice in self.paths.finish():
            yield self._result(seen, choice)
        if failure:
            raise failure[0]

    def _follow(self, batch: list[VideoFrame]) -> Iterator[tuple[_Seen, Choice]]:
        windows = self._windows(batch)
        pictures = [pixels_in(frame.pixels, window) for frame, window in zip(batch, windows, strict=True)]
        maps = encode(self.propagator.encoder, pictures, mirror=self.propagator.settings.mirror)
        seen = [self._look(*one) for one in zip(batch, maps, windows, strict=True)]
        calibration = self._calibration(seen)
        if self.settings.follow:
            self._move(batch[-1], self._around(batch[-1], seen[-1], calibration.threshold))
        for one in seen:
            elapsed = one.frame.time - self.time if self.time is not None else 0.0
            self.time = one.frame.time
            length = max(one.size) / (1 + 2 * self.propagator.settings.margin)
            reach = max(self.settings.speed * max(elapsed, SHORTEST), STILL) * length
            one = replace(one, calibration=calibration)
            yield from self.paths.add(one, self._offered(one, calibration.threshold), reach=reach)

    def _windows(self, batch: list[VideoFrame]) -> list[Box]:
        """Where to look on each frame: where the animal should be if it can be found, else everywhere."""
        first = batch[0]
        everything: list[Box] = [(0, 0, frame.pixels.shape[-1], frame.pixels.shape[-2]) for frame in batch]
        if not self.settings.follow:
            return everything
        label = self.labelled.get(first.number)
        if label is not None:
            size = first.pixels.shape[-2], first.pixels.shape[-1]
            self._move(first, window_of(label, size, self.propagator.settings.margin))
        if self.window is None:
            (maps,) = encode(self.propagator.encoder, [first.pixels], mirror=self.propagator.settings.mirror)
            seen = self._look(first, maps, everything[0])
            self._move(first, self._around(first, seen, self.propagator.calibration.threshold))
        if self.window is None:
            return everything
        steps = [tuple(speed * (frame.time - self.since) for speed in self.velocity) for frame in batch]
        if math.hypot(*steps[-1]) < SLOW * (self.window[2] - self.window[0]):
            return [self.window] * len(batch)
        return [shifted(self.window, x, y) for x, y in steps]

    def _move(self, frame: VideoFrame, window: Box | None) -> None:
        """Remember where the animal is on a frame, and how fast it got there."""
        passed = frame.time - self.since
        if window is None or self.window is None:
            self.velocity = 0.0, 0.0
        elif passed > 0:
            x, y = ((window[i] + window[i + 2] - self.window[i] - self.window[i + 2]) / 2 / passed for i in (0, 1))
            self.velocity = x, y
        self.window, self.since = window, frame.time

    def _look(self, frame: VideoFrame, encoded: tuple[FeatureMap, FeatureMap | None], window: Box) -> _Seen:
        """The frame compared with the labels, by the features of a window and perhaps of its mirror image."""
        panel, (features, mirrored) = self.propagator.panel, encoded
        whole = mean_descriptor(features)
        maps, known = panel.maps(features, whole=whole, mirrored=mirrored)
        index, score = find_peaks(maps, most=self.settings.peaks, cell=FINE)
        rows, columns = maps.shape[-2:]
        places = geometry.pixel_centres(index.flatten(), width=columns).float()
        xy = geometry.resize_points(places, size=(rows, columns), to=features.size)
        descriptors = matching.queries(features, xy).unflatten(0, index.shape)
        misses = torch.full(index.shape, torch.inf)
        for reference in panel.voting(whole)[:WITNESSES]:
            misses = torch.minimum(misses, way_back(reference, descriptors).cpu())
        xy = xy.cpu().unflatten(0, index.shape) + torch.tensor(window[:2])
        size = frame.pixels.shape[-2], frame.pixels.shape[-1]
        pixels = frame.pixels if self.keep_pixels else None
        unknown = Animal(torch.full((len(known), 2), torch.nan), torch.zeros(len(known), dtype=torch.long))
        shown = TrackedFrame(frame.number, frame.time, size, unknown, pixels)
        return _Seen(shown, window, self.propagator.calibration, maps, known.cpu(), index, xy, score.cpu(), misses)

    def _calibration(self, batch: list[_Seen]) -> Calibration:
        """The labels' own or, of labels too few to tell a threshold, one found on points that the way back confirms."""
        calibration = self.propagator.calibration
        if calibration.held_out or self.propagator.settings.threshold is not None:
            return calibration
        for seen in batch:
            good = seen.known & (seen.misses[:, 0] <= NEAR)
            self.confirmed.append(seen.score[good, 0])
        scores = torch.cat(list(self.confirmed))
        if len(scores) < FEWEST:
            return calibration
        found = min(float(scores.quantile(CONFIRMED)), float(scores.median()) - BELOW)
        return replace(calibration, threshold=max(calibration.threshold, found))

    def _around(self, frame: VideoFrame, seen: _Seen, threshold: float) -> Box | None:
        """The window around the animal as this frame shows it; None if too few points tell where it is."""
        margin, size = self.propagator.settings.margin, seen.frame.size
        label = self.labelled.get(frame.number)
        if label is not None:
            return window_of(label, size, margin)
        xy = seen.xy[:, 0]
        sure = seen.known & (seen.score[:, 0] >= threshold) & (seen.misses[:, 0] <= NEAR)
        sure = sure & geometry.inside(xy, size=size)
        references = self.propagator.panel.references
        shared = [int((sure & reference.visible).sum()) for reference in references]
        if max(shared) < FEWEST_POINTS:
            return None
        window = moved_window(references[shared.index(max(shared))], xy, sure)
        return window if NARROWEST <= window[2] - window[0] <= WIDEST * max(size) else None

    def _offered(self, seen: _Seen, threshold: float) -> Peaks:
        """The peaks, and what speaks for each being visible; of labelled points, what the label says."""
        score, xy = seen.score.clone(), seen.xy.clone()
        evidence = (score - self._doubt(seen) - threshold).clamp(min=-CERTAIN)
        label = self.labelled.get(seen.frame.number)
        if label is not None:
            visible, hidden = label.state == VISIBLE, label.state == HIDDEN
            xy[visible, 0] = label.xy[visible]
            score[visible] = NEVER
            score[visible, 0] = 1.0
            evidence[visible], evidence[hidden] = CERTAIN, -CERTAIN
        return Peaks(xy, score, evidence)

    def _doubt(self, seen: _Seen) -> Float[Tensor, "k m"]:
        """What the way back takes off the similarity of each peak."""
        return self.settings.cycle * seen.misses.nan_to_num(posinf=0.0).clamp(max=FAR) / FAR

    def _result(self, seen: _Seen, choice: Choice) -> TrackedFrame:
        """The frame with its animal, now that the peak of each keypoint is chosen."""
        number = choice.peak[:, None]
        index = seen.index.gather(1, number.to(seen.index.device))[:, 0]
        votes = self.propagator.panel.votes_at(seen.maps, index, seen.known.to(index.device), size=seen.size)
        votes = replace(votes, score=votes.score - self._doubt(seen).gather(1, number)[:, 0])
        animal = _animal(votes, choice.visible, seen.calibration, seen.window)
        if seen.window != (0, 0, *seen.frame.size[::-1]):
            animal = replace(animal, box=inner_box(seen.window, self.propagator.settings.margin))
        label = self.labelled.get(seen.frame.number)
        return replace(seen.frame, animal=animal if label is None else with_labels(animal, label))


def _until_error(frames: Iterator[VideoFrame], failure: list[Exception]) -> Iterator[VideoFrame]:
    try:
        yield from frames
    except InputError as error:
        failure.append(error)


def _animal(votes: Votes, visible: Bool[Tensor, "k"], calibration: Calibration, window: Box) -> Animal:
    """What the votes say about the chosen places; a gap is hidden and nowhere."""
    state = torch.where(visible, VISIBLE, HIDDEN).where(votes.known, UNKNOWN)
    xy = (votes.xy + torch.tensor(window[:2])).where((state == VISIBLE)[:, None], torch.nan)
    # A gap may continue for a frame or two above the threshold, and a track below it: neither is surer than even.
    agree = calibration.visible(votes) == visible
    uncertainty = calibration.uncertainty(votes).where(agree, 0.5)
    return Animal(xy, state, score=votes.score, uncertainty=uncertainty, twin_margin=votes.twin_margin)
