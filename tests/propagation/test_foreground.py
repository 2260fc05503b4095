"""Where the animals are, on images whose patches are coloured and whose background is grey."""

import numpy as np
import pytest
import torch
from coloured import COLOURS, PATCH, SKELETON, Colours, centre
from PIL import Image
from sklearn.linear_model import Ridge
from torch.testing import assert_close

from geco.propagation import VISIBLE, Animal, LabelledImage, LabelSet, Propagator
from geco.propagation.foreground import STRENGTH, Foreground, linear_rule, patches_of
from geco.propagation.settings import KeypointSettings
from geco.types import FeatureMap

SIDE = 128  # 32 patches
GREY, FUR = (60, 60, 60), (200, 160, 30)


def scene(path, *animals):
    """Grey, with animals of 6 × 4 patches at (column, row): fur with a red, a green and a blue patch."""
    pixels = np.full((SIDE, SIDE, 3), GREY, dtype=np.uint8)
    for column, row in animals:
        pixels[row * PATCH : (row + 4) * PATCH, column * PATCH : (column + 6) * PATCH] = FUR
        for number, colour in enumerate(COLOURS.values()):
            x, y = (column + 2 * number) * PATCH, (row + number) * PATCH
            pixels[y : y + PATCH, x : x + PATCH] = colour
    Image.fromarray(pixels).save(path)
    return path


def animal(column, row):
    xy = torch.tensor([centre(column + 2 * number, row + number) for number in range(3)])
    box = (column * PATCH, row * PATCH, (column + 6) * PATCH, (row + 4) * PATCH)
    return Animal(xy, torch.full((3,), VISIBLE), tuple(map(float, box)))


@pytest.fixture
def labels(tmp_path):
    places = ((4, 5), (20, 20), (10, 24))
    return LabelSet(
        SKELETON,
        [LabelledImage(scene(tmp_path / f"{i}.png", at), (animal(*at),)) for i, at in enumerate(places)],
        edges=((0, 1), (1, 2), (0, 2)),
    )


def test_each_animal_gets_a_window_around_it(labels, tmp_path):
    rule = Foreground.of(Colours(), labels)
    (features,) = Colours().extract_stream(
        [torch.from_numpy(np.array(Image.open(scene(tmp_path / "new.png", (3, 4), (20, 9))))).permute(2, 0, 1)]
    )
    windows = rule.windows(features, margin=0)
    assert sorted(windows) == [(12, 12, 36, 36), (80, 32, 104, 56)]  # squares around 24 × 16 pixels


def test_animals_found_so_have_their_points_at_their_places(labels, tmp_path):
    propagator = Propagator.of(Colours(), labels, KeypointSettings(crop="auto"))
    pixels = torch.from_numpy(np.array(Image.open(scene(tmp_path / "new.png", (3, 4), (20, 9))))).permute(2, 0, 1)
    found = sorted(propagator.label(pixels), key=lambda one: one.box)
    assert len(found) == 2
    for one, at in zip(found, ((3, 4), (20, 9)), strict=True):
        assert ((one.xy - animal(*at).xy).abs() < PATCH).all()


def test_an_image_with_nothing_like_them_is_looked_at_as_a_whole(labels, tmp_path):
    propagator = Propagator.of(Colours(), labels, KeypointSettings(crop="auto"))
    (one,) = propagator.label(torch.full((3, SIDE, SIDE), 60, dtype=torch.uint8))
    assert one.box == (0, 0, SIDE, SIDE)


def test_labels_that_show_nothing_but_animals_teach_no_rule(labels):
    whole = [
        LabelledImage(image.path, (Animal(image.animals[0].xy, image.animals[0].state, (0.0, 0.0, 128.0, 128.0)),))
        for image in labels.images
    ]
    assert Foreground.of(Colours(), LabelSet(SKELETON, whole)) is None


def test_the_rule_is_scikit_learns_ridge_regression():
    generator = torch.Generator().manual_seed(0)
    near, far = torch.randn(30, 4, generator=generator) + 1, torch.randn(70, 4, generator=generator)
    weight, bias = linear_rule(near, far)
    share = np.r_[np.full(30, 0.5 / 30), np.full(70, 0.5 / 70)]
    other = Ridge(alpha=STRENGTH / 4).fit(torch.cat([near, far]).numpy(), np.r_[np.ones(30), -np.ones(70)], share)
    assert_close(weight, torch.from_numpy(other.coef_).float(), rtol=1e-4, atol=1e-5)
    assert bias == pytest.approx(float(other.intercept_), rel=1e-4, abs=1e-5)


def test_lines_of_the_skeleton_belong_to_the_animal_and_its_surroundings_to_nobody():
    one = Animal(
        torch.tensor([[20.0, 50.0], [80.0, 50.0], [50.0, 50.0]]), torch.tensor([2, 2, 0]), (10.0, 30.0, 90.0, 70.0)
    )
    features = FeatureMap(torch.zeros(1, 10, 10), (100, 100))
    shown, free = patches_of([one], [(0, 1)], features)
    assert shown[4:6, 2:8].all()
    assert not shown[:3].any()
    bare, _ = patches_of([one], [], features)
    assert not bare[4, 5]  # the third point is not labelled
    assert free[0].all()
    assert not free[4].any()
    assert not (free & shown).any()
