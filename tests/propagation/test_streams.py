"""Tracks written while they are found: what pandas, sleap-io and our own readers see in the files, whole or stopped."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from geco.data import named
from geco.errors import FileError, InputError
from geco.propagation import (
    HIDDEN,
    UNKNOWN,
    VISIBLE,
    Animal,
    LabelledImage,
    TrackWriter,
    read_annotations,
    track_format,
    write_annotations,
)
from geco.propagation.annotations import LabelSet

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
pytest.importorskip("tables", reason="PyTables is not installed")
sleap_io = pytest.importorskip("sleap_io", reason="sleap-io is not installed")

NAMES = ("snout", "left ear", "right ear")
FILES = {"walk.csv": "csv", "walk-table.csv": "deeplabcut", "walk.h5": "deeplabcut", "walk.slp": "sleap"}
CHUNK = 4


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Ten frames: places, gaps, and a point that is not known on one of them."""
    video = tmp_path_factory.mktemp("tracks") / "walk.mp4"
    video.write_bytes(b"not looked at")
    generator = torch.Generator().manual_seed(0)
    answer = []
    for number in range(10):
        state = torch.randint(HIDDEN, VISIBLE + 1, (3,), generator=generator)
        state[2] = UNKNOWN if number == 3 else state[2]
        state[0] = VISIBLE if number == 3 else state[0]
        xy = (torch.rand(3, 2, generator=generator) * 90).where((state == VISIBLE)[:, None], torch.nan)
        score, uncertainty = torch.rand(2, 3, generator=generator)
        animal = Animal(xy, state, (1.0, 2.0, 30.0, 40.0), score=score, uncertainty=uncertainty)
        answer.append(LabelledImage(video, (animal,), number, (48, 64)))
    return answer


def write(path, frames, format, count=10):
    with TrackWriter(path, named(NAMES), format=format, edges=((0, 1),), chunk=CHUNK) as writer:
        for frame in frames[:count]:
            writer.add(frame)
    assert writer.frames == count
    return path


@pytest.mark.parametrize("name", FILES)
def test_tracks_are_read_back(frames, tmp_path, name):
    path = write(tmp_path / name, frames, FILES[name])
    video = frames[0].path
    labels = read_annotations(path, images=video if FILES[name] == "deeplabcut" else video.parent)
    assert labels.skeleton.names == NAMES
    animals = {image.frame: image.animals for image in labels.images}
    assert list(animals) == list(range(10))
    for frame in frames:
        (written,) = frame.animals
        visible = written.state == VISIBLE
        if animals[frame.frame]:
            (read,) = animals[frame.frame]
            assert torch.equal(read.state == VISIBLE, visible)
            assert torch.allclose(read.xy[visible], written.xy[visible], atol=1e-3)
        else:
            assert not visible.any()
        if FILES[name] == "csv":
            assert torch.equal(read.state, written.state)
            assert torch.allclose(read.uncertainty, written.uncertainty, atol=1e-5)


def test_the_tables_are_those_that_are_written_at_once(frames, tmp_path):
    """The same numbers as `write_annotations` puts into its files, apart from what the likelihood is."""
    labels = LabelSet(named(NAMES), [replace(f, animals=(replace(f.animals[0], box=None),)) for f in frames])
    whole = write_annotations(labels, tmp_path / "whole.h5", format="deeplabcut")
    grown = write(tmp_path / "grown.h5", frames, "deeplabcut")
    one, other = pandas.read_hdf(whole), pandas.read_hdf(grown)
    assert list(one.columns) == list(other.columns)
    assert list(one.index) == list(other.index) == list(range(10))
    places = [column for column in one.columns if column[2] != "likelihood"]
    np.testing.assert_allclose(one[places], other[places])
    csv = pandas.read_csv(write(tmp_path / "grown.csv", frames, "dlc"), header=[0, 1, 2], index_col=0)
    np.testing.assert_allclose(csv[places], other[places])
    assert csv.columns.names == ["scorer", "bodyparts", "coords"]


def test_likelihoods_are_what_is_left_of_the_uncertainty(frames, tmp_path):
    table = pandas.read_hdf(write(tmp_path / "walk.h5", frames, "deeplabcut"))
    for frame in frames:
        (animal,) = frame.animals
        for row, name in enumerate(NAMES):
            expected = 1 - float(animal.uncertainty[row]) if animal.state[row] == VISIBLE else 0.0
            if animal.state[row] != UNKNOWN:
                assert table.loc[frame.frame, ("geco", name, "likelihood")] == pytest.approx(expected, abs=1e-5)


def test_sleap_sees_predictions_of_one_video(frames, tmp_path):
    project = sleap_io.load_slp(str(write(tmp_path / "walk.slp", frames, "sleap")), open_videos=False)
    assert len(project.videos) == 1
    assert project.skeletons[0].node_names == list(NAMES)
    assert [frame.frame_idx for frame in project.labeled_frames] == list(range(10))
    for frame, written in zip(project.labeled_frames, frames, strict=True):
        (instance,) = frame.predicted_instances
        expected = written.animals[0].xy.numpy() - 0.5  # SLEAP counts from the centre of the first pixel
        np.testing.assert_allclose(instance.numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("name", FILES)
def test_a_run_that_stops_leaves_whole_files(frames, tmp_path, name):
    writer = TrackWriter(tmp_path / name, named(NAMES), format=FILES[name], chunk=CHUNK)
    for frame in frames[:9]:
        writer.add(frame)
    # Killed here: two chunks of four are on disk.
    video = frames[0].path
    images = video if FILES[name] == "deeplabcut" else video.parent
    assert len(read_annotations(tmp_path / name, images=images).images) == 8
    assert [file.name for file in tmp_path.iterdir()] == [name]
    (tmp_path / "stopped").mkdir()

    def stopped():
        with TrackWriter(tmp_path / "stopped" / name, named(NAMES), format=FILES[name], chunk=CHUNK) as writer:
            for frame in frames[:9]:
                writer.add(frame)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert len(read_annotations(tmp_path / "stopped" / name, images=images).images) == 9


def test_an_old_file_stays_until_there_is_something_new(frames, tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("old")
    writer = TrackWriter(path, named(NAMES), format="csv", chunk=CHUNK)
    writer.add(frames[0])
    assert path.read_text() == "old"
    writer.close()
    assert path.read_text().startswith("image,frame,animal,name,x,y,visible,score,uncertainty\n")


def test_what_cannot_be_written_is_said(frames, tmp_path):
    with pytest.raises(InputError, match=r"tracks in the format sleap end in .slp, got"):
        TrackWriter(tmp_path / "walk.csv", named(NAMES), format="sleap")
    with pytest.raises(InputError, match="the format of tracks must be csv, deeplabcut or sleap, got 'coco'"):
        TrackWriter(tmp_path / "walk.json", named(NAMES), format="coco")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        TrackWriter(tmp_path / "folder.csv", named(NAMES), format="csv")
    with pytest.raises(InputError, match="frames with one animal, got 2"):
        TrackWriter(tmp_path / "a.csv", named(NAMES), format="csv").add(
            replace(frames[0], animals=frames[0].animals * 2)
        )
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileError, match="cannot be written"),
        TrackWriter(tmp_path / "file" / "a.csv", named(NAMES), format="csv") as writer,
    ):
        writer.add(frames[0])


def test_formats_that_hold_images_only_become_our_table():
    assert [track_format(name) for name in ("dlc", "slp", "coco", "cvat")] == ["deeplabcut", "sleap", "csv", "csv"]
    with pytest.raises(InputError, match="the format of tracks must be"):
        track_format("xls")
