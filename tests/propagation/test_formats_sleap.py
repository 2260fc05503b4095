"""SLEAP's labels: written by sleap-io and read by us, and the other way round."""

from dataclasses import replace

import annotated
import h5py
import numpy as np
import pytest
import torch
from annotated import NAMES, check_same, label_set, write_images

from geco.errors import InputError, MissingPackageError
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, read_annotations, write_annotations

sleap = pytest.importorskip("sleap_io", reason="sleap-io is not installed")

POINTS = np.array([[10.0, 20.0], [33.25, 12.5], [np.nan, np.nan], [60.5, 40.0]])


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / "shots")


def skeleton(names=NAMES, name="mouse"):
    pairs = [("left ear", "right ear")] if "left ear" in names else []
    return sleap.Skeleton(list(names), edges=[(names[0], names[1])], symmetries=pairs, name=name)


def project(video, kind, *, number=0, skeletons=None, instances=None):
    instances = instances or [sleap.Instance.from_numpy(POINTS, skeleton=kind, track=sleap.Track("A"))]
    frame = sleap.LabeledFrame(video=video, frame_idx=number, instances=instances)
    return sleap.Labels([frame], skeletons=skeletons or [kind])


def saved(labels, path, **options):
    sleap.save_slp(labels, str(path), verbose=False, **options)
    return path


def of_images(folder):
    return sleap.Video.from_filename([str(folder / name) for name in ("a.png", "c.png")])


def test_points_of_sleap_are_moved_by_half_a_pixel(folder):
    labels = project(of_images(folder), skeleton(), number=1)
    labels[0].instances[0].points["visible"][3] = False
    read = read_annotations(saved(labels, folder / "l.slp"))
    assert [(image.path, image.frame, image.size) for image in read.images] == [(folder / "c.png", None, (90, 120))]
    (animal,) = read.images[0].animals
    assert torch.allclose(animal.xy[[0, 1, 3]].double(), torch.tensor(POINTS)[[0, 1, 3]] + 0.5)
    assert animal.state.tolist() == [VISIBLE, VISIBLE, UNKNOWN, HIDDEN]
    assert (animal.track, animal.score, read.category, read.edges) == ("A", None, "mouse", ((0, 1),))
    assert read.skeleton.mirror == (0, 2, 1, 3)


def test_symmetries_of_the_file_come_before_those_that_names_suggest(folder):
    kind = sleap.Skeleton(list(NAMES), symmetries=[("snout", "tail base")])
    read = read_annotations(saved(project(of_images(folder), kind), folder / "l.slp"))
    assert read.skeleton.twin == read.skeleton.mirror == (3, 1, 2, 0)


def test_files_before_format_1_1_counted_from_the_corner(folder):
    path = saved(project(of_images(folder), skeleton()), folder / "l.slp")
    with h5py.File(path, "r+") as file:
        file["metadata"].attrs["format_id"] = 1.0
        rows = file["instances"][:]
        del file["instances"]
        file["instances"] = rows[[name for name in rows.dtype.names if name != "tracking_score"]].copy()
    (image,) = read_annotations(path).images
    assert image.animals[0].xy[0].tolist() == [10.0, 20.0]


def test_frames_of_videos_wherever_they_are_now(folder, tmp_path):
    video = sleap.Video(filename="C:\\data\\film.mp4", open_backend=False)
    path = saved(project(video, skeleton(), number=41), folder / "l.slp")
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "film.mp4").write_bytes(b"any")
    (image,) = read_annotations(path, images=tmp_path / "films").images
    assert (image.path, image.frame) == (tmp_path / "films" / "film.mp4", 41)


def test_packages_lead_to_the_images_they_were_made_of(folder):
    path = saved(project(of_images(folder), skeleton()), folder / "l.pkg.slp", embed=True)
    (image,) = read_annotations(path).images
    assert (image.path, image.animals[0].track) == (folder / "a.png", "A")


def test_labels_of_a_cropped_video_are_those_of_the_whole_image(folder):
    video = of_images(folder).crop((7, 5, 67, 65))
    (image,) = read_annotations(saved(project(video, skeleton()), folder / "l.slp")).images
    assert image.animals[0].xy[0].tolist() == [17.5, 25.5]
    assert image.size is None


def test_what_people_marked_comes_before_predictions(folder):
    kind = skeleton()
    guess = sleap.PredictedInstance.from_numpy(
        POINTS, skeleton=kind, point_scores=np.array([0.1, 0.2, 0.3, 0.4]), score=0.5
    )
    user = sleap.Instance.from_numpy(POINTS + 1, skeleton=kind)
    both = project(of_images(folder), kind, instances=[guess, user])
    (image,) = read_annotations(saved(both, folder / "both.slp")).images
    assert [animal.score for animal in image.animals] == [None]
    (image,) = read_annotations(saved(project(of_images(folder), kind, instances=[guess]), folder / "g.slp")).images
    assert image.animals[0].score.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_several_skeletons(folder):
    mouse, fly = skeleton(), skeleton(("head", "wing"), "fly")
    instances = [
        sleap.Instance.from_numpy(POINTS, skeleton=mouse),
        sleap.Instance.from_numpy(POINTS[:2], skeleton=fly),
    ]
    path = saved(project(of_images(folder), mouse, skeletons=[mouse, fly], instances=instances), folder / "l.slp")
    with pytest.raises(
        InputError, match=r"mixes skeletons \(mouse: 4, fly: 2\); choose one by its name with category="
    ):
        read_annotations(path)
    labels = read_annotations(path, category="fly")
    assert (labels.skeleton.names, len(labels.images[0].animals)) == (("head", "wing"), 1)
    with pytest.raises(InputError, match="has no skeleton named 'cat'"):
        read_annotations(path, category="cat")


def test_sleap_reads_ours(folder):
    ours = label_set(folder, tracks=True, edges=((0, 1), (1, 3)))
    labels = sleap.load_slp(str(write_annotations(ours, folder / "l.slp")), open_videos=False)
    assert labels.skeleton.node_names == list(NAMES)
    assert labels.skeleton.edge_inds == [(0, 1), (1, 3)]
    assert labels.skeleton.symmetry_inds == [(1, 2)]
    frames = {str(frame.video.filename[frame.frame_idx]): frame for frame in labels.labeled_frames}
    assert sorted(frames) == [str(folder / name) for name in ("a.png", "b.png", "c.png")]
    instances = frames[str(folder / "a.png")].instances
    assert [instance.track.name for instance in instances] == ["mouse 0", "mouse 1"]
    for instance, animal in zip(instances, ours.images[0].animals, strict=True):
        seen = animal.state == VISIBLE
        assert np.allclose(instance.points["xy"][seen.numpy()], animal.xy[seen].numpy() - 0.5, atol=0.001)
        assert instance.points["visible"].tolist() == seen.tolist()
    assert np.allclose(instances[0].points["xy"][3], [59.5, 39.5]), "hidden, with a place"


def test_sleap_reads_predictions_of_ours_as_predictions(folder):
    ours = label_set(folder, scores=True)
    labels = sleap.load_slp(str(write_annotations(ours, folder / "l.slp")), open_videos=False)
    (first, _) = labels[0].instances
    assert isinstance(first, sleap.PredictedInstance)
    assert first.points["score"].tolist() == pytest.approx([0.9, 0.5, 0.25, 0.125])


def film(folder):
    (folder / "film.mp4").write_bytes(b"any")
    ours = label_set(folder, tracks=True, scores=True)
    images = [
        replace(image, path=folder / "film.mp4", frame=3 * i, size=(90, 120)) for i, image in enumerate(ours.images)
    ]
    return replace(ours, images=images)


def test_frames_of_a_video_come_back(folder):
    ours = film(folder)
    check_same(ours, read_annotations(write_annotations(ours, folder / "l.slp")))


def test_tracks_of_a_video_as_sleaps_analysis(folder):
    ours = film(folder)
    for ending in (".h5", ".csv"):
        path = write_annotations(ours, folder / f"tracks{ending}", format="sleap")
        load = sleap.load_analysis_h5 if ending == ".h5" else sleap.load_csv
        labels = load(str(path), video=str(folder / "film.mp4"))
        frames = {frame.frame_idx: frame for frame in labels.labeled_frames if frame.instances}
        assert sorted(frames) == [0, 3]
        found = {instance.track.name: instance for instance in frames[0].instances}
        places = [found["mouse 0"][name]["xy"] for name in NAMES[:2]]  # sleap-io sorts the names in its CSV
        assert np.allclose(places, annotated.FIRST.xy[:2].numpy() - 0.5, atol=0.001), ending
        with pytest.raises(InputError, match=r"table of tracks that SLEAP exported|is a table with"):
            read_annotations(path)
        with pytest.raises(InputError, match="hold tracks of one video, got 3 files"):
            write_annotations(label_set(folder), folder / f"x{ending}", format="sleap")


def test_newer_formats_and_damaged_files_are_one_line(folder):
    path = saved(project(of_images(folder), skeleton()), folder / "l.slp")
    with h5py.File(path, "r+") as file:
        file["metadata"].attrs["format_id"] = 9.0
    with pytest.raises(InputError, match=r"l\.slp is damaged, or not labels of SLEAP.*newer than this"):
        read_annotations(path)
    with h5py.File(path, "r+") as file:
        file["metadata"].attrs["format_id"] = 1.3
        points = file["points"][:]
        points["x"] = 1e30
        file["points"][:] = points
    with pytest.raises(InputError, match=r"'snout' lies at \(1e\+30, 20"):
        read_annotations(path)


def test_without_sleap_io_it_is_said_what_to_install(folder, monkeypatch):
    path = saved(project(of_images(folder), skeleton()), folder / "l.slp")
    monkeypatch.setitem(__import__("sys").modules, "sleap_io", None)
    with pytest.raises(MissingPackageError, match=r"needs sleap-io; install it with: pip install '.*\[labels\]'"):
        read_annotations(path)
