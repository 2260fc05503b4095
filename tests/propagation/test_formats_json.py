"""Labels in JSON: COCO keypoints and Label Studio's tasks, against sleap-io, our dataset reader and their documents."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from annotated import NAMES, check_same, label_set, write_images

from geco.datasets import coco as dataset
from geco.errors import InputError
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, read_annotations, write_annotations

POINTS = np.array([[10.0, 20.0], [33.25, 12.5], [np.nan, np.nan], [60.5, 40.0]])
OTHERS = np.array([[70.0, 20.0], [np.nan, np.nan], [50.75, 50.0], [80.5, 41.0]])


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / "shots")


def sleap_labels(folder):
    sleap = pytest.importorskip("sleap_io", reason="sleap-io is not installed")
    kind = sleap.Skeleton(list(NAMES), edges=[("snout", "left ear")], name="mouse")
    video = sleap.Video.from_filename([str(folder / "a.png"), str(folder / "c.png")])
    instances = [sleap.Instance.from_numpy(points, skeleton=kind) for points in (POINTS, OTHERS)]
    return sleap, sleap.Labels([sleap.LabeledFrame(video=video, frame_idx=1, instances=instances)])


def check_sleaps(labels, folder):
    (image,) = (image for image in labels.images if image.animals)
    assert image.path == folder / "c.png"
    rows = [labels.skeleton.names.index(name) for name in NAMES]
    for animal, points in zip(image.animals, (POINTS, OTHERS), strict=True):
        assert np.allclose(animal.xy[rows].numpy(), points + 0.5, atol=0.01, equal_nan=True)
        assert (animal.state[rows] == UNKNOWN).tolist() == np.isnan(points[:, 0]).tolist()


def edited(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


# --- COCO -------------------------------------------------------------------------------------------------------------


def test_coco_of_sleap_io(folder):
    sleap, labels = sleap_labels(folder)
    path = folder / "l.json"
    sleap.save_coco(labels, str(path), image_filenames=[str(folder / "c.png")])
    read = read_annotations(path)
    check_sleaps(read, folder)
    assert (read.edges, read.category) == (((0, 1),), "mouse")


def test_sleap_io_reads_coco_of_ours(folder):
    sleap = pytest.importorskip("sleap_io", reason="sleap-io is not installed")
    ours = label_set(folder, boxes=True, tracks=True, scores=True, edges=((0, 1),))
    labels = sleap.load_coco(str(write_annotations(ours, folder / "l.json")))
    frames = {str(frame.video.filename[frame.frame_idx]): frame for frame in labels.labeled_frames}
    for image in ours.images:
        instances = frames[str(image.path)].instances
        for instance, animal in zip(instances, image.animals, strict=True):
            seen = (animal.state == VISIBLE).numpy()
            assert np.allclose(instance.points["xy"][seen], animal.xy.numpy()[seen] - 0.5, atol=0.01)
    assert labels.skeletons[0].node_names == list(NAMES)


def test_our_dataset_of_coco_reads_coco_of_ours(folder):
    """The other reader of COCO in this package finds the same points and boxes."""
    ours = label_set(folder, boxes=True)
    write_annotations(ours, folder / "annotations.json")
    views = dataset.load(folder, "all", min_keypoints=1, min_shared=1).views
    animals = [animal for image in ours.images for animal in image.animals]
    assert len(views) == len(animals)
    for view, animal in zip(views, animals, strict=True):
        seen = animal.state == VISIBLE
        assert view.points.visible.tolist() == seen.tolist()
        assert torch.allclose(view.points.xy[seen], animal.xy[seen], atol=0.01)
        assert view.box.tolist() == pytest.approx(animal.box, abs=0.01)


def test_what_coco_of_ours_says_of_each_keypoint(folder):
    document = json.loads(write_annotations(label_set(folder, scores=True), folder / "l.json").read_text())
    first, second, _ = document["annotations"]
    assert first["keypoints"] == [9.75, 20.25, 2, 33.0, 11.625, 2, 0, 0, 0, 59.5, 39.5, 1]
    assert first["visible"] == [True, True, None, False]
    assert first["score"] == [0.9, 0.5, 0.25, 0.125]
    assert first["uncertainty"] == [0.01, 0.2, 0.5, 0.75]
    assert first["num_keypoints"] == 3
    assert first["bbox"] == [10.25, 12.125, 49.75, 27.875]
    assert second["keypoints"][-3:] == [0, 0, 1], "hidden, at an unknown place"
    assert document["images"][0] == {"id": 1, "file_name": "a.png", "height": 90, "width": 120}
    assert document["info"]["keypoint_origin"] == "index"


def foreign(flag=2, **annotation):
    """A file as COCO describes it."""
    return {
        "images": [{"id": 7, "file_name": "a.png", "width": 120, "height": 90}],
        "categories": [{"id": 3, "name": "gecko", "keypoints": ["nose", "left_eye"], "skeleton": [[1, 2]]}],
        "annotations": [
            {
                "id": 1,
                "image_id": 7,
                "category_id": 3,
                "keypoints": [4, 5, flag, 6, 7, 1],
                "bbox": [1, 2, 3, 4],
                **annotation,
            }
        ],
    }


def read_coco(folder, document):
    (folder / "l.json").write_text(json.dumps(document))
    return read_annotations(folder / "l.json")


def test_flags_of_coco(folder):
    assert read_coco(folder, foreign()).images[0].animals[0].state.tolist() == [VISIBLE, HIDDEN]
    assert read_coco(folder, foreign(flag=0)).images[0].animals[0].state.tolist() == [UNKNOWN, VISIBLE]
    assert read_coco(folder, foreign(flag=1)).images[0].animals[0].state.tolist() == [VISIBLE, VISIBLE]
    ours = foreign(flag=1, visible=[False, False])
    assert read_coco(folder, ours).images[0].animals[0].state.tolist() == [HIDDEN, HIDDEN]
    nan = foreign(keypoints=[math.nan, math.nan, 0, 6, 7, 2])
    assert read_coco(folder, nan).images[0].animals[0].state.tolist() == [UNKNOWN, VISIBLE]


def test_places_boxes_tracks_and_origin_of_coco(folder):
    (image,) = read_coco(folder, foreign(attributes={"object_id": 12})).images
    assert image.animals[0].xy.tolist() == [[4.5, 5.5], [6.5, 7.5]]
    assert (image.animals[0].box, image.animals[0].track, image.size) == ((1, 2, 4, 6), "12", (90, 120))
    corner = read_coco(folder, {**foreign(), "info": {"keypoint_origin": "corner"}})
    assert corner.images[0].animals[0].xy.tolist() == [[4, 5], [6, 7]]
    assert read_coco(folder, foreign(bbox=[0, 0, 0, 0])).images[0].animals[0].box is None
    assert read_coco(folder, foreign(score=0.7)).images[0].animals[0].score is None, "of the object, not of points"


def test_categories_of_coco(folder):
    document = foreign()
    document["categories"].append({"id": 4, "name": "newt", "keypoints": ["nose", "left_eye"]})
    document["categories"].append({"id": 5, "name": "fly", "keypoints": ["head"]})
    document["annotations"].append({"id": 2, "image_id": 7, "category_id": 4, "keypoints": [1, 1, 2, 2, 2, 2]})
    labels = read_coco(folder, document)
    assert (labels.category, len(labels.images[0].animals)) == ("animal", 2)
    document["annotations"].append({"id": 3, "image_id": 7, "category_id": 5, "keypoints": [1, 1, 2]})
    with pytest.raises(
        InputError, match=r"mixes skeletons: .*\(gecko: 2, newt: 2, fly: 1\); choose one with category="
    ):
        read_coco(folder, document)
    labels = read_annotations(folder / "l.json", category="fly")
    assert (labels.skeleton.names, labels.category, len(labels.images[0].animals)) == (("head",), "fly", 1)
    with pytest.raises(InputError, match="has no category 'cat'"):
        read_annotations(folder / "l.json", category="cat")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(images=[]), "holds no images"),
        (lambda d: d["images"].append(d["images"][0]), r"images\[1\]: the id 7 stands there twice"),
        (lambda d: d["images"][0].update(width="wide"), r"images\[0\]: height and width should be numbers of pixels"),
        (
            lambda d: d["annotations"][0].update(image_id=8),
            r"annotations\[0\]: image_id 8 is not among the file's images",
        ),
        (
            lambda d: d["annotations"][0].update(keypoints=[1, 2, 2]),
            r"annotations\[0\]: keypoints: expected 2 × \(x, y, v\)",
        ),
        (
            lambda d: d["annotations"][0].update(keypoints=[1, 2, 2, 1, 2, 3]),
            "the v of 'left_eye' should be 0, 1 or 2, got 3",
        ),
        (lambda d: d["annotations"][0].update(keypoints=[1e12, 2, 2, 1, 2, 2]), "expected 2 ×"),
        (lambda d: d["annotations"][0].update(keypoints=[math.nan, 2, 2, 1, 2, 2]), "expected 2 ×"),
        (lambda d: d["annotations"][0].update(score=[1]), "score: expected 2 numbers"),
        (lambda d: d["categories"][0].update(keypoints=[]), "no category has keypoints"),
        (lambda d: d["categories"][0].update(skeleton=[[0, 5]]), "skeleton joins"),
        (
            lambda d: d.update(info={"keypoint_origin": "centre"}),
            "keypoint_origin should be index or corner, got 'centre'",
        ),
    ],
)
def test_coco_that_is_wrong(folder, change, message):
    document = foreign()
    change(document)
    with pytest.raises(InputError, match=message):
        read_coco(folder, document)


def test_frames_of_videos_in_coco_and_csv(folder):
    (folder / "film.mp4").write_bytes(b"any")
    ours = label_set(folder)
    images = [replace(image, path=folder / "film.mp4", frame=4 * i) for i, image in enumerate(ours.images)]
    for name in ("l.json", "l.csv"):
        read = read_annotations(write_annotations(replace(ours, images=images), folder / name))
        check_same(replace(ours, images=images), read)


# --- Label Studio -----------------------------------------------------------------------------------------------------


def region(key, name, x, y, **about):
    """A keypoint as Label Studio's documentation shows it, on an image of 120 × 90."""
    value = {"x": x, "y": y, "width": 2, "keypointlabels": [name]}
    size = {"original_width": 120, "original_height": 90, "image_rotation": 0}
    return {**size, "id": key, "type": "keypointlabels", "from_name": "kp", "to_name": "image", "value": value, **about}


def rectangle(key, x, y, width, height):
    value = {"x": x, "y": y, "width": width, "height": height, "rotation": 0, "rectanglelabels": ["gecko"]}
    return {**region(key, "", 0, 0), "type": "rectanglelabels", "value": value}


def task(*results, image="/data/upload/1/0123abcd-a.png", **about):
    return {"id": 1, "data": {"image": image}, "annotations": [{"result": list(results), **about}]}


def read_tasks(folder, *tasks):
    (folder / "l.json").write_text(json.dumps(tasks))
    return read_annotations(folder / "l.json")


def test_label_studio_counts_in_per_cent_from_the_corner(folder):
    hidden = {"id": "q", "type": "choices", "value": {"choices": ["Occluded"]}, "from_name": "seen", "to_name": "image"}
    labels = read_tasks(folder, task(region("p", "nose", 50, 50), region("q", "tail", 12.5, 10, score=0.25), hidden))
    (image,) = labels.images
    assert (image.path, image.size, labels.format) == (folder / "a.png", (90, 120), "labelstudio")
    assert image.animals[0].xy.tolist() == [[60, 45], [15, 9]]
    assert image.animals[0].state.tolist() == [VISIBLE, HIDDEN]
    assert image.animals[0].score[1] == 0.25


@pytest.mark.parametrize(
    "address",
    [
        "a.png",
        "/data/local-files/?d=shots/a.png",
        "/data/local-files/?d=shots%2Fa.png",
        "https://example.com/some/where/a.png?token=1",
        "s3://bucket/prefix/a.png",
        "/data/upload/12/9f0e1d2c-a.png",
    ],
)
def test_addresses_of_label_studio(folder, address):
    assert read_tasks(folder, task(region("p", "nose", 1, 1), image=address)).images[0].path == folder / "a.png"


def test_animals_of_label_studio(folder):
    boxes = [rectangle("A", 0, 0, 50, 50), rectangle("B", 40, 40, 60, 60)]
    points = [region("1", "nose", 10, 10), region("2", "nose", 90, 90), region("3", "tail", 45, 45)]
    links = [{"type": "relation", "from_id": "3", "to_id": "B", "direction": "right"}]
    labels = read_tasks(folder, task(*boxes, *points, *links))
    first, second = labels.images[0].animals
    assert (first.state.tolist(), second.state.tolist()) == ([VISIBLE, UNKNOWN], [VISIBLE, VISIBLE])
    assert (first.box, second.box) == ((0, 0, 60, 45), (48, 36, 120, 90))
    assert labels.category == "gecko"
    parents = [{**points[0], "parentID": "B"}, {**points[1], "parentID": "A"}]
    first, second = read_tasks(folder, task(*boxes, *parents)).images[0].animals
    assert (first.xy[0, 0], second.xy[0, 0]) == (pytest.approx(108), pytest.approx(12))
    with pytest.raises(InputError, match="has 'nose' twice; connect each with its animal's rectangle by a relation"):
        read_tasks(folder, task(*points))


def test_which_annotation_of_label_studio_counts(folder):
    one, other = region("p", "nose", 10, 10), region("p", "nose", 20, 20)
    answers = [{"result": [one], "was_cancelled": True}, {"result": [other]}, {"result": [one]}]
    entry = {**task(one), "annotations": answers, "predictions": [{"result": [one]}]}
    assert read_tasks(folder, entry).images[0].animals[0].xy[0, 0] == pytest.approx(24)
    answers[2]["ground_truth"] = True
    assert read_tasks(folder, entry).images[0].animals[0].xy[0, 0] == pytest.approx(12)
    entry["annotations"] = []
    assert read_tasks(folder, entry).images[0].animals[0].xy[0, 0] == pytest.approx(12)
    empty = {**task(image="b.png"), "annotations": []}
    assert [len(image.animals) for image in read_tasks(folder, task(one), empty).images] == [1, 0]


def test_label_studio_of_sleap_io(folder):
    sleap, labels = sleap_labels(folder)
    sleap.save_labelstudio(labels, str(folder / "l.json"))
    check_sleaps(read_annotations(folder / "l.json"), folder)


def test_sleap_io_reads_label_studio_of_ours(folder):
    """It takes the corner for its own origin, so its numbers are ours; and it wants to know of a video."""
    sleap = pytest.importorskip("sleap_io", reason="sleap-io is not installed")
    ours = label_set(folder, tracks=True)
    path = write_annotations(ours, folder / "l.json", format="labelstudio")

    def name_videos(tasks):
        for number, entry in enumerate(tasks):
            entry["meta"] = {"video": {"filename": "film.mp4", "frame_idx": number, "shape": [3, 90, 120, 3]}}

    labels = sleap.load_labelstudio(str(edited(path, name_videos)), skeleton=list(NAMES))
    for frame, image in zip(labels.labeled_frames, ours.images, strict=True):
        for instance, animal in zip(frame.instances, image.animals, strict=True):
            placed = torch.isfinite(animal.xy[:, 0]).numpy()
            assert np.allclose(instance.numpy()[placed], animal.xy.numpy()[placed], atol=0.01)


def test_predictions_of_ours_are_predictions_in_label_studio(folder):
    tasks = json.loads(
        write_annotations(label_set(folder, scores=True), folder / "l.json", format="labelstudio").read_text()
    )
    assert tasks[0]["annotations"] == []
    regions = tasks[0]["predictions"][0]["result"]
    assert {region["type"] for region in regions} == {"rectanglelabels", "keypointlabels", "relation", "choices"}
    nose = next(region for region in regions if region.get("value", {}).get("keypointlabels") == ["snout"])
    assert nose["value"]["x"] == pytest.approx(100 * 10.25 / 120, abs=1e-5)
    assert nose["score"] == 0.9


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (task(), "holds no keypoints"),
        ({**task(), "data": {}}, "task 1 names no image"),
        ({"id": 1, "data": {"image": "a.png"}, "predictions": 3}, "holds no keypoints"),
        (task("x"), "a region should be an object, got 'x'"),
        (task(region("p", "nose", 1, 1, original_width=None)), "original_width: height and width should be numbers"),
        (task(region("p", "nose", 1, 1, image_rotation=90)), "was rotated in Label Studio"),
        (task(region("p", "nose", "1", 1)), "expected x and y in per cent"),
        (task(region("p", "nose", 1e300, 1)), "expected x and y in per cent"),
        (task({**region("p", "nose", 1, 1), "value": {"x": 1, "y": 1}}), "key 'keypointlabels' is missing"),
        (
            task({**region("p", "", 1, 1), "value": {"x": 1, "y": 1, "keypointlabels": []}}),
            "should have one label, got",
        ),
        (task(region("p", "nose", 1, 1), region("q", "tail", 1, 1, original_width=7)), "images of different sizes"),
    ],
)
def test_label_studio_that_is_wrong(folder, entry, message):
    with pytest.raises(InputError, match=message):
        read_tasks(folder, entry)
