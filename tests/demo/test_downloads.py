"""Downloads: what is written can be read by the readers of labels, and the picture shows every target."""

import io

import pytest
from PIL import Image

from geco.errors import InputError
from geco.propagation import HIDDEN, VISIBLE, read_annotations


@pytest.fixture
def key(studio, uploaded):
    """Three images, two of one name; the second point is not visible in the first target."""
    key = studio.open()["key"]
    for slot, name in enumerate(("../../a.png", "b.png", "b.png")):
        studio.upload(key, uploaded(slot), name, slot)
    studio.act(key, {"do": "add", "x": 30, "y": 40})
    studio.act(key, {"do": "rename", "number": 1, "name": "left eye, $x$"})
    studio.act(key, {"do": "add", "x": 70.5, "y": 20.25})
    scores = [point["answers"][0]["score"] for point in studio.act(key, {"do": "state"})["points"]]
    studio.threshold = sum(scores) / 2
    studio.sessions.find(key).answers.clear()
    return key


@pytest.mark.parametrize(("kind", "name"), [("csv", "points.csv"), ("coco", "points.json")])
def test_points_can_be_read_again(studio, key, uploaded, tmp_path, kind, name):
    for seed, file in enumerate(("a.png", "b.png", "3 b.png")):
        (tmp_path / file).write_bytes(uploaded(seed))
    (tmp_path / name).write_bytes(studio.download(key, kind))
    labels = read_annotations(tmp_path / name)
    assert labels.skeleton.names == ("left eye, $x$", "point 2")
    assert [image.path.name for image in labels.images] == ["a.png", "b.png", "3 b.png"]
    state = studio.act(key, {"do": "state"})
    source, target = labels.images[0].animals[0], labels.images[1].animals[0]
    assert source.xy.tolist() == [[30, 40], [70.5, 20.25]]
    for row, point in enumerate(state["points"]):
        answer = point["answers"][0]
        assert target.state[row] == (VISIBLE if answer["visible"] else HIDDEN)
        assert target.score[row] == pytest.approx(answer["score"], abs=1e-5)
        if answer["visible"]:
            assert target.xy[row].tolist() == pytest.approx([answer["x"], answer["y"]], abs=1e-3)
    assert {int(state) for state in target.state} == {VISIBLE, HIDDEN}


def test_no_name_leads_out_of_the_table(studio, key):
    for kind in ("csv", "coco"):
        text = studio.download(key, kind).decode()
        assert ".." not in text
        assert "tmp" not in text


def test_the_picture_has_a_row_for_each_target(studio, key):
    heights = []
    for _ in range(2):
        with Image.open(io.BytesIO(studio.download(key, "png"))) as picture:
            assert picture.width == 1500
            assert len(picture.getcolors(1 << 24)) > 1000
            heights.append(picture.height)
        studio.act(key, {"do": "place", "slot": 2, "image": ""})
    assert heights[0] > 1.8 * heights[1]


def test_nothing_to_download_is_said(studio, uploaded):
    key = studio.open()["key"]
    with pytest.raises(InputError, match="nothing to download yet"):
        studio.download(key, "csv")
    studio.upload(key, uploaded(), "a.png")
    with pytest.raises(InputError, match="no point yet"):
        studio.download(key, "coco")
    with pytest.raises(InputError, match="no image on the right yet"):
        studio.download(key, "png")
    with pytest.raises(InputError, match="the kind of a download must be csv, coco, png, labels-csv or labels-coco"):
        studio.download(key, "exe")
