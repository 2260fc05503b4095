"""Videos read: time stamps, rotation flags, damage, and nothing kept."""

import sys
import weakref

import filmed
import numpy as np
import pytest
import torch
from filmed import MIRRORED, TURNS, noise, with_matrix, write_video
from torch.testing import assert_close

from geco.errors import GecoError, InputError, MissingPackageError
from geco.propagation import frames, is_video, pick, video_info

pytest.importorskip("av", reason="PyAV is not installed")


@pytest.fixture(scope="module")
def pictures():
    return noise(12)


@pytest.fixture(scope="module")
def clip(pictures, tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("video") / "clip.mp4", pictures)


def as_array(frame):
    return frame.pixels.permute(1, 2, 0).numpy()


def test_frames_are_those_that_were_written(clip, pictures):
    read = list(frames(clip))
    assert [frame.number for frame in read] == list(range(12))
    assert_close([frame.time for frame in read], [number / 20 for number in range(12)])
    for frame, picture in zip(read, pictures, strict=True):
        assert np.abs(as_array(frame).astype(int) - picture).max() <= 4  # what the colour space costs
    info = video_info(clip)
    assert (info.size, info.frames) == ((48, 64), 12)
    assert info.seconds == pytest.approx(0.6, abs=0.06)


def test_a_variable_rate_keeps_its_time_stamps(tmp_path, pictures):
    times = [0, 40, 50, 200, 201, 900, 1000, 1333, 1334, 1500, 2500, 2540]
    read = list(frames(write_video(tmp_path / "vfr.mkv", pictures, times)))
    assert_close([frame.time for frame in read], [time / 1000 for time in times])


def test_a_part_of_the_frames(clip):
    assert [frame.number for frame in frames(clip, start=3, stop=10, step=3)] == [3, 6, 9]
    assert list(frames(clip, start=50)) == []
    with pytest.raises(InputError, match="step must be a whole number ≥ 1"):
        frames(clip, step=0)


@pytest.mark.parametrize("degrees", TURNS)
def test_frames_are_rotated_as_the_flag_says(clip, tmp_path, degrees):
    plain = next(frames(clip)).pixels
    turned = next(frames(with_matrix(clip, TURNS[degrees], tmp_path / "turned.mp4"))).pixels
    assert torch.equal(turned, torch.rot90(plain, -degrees // 90, (1, 2)))
    assert video_info(tmp_path / "turned.mp4").size == tuple(turned.shape[1:])


def test_a_mirrored_video_is_not_taken_for_one_upside_down(clip, tmp_path):
    mirrored = next(frames(with_matrix(clip, MIRRORED, tmp_path / "mirrored.mp4"))).pixels
    assert torch.equal(mirrored, next(frames(clip)).pixels.flip(2))


@pytest.mark.parametrize("ending", [".mp4", ".mkv"])
def test_of_a_file_cut_short_the_frames_so_far_are_kept_and_one_line_says_what_is_missing(tmp_path, pictures, ending):
    whole = write_video(tmp_path / f"whole{ending}", pictures).read_bytes()
    cut = tmp_path / f"cut{ending}"
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    faults: list[str] = []
    kept = list(frames(cut, faults=faults))
    assert 4 <= len(kept) < 12
    assert [frame.number for frame in kept] == list(range(len(kept)))
    assert np.abs(as_array(kept[3]).astype(int) - pictures[3]).max() <= 4
    assert len(faults) == 1
    assert f"cut{ending} is damaged or cut short: it " in faults[0]
    strict = frames(cut)
    assert [next(strict).number for _ in kept] == [frame.number for frame in kept]
    with pytest.raises(InputError, match="damaged or cut short"):
        next(strict)


def test_what_is_no_video_is_one_line(tmp_path, clip):
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "list.mp4").write_text(f"ffconcat version 1.0\nfile '{clip}'\n")
    (tmp_path / "index.mp4").write_bytes(clip.read_bytes()[:600])
    for name in ("text.mp4", "empty.mp4", "list.mp4", "index.mp4", "none.mp4", "."):
        with pytest.raises(GecoError) as caught:
            list(frames(tmp_path / name, faults=[]))
        assert "\n" not in str(caught.value)
        assert "video" in str(caught.value) or "decoded" in str(caught.value), name


def test_damage_anywhere_is_an_error_of_ours_or_leaves_frames_out(tmp_path, clip):
    """Also: nothing hangs, and nothing takes the process with it."""
    raw, random = clip.read_bytes(), np.random.default_rng(0)
    for _ in range(25):
        damaged = bytearray(raw)
        for place in random.integers(0, len(raw), 6):
            damaged[place] = random.integers(256)
        (tmp_path / "damaged.mp4").write_bytes(damaged)
        try:
            read = list(frames(tmp_path / "damaged.mp4", faults=[]))
        except GecoError:
            continue
        assert all(frame.pixels.shape[0] == 3 for frame in read)
        assert [frame.number for frame in read] == sorted({frame.number for frame in read})


def test_some_frames_are_picked_in_one_pass(clip, pictures):
    picked = dict(pick(clip, [7, 2, 7]))
    assert list(picked) == [2, 7]
    assert np.abs(picked[7].permute(1, 2, 0).numpy().astype(int) - pictures[7]).max() <= 4
    assert list(pick(clip, [])) == []
    with pytest.raises(InputError, match=r"clip.mp4 has no frame 40$"):
        list(pick(clip, [1, 40]))


def test_one_frame_is_in_memory_at_a_time(clip):
    seen: list[weakref.ref] = []
    for frame in frames(clip):
        seen.append(weakref.ref(frame.pixels))
        assert sum(reference() is not None for reference in seen) <= 2


def test_videos_are_told_by_their_ending():
    assert is_video("a/walk.MP4")
    assert is_video("walk.mkv")
    assert not is_video("walk.jpg")
    assert not is_video("walk")


def test_without_pyav_one_line_says_what_to_install(clip, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingPackageError, match=r"needs av; install it with: pip install 'geco-features\[video\]'"):
        next(frames(clip))


def test_the_display_matrix_of_these_tests_is_ffmpegs(clip, tmp_path):
    """PyAV's own reading of a rotation, counter-clockwise, where it is one."""
    import av

    for degrees, matrix in filmed.TURNS.items():
        with av.open(str(with_matrix(clip, matrix, tmp_path / "turned.mp4"))) as container:
            assert next(container.decode(video=0)).rotation % 360 == -degrees % 360
