"""Sampling: at most K of each group, the same draw everywhere, disjoint shares."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geco.training import sampling
from geco.training.sampling import EpochSampler, Joint
from geco.training.settings import SamplingSettings
from geco.types import Pair, Skeleton, View

POLE = Skeleton(("tip", "foot"), twin=(0, 1), mirror=None)


def dataset(counts: dict[str, int], prefix: str = "") -> list[Pair]:
    pairs = []
    for category, count in counts.items():
        for number in range(count):
            view = View(image=Path("none.jpg"), size=(10, 10), name=f"{prefix}{category}{number}")
            pairs.append(Pair(view, view, POLE, category))
    return pairs


class Lazy:
    """A dataset that names its categories and must not be walked through to find them."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.categories = tuple(str(pair.category) for pair in pairs)
        self.views = tuple(pair.source for pair in pairs)

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: int) -> Pair:
        raise AssertionError("the sampler built a pair")

    def __iter__(self):
        raise AssertionError("the sampler built every pair")


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=1)


# --- the draw ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(runs=counts, length=st.integers(2, 5), seed=st.integers(0, 99))
def test_runs_are_of_one_category_and_hold_what_is_drawn_without_them(runs, length, seed) -> None:
    joint = Joint({"one": dataset({category: count * length for category, count in runs.items()})})
    drawn, mixed = (
        sampling.draw(joint.groups(), SamplingSettings(2 * length, in_a_row=n), seed=seed, epoch=0).tolist()
        for n in (length, 1)
    )
    assert sorted(drawn) == sorted(mixed)
    categories = [joint[i].category for i in drawn]
    assert all(len(set(categories[start : start + length])) == 1 for start in range(0, len(drawn), length))


@settings(max_examples=40, deadline=None)
@given(first=counts, second=counts, most=st.integers(1, 8), seed=st.integers(0, 99), epoch=st.integers(0, 9))
def test_at_most_k_of_each_category_and_dataset_all_if_fewer(first, second, most, seed, epoch) -> None:
    joint = Joint({"one": dataset(first), "two": dataset(second)})
    drawn = sampling.draw(joint.groups(), SamplingSettings(most), seed=seed, epoch=epoch).tolist()
    assert len(set(drawn)) == len(drawn)
    counted = Counter((joint.locate(i)[0], joint[i].category) for i in drawn)
    expected = {(name, c): min(n, most) for name, data in (("one", first), ("two", second)) for c, n in data.items()}
    assert counted == expected


def test_a_factor_multiplies_k_for_one_dataset_only() -> None:
    joint = Joint({"one": dataset({"a": 30, "b": 5}), "two": dataset({"a": 30})})
    chosen = SamplingSettings(8, factors={"one": 2.0})
    drawn = sampling.draw(joint.groups(), chosen, seed=0, epoch=0)
    assert Counter((joint.locate(i)[0], joint[i].category) for i in drawn.tolist()) == {
        ("one", "a"): 16,
        ("one", "b"): 5,
        ("two", "a"): 8,
    }
    assert len(sampling.EpochSampler(joint, chosen, seed=0)) == len(drawn)
    assert SamplingSettings(None, factors={"one": 2.0}).most("one") is None
    with pytest.raises(ValueError, match=r"factors.one multiplies per_category, expected a number above 0, got 0"):
        SamplingSettings(factors={"one": 0.0})


def test_none_takes_all_pairs() -> None:
    joint = Joint({"one": dataset({"a": 900, "b": 3})})
    assert sorted(sampling.draw(joint.groups(), SamplingSettings(None), seed=0, epoch=0)) == list(range(903))
    assert len(sampling.draw(joint.groups(), SamplingSettings(), seed=0, epoch=0)) == 803


def test_another_epoch_or_seed_is_another_draw_and_each_pair_has_its_turn() -> None:
    joint = Joint({"one": dataset({"a": 20})})
    groups, config = joint.groups(), SamplingSettings(5)
    first = sampling.draw(groups, config, seed=0, epoch=0)
    assert np.array_equal(first, sampling.draw(groups, config, seed=0, epoch=0))
    assert not np.array_equal(first, sampling.draw(groups, config, seed=0, epoch=1))
    assert not np.array_equal(first, sampling.draw(groups, config, seed=1, epoch=0))
    often = Counter(int(i) for epoch in range(400) for i in sampling.draw(groups, config, seed=0, epoch=epoch))
    assert set(often) == set(range(20))
    assert all(abs(n - 100) < 45 for n in often.values())  # 400 · 5 / 20, five standard deviations


def test_adding_a_dataset_changes_nothing_in_the_draw_from_the_others() -> None:
    alone = Joint({"one": dataset({"a": 30, "b": 30})})
    more = Joint({"one": dataset({"a": 30, "b": 30}), "two": dataset({"a": 50})})
    config = SamplingSettings(7)
    before = set(sampling.draw(alone.groups(), config, seed=3, epoch=2).tolist())
    after = set(sampling.draw(more.groups(), config, seed=3, epoch=2).tolist())
    assert {i for i in after if i < 60} == before


@settings(max_examples=40, deadline=None)
@given(data=counts, world=st.integers(1, 5), epoch=st.integers(0, 3))
def test_shares_are_disjoint_equally_long_and_together_the_draw(data, world, epoch) -> None:
    joint = Joint({"one": dataset(data)})
    whole = EpochSampler(joint, SamplingSettings(6), seed=1)
    shares = [EpochSampler(joint, SamplingSettings(6), seed=1, rank=r, world=world) for r in range(world)]
    for sampler in (whole, *shares):
        sampler.epoch = epoch
    keys = [list(share) for share in shares]
    assert {len(share) for share in keys} == {len(shares[0])}
    together = [key for share in keys for key in share]
    assert len(set(together)) == len(together)
    assert set(together) <= set(whole)
    assert 0 <= len(whole) - len(together) < world
    assert all(key[0] == epoch for key in together)


def test_categories_come_from_the_dataset_where_it_knows_them() -> None:
    joint = Joint({"lazy": Lazy(dataset({"a": 2, "b": 3}))})
    assert {group: indices.tolist() for group, indices in joint.groups().items()} == {
        ("lazy", "a"): [0, 1],
        ("lazy", "b"): [2, 3, 4],
    }


def test_the_joint_set_is_its_datasets_end_to_end() -> None:
    joint = Joint({"one": dataset({"a": 2}, "one-"), "none": [], "two": dataset({"a": 3}, "two-")})
    assert len(joint) == 5
    assert [pair.source.name for pair in joint] == ["one-a0", "one-a1", "two-a0", "two-a1", "two-a2"]
    assert joint.locate(2) == ("two", 0)
    assert pickle.loads(pickle.dumps(joint))[4] == joint[4]


def test_a_list_of_pairs_becomes_a_dataset_with_each_view_once() -> None:
    first, second, third = dataset({"a": 3})
    pairs = [Pair(first.source, second.source, POLE, "a"), Pair(second.source, third.source, POLE, "b")]
    listed = sampling.as_dataset(pairs)
    assert [view.name for view in listed.views] == ["a0", "a1", "a2"]
    assert list(listed) == pairs
    assert listed.categories == ("a", "b")
    assert sampling.as_dataset(listed) is listed


def test_mistakes_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="a training set needs pairs, got none from one, two"):
        Joint({"one": [], "two": []})
    with pytest.raises(IndexError, match="has 1 pairs, there is no number 1"):
        Joint({"one": dataset({"a": 1})})[1]
    with pytest.raises(ValueError, match="rank must lie in 0 … world − 1, got rank 2 of 2"):
        sampling.share(np.arange(4), rank=2, world=2)
