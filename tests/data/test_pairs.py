"""Pairs: lazy, picklable, sliced; listed ones share their views, drawn ones are different and the same every time."""

import pickle
from collections import Counter
from pathlib import Path

import pytest
import torch

from geco.data import PairBuilder, PairDataset, Pairs, draw, sharing
from geco.types import Keypoints, Skeleton, View

EYES = Skeleton(("left eye", "right eye"), (1, 0), (1, 0))


def view(number, visible=(True, True), image=None):
    points = Keypoints(torch.zeros(len(visible), 2), torch.tensor(visible))
    return View(Path(image or f"{number}.jpg"), (8, 8), points, name=str(number))


def test_pairs_are_put_together_from_rows():
    views = [view(i) for i in range(4)]
    pairs = pickle.loads(pickle.dumps(Pairs(views, [(0, 1), (2, 3), (3, 0)], ["a", "b", "a"], [EYES] * 3)))
    assert isinstance(pairs, PairDataset)
    assert [(pair.source.name, pair.target.name, pair.category) for pair in pairs] == [
        ("0", "1", "a"),
        ("2", "3", "b"),
        ("3", "0", "a"),
    ]
    assert pairs[1:].categories == ("b", "a")
    assert pairs[-1].source.name == "3"
    assert "3 pairs of 4 views, 2 categories" in repr(pairs)
    with pytest.raises(IndexError, match="pair 3 of 3"):
        pairs[3]
    with pytest.raises(ValueError, match="needs a row of two view numbers, a category and a skeleton, got 1, 2 and 1"):
        Pairs(views, [(0, 1)], ["a", "b"], [EYES])


def test_a_builder_makes_each_view_once_and_drops_the_pairs_of_a_faulty_one():
    calls = Counter()

    def make(number):
        calls[number] += 1
        if number == "2":
            raise ValueError("2 is damaged")
        return view(number)

    faults = []
    builder = PairBuilder(make, faults)
    for source, target in (("0", "1"), ("1", "2"), ("2", "0"), ("1", "0")):
        builder.add((source,), (target,), "cat", EYES)
    pairs = builder.pairs()
    assert [(pair.source.name, pair.target.name) for pair in pairs] == [("0", "1"), ("1", "0")]
    assert len(pairs.views) == 2
    assert set(calls.values()) == {1}
    assert faults == ["2 is damaged"]


def test_a_builder_compares_the_numbers_of_keypoints():
    builder = PairBuilder(lambda number, count: view(number, (True,) * int(count)), None)
    with pytest.raises(ValueError, match=r"0 and 1: expected 2 keypoints in both, got \[2, 3\]"):
        builder.add(("0", "2"), ("1", "3"), "cat")
    builder.add(("2", "3"), ("3", "3"), "cat")
    assert builder.pairs()[0].skeleton.names == ("point 1", "point 2", "point 3")


@pytest.mark.parametrize("count", [5, 40, 10_000])
def test_drawn_pairs_are_different_of_one_group_and_the_same_every_time(count):
    groups = [range(10), range(10, 13), [13]]
    drawn = draw(groups, count=count, seed=3, fits=lambda i, j: (i + j) % 3 != 0)
    possible = {(i, j) for group in groups for i in group for j in group if i != j and (i + j) % 3}
    assert len(set(drawn)) == len(drawn) == min(count, len(possible))
    assert set(drawn) <= possible
    assert draw(groups, count=count, seed=3, fits=lambda i, j: (i + j) % 3 != 0) == drawn
    assert draw(groups, count=count, seed=4, fits=lambda i, j: (i + j) % 3 != 0) != drawn


def test_a_later_version_draws_the_same():
    """Written down, so that a change of the draw is noticed: published results depend on it."""
    assert draw([range(6)], count=3, seed=0, fits=lambda i, j: True) == [(5, 4), (2, 1), (3, 2)]
    many = draw([range(40), range(40, 60)], count=4, seed=0, fits=lambda i, j: True)
    assert many == [(50, 55), (25, 10), (30, 16), (47, 46)]


def test_views_share_keypoints_of_two_images():
    views = [view(0, (True, False, True)), view(1, (True, True, True)), view(2, (False, True, False), image="0.jpg")]
    fits = sharing(views, shared=1)
    assert fits(0, 1)
    assert fits(1, 2)
    assert not fits(0, 2), "one image, and no common keypoint"
    assert not sharing(views, shared=2)(1, 2)
    assert not sharing(views, shared=0)(0, 2)
