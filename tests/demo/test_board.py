"""Points on the board: numbers, names, the border, and what swapping or removing images does to them."""

import pytest

from geco.demo.board import NAME_LENGTH, Board
from geco.errors import InputError

SIZE = (90, 120)  # (height, width)


def with_points(*places):
    board = Board(source="a")
    for x, y in places:
        board = board.added(x, y, size=SIZE, most=10)
    return board


def test_points_are_numbered_and_the_new_one_is_selected():
    board = with_points((1, 2), (3, 4), (5, 6))
    assert [(spot.number, spot.name, spot.x, spot.y) for spot in board.spots] == [
        (1, "point 1", 1, 2),
        (2, "point 2", 3, 4),
        (3, "point 3", 5, 6),
    ]
    assert board.selected == 3


def test_a_number_stays_with_its_point():
    board = with_points((1, 1), (2, 2), (3, 3)).deleted(2)
    assert [spot.number for spot in board.spots] == [1, 3]
    assert board.selected == 1
    assert [spot.number for spot in board.added(4, 4, size=SIZE, most=10).spots] == [1, 3, 4]


def test_deleting_the_first_and_the_last_selects_what_is_left():
    assert with_points((1, 1), (2, 2)).deleted(1).selected == 2
    assert with_points((1, 1)).deleted(1).selected == 0


@pytest.mark.parametrize(
    ("place", "stops"), [((-5, 10), (0, 10)), ((500, 10), (120, 10)), ((7, -1), (7, 0)), ((7, 1e9), (7, 90))]
)
def test_a_point_stops_at_the_border(place, stops):
    spot = with_points((50, 50)).moved(1, *place, size=SIZE).spots[0]
    assert (spot.x, spot.y) == stops


@pytest.mark.parametrize("x", [float("nan"), float("inf"), None, "5", True, [1]])
def test_a_place_that_is_no_number_is_refused(x):
    with pytest.raises(InputError, match="x must be a number"):
        with_points((x, 5))


def test_names_are_one_short_line_and_each_has_its_own():
    board = with_points((1, 1), (2, 2)).renamed(1, "  left\n eye\x00 ")
    assert board.spots[0].name == "left eye"
    with pytest.raises(InputError, match="'left eye' already; give each its own name"):
        board.renamed(2, "left eye")
    assert board.renamed(1, "left eye") == board
    assert len(board.renamed(1, "x" * 5000).spots[0].name) == NAME_LENGTH
    for name in ("", "  \t", None, 7):
        with pytest.raises(InputError, match="the name of a point is text"):
            board.renamed(1, name)


def test_a_new_point_is_not_called_like_another():
    board = with_points((1, 1)).renamed(1, "point 2").added(2, 2, size=SIZE, most=10)
    assert [spot.name for spot in board.spots] == ["point 2", "point 2 2"]


def test_too_many_points_and_no_image_are_refused():
    with pytest.raises(InputError, match="2 points already, which is the limit"):
        with_points((1, 1), (2, 2)).added(3, 3, size=SIZE, most=2)
    with pytest.raises(InputError, match="no source image yet"):
        Board().added(1, 1, size=SIZE, most=2)
    for number in (9, None, "1", True):
        with pytest.raises(InputError, match="there is no point"):
            with_points((1, 1)).moved(number, 2, 2, size=SIZE)


def test_points_belong_to_their_source():
    board = with_points((1, 1)).placed(1, "b")
    assert board.placed(0, "a").spots == board.spots
    assert board.placed(0, "c").spots == ()
    assert board.without("b").targets == ("", "")
    assert board.without("b").spots == board.spots
    assert board.without("a") == Board(targets=("b", ""))
    with pytest.raises(InputError, match="the place of an image must be a whole number"):
        board.placed(3, "b")
