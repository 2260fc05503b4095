"""How well points are followed through videos: rigged animals rendered in motion, with true places and true visibility.

    python docs/figures/tracks.py FOLDER-OF-QUATERNIUS [--chosen]

prints the table of docs/video.md: tracking against propagation frame by frame, from one and from three labelled frames
of each clip. The settings of tracking were chosen on the clips of `--chosen` only.
"""

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

import geco
from geco.data import named
from geco.pose import Scene, animal_landmarks, draw_look, load_mesh, look_at, paint, pinhole, pose_mesh
from geco.propagation import HIDDEN, VISIBLE, Animal, LabelledImage, LabelSet, Propagator, Tracker, VideoFrame
from geco.propagation.settings import TrackSettings

FRAMES, RATE, SIZE = 20, 15, (288, 384)
HELD_OUT = (("Bull", "Walk", 11), ("Stag", "Gallop", 12), ("Husky", "Walk", 13), ("Horse_White", "Eating", 14))
CHOSEN = (("Horse", "Gallop", 1), ("Cow", "Walk", 2), ("Fox", "Gallop", 3), ("ShibaInu", "Walk", 4))
CHOSEN += (("Deer", "Eating", 5), ("Alpaca", "Walk", 6), ("Wolf", "Idle", 7), ("Donkey", "Gallop", 8))
METHODS = ("frame by frame", "with a second look", "tracked")
LABELLED = {1: (FRAMES // 2,), 3: (0, FRAMES // 2, FRAMES - 1)}


@dataclass(frozen=True)
class Clip:
    """A rendered animal in motion."""

    names: tuple[str, ...]
    frames: list[VideoFrame]
    xy: Float[Tensor, "t k 2"]
    visible: Bool[Tensor, "t k"]
    boxes: Float[Tensor, "t 4"]


def render(path: Path, animation: str, seed: int, *, sweep: float = 70.0) -> Clip:
    """The animal, and a camera that goes around it, nearer and farther, and does not keep it quite in the middle."""
    mesh = load_mesh(path, vertices=3000)
    marks = dict(sorted(animal_landmarks(mesh).items()))
    rows = np.array(list(marks.values()))
    random = np.random.default_rng(seed)
    azimuth, elevation = random.uniform(0, 2 * math.pi), math.radians(random.uniform(5, 25))
    look = draw_look(seed, ("own", "patches", "spots"), ("noise", "meadow"))
    rest = pose_mesh(mesh, animation, 0.0).vertices
    centre, diagonal = (rest.min(0) + rest.max(0)) / 2, np.linalg.norm(np.ptp(rest, axis=0))
    lens = pinhole(SIZE, max(SIZE) / (2 * math.tan(math.radians(15))))
    distance = diagonal * max(lens.focal) / max(SIZE) / 0.55
    tracks = next(t for name, t in mesh.rig.animations.items() if animation.lower() in name.lower())
    length = max(track.times[-1] for track in tracks)
    frames, places, seen, boxes = [], [], [], []
    for number in range(FRAMES):
        posed = pose_mesh(mesh, animation, (number / RATE) % length)
        turn, phase = azimuth + math.radians(sweep) * number / (FRAMES - 1), 2 * math.pi * number / FRAMES
        away = np.array(
            [math.cos(turn) * math.cos(elevation), math.sin(elevation), math.sin(turn) * math.cos(elevation)]
        )
        target = centre + 0.12 * diagonal * np.array([math.sin(1.3 * phase), 0.3 * math.cos(phase), 0.0])
        place = target + distance * (1 + 0.15 * math.sin(phase)) * away
        camera = look_at(lens, target, place, np.array([0.0, 1.0, 0.0]))
        scene = Scene(posed)
        hits = scene.look(camera)
        frames.append(VideoFrame(number, number / RATE, paint(scene, camera, hits, look)))
        places.append(camera.project(posed.vertices)[0][rows])
        seen.append(scene.visible(camera)[rows])
        down, across = np.nonzero(hits.mask)
        boxes.append((across.min(), down.min(), across.max() + 1, down.max() + 1))
    xy, boxed = (torch.tensor(np.array(values)).float() for values in (places, boxes))
    return Clip(tuple(marks), frames, xy, torch.tensor(np.array(seen)), boxed)


class Counts:
    """Running sums over clips: places, visibility and jitter of the predictions."""

    def __init__(self) -> None:
        self.right, self.given, self.hidden_said, self.scores, self.hidden, self.jitter = [], [], [], [], [], []

    def update(self, clip: Clip, animals: list[Animal], labelled: tuple[int, ...]) -> None:
        """Count the points that some label shows, on the frames that are not labelled."""
        known = clip.visible[list(labelled)].any(0)
        side = (clip.boxes[:, 2:] - clip.boxes[:, :2]).amax(1)
        xy = torch.stack([animal.xy.where((animal.state == VISIBLE)[:, None], torch.nan) for animal in animals])
        counted = known.expand(len(animals), -1).clone()
        counted[list(labelled)] = False
        near = (xy - clip.xy).norm(dim=-1) <= 0.1 * side[:, None]
        self.right += near[counted & clip.visible].tolist()
        self.given += xy[counted & clip.visible].isfinite().all(-1).tolist()
        self.hidden_said += (~xy[counted & ~clip.visible].isfinite().all(-1)).tolist()
        self.scores += torch.stack([animal.score for animal in animals])[counted].tolist()
        self.hidden += (~clip.visible)[counted].tolist()
        shaking = (xy[2:] - 2 * xy[1:-1] + xy[:-2]) - (clip.xy[2:] - 2 * clip.xy[1:-1] + clip.xy[:-2])
        both = clip.visible[2:] & clip.visible[1:-1] & clip.visible[:-2] & known
        size = shaking.norm(dim=-1) / side[1:-1, None]
        self.jitter += size[both & size.isfinite()].clamp(max=1).tolist()

    def row(self) -> str:
        """Right and given of the visible points, right of those given, hidden ones found, AP of hidden, jitter."""
        from sklearn.metrics import average_precision_score

        right, given, said = (np.mean(values) * 100 for values in (self.right, self.given, self.hidden_said))
        precision = average_precision_score(self.hidden, -np.array(self.scores)) * 100
        numbers = (right, given, 100 * right / given, said, precision, 100 * np.mean(self.jitter))
        return " | ".join(f"{number:.1f}" for number in numbers)


class Remembering:
    """An encoder that encodes equal pixels once."""

    def __init__(self, encoder: geco.Encoder) -> None:
        self.encoder, self.maps = encoder, {}

    def __getattr__(self, name: str) -> object:
        return getattr(self.encoder, name)

    def extract_stream(self, pictures: list[UInt8[Tensor, "3 _ _"]], *, batch_size: int = 8) -> object:
        """The maps of these pictures."""
        for picture in pictures:
            key = tuple(picture.shape), picture.numpy().tobytes()
            if key not in self.maps:
                (self.maps[key],) = self.encoder.extract_stream([picture])
            yield self.maps[key]


def labels_of(clip: Clip, numbers: tuple[int, ...], folder: Path) -> LabelSet:
    """True labels of some frames, as image files."""
    from PIL import Image

    images = []
    for number in numbers:
        path = folder / f"{number}.png"
        Image.fromarray(clip.frames[number].pixels.permute(1, 2, 0).numpy()).save(path)
        visible = clip.visible[number]
        xy = clip.xy[number].where(visible[:, None], torch.nan)
        box = tuple(clip.boxes[number].tolist())
        images.append(LabelledImage(path, (Animal(xy, torch.where(visible, VISIBLE, HIDDEN), box),)))
    return LabelSet(named(clip.names), images)


def main(root: Path, clips: tuple[tuple[str, str, int], ...], folder: Path) -> None:
    """Print the table."""
    model = geco.load()
    counts = {(method, labels): Counts() for labels in LABELLED for method in METHODS}
    for name, animation, seed in clips:
        clip, encoder = render(root / f"{name}.glb", animation, seed), Remembering(model)
        for labels, numbers in LABELLED.items():
            propagator = Propagator.of(encoder, labels_of(clip, numbers, folder))
            tracker = Tracker(propagator, TrackSettings(), {})
            for method, second_look in (("frame by frame", False), ("with a second look", True)):
                alone = replace(propagator, settings=replace(propagator.settings, second_look=second_look))
                animals = [alone.label(frame.pixels)[0] for frame in clip.frames]
                counts[method, labels].update(clip, animals, numbers)
            counts["tracked", labels].update(clip, [frame.animal for frame in tracker.run(clip.frames)], numbers)
        print(f"{name}, {animation}", file=sys.stderr, flush=True)
    for (method, labels), count in counts.items():
        print(f"| {labels} | {method} | {count.row()} |", flush=True)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]), CHOSEN if "--chosen" in sys.argv else HELD_OUT, Path(scratch))
