"""Points through videos: patches of colour on known tracks, and rigged animals rendered in motion."""

import math
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from coloured import COLOURS, PATCH, SKELETON, Colours
from dataset_trees import real, real_root
from filmed import write_video
from PIL import Image

from geco.errors import InputError
from geco.propagation import (
    HIDDEN,
    UNKNOWN,
    VISIBLE,
    Animal,
    LabelledImage,
    LabelSet,
    Propagator,
    TrackSettings,
    labelled_frames,
    track,
)
from geco.propagation import video as videos

pytest.importorskip("av", reason="PyAV is not installed")

SIZE, FRAMES = (64, 80), 16
HIDDEN_FROM, HIDDEN_TO = 6, 11  # frames on which the tail is behind something
JUMP = 13  # frame on which something far away looks more like the left point than the left point itself
PLACES = {"left": (4, 8), "right": (24, 8), "tail": (12, 28)}  # corners of the patches on frame 0


def corner(name, number):
    """Where the patch of a point is: everything moves to the right and down."""
    x, y = PLACES[name]
    return x + 2 * number, y + number


def picture(number, *, tail=True, decoy=False):
    pixels = np.zeros((*SIZE, 3), dtype=np.uint8)
    for name, colour in COLOURS.items():
        if name != "tail" or tail:
            x, y = corner(name, number)
            pixels[y : y + 2 * PATCH, x : x + 2 * PATCH] = colour
    if decoy:
        x, y = corner("left", number)
        pixels[y : y + 2 * PATCH, x : x + 2 * PATCH] = (230, 60, 0)
        x, y = corner("left", number - 12)  # where the window that follows the animal still shows it
        pixels[y : y + 2 * PATCH, x : x + 2 * PATCH] = COLOURS["left"]
    return pixels


def truth(number):
    return torch.tensor([[side + PATCH for side in corner(name, number)] for name in COLOURS]).float()


def animal(number, state=(VISIBLE, VISIBLE, VISIBLE)):
    return Animal(truth(number), torch.tensor(state))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    pictures = [picture(n, tail=not HIDDEN_FROM <= n < HIDDEN_TO, decoy=n == JUMP) for n in range(FRAMES)]
    return write_video(tmp_path_factory.mktemp("video") / "patches.mp4", pictures)


@pytest.fixture(scope="module")
def labels(clip):
    """A label on a frame of the video, and one on an image of its own on which the tail is hidden."""
    Image.fromarray(picture(5, tail=False)).save(clip.parent / "five.png")
    hidden = replace(animal(5), state=torch.tensor([VISIBLE, VISIBLE, HIDDEN]))
    images = [LabelledImage(clip, (animal(0),), 0), LabelledImage(clip.parent / "five.png", (hidden,))]
    return LabelSet(SKELETON, images)


@pytest.fixture(scope="module")
def tracked(clip, labels):
    return list(track(clip, labels, Colours()))


def test_points_are_followed_and_gaps_are_where_they_are_hidden(tracked):
    assert [frame.number for frame in tracked] == list(range(FRAMES))
    assert all(frame.size == SIZE and frame.pixels is None for frame in tracked)
    for frame in tracked:
        tail_hidden = HIDDEN_FROM <= frame.number < HIDDEN_TO
        expected = [VISIBLE, VISIBLE, HIDDEN if tail_hidden else VISIBLE]
        assert frame.animal.state.tolist() == expected, frame.number
        seen = frame.animal.state == VISIBLE
        assert frame.animal.xy[~seen].isnan().all()
        assert (frame.animal.xy - truth(frame.number))[seen].norm(dim=-1).max() <= 2 * PATCH, frame.number
        assert (frame.animal.uncertainty >= 0).all()
        assert (frame.animal.uncertainty <= 1).all()


def test_a_jump_that_frame_for_frame_looks_better_is_not_taken(clip, labels, tracked):
    alone = list(track(clip, labels, Colours(), TrackSettings(motion=0)))[JUMP].animal.xy[0]
    assert (alone - truth(JUMP)[0]).norm() > 10
    assert (tracked[JUMP].animal.xy[0] - truth(JUMP)[0]).norm() <= 1.5 * PATCH


def test_a_labelled_frame_comes_out_as_it_is_labelled(clip, labels, tracked):
    assert labelled_frames(labels, clip).keys() == {0}
    assert torch.equal(tracked[0].animal.xy, truth(0))
    assert tracked[0].animal.uncertainty.tolist() == [0, 0, 0]
    propagator = Propagator.of(Colours(), labels)
    hidden = {9: animal(9, (VISIBLE, HIDDEN, UNKNOWN))}
    ninth = list(track(clip, propagator, labelled=hidden, stop=12))[9].animal
    assert torch.equal(ninth.xy[0], truth(9)[0])
    assert ninth.state.tolist() == [VISIBLE, HIDDEN, HIDDEN], "the last by its looks"


def test_tracks_are_the_same_every_time_and_each_frame_is_encoded_once(clip, labels, tracked):
    encoder = Colours()
    propagator = Propagator.of(encoder, labels)
    before = encoder.encoded
    again = list(track(clip, propagator, labelled=labelled_frames(labels, clip)))
    lost = 1  # while the tail is hidden, two points are too few to follow: the animal is looked for everywhere
    assert encoder.encoded == before + FRAMES + lost
    for one, other in zip(tracked, again, strict=True):
        assert torch.equal(one.animal.xy.nan_to_num(-1), other.animal.xy.nan_to_num(-1))
        assert torch.equal(one.animal.uncertainty, other.animal.uncertainty)


def test_the_window_follows_the_animal(tracked):
    boxes = {frame.number: torch.tensor(frame.animal.box) for frame in tracked if frame.animal.box is not None}
    assert {3, 4, 5, FRAMES - 1} <= boxes.keys()
    for number, box in boxes.items():
        true = torch.cat([truth(number).min(0).values, truth(number).max(0).values])
        assert (box - true).abs().max() <= 2 * PATCH, number
    assert {frame.number for frame in tracked} - boxes.keys(), (
        "too few points tell where it is while the tail is hidden"
    )


def test_one_label_is_enough_and_the_threshold_is_then_found_on_the_video(clip, labels):
    one = replace(labels, images=labels.images[:1])
    states = torch.stack([frame.animal.state for frame in track(clip, one, Colours())])
    assert (states[:, :2] == VISIBLE).float().mean() > 0.9
    assert (states[HIDDEN_FROM:HIDDEN_TO, 2] == HIDDEN).all()


def test_memory_holds_a_batch_of_frames_whatever_the_length(clip, labels, monkeypatch):
    alive: list[weakref.ref] = []
    most = 0
    original = videos.frames

    def watched(*arguments, **options):
        nonlocal most
        for frame in original(*arguments, **options):
            alive.append(weakref.ref(frame.pixels))
            most = max(most, sum(reference() is not None for reference in alive))
            yield frame

    propagator = Propagator.of(Colours(), labels)
    monkeypatch.setattr(videos, "frames", watched)
    settings = TrackSettings(batch=3, lag=2)
    assert sum(1 for _ in track(clip, propagator, None, settings)) == FRAMES
    assert most <= 3 + 1, "a batch, and what a loop still holds of the last"
    alive.clear()
    assert all(frame.pixels is not None for frame in track(clip, propagator, None, settings, pixels=True))
    assert most <= 3 + 2 * 2 + 1, "… and those whose paths are not decided"


def test_of_a_video_cut_short_the_frames_so_far_are_tracked(clip, labels, tmp_path):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(clip.read_bytes()[: clip.stat().st_size * 9 // 10])
    faults: list[str] = []
    propagator = Propagator.of(Colours(), labels)
    kept = list(track(cut, propagator, faults=faults))
    assert 0 < len(kept) < FRAMES
    assert "damaged or cut short" in faults[0]
    strict = track(cut, propagator)
    assert [next(strict).number for _ in kept] == [frame.number for frame in kept]
    with pytest.raises(InputError, match="damaged or cut short"):
        next(strict)


def test_what_is_missing_is_said(clip, labels):
    with pytest.raises(InputError, match="needs an encoder"):
        track(clip, labels)
    far = LabelSet(SKELETON, [LabelledImage(clip, (animal(0),), 99)])
    with pytest.raises(InputError, match=r"patches.mp4 has no frame 99"):
        track(clip, far, Colours())
    two = Animal(torch.zeros(2, 2), torch.full((2,), VISIBLE))
    with pytest.raises(InputError, match="frame 4: 2 keypoints, but the labels have 3"):
        track(clip, Propagator.of(Colours(), labels), labelled={4: two})
    with pytest.raises(InputError, match="lag must be"):
        TrackSettings(lag=-1)


# --- rendered animals -------------------------------------------------------------------------------------------------


def rendered(name, animation, *, frames=6, sweep=36.0, size=(192, 256), rate=15):
    """Frames of an animal in motion with a camera that goes around it; true places, true visibility, true boxes."""
    from geco.pose import Scene, animal_landmarks, draw_look, load_mesh, paint, pose_mesh
    from geco.pose.cameras import look_at, pinhole

    mesh = load_mesh(real_root("meshes/quaternius") / f"{name}.glb", vertices=2000)
    marks = animal_landmarks(mesh)
    rows = np.array(list(marks.values()))
    extent = pose_mesh(mesh, animation, 0.0).vertices
    centre, diagonal = (extent.min(0) + extent.max(0)) / 2, np.linalg.norm(np.ptp(extent, axis=0))
    lens = pinhole(size, max(size) / (2 * math.tan(math.radians(15))))
    distance, look = diagonal * lens.focal[0] / max(size) / 0.55, draw_look(1, ("own",), ("meadow",))
    pictures, places, seen, boxes = [], [], [], []
    for number in range(frames):
        posed = pose_mesh(mesh, animation, number / rate)
        angle = math.radians(200 + sweep * number / (frames - 1))
        away = np.array([0.95 * math.cos(angle), 0.3, 0.95 * math.sin(angle)])
        camera = look_at(lens, centre, centre + distance * away, np.array([0.0, 1.0, 0.0]))
        scene = Scene(posed)
        hits = scene.look(camera)
        pictures.append(paint(scene, camera, hits, look).permute(1, 2, 0).numpy())
        places.append(camera.project(posed.vertices)[0][rows])
        seen.append(scene.visible(camera)[rows])
        down, across = np.nonzero(hits.mask)
        boxes.append((across.min(), down.min(), across.max() + 1, down.max() + 1))
    return tuple(marks), pictures, torch.tensor(np.array(places)).float(), torch.tensor(np.array(seen)), boxes


@real
def test_tracks_of_a_rendered_animal(tmp_path):
    """By geco-s at a small size; plain propagation looks at whole frames, each for itself."""
    import geco
    from geco.data import named

    names, pictures, places, seen, boxes = rendered("Cow", "Walk")
    path = write_video(tmp_path / "cow.mp4", pictures, rate=15, lossless=False)
    middle = len(pictures) // 2
    state = torch.where(seen[middle], VISIBLE, HIDDEN)
    box = tuple(float(edge) for edge in boxes[middle])
    label = Animal(places[middle].where(seen[middle][:, None], torch.nan), state, box)
    labels = LabelSet(named(names), [LabelledImage(path, (label,), middle)])
    propagator = Propagator.of(geco.load(size=168), labels)

    def right(animals):
        """Share of the visible points that the label shows and that lie within a tenth of the box."""
        sides = torch.tensor([max(x1 - x0, y1 - y0) for x0, y0, x1, y1 in boxes])
        xy = torch.stack([one.xy for one in animals])
        near = (xy - places).norm(dim=-1) <= 0.1 * sides[:, None]
        counted = seen & seen[middle]
        counted[middle] = False
        return float(near[counted].float().mean())

    frames = [frame.animal for frame in track(path, propagator)]
    plain = [propagator.label(torch.from_numpy(picture).permute(2, 0, 1))[0] for picture in pictures]
    assert right(frames) >= 0.85
    assert right(frames) > right(plain)
