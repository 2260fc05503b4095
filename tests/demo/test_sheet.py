"""The sheet of labels: what clicks, names and corrections do, and the order in which images are reviewed."""

import pytest

from geco.demo.sheet import Place, Sheet
from geco.errors import InputError

SIZE = (90, 120)


def clicked(sheet, identity, x, y):
    return sheet.clicked(identity, x, y, size=SIZE, most=3)


@pytest.fixture
def sheet():
    """Two keypoints, both set on image a and the first of them on b."""
    sheet = clicked(clicked(Sheet(), "a", 10, 20), "a", 30, 40)
    return clicked(sheet, "b", 50, 60)


def test_clicks_set_the_same_keypoints_on_every_image(sheet):
    assert [keypoint.name for keypoint in sheet.keypoints] == ["point 1", "point 2"]
    assert sheet.of("a").places == {1: Place(10, 20), 2: Place(30, 40)}
    assert sheet.of("b").places == {1: Place(50, 60)}
    assert sheet.of("a").is_label
    assert sheet.following("b") == 2, "the one that has no place there"
    assert sheet.following("a") == 0, "a new one"
    assert sheet.chosen(2).following("c") == 2, "the one that was asked for first"


def test_a_click_beyond_the_border_is_on_it(sheet):
    assert clicked(sheet, "b", 500, -3).of("b").places[2] == Place(120, 0)


def test_so_many_keypoints_and_no_more(sheet):
    full = sheet.extended(most=3)
    assert full.selected == 3
    with pytest.raises(InputError, match="3 keypoints already, which is the limit"):
        full.extended(most=3)


def test_points_of_one_name_are_the_same_keypoint(sheet):
    other = clicked(sheet.extended(most=3), "b", 70, 80)
    assert other.of("b").places == {1: Place(50, 60), 3: Place(70, 80)}
    merged = other.renamed(3, " point  2 ")
    assert merged.numbers == [1, 2]
    assert merged.of("b").places == {1: Place(50, 60), 2: Place(70, 80)}
    with pytest.raises(InputError, match="two points called"):
        other.renamed(1, "point 2")
    with pytest.raises(InputError, match="needs a name"):
        sheet.renamed(1, " \n ")


def test_a_keypoint_can_be_hidden_on_one_image(sheet):
    hidden = sheet.shown("b", 2, visible=False, size=SIZE)
    assert hidden.of("b").places[2] == Place(None, None, visible=False)
    assert hidden.of("a").places[2].visible
    assert hidden.shown("b", 2, visible=True, size=SIZE).of("b").places[2] == Place(60, 45)
    assert sheet.shown("a", 2, visible=False, size=SIZE).of("a").places[2] == Place(30, 40, visible=False)


def test_what_was_found_and_then_moved_is_corrected_and_sure(sheet):
    found = sheet.found("c", {1: Place(1, 2, score=0.5, uncertainty=0.4, side_unsure=True), 2: Place(3, 4)})
    assert (found.of("c").is_label, found.of("c").corrected) == (False, False)
    moved = found.moved("c", 1, 9, 9, size=SIZE)
    assert moved.of("c").places[1] == Place(9, 9)
    assert (moved.of("c").is_label, moved.of("c").corrected) == (False, True)
    assert moved.used("c", True).of("c").is_label


def test_an_image_without_visible_points_is_no_label(sheet):
    hidden = sheet.found("c", {1: Place(1, 2, visible=False)})
    for identity in ("c", "d"):
        with pytest.raises(InputError, match="without a visible point"):
            hidden.used(identity, True)
    assert sheet.used("d", False) == sheet


def test_deleted_and_cleared(sheet):
    assert sheet.deleted(1).of("b").places == {}
    assert "b" not in sheet.deleted(1).labels
    assert sheet.cleared("a", 1).of("a").places == {2: Place(30, 40)}
    assert "b" not in sheet.cleared("b", 1).labels
    with pytest.raises(InputError, match="no keypoint 7"):
        sheet.deleted(7)


def test_labels_come_first_then_the_most_uncertain(sheet):
    for identity, uncertainty in (("c", 0.1), ("d", 0.9), ("e", 0.5)):
        sheet = sheet.found(identity, {1: Place(1, 2, uncertainty=uncertainty), 2: Place(3, 4, uncertainty=0.05)})
    assert sheet.order(["new", "c", "d", "e", "b", "a"]) == ["b", "a", "d", "e", "c", "new"]
