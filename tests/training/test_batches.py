"""Batches: files read, augmented and stacked, the same in every process; keys of each step; masks that are needed."""

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from torch.utils.data import DataLoader
from training_data import config, pairs

from geco import geometry
from geco.batching import collate
from geco.training import batches
from geco.training.batches import StepKeys, TrainingPairs, begin_loading
from geco.training.sampling import EpochSampler, Joint
from geco.training.settings import AugmentSettings, SamplingSettings
from geco.types import Keypoints, MaskFile, Pair, Skeleton, View

FACE = Skeleton(("left eye", "right eye", "nose"), twin=(1, 0, 2), mirror=(1, 0, 2))
POLE = Skeleton(("tip", "foot"), twin=(0, 1), mirror=None)


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


def loaded(joint: Joint, workers: int) -> list[Pair]:
    sampler = EpochSampler(joint, SamplingSettings(4), seed=0)
    sampler.epoch = 3
    loader = DataLoader(
        TrainingPairs(joint, AugmentSettings(size=28), seed=0),
        batch_size=3,
        sampler=sampler,
        num_workers=workers,
        collate_fn=collate,
        worker_init_fn=begin_loading,
    )
    return list(loader)


def test_any_number_of_workers_loads_the_same(joint: Joint) -> None:
    alone = loaded(joint, 0)
    assert sum(len(batch.category) for batch in alone) == 8
    for workers in (1, 2):
        others = loaded(joint, workers)
        assert [batch.source.name for batch in others] == [batch.source.name for batch in alone]
        for batch, other in zip(alone, others, strict=True):
            assert torch.equal(batch.source.image, other.source.image)
            assert torch.equal(batch.target.image, other.target.image)
            assert torch.equal(batch.target.keypoints.xy, other.target.keypoints.xy)
            assert torch.equal(batch.source.mask, other.source.mask)


def test_a_loading_process_leaves_the_garbage_of_the_run_alone() -> None:
    options = {"num_workers": 1, "collate_fn": lambda _: gc.get_freeze_count()}
    (without,) = DataLoader([0], **options)
    (frozen,) = DataLoader([0], **options, worker_init_fn=begin_loading)
    assert without == 0
    assert frozen > 10_000  # everything that was there when it began


def test_a_share_of_the_pairs_become_two_views_of_one_image(joint: Joint) -> None:
    def with_self_pairs(share: float) -> list[Pair]:
        sampling = SamplingSettings(self_pairs=share, self_points=9)
        data = TrainingPairs(joint, AugmentSettings(size=28), seed=0, sampling=sampling)
        return [data[epoch, index] for epoch in range(10) for index in range(12)]  # all of spair

    half = with_self_pairs(0.5)
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
    same = [pair.source.name == pair.target.name for pair in with_self_pairs(0.5)]
    assert same == [pair.source.name == pair.target.name for pair in half]
    annotated = with_self_pairs(0.0)
    assert not any(pair.source.name == pair.target.name for pair in annotated)
    # Annotated pairs are what they would be without: a share more changes no other draw.
    for with_, without in zip(half, annotated, strict=True):
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


def test_images_are_resized_as_the_encoder_does_it(joint: Joint) -> None:
    def first(resize: str, index: int) -> torch.Tensor:
        return TrainingPairs(joint, AugmentSettings(size=28), seed=0, resize=resize)[0, index].source.image

    for index in (0, 12):  # augmented, and only resized
        assert not torch.equal(first("bilinear", index), first("bicubic", index))
        assert first("bicubic", index).dtype == torch.uint8
    pixels = torch.from_numpy(np.array(Pillow.open(joint[12].source.image))).permute(2, 0, 1)
    expected = geometry.resize_image(pixels, (28, 28), mode="bicubic").round().clamp(0, 255)
    assert (first("bicubic", 12).float() - expected).abs().max() <= 1
    default = TrainingPairs(joint, AugmentSettings(size=28), seed=0)
    assert torch.equal(default[0, 0].source.image, first("bilinear", 0))


def test_the_loader_of_a_run_resizes_as_its_encoder_does(joint: Joint) -> None:
    def images(resize: str) -> torch.Tensor:
        plain = config("none", batch_size=2, sampling=SamplingSettings(2))
        settings = replace(plain, encoder=replace(plain.encoder, resize=resize))
        parts = next(iter(batches.loader(joint, StepKeys(joint, settings), settings)))
        return parts[0].source.image

    assert not torch.equal(images("bilinear"), images("bicubic"))


def test_a_missing_mask_is_an_error_unless_masks_are_not_needed(tmp_path: Path) -> None:
    view = written(tmp_path, "bare", POLE, box=False, mask=False)
    joint = Joint({"cub": [Pair(view, view, POLE, "pole")]})
    ways = (
        "make masks with `geco masks cub ROOT`, name their folder with --masks cub=FOLDER, take the boxes with "
        r"--masks cub=box, or train with a loss that needs none \(--loss contrastive\)"
    )
    with pytest.raises(ValueError, match=f"cub: bare has no foreground mask; {ways}"):
        TrainingPairs(joint, AugmentSettings(size=28), seed=0)[0, 0]
    pair = TrainingPairs(joint, AugmentSettings(size=28), seed=0, masks=False)[0, 0]
    assert pair.source.mask is None


# --- keys of a step ---------------------------------------------------------------------------------------------------


def test_processes_share_each_step_and_miss_nothing() -> None:
    joint = Joint({"squares": pairs(10)})
    settings = config("none", sampling=SamplingSettings(4))
    alone = list(StepKeys(joint, settings))
    shares = [list(StepKeys(joint, settings, rank=rank, world=2)) for rank in range(2)]
    assert [len(keys) for keys in alone] == [4, 4]
    for step, keys in enumerate(alone):
        assert sorted(keys) == sorted(shares[0][step] + shares[1][step])
    later = StepKeys(joint, settings)
    later.start = 3  # the second step of the second epoch
    first = StepKeys(joint, settings)
    first.start = 2
    assert list(later) == list(first)[1:]
    assert {epoch for keys in later for epoch, _ in keys} == {1}


def test_processes_that_cannot_share_a_batch_are_refused() -> None:
    joint = Joint({"squares": pairs(4)})
    with pytest.raises(ValueError, match="pairs of all processes, expected a multiple of 3, got 4"):
        StepKeys(joint, config("none"), world=3)
    with pytest.raises(ValueError, match="5 processes need at least 5 pairs, got 4"):
        StepKeys(joint, config("none", batch_size=5), world=5)


def test_a_step_comes_in_the_parts_it_is_encoded_in() -> None:
    joint = Joint({"squares": pairs(5)})
    settings = config("none", accumulate=2, batch_size=5)
    parts = next(iter(batches.loader(joint, StepKeys(joint, settings), settings)))
    assert [len(part.category) for part in parts] == [3, 2]
