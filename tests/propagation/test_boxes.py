"""Boxes of images from the files that people have."""

import json
from pathlib import Path

import pytest

from geco.errors import InputError
from geco.propagation import read_boxes

SIZE = (100, 200)


def written(tmp_path, content):
    path = tmp_path / "boxes"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def coco(**changes):
    annotation = {"id": 1, "image_id": 7, "category_id": 1, "bbox": [10, 20, 30, 40], **changes}
    return {"images": [{"id": 7, "file_name": "day/a.jpg"}], "annotations": [annotation], "categories": []}


def detector(*detections):
    return {"detection_categories": {"1": "animal"}, "images": [{"file": "a.jpg", "detections": list(detections)}]}


def test_a_table(tmp_path):
    boxes = read_boxes(written(tmp_path, "x0,image,y0,x1,y1\n1,a.jpg,2,3,4\n5,a.jpg,6,7,8.5\n"))
    assert boxes.of(Path("photos/a.jpg"), SIZE) == ((1, 2, 3, 4), (5, 6, 7, 8.5))
    assert boxes.of(Path("b.jpg"), SIZE) == ()


def test_coco(tmp_path):
    boxes = read_boxes(written(tmp_path, coco()))
    assert boxes.of(Path("photos/day/a.jpg"), SIZE) == ((10, 20, 40, 60),)
    assert boxes.of(Path("photos/night/a.jpg"), SIZE) == ()


def test_megadetectors_boxes_are_shares_and_only_sure_animals_count(tmp_path):
    sure = {"category": "1", "conf": 0.9, "bbox": [0.1, 0.2, 0.5, 0.6]}
    person, unsure = {**sure, "category": "2"}, {**sure, "conf": 0.1}
    boxes = read_boxes(written(tmp_path, detector(sure, person, unsure)))
    assert boxes.of(Path("a.jpg"), SIZE) == (pytest.approx((20, 20, 120, 80)),)


def test_two_images_of_one_name_are_told_apart_by_their_folders_or_refused(tmp_path):
    boxes = read_boxes(written(tmp_path, "image,x0,y0,x1,y1\none/a.jpg,1,2,3,4\ntwo/a.jpg,5,6,7,8\n"))
    assert boxes.of(Path("x/two/a.jpg"), SIZE) == ((5, 6, 7, 8),)
    with pytest.raises(InputError, match="2 images that could be"):
        boxes.of(Path("a.jpg"), SIZE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("image,x,y\na.jpg,1,2\n", "is a table with"),
        ("image,x0,y0,x1,y1\na.jpg,1,2,3\n", "row 2 has 4 cells"),
        ("image,x0,y0,x1,y1\na.jpg,1,2,three,4\n", "x1"),
        ("image,x0,y0,x1,y1\na.jpg,5,2,3,4\n", "x0 < x1"),
        ("{", "not JSON"),
        ({"things": []}, "an object with things"),
        (coco(bbox=[1, 2, 3]), r"bbox to be \[x, y, width, height\]"),
        (coco(bbox=[1, 2, -3, 4]), "x0 < x1"),
        (coco(image_id=8), "image 8, which is not there"),
        (detector({"category": "1", "conf": "high", "bbox": [0, 0, 1, 1]}), "'conf' should be"),
        (detector("dog"), "conf"),
        ({"detection_categories": {}, "images": [{"file": "a", "detections": 3}]}, "detections should be a list"),
    ],
)
def test_nonsense_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_boxes(written(tmp_path, content))
