"""The one-line functions on a tiny encoder."""

import numpy as np
import pytest
import torch

import geco
from geco import matching
from geco.matching.settings import MatchSettings


@pytest.fixture(scope="module")
def model(tiny_folder):
    return geco.load(tiny_folder, size=112)


def test_transfer_is_extract_and_match(model, image_file):
    first, second = image_file("a.jpg", seed=1), image_file("b.jpg", (80, 100), seed=2)
    points = [(10, 20), (110.5, 80.0)]
    found = geco.transfer(first, second, points, model=model)
    maps = [model.extract(path) for path in (first, second)]
    expected = matching.transfer(*maps, torch.tensor(points), MatchSettings(threshold=model.config.threshold))
    torch.testing.assert_close(found.target, expected.target)
    assert geco.match(first, second, points, model=model).target.equal(found.target)
    assert ((found.target >= 0) & (found.target <= torch.tensor([80.0, 100.0]))).all()


def test_match_gives_mutual_patches_best_first(model, image_file):
    path = image_file(seed=3)
    found = geco.match(path, path, model=model, settings=MatchSettings(threshold=-1.0))
    assert len(found.score) == 64
    torch.testing.assert_close(found.source, found.target)
    assert found.visible.all()


def test_heatmap_has_the_targets_size_and_peaks_where_transfer_goes(model, image_file):
    first, second = image_file("a.jpg", seed=1), image_file("b.jpg", (80, 100), seed=2)
    heat = geco.heatmap(first, second, (30, 40), model=model)
    assert heat.shape == (100, 80)
    x, y = geco.transfer(first, second, [(30, 40)], model=model).target[0].tolist()
    assert heat[int(y), int(x)] == heat.max()


def test_features_are_the_models(model, image_file):
    path = image_file()
    assert geco.features(path, model=model).values.equal(model.extract(path).values)


def test_the_threshold_is_the_models_unless_given(model, image_file):
    path = image_file()
    found = geco.transfer(path, path, [(30, 40)], model=model, settings=MatchSettings(threshold=1.5))
    assert not found.visible.any()


@pytest.mark.parametrize("points", [[(1, 2)], np.array([[1.0, 2.0]]), torch.tensor([[1, 2]])])
def test_points_may_be_lists_arrays_or_tensors(points):
    assert matching.as_points(points, (10, 10)).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([(1, 2, 3)], r"shape \(k, 2\), got shape \(1, 3\)"),
        ((1, 2), r"got shape \(2,\)"),
        ([(5, 5), (30, 5)], r"point 2 is \(30, 5\), outside the source image of 20×10 \(width×height\)"),
        ([(-1, 5)], "outside the source image"),
        ([(float("nan"), 5)], "outside the source image"),
        ("eye", "pairs of numbers"),
    ],
)
def test_wrong_points_say_what_was_expected(points, message):
    with pytest.raises(ValueError, match=message):
        matching.as_points(points, (10, 20))


def test_an_image_and_its_enlargement_match_at_scaled_points(model, image_file):
    """Scaling an image scales the points: both are squashed to the same input."""
    from PIL import Image

    path = image_file(size=(112, 112), seed=4)
    double = np.array(Image.open(path).resize((224, 224), Image.Resampling.BICUBIC))
    found = geco.transfer(path, double, [(40.0, 60.0), (80.0, 30.0)], model=model)
    assert ((found.target - 2 * found.source).abs() < 2 * 14).all()
