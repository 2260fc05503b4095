"""Augmentation: what is painted into an image is found where its keypoint says; chance is as asked for."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kornia import enhance

from geco import batching, geometry, images
from geco.datasets import cub
from geco.masks import quality
from geco.training import augment
from geco.training.settings import AugmentSettings
from geco.types import Keypoints, Pair, Skeleton, View

FACE = Skeleton(("left eye", "right eye", "nose"), twin=(1, 0, 2), mirror=(1, 0, 2))
UNKNOWN = replace(FACE, mirror=None)
SIZE = 120
SHAPES_ONLY = AugmentSettings(size=SIZE, jitter=0.0, blur=0.0, solarise=0.0)
seeds = st.integers(0, 10_000)
angles = st.sampled_from((0.0, 45.0, 180.0))  # largest rotation


def centres(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return x, y


def painted(height: int, width: int, spread: float = 3.0) -> View:
    """A left eye painted red, a right eye green, a nose blue, on a mask that is a disc around them."""
    xy = torch.tensor([[0.41 * width, 0.43 * height], [0.6 * width, 0.45 * height], [0.52 * width, 0.61 * height]])
    x, y = centres(height, width)
    dots = [torch.exp(-((x - px) ** 2 + (y - py) ** 2) / (2 * spread**2)) for px, py in xy.tolist()]
    disc = ((x - width / 2) / (0.35 * width)) ** 2 + ((y - height / 2) / (0.35 * height)) ** 2 < 1
    box = torch.tensor([0.15 * width, 0.15 * height, 0.85 * width, 0.85 * height])
    return View(
        image=(torch.stack(dots) * 255).round().to(torch.uint8),
        size=(height, width),
        keypoints=Keypoints(xy, torch.ones(3, dtype=torch.bool)),
        box=box,
        mask=disc,
        name="face",
    )


def centroid(channel: torch.Tensor) -> torch.Tensor:
    weight = channel.double()
    x, y = centres(*channel.shape)
    return torch.stack([(x * weight).sum(), (y * weight).sum()]) / weight.sum()


def alter(view: View, *, seed: int, config: AugmentSettings = SHAPES_ONLY, skeleton: Skeleton = FACE) -> View:
    return augment.augment(Pair(view, view, skeleton, "face"), config, seed=seed, epoch=3, index=5).source


# --- position ----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=seeds, height=st.integers(60, 200), width=st.integers(60, 200), degrees=angles)
def test_a_painted_keypoint_is_found_at_the_transformed_keypoint(
    seed: int, height: int, width: int, degrees: float
) -> None:
    view = painted(height, width, spread=2.0)
    out = alter(view, seed=seed, config=replace(SHAPES_ONLY, rotate=degrees))
    assert out.size == (SIZE, SIZE)
    for colour in range(3):
        # the dot of this colour belongs to the row that carries its name now: eyes are exchanged by a flip
        dot = centroid(out.image[colour])
        distance = (out.keypoints.xy.double() - dot).norm(dim=-1)
        row = int(distance.argmin())
        away_from_border = (dot > 20).all() and (dot < SIZE - 20).all()
        if away_from_border:
            assert out.keypoints.visible[row]
            assert distance[row] < 0.25
            assert row in (colour, FACE.mirror[colour])


def test_a_flipped_left_eye_is_labelled_right() -> None:
    view = painted(150, 150)
    always = replace(SHAPES_ONLY, flip=1.0, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    out = alter(view, seed=0, config=always)
    red, green, blue = (centroid(channel) for channel in out.image)
    assert red[0] > green[0]  # the animal looks the other way …
    torch.testing.assert_close(out.keypoints.xy[1].double(), red, atol=0.1, rtol=0)  # … red is its right eye now
    torch.testing.assert_close(out.keypoints.xy[0].double(), green, atol=0.1, rtol=0)
    torch.testing.assert_close(out.keypoints.xy[2].double(), blue, atol=0.1, rtol=0)


def test_without_a_mirror_table_nothing_is_flipped_but_everything_is_cropped() -> None:
    view = painted(150, 150)
    config = replace(SHAPES_ONLY, flip=1.0)
    outs = [alter(view, seed=seed, config=config, skeleton=UNKNOWN) for seed in range(20)]
    assert all(centroid(out.image[0])[0] < centroid(out.image[1])[0] for out in outs)
    assert len({tuple(out.keypoints.xy.flatten().tolist()) for out in outs}) == 20


@settings(max_examples=30, deadline=None)
@given(seed=seeds, height=st.integers(60, 200), width=st.integers(60, 200), degrees=angles)
def test_the_matrix_carries_the_points_and_the_mask_stays_on_the_object(
    seed: int, height: int, width: int, degrees: float
) -> None:
    view = painted(height, width)
    config = replace(SHAPES_ONLY, rotate=degrees)
    view = replace(view, image=(view.mask * 200).to(torch.uint8).expand(3, -1, -1))
    rng = augment.generator(seed, 0, 0, 0)
    drawn = augment.draw(view.size, config, rng, may_flip=True)
    out = augment.apply(view, FACE, config, drawn)

    homogeneous = torch.cat([view.keypoints.xy, torch.ones(3, 1)], -1) @ drawn.matrix(SIZE, view=view.size).T
    rows = torch.tensor(FACE.mirror) if drawn.flip else torch.arange(3)
    torch.testing.assert_close(out.keypoints.xy, homogeneous[rows, :2], atol=1e-3, rtol=0)
    on_image = ((out.keypoints.xy > -1e-3) & (out.keypoints.xy < SIZE + 1e-3)).all(-1)
    assert torch.equal(out.keypoints.visible, on_image)

    seen = out.image[0] > 100
    union = (seen | out.mask).sum()
    assert (seen & out.mask).sum() / union > 0.93  # they differ by less than a pixel of the source along the rim
    x, y = centres(SIZE, SIZE)
    x0, y0, x1, y1 = out.box.tolist()
    assert 0 <= x0 < x1 <= SIZE + 1e-3
    assert 0 <= y0 < y1 <= SIZE + 1e-3
    within = (x > x0 - 3) & (x < x1 + 3) & (y > y0 - 3) & (y < y1 + 3)
    assert not (out.mask & ~within).any()


def test_points_outside_the_crop_become_invisible_and_hidden_ones_stay_hidden() -> None:
    view = painted(100, 100)
    hidden = replace(view, keypoints=replace(view.keypoints, visible=torch.tensor([True, False, True])))
    drawn = augment.Draw(window=(0, 0, 100, 50), flip=False, jitter=(), sigma=None, solarise=False)
    out = augment.apply(hidden, FACE, SHAPES_ONLY, drawn)
    assert out.keypoints.visible.tolist() == [True, False, False]  # the nose lies below the window


def test_the_points_of_a_self_pair_correspond_and_lie_on_the_object() -> None:
    view = painted(150, 200)
    config = replace(SHAPES_ONLY, flip=0.5, rotate=30.0)
    flips = set()
    for index in range(12):
        pair = augment.self_pair(view, config, points=40, seed=4, epoch=1, index=index)
        draws = [
            augment.draw(view.size, config, augment.generator(4, 1, index, which), may_flip=True) for which in (0, 1)
        ]
        # Both flipped or neither: a mirrored left eye is not a left eye.
        to = [replace(drawn, flip=draws[0].flip).matrix(SIZE, view=view.size) for drawn in draws]
        flips.add(draws[0].flip)
        source = torch.cat([pair.source.keypoints.xy, torch.ones(40, 1)], -1)
        target = source @ (to[1] @ torch.linalg.inv(to[0])).T
        torch.testing.assert_close(target[:, :2], pair.target.keypoints.xy, atol=1e-2, rtol=0)
        original = source @ torch.linalg.inv(to[0]).T
        x, y = original[:, :2].long().unbind(-1)
        assert view.mask[y, x].float().mean() > 0.9  # the rest has been rounded across the rim
    assert flips == {True, False}


def test_plain_only_resizes() -> None:
    view = painted(90, 150)
    out = augment.plain(Pair(view, view, FACE), SHAPES_ONLY).target
    torch.testing.assert_close(out.keypoints.xy, view.keypoints.xy * torch.tensor([SIZE / 150, SIZE / 90]))
    torch.testing.assert_close(centroid(out.image[2]).float(), out.keypoints.xy[2], atol=0.1, rtol=0)
    assert out.image.dtype == torch.uint8


# --- chance ------------------------------------------------------------------------------------------


def test_probabilities_and_ranges_are_the_recipe_s() -> None:
    config = AugmentSettings()
    n = 4000
    draws = [augment.draw((300, 400), config, augment.generator(7, 0, i, 0), may_flip=True) for i in range(n)]
    shares = {
        0.5: [d.flip for d in draws],
        0.8: [bool(d.jitter) for d in draws],
        0.1: [d.sigma is not None for d in draws],  # the reference blurs 90 %, a slip
        0.2: [d.solarise for d in draws],
    }
    for expected, happened in shares.items():
        assert abs(np.mean(happened) - expected) < 4 * math.sqrt(expected * (1 - expected) / n)

    areas = np.array([(d.window[2] - d.window[0]) * (d.window[3] - d.window[1]) for d in draws]) / (300 * 400)
    ratios = np.array([(d.window[2] - d.window[0]) / (d.window[3] - d.window[1]) for d in draws]) / (400 / 300)
    assert 0.49 < areas.min() < 0.52
    assert 0.95 < areas.max() < 0.99
    assert 0.89 < ratios.min() < 0.92
    assert 1.08 < ratios.max() < 1.11
    assert all(0.1 <= d.sigma <= 2 for d in draws if d.sigma is not None)
    hues = [factor for d in draws for name, factor in d.jitter if name == "hue"]
    assert -0.1 <= min(hues) < -0.09
    assert 0.09 < max(hues) <= 0.1
    brightness = [factor for d in draws for name, factor in d.jitter if name == "brightness"]
    assert 0.6 <= min(brightness) < 0.62
    assert 1.38 < max(brightness) <= 1.4
    first = {name: np.mean([d.jitter[0][0] == name for d in draws if d.jitter]) for name, _ in draws[0].jitter}
    assert all(abs(share - 0.25) < 0.04 for share in first.values())  # any order, each as often


def test_a_rotation_is_as_wide_as_its_setting_and_leaves_every_other_draw() -> None:
    still, rotating = AugmentSettings(), AugmentSettings(rotate=40.0)
    draws = [
        [augment.draw((300, 400), config, augment.generator(7, 0, i, 0), may_flip=True) for config in (still, rotating)]
        for i in range(1000)
    ]
    assert all(replace(rotated, angle=0.0) == upright for upright, rotated in draws)
    angles = np.array([rotated.angle for _, rotated in draws])
    assert -40 <= angles.min() < -38
    assert 38 < angles.max() <= 40
    assert abs(angles.mean()) < 4 * 40 / math.sqrt(3 * len(angles))


def test_a_crop_in_pixels_is_nearly_square_and_fits() -> None:
    config = replace(AugmentSettings(), ratio_of="pixels")
    for i in range(200):
        window = augment.draw((500, 375), config, augment.generator(0, 0, i, 0), may_flip=False).window
        width, height = window[2] - window[0], window[3] - window[1]
        assert 0 <= window[0] < window[2] <= 375
        assert 0 <= window[1] < window[3] <= 500
        assert 0.89 < width / height < 1.11 or width == 375  # too wide for the image: cut to it


def test_the_key_alone_decides_and_global_chance_is_untouched() -> None:
    pair = Pair(painted(80, 90), painted(70, 60), FACE, "face")
    before = np.random.get_state()[1].copy()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = augment.augment(pair, AugmentSettings(size=56), seed=0, epoch=1, index=2)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    second = augment.augment(pair, AugmentSettings(size=56), seed=0, epoch=1, index=2)
    assert np.array_equal(np.random.get_state()[1], before)
    assert torch.equal(first.source.image, second.source.image)
    assert torch.equal(first.target.keypoints.xy, second.target.keypoints.xy)
    for other in ({"seed": 1}, {"epoch": 2}, {"index": 3}):
        third = augment.augment(pair, AugmentSettings(size=56), **{"seed": 0, "epoch": 1, "index": 2, **other})
        assert not torch.equal(first.source.image, third.source.image)


def test_the_two_views_of_a_pair_have_draws_of_their_own() -> None:
    view = painted(100, 100)
    out = augment.augment(Pair(view, view, FACE), SHAPES_ONLY, seed=0, epoch=0, index=0)
    assert not torch.equal(out.source.keypoints.xy, out.target.keypoints.xy)


def test_switching_one_alteration_off_leaves_the_others() -> None:
    full, less = AugmentSettings(), replace(AugmentSettings(), jitter=0.0, blur=0.0)
    for i in range(50):
        everything = augment.draw((99, 70), full, augment.generator(0, 0, i, 1), may_flip=True)
        without = augment.draw((99, 70), less, augment.generator(0, 0, i, 1), may_flip=True)
        assert without == replace(everything, jitter=(), sigma=None)


# --- colour ------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=seeds, turns=st.floats(-0.5, 0.5))
def test_shifting_the_hue_is_what_kornia_does(seed: int, turns: float) -> None:
    image = torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    image[0, :, 0] = image[0, :1, 0]  # a grey row
    expected = enhance.adjust_hue(image, 2 * math.pi * turns)
    torch.testing.assert_close(augment.shift_hue(image, turns), expected, atol=1e-6, rtol=0)


def coloured(view: View, **changes: object) -> torch.Tensor:
    whole = (0, 0, view.size[1], view.size[0])
    drawn = replace(augment.Draw(whole, flip=False, jitter=(), sigma=None, solarise=False), **changes)
    return augment.apply(view, FACE, replace(SHAPES_ONLY, size=view.size[0]), drawn).image


def grey(values: torch.Tensor) -> View:
    size = values.shape[-2], values.shape[-1]
    return View(image=values.to(torch.uint8).expand(3, -1, -1), size=size)


def test_colour_alterations_on_numbers_one_can_check() -> None:
    ramp = torch.arange(256).reshape(16, 16)
    assert torch.equal(coloured(grey(ramp), solarise=True)[0], torch.where(ramp < 128, ramp, 255 - ramp).byte())
    brighter = coloured(grey(ramp), jitter=(("brightness", 1.5),))
    torch.testing.assert_close(brighter[0].float(), (ramp * 1.5).clamp(max=255), atol=1, rtol=0)
    steeper = coloured(grey(ramp), jitter=(("contrast", 0.5),))
    torch.testing.assert_close(steeper[0].float(), 0.5 * ramp + 0.5 * 127.5, atol=1, rtol=0)
    same = coloured(grey(ramp), jitter=(("saturation", 1.2), ("hue", 0.1)))
    torch.testing.assert_close(same[1].float(), ramp.float(), atol=1, rtol=0)  # grey has neither


def test_the_blur_is_a_gaussian_of_the_given_width() -> None:
    dot = torch.zeros(33, 33)
    dot[16, 16] = 255
    image = coloured(replace(grey(dot), image=(dot / 255).expand(3, -1, -1)), sigma=1.3)[0].double()
    offset = torch.arange(-16, 17).double()
    kernel = torch.exp(-(offset**2) / (2 * 1.3**2)) * (offset.abs() <= 4)  # 9 taps
    kernel = kernel / kernel.sum()
    torch.testing.assert_close(image, kernel[:, None] * kernel, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_an_image_leaves_in_the_type_it_came_in(dtype: torch.dtype) -> None:
    view = painted(70, 70)
    if dtype == torch.float32:
        view = replace(view, image=view.image / 255)
    strong = AugmentSettings(size=42, jitter=1.0, blur=1.0, solarise=1.0)
    for seed in range(5):
        out = alter(view, seed=seed, config=strong).image
        assert out.dtype == dtype
        assert out.shape == (3, 42, 42)
        if dtype == torch.float32:
            assert out.min() >= 0
            assert out.max() <= 1


@pytest.mark.parametrize("floating", [False, True])
def test_a_bicubic_resize_is_the_encoder_s_and_does_not_overshoot(floating: bool) -> None:
    edge = torch.zeros(3, 60, 60, dtype=torch.uint8)
    edge[:, :, 30:] = 255
    image = edge / 255 if floating else edge
    view = View(image=image, size=(60, 60), keypoints=painted(60, 60).keypoints)
    pair = Pair(view, view, FACE)
    config = AugmentSettings(size=42, flip=0.0, jitter=0.0, blur=0.0, solarise=1.0)
    plain = augment.plain(pair, config, resize="bicubic").source.image
    expected = geometry.resize_image(image, (42, 42), mode="bicubic") / (1 if floating else 255)
    assert expected.max() > 1  # a bicubic kernel overshoots
    actual = plain if floating else plain / 255
    torch.testing.assert_close(actual, expected.clamp(0, 1), atol=0 if floating else 0.6 / 255, rtol=0)
    solarised = augment.augment(pair, config, seed=0, epoch=0, index=0, resize="bicubic").source.image
    assert solarised.dtype == image.dtype
    assert solarised.min() >= 0  # 1 − 1.05 would be negative, or 243 in 8 bits
    assert solarised.max() <= (0.6 if floating else 153)


# --- mistakes ----------------------------------------------------------------------------------------


def test_mistakes_say_what_to_do() -> None:
    view = painted(60, 60)
    batch = batching.stack([Pair(view, view, FACE, "face")] * 2)
    with pytest.raises(ValueError, match="one pair at a time, got a batch; stack the pairs afterwards"):
        augment.augment(batch, SHAPES_ONLY, seed=0, epoch=0, index=0)
    with pytest.raises(ValueError, match="blur is a probability, expected 0 to 1, got 10"):
        AugmentSettings(blur=10.0)
    with pytest.raises(ValueError, match=r"scale is \(smallest, largest\) share of the area"):
        AugmentSettings(scale=(0.5, 1.5))
    with pytest.raises(ValueError, match=r"ratio is \(narrowest, widest\)"):
        AugmentSettings(ratio=(1.1, 0.9))
    with pytest.raises(ValueError, match="expected an odd side, got 8"):
        AugmentSettings(kernel=8)
    with pytest.raises(ValueError, match="largest angle in degrees, expected 0 to 180, got -5"):
        AugmentSettings(rotate=-5.0)


# --- images ---------------------------------------------------------------------------------------------


@pytest.mark.skipif("GECO_DATA" not in os.environ, reason="GECO_DATA does not name a folder of datasets")
def test_real_keypoints_stay_on_their_bird() -> None:
    pairs = cub.load(Path(os.environ["GECO_DATA"]) / "CUB_200_2011", "test", n_pairs=40)
    config = AugmentSettings(size=224)
    before, after = [], []
    for index in range(40):
        view = images.load_view(pairs[index].source)
        out = augment.augment(Pair(view, view, pairs[index].skeleton), config, seed=0, epoch=0, index=index)
        before.append(quality(view, view.mask))
        after += [quality(altered, altered.mask) for altered in (out.source, out.target)]
    share = [sum(q.inside for q in masks) / sum(q.visible for q in masks) for masks in (before, after)]
    assert share[0] > 0.95
    assert share[1] == pytest.approx(share[0], abs=0.02)
    assert sum(q.visible for q in after) < 2 * sum(q.visible for q in before)  # crops hide some
