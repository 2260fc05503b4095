"""Skeletons: published tables, guessed counterparts, and what is left of them when keypoints are left out."""

import pytest

from geco.data import guess_twins, involution, named, published_skeletons, rows_named, subset, unnamed
from geco.types import Skeleton

FACE = Skeleton(("nose", "left eye", "right eye", "chin"), twin=(0, 2, 1, 3), mirror=(0, 2, 1, 3))


@pytest.mark.parametrize(
    ("dataset", "categories", "keypoints"),
    [("spair", 18, None), ("cub", 1, 15), ("ap10k", 1, 17), ("animalpose", 1, 20)],
)
def test_published_tables(dataset, categories, keypoints):
    tables = published_skeletons(dataset)
    assert len(tables) == categories
    assert keypoints is None or [len(table) for table in tables.values()] == [keypoints]


@pytest.mark.parametrize(
    ("labels", "pairs"),
    [
        (["left_eye", "nose", "right_eye"], [(0, 2)]),
        (["LeftEye", "RightEye"], [(0, 1)]),
        (["eye-left", "eye-right", "Ear L", "Ear R"], [(0, 1), (2, 3)]),
        (["L_F_Paw", "R_F_Paw", "L_B_Paw"], [(0, 1)]),
        (["snout", "leftear", "rightear", "tailbase"], [(1, 2)]),
        (["earright2", "earleft2", "upright"], [(0, 1)]),
        (["leg", "arm", "tail"], []),
        (["left_eye", "right_ear"], []),
    ],
)
def test_counterparts_are_guessed_from_names(labels, pairs):
    assert guess_twins(labels) == pairs


def test_an_involution_exchanges_pairs_and_leaves_the_others():
    assert involution(5, [(0, 3), (4, 1)]) == (3, 4, 2, 0, 1)


def test_points_without_names_have_no_counterpart_and_are_not_flipped():
    assert unnamed(2) == Skeleton(("point 1", "point 2"), (0, 1), None)


def test_a_skeleton_of_names_has_a_mirror_if_there_are_sides():
    assert named(["nose", "leftear", "rightear"]) == Skeleton(("nose", "leftear", "rightear"), (0, 2, 1), (0, 2, 1))
    assert named(("nose", "tail")) == Skeleton(("nose", "tail"), (0, 1), None)


def test_rows_by_name():
    assert rows_named(FACE) == [0, 1, 2, 3]
    assert rows_named(FACE, only="chin, nose") == [0, 3]
    assert rows_named(FACE, without="chin") == [0, 1, 2]
    with pytest.raises(ValueError, match=r"only names keypoints, .* there is no ear\. Choices: nose, left eye"):
        rows_named(FACE, only="ear")
    with pytest.raises(ValueError, match="leave no keypoint"):
        rows_named(FACE, only="nose", without="nose")


def test_a_subset_has_a_mirror_only_if_a_flip_stays_in_it():
    assert subset(FACE, [1, 2]) == Skeleton(("left eye", "right eye"), (1, 0), (1, 0))
    assert subset(FACE, [0, 1]) == Skeleton(("nose", "left eye"), (0, 1), None)
    assert subset(FACE, [0, 3]) == Skeleton(("nose", "chin"), (0, 1), (0, 1))
