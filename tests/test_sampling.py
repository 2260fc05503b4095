"""Sampling: at most K of each group, the same draw everywhere, disjoint shares; and the loader on top of it."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from torch.utils.data import DataLoader

from geco import sampling
from geco.config.augment import AugmentSettings
from geco.config.sampling import SamplingSettings
from geco.loading import TrainingPairs, collate
from geco.sampling import EpochSampler, Joint
from geco.types import Keypoints, MaskFile, Pair, Skeleton, View

FACE = Skeleton(("left eye", "right eye", "nose"), twin=(1, 0, 2), mirror=(1, 0, 2))
POLE = Skeleton(("tip", "foot"), twin=(0, 1), mirror=None)


def dataset(counts: dict[str, int], prefix: str = "") -> list[Pair]:
    pairs = []
    for category, count in counts.items():
        for number in range(count):
            view = View(image=Path("none.jpg"), size=(10, 10), name=f"{prefix}{category}{number}")
            pairs.append(Pair(view, view, POLE, category))
    return pairs


class Lazy(list[Pair]):
    """A dataset that names its categories and must not be walked through to find them."""

    def __init__(self, pairs: list[Pair]) -> None:
        super().__init__(pairs)
        self.categories = tuple(str(pair.category) for pair in pairs)

    def __iter__(self):
        raise AssertionError("the sampler built every pair")


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=1)


# --- the draw ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(one=counts, two=counts, most=st.integers(1, 8), seed=st.integers(0, 99), epoch=st.integers(0, 9))
def test_at_most_k_of_each_category_and_dataset_all_if_fewer(one, two, most, seed, epoch) -> None:
    joint = Joint({"one": dataset(one), "two": dataset(two)})
    drawn = sampling.draw(joint.groups(), SamplingSettings(most), seed=seed, epoch=epoch).tolist()
    assert len(set(drawn)) == len(drawn)
    found = Counter((joint.locate(i)[0], joint[i].category) for i in drawn)
    expected = {(name, c): min(n, most) for name, data in (("one", one), ("two", two)) for c, n in data.items()}
    assert found == expected


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


def test_mistakes_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="a training set needs pairs, got none from one, two"):
        Joint({"one": [], "two": []})
    with pytest.raises(IndexError, match="has 1 pairs, there is no number 1"):
        Joint({"one": dataset({"a": 1})})[1]
    with pytest.raises(ValueError, match="rank must lie in 0 … world − 1, got rank 2 of 2"):
        sampling.share(np.arange(4), rank=2, world=2)
    with pytest.raises(ValueError, match="per_category counts pairs, expected 1 or more"):
        SamplingSettings(0)
    with pytest.raises(ValueError, match="self_pairs is a share, expected 0 to 1, got 2"):
        SamplingSettings(self_pairs=2)


# --- the loader ----------------------------------------------------------------------------------------------


def written(folder: Path, name: str, skeleton: Skeleton, *, box: bool, mask: bool = True) -> View:
    rng = np.random.default_rng(abs(hash(name)) % 1000)
    pixels = rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(folder / f"{name}.png")
    Pillow.fromarray(np.full((40, 60), 255, np.uint8)).save(folder / f"{name}-mask.png")
    count = len(skeleton)
    xy = torch.linspace(8, 32, 2 * count).reshape(count, 2)
    return View(
        image=folder / f"{name}.png",
        size=(40, 60),
        keypoints=Keypoints(xy, torch.ones(count, dtype=torch.bool)),
        box=torch.tensor([5.0, 5.0, 50.0, 35.0]) if box else None,
        mask=MaskFile(folder / f"{name}-mask.png") if mask else None,
        name=name,
    )


@pytest.fixture
def joint(tmp_path: Path) -> Joint:
    faces = [written(tmp_path, f"face{i}", FACE, box=True) for i in range(4)]
    poles = [written(tmp_path, f"pole{i}", POLE, box=False) for i in range(3)]
    return Joint(
        {
            "spair": [Pair(a, b, FACE, "face") for a in faces for b in faces if a is not b],
            "pfpascal": [Pair(a, b, POLE, "pole") for a in poles for b in poles if a is not b],
        }
    )


def batches(joint: Joint, workers: int) -> list[Pair]:
    sampler = EpochSampler(joint, SamplingSettings(4), seed=0)
    sampler.epoch = 3
    loader = DataLoader(
        TrainingPairs(joint, AugmentSettings(size=28), seed=0),
        batch_size=3,
        sampler=sampler,
        num_workers=workers,
        collate_fn=collate,
    )
    return list(loader)


def test_any_number_of_workers_loads_the_same(joint: Joint) -> None:
    alone = batches(joint, 0)
    assert sum(len(batch.category) for batch in alone) == 8
    for workers in (1, 2):
        others = batches(joint, workers)
        assert [batch.source.name for batch in others] == [batch.source.name for batch in alone]
        for one, two in zip(alone, others, strict=True):
            assert torch.equal(one.source.image, two.source.image)
            assert torch.equal(one.target.image, two.target.image)
            assert torch.equal(one.target.keypoints.xy, two.target.keypoints.xy)
            assert torch.equal(one.source.mask, two.source.mask)


def test_a_share_of_the_pairs_become_two_views_of_one_image(joint: Joint) -> None:
    def loaded(share: float) -> list[Pair]:
        sampling = SamplingSettings(self_pairs=share, self_points=9)
        data = TrainingPairs(joint, AugmentSettings(size=28), seed=0, sampling=sampling)
        return [data[epoch, index] for epoch in range(20) for index in range(12)]  # all of spair

    half = loaded(0.5)
    alone = [pair for pair in half if pair.source.name == pair.target.name]
    n = len(half)
    assert abs(len(alone) / n - 0.5) < 4 * np.sqrt(0.25 / n)
    for pair in alone:
        assert len(pair.skeleton) == 9
        assert pair.skeleton.twin == tuple(range(9)), "nothing to mix up"
        assert "with itself" in pair.category
    assert len({pair.category for pair in alone}) == len(alone), "no two of them may meet in a batch"
    plain = TrainingPairs(joint, AugmentSettings(size=28), seed=0, sampling=SamplingSettings(self_pairs=1.0))
    assert plain[0, 14].source.name != plain[0, 14].target.name, "pfpascal is only resized"
    same = [pair.source.name == pair.target.name for pair in loaded(0.5)]
    assert same == [pair.source.name == pair.target.name for pair in half]
    assert not any(pair.source.name == pair.target.name for pair in loaded(0.0))
    # Annotated pairs are what they would be without: a share more changes no other draw.
    for with_, without in zip(half, loaded(0.0), strict=True):
        if with_.source.name != with_.target.name:
            assert torch.equal(with_.source.image, without.source.image)


def test_a_mixed_batch_is_padded_and_keeps_what_all_views_have(joint: Joint) -> None:
    data = TrainingPairs(joint, AugmentSettings(size=28), seed=0)
    batch = collate([data[0, 0], data[0, 12]])
    assert batch.category == ("face", "pole")
    assert batch.source.image.shape == (2, 3, 28, 28)
    assert batch.source.keypoints.xy.shape == (2, 3, 2)
    assert not batch.source.keypoints.visible[1, 2]  # padding
    assert batch.source.box is None
    assert batch.source.mask.shape == (2, 28, 28)
    assert collate([data[0, 0]]).source.box.shape == (1, 4)


def test_plain_datasets_are_only_resized_and_others_change_with_the_epoch(joint: Joint) -> None:
    data = TrainingPairs(joint, AugmentSettings(size=28), seed=0)
    torch.testing.assert_close(
        data[0, 12].source.keypoints.xy, joint[12].source.keypoints.xy * torch.tensor([28 / 60, 28 / 40])
    )
    assert torch.equal(data[0, 12].source.image, data[1, 12].source.image)
    assert not torch.equal(data[0, 0].source.image, data[1, 0].source.image)


def test_a_missing_mask_is_an_error_unless_masks_are_not_wanted(tmp_path: Path) -> None:
    view = written(tmp_path, "bare", POLE, box=False, mask=False)
    joint = Joint({"cub": [Pair(view, view, POLE, "pole")]})
    with pytest.raises(ValueError, match="cub: bare has no foreground mask; make masks with `geco masks cub`"):
        TrainingPairs(joint, AugmentSettings(size=28), seed=0)[0, 0]
    pair = TrainingPairs(joint, AugmentSettings(size=28), seed=0, masks=False)[0, 0]
    assert pair.source.mask is None
