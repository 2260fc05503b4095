"""A video on the command line: which files there are, what is said, and what stays when something breaks."""

import numpy as np
import pytest
import torch
from coloured import COLOURS, PATCH, SKELETON, Colours
from filmed import write_video

from geco.cli._video import propagate_video
from geco.errors import FileError, GecoError, InputError
from geco.propagation import VISIBLE, Animal, LabelledImage, LabelSet, Propagator, frames, read_annotations

pytest.importorskip("av", reason="PyAV is not installed")
pytest.importorskip("tables", reason="PyTables is not installed")

FRAMES = 10
PLACES = {"left": (8, 8), "right": (28, 12), "tail": (16, 28)}


def picture(number):
    pixels = np.zeros((48, 64, 3), dtype=np.uint8)
    for name, (x, y) in PLACES.items():
        pixels[y : y + 2 * PATCH, x + number : x + number + 2 * PATCH] = COLOURS[name]
    return pixels


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("video") / "walk.mp4", [picture(number) for number in range(FRAMES)])


@pytest.fixture(scope="module")
def labels(clip):
    xy = torch.tensor([[x + PATCH, y + PATCH] for x, y in PLACES.values()]).float()
    animal = Animal(xy, torch.full((3,), VISIBLE))
    return LabelSet(SKELETON, [LabelledImage(clip, (animal,), 0)], format="deeplabcut")


@pytest.fixture(scope="module")
def propagator(labels):
    return Propagator.of(Colours(), labels)


def test_tracks_and_overlay_are_named_after_the_video(clip, labels, propagator, tmp_path):
    done = []
    result = propagate_video(
        clip, propagator, tmp_path / "out", labels=labels, overlay=True, progress=lambda *update: done.append(update)
    )
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["walk-overlay.mp4", "walk.csv", "walk.h5"]
    assert set(result.files) == set((tmp_path / "out").iterdir())
    assert (result.frames, result.visible + result.hidden, result.faults) == (FRAMES, 3 * FRAMES, ())
    assert done[-1][:2] == ("walk.mp4", FRAMES)
    assert "walk.mp4: 10 frames, " in result.summary(clip)
    tracks = read_annotations(tmp_path / "out" / "walk.h5", images=clip)
    assert [image.frame for image in tracks.images] == list(range(FRAMES))
    assert len(list(frames(tmp_path / "out" / "walk-overlay.mp4"))) == FRAMES


def test_formats_and_names_are_chosen(clip, labels, propagator, tmp_path):
    propagate_video(clip, propagator, tmp_path, labels=labels, format="csv", name="walk-2")
    assert [file.name for file in tmp_path.iterdir()] == ["walk-2.csv"]
    assert (tmp_path / "walk-2.csv").read_text().count("\n") == 1 + 3 * FRAMES
    with pytest.raises(InputError, match="the format of tracks must be"):
        propagate_video(clip, propagator, tmp_path, labels=labels, format="xls")


def test_a_video_that_breaks_in_the_middle_keeps_what_was_done(clip, labels, propagator, tmp_path):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(clip.read_bytes()[: clip.stat().st_size * 9 // 10])
    result = propagate_video(cut, propagator, tmp_path / "out", labels=labels, format="csv", overlay=True)
    assert 0 < result.frames < FRAMES
    assert len(result.faults) == 1
    assert "cut.mp4 is damaged or cut short" in result.faults[0]
    assert len(list(frames(tmp_path / "out" / "cut-overlay.mp4"))) == result.frames


def test_nothing_is_written_for_what_is_no_video_nor_over_an_input(clip, labels, propagator, tmp_path):
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "out").mkdir()
    old = tmp_path / "out" / "text.csv"
    old.write_text("old")
    with pytest.raises(GecoError, match="cannot be read as a video"):
        propagate_video(tmp_path / "text.mp4", propagator, tmp_path / "out", labels=labels, format="csv")
    assert old.read_text() == "old"
    table = tmp_path / "walk.csv"
    table.write_text("labels")
    with pytest.raises(InputError, match="is an input and would be overwritten"):
        propagate_video(clip, propagator, tmp_path, labels=labels, format="csv", inputs=[table])
    with pytest.raises(FileError, match="is a file, not a folder"):
        propagate_video(clip, propagator, table, labels=labels, format="csv")
