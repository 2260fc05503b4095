"""Videos with points on them, read back with PyAV."""

import pytest
import torch

from geco.data import named
from geco.errors import FileError, InputError
from geco.propagation import HIDDEN, VISIBLE, Animal, OverlayWriter, frames

pytest.importorskip("av", reason="PyAV is not installed")

GREY = torch.full((3, 61, 80), 90, dtype=torch.uint8)  # an odd height
TIMES = [0.0, 0.04, 0.3, 0.31]
SKELETON = named(("nose", "tail"))


def animal(x):
    """The first point is visible, the second hidden at a place that is known."""
    return Animal(torch.tensor([[x, 20.0], [40.0, 45.0]]), torch.tensor([VISIBLE, HIDDEN]))


def test_points_are_drawn_where_they_are_and_hidden_ones_are_absent(tmp_path):
    with OverlayWriter(tmp_path / "out" / "walk.mp4", SKELETON, names=False) as writer:
        for number, time in enumerate(TIMES):
            writer.add(GREY, time, [animal(20.0 + 10 * number)])
    read = list(frames(tmp_path / "out" / "walk.mp4"))
    assert [frame.time for frame in read] == pytest.approx(TIMES, abs=1e-3)
    assert read[0].pixels.shape == (3, 62, 80)
    for number, frame in enumerate(read):
        drawn = (frame.pixels.float() - 90).abs().amax(0) > 40
        rows, columns = drawn.nonzero().float().T
        assert float(columns.mean() + 0.5) == pytest.approx(20 + 10 * number, abs=1)
        assert float(rows.mean() + 0.5) == pytest.approx(20, abs=1)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["walk.mp4"]


def test_names_are_written_beside_points(tmp_path):
    for names in (False, True):
        with OverlayWriter(tmp_path / f"{names}.mp4", SKELETON, names=names) as writer:
            writer.add(GREY, 0.0, [animal(20.0)])
    bare, named_ = (next(frames(tmp_path / f"{names}.mp4")).pixels[0].float() for names in (False, True))
    beside = (slice(12, 26), slice(25, 60))
    assert (bare[beside] - 90).abs().max() < 20
    assert (named_[beside] - 90).abs().max() > 100


def test_what_was_drawn_before_an_error_is_a_whole_video(tmp_path):
    (tmp_path / "walk.mp4").write_bytes(b"old")

    def stopped():
        with OverlayWriter(tmp_path / "walk.mp4", SKELETON) as writer:
            writer.add(GREY, 0.0, [animal(20.0)])
            writer.add(GREY, 0.1, [animal(30.0)])
            assert (tmp_path / "walk.mp4").read_bytes() == b"old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert len(list(frames(tmp_path / "walk.mp4"))) == 2


def test_without_frames_there_is_no_file(tmp_path):
    with OverlayWriter(tmp_path / "walk.mp4", SKELETON):
        pass
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(InputError, match=r"a video is written as .mp4, got"):
        OverlayWriter(tmp_path / "walk.avi", SKELETON)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be made"):
        OverlayWriter(tmp_path / "file" / "walk.mp4", SKELETON).add(GREY, 0.0, [])
