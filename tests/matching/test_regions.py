"""Boxes and masks: points go to the crop and come back, answers stay on the mask; against brute force."""

import numpy as np
import pytest
import torch
from hostile.verdicts import unchecked
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import geco
from geco import geometry, images, matching
from geco.errors import InputError, MissingFileError
from geco.matching import regions
from geco.matching.regions import Region, place
from geco.matching.settings import MatchSettings
from geco.types import FeatureMap

SIZE, GRID = (30, 44), (5, 7)


def features(seed, size=SIZE, grid=GRID):
    return FeatureMap(torch.randn(6, *grid, generator=torch.Generator().manual_seed(seed)), size)


def blob(seed, size=SIZE, share=0.1):
    mask = torch.rand(size, generator=torch.Generator().manual_seed(seed)) < share
    mask[seed % size[0], (3 * seed) % size[1]] = True
    return mask


POINTS = torch.tensor([[3.0, 4.0], [20.5, 11.0], [44.0, 30.0]])


# --- masks ------------------------------------------------------------------------------------------------------------


def test_the_nearest_mode_answers_the_best_pixel_of_the_mask():
    source, target, mask = features(0), features(1), blob(2)
    found = matching.transfer(source, target, POINTS, within=mask)
    heat = matching.score_maps(matching.queries(source, POINTS), matching.prepare(target))
    pixels = mask.nonzero().tolist()
    for row, (x, y) in enumerate(found.target.tolist()):
        best = max(pixels, key=lambda pixel, row=row: heat[row, pixel[0], pixel[1]].item())
        assert (y - 0.5, x - 0.5) == tuple(best)
        assert found.score[row] == heat[row, best[0], best[1]]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    share=st.sampled_from([0.0, 0.02, 0.3]),
    mode=st.sampled_from(["nearest", "soft", "transport"]),
    upsample=st.booleans(),
)
def test_answers_of_every_mode_lie_on_the_mask(seed, share, mode, upsample):
    mask = blob(seed, share=share)
    choice = MatchSettings(mode=mode, upsample=upsample)
    found = matching.transfer(features(seed), features(seed + 1), POINTS, choice, within=mask)
    column, row = found.target.floor().long().unbind(-1)
    assert mask[row, column].all()
    assert torch.isfinite(found.score).all()


@pytest.mark.parametrize("mode", ["nearest", "soft", "transport"])
def test_a_mask_of_everything_changes_nothing(mode):
    whole = torch.ones(SIZE, dtype=torch.bool)
    pair, choice = (features(0), features(1)), MatchSettings(mode=mode)
    plain, masked = (matching.transfer(*pair, POINTS, choice, within=mask) for mask in (None, whole))
    assert plain.target.equal(masked.target)
    assert plain.score.equal(masked.score)


def test_points_move_onto_the_nearest_pixel_of_a_mask():
    mask, xy = blob(7, share=0.01), torch.rand(40, 2) * torch.tensor([44.0, 30.0])
    moved = geometry.onto(mask, xy)
    centres = mask.nonzero().flip(-1) + 0.5
    for before, after in zip(xy, moved, strict=True):
        if mask[int(before[1]), int(before[0])]:
            assert after.equal(before)
        else:
            assert (after - before).norm() == torch.cdist(before[None], centres).min()


def test_cells_that_a_mask_touches():
    mask = blob(3, share=0.05)
    expected = torch.zeros(GRID, dtype=torch.bool)
    for row, column in mask.nonzero().tolist():
        expected[int((row + 0.5) * 5 / 30), int((column + 0.5) * 7 / 44)] = True
    assert geometry.touched(mask, GRID).equal(expected)
    assert geometry.touched(mask, SIZE).equal(mask)


def test_mutual_matches_on_masks_are_those_of_the_patches_on_them():
    source, target, masks = features(0), features(1), (blob(2, share=0.5), blob(3, share=0.5))
    found = matching.mutual(source, target, MatchSettings(threshold=-1.0), masks=masks)
    cosines = matching.similarity(source, target)
    rows, columns = (
        [i for i, on in enumerate(geometry.resize_labels(mask, GRID).flatten().tolist()) if on] for mask in masks
    )
    pairs = {
        (i, j)
        for i in rows
        for j in columns
        if cosines[i, j] == cosines[i, columns].max() and cosines[i, j] == cosines[rows, j].max()
    }
    ends = [geometry.cells(xy, size=SIZE, grid=GRID).tolist() for xy in (found.source, found.target)]
    assert set(zip(*ends, strict=True)) == pairs
    assert len(found) == len(pairs) > 3


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(30, 43, dtype=torch.bool), r"as large as its image, 30×44 \(height×width\), got 30×43"),
        (torch.zeros(30, 44, dtype=torch.bool), "without any foreground"),
    ],
)
def test_masks_that_do_not_fit(mask, message):
    with pytest.raises(InputError, match=message):
        matching.transfer(features(0), features(1), POINTS, within=mask)
    with pytest.raises(InputError, match=message):
        matching.mutual(features(0), features(1), masks=(None, mask))
    with pytest.raises(InputError, match=message):
        place(Region(features(0), mask=mask))


def test_a_mask_between_the_centres_of_patches_has_none():
    mask = torch.zeros(SIZE, dtype=torch.bool)
    mask[0, 0] = True
    with pytest.raises(InputError, match="smaller than a patch"):
        matching.mutual(features(0), features(1), masks=(mask, None))


# --- boxes ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tiny_folder):
    return geco.load(tiny_folder, size=56, device="cpu")


@pytest.fixture(scope="module")
def pictures():
    noise = torch.randint(0, 256, (2, 3, 60, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return noise[0], noise[1]


def test_a_box_is_its_crop_with_points_moved(model, pictures):
    source, target = pictures
    points = torch.tensor([[25.0, 31.5], [40.0, 50.0]])
    found = geco.transfer(
        Region(source, box=(20.4, 10, 60, 55.5)), Region(target, box=(-5, 30, 50, 90)), points, model=model
    )
    crops = source[:, 10:56, 20:60], target[:, 30:60, 0:50]
    expected = geco.transfer(*crops, points - torch.tensor([20.0, 10.0]), model=model)
    assert found.source.equal(points)
    assert found.target.equal(expected.target + torch.tensor([0.0, 30.0]))
    mutual = geco.match(Region(source, box=(20, 10, 60, 56)), Region(target, box=(0, 30, 50, 60)), model=model)
    inner = geco.match(*crops, model=model)
    assert mutual.source.equal(inner.source + torch.tensor([20.0, 10.0]))
    assert mutual.target.equal(inner.target + torch.tensor([0.0, 30.0]))


def test_a_mask_file_is_of_the_whole_image_and_cropped_with_it(model, pictures, tmp_path):
    mask = torch.zeros(60, 80, dtype=torch.bool)
    mask[40:45, 30:36] = True
    Image.fromarray(mask.numpy().astype(np.uint8) * 255).save(tmp_path / "mask.png")
    for part in (tmp_path / "mask.png", str(tmp_path / "mask.png"), mask, mask.numpy()):
        found = geco.transfer(pictures[0], Region(pictures[1], (25, 30, 80, 60), part), [(3, 4), (70, 50)], model=model)
        column, row = found.target.floor().long().unbind(-1)
        assert mask[row, column].all()


def test_whole_images_stay_unread(tmp_path):
    assert place(Region(tmp_path / "later.jpg")).image == tmp_path / "later.jpg"
    assert place("later.jpg").image == "later.jpg"


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((1, 2, 3), r"a box is \(x0, y0, x1, y1\)"),
        ("1,2,3,4", r"a box is \(x0, y0, x1, y1\)"),
        ((10, 10, 10, 30), "x0 < x1 and y0 < y1"),
        ((float("nan"), 0, 9, 9), "an edge of a box must be a number"),
        ((0, 0, 30, "9"), "an edge of a box must be a number"),
    ],
)
def test_boxes_that_are_none(box, message):
    with pytest.raises(InputError, match=message):
        unchecked(Region)("a.jpg", box)


def test_boxes_and_points_that_miss_each_other(model, pictures):
    source, target = pictures
    with pytest.raises(InputError, match=r"less than 8×8 pixels on the image of 80×60"):
        place(Region(source, box=(76, 0, 300, 60)))
    with pytest.raises(InputError, match=r"point 2 is \(70, 5\), outside the source's box \(0, 0, 40, 40\)"):
        geco.transfer(Region(source, box=(0, 0, 40, 40)), target, [(5, 5), (70, 5)], model=model)
    mask = torch.zeros(60, 80, dtype=torch.bool)
    mask[0, 0] = True
    with pytest.raises(InputError, match="no pixel of the mask lies inside the box"):
        place(Region(source, (20, 20, 60, 60), mask))
    with pytest.raises(InputError, match="give the image, not its feature map"):
        Region(features(0), (0, 0, 9, 9))
    with pytest.raises(InputError, match="a mask is a file, or truth values"):
        regions._truths(torch.ones(1, 60, 80).bool())
    with pytest.raises(MissingFileError, match=r"none.png: no such file"):
        place(Region(source, mask="none.png"))


# --- many targets -----------------------------------------------------------------------------------------------------


def test_many_targets_are_answered_as_one_by_one(model, pictures, image_file):
    source, target = pictures
    targets = [target, image_file("b.jpg", seed=2), model.extract(source), Region(target, (0, 0, 40, 40))]
    points = [(3, 4), (70, 50)]
    expected = [geco.transfer(source, one, points, model=model) for one in targets]
    for given_as in (targets, tuple(targets), iter(targets)):
        found = list(geco.transfer(source, given_as, points, model=model))
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours.target, theirs.target)
            torch.testing.assert_close(ours.score, theirs.score)
    assert list(geco.transfer(source, [], points, model=model)) == []
    maps = [model.extract(target)] * 3  # nothing to encode but the source
    assert len(list(geco.transfer(model.extract(source), maps, points, model=model))) == 3


def test_points_are_checked_before_the_first_target(model, pictures):
    def never():
        raise AssertionError("a target was asked for")
        yield

    with pytest.raises(InputError, match="point 1 is"):
        geco.transfer(pictures[0], never(), [(500, 4)], model=model)


# --- what two images have in common -----------------------------------------------------------------------------------


def test_otsu_is_the_split_with_the_largest_variance_between():
    from geco.matching.foreground import otsu

    values = torch.cat([torch.randn(60), 3 + torch.randn(40)])

    def between(split):
        low, high = values[values <= split], values[values > split]
        return len(low) * len(high) * (low.mean() - high.mean()).square() if len(high) else torch.tensor(0.0)

    assert otsu(values) == max(values, key=between)
    assert (torch.full((5,), 0.3) > otsu(torch.full((5,), 0.3))).all()


def test_the_object_before_different_backgrounds_is_what_is_common(model, pictures):
    """Two objects of the same features before backgrounds of other ones, with some noise on everything."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(12, 12, generator=generator))[0]
    maps, truth = [], []
    for background, (rows, columns) in enumerate([((2, 6), (3, 8)), ((1, 4), (2, 7))], 1):
        values = directions[background][:, None, None].repeat(1, 8, 10)
        inside = torch.zeros(8, 10, dtype=torch.bool)
        inside[slice(*rows), slice(*columns)] = True
        values[:, inside] = directions[0][:, None]
        maps.append(FeatureMap(values + 0.1 * torch.randn(values.shape, generator=generator), (80, 100)))
        truth.append(geometry.resize_labels(inside, (80, 100)))
    for mask, inside in zip(matching.common_foreground(*maps), truth, strict=True):
        assert mask.equal(inside)
    found = geco.match(*maps, model=model, foreground=True)
    for xy, inside in ((found.source, truth[0]), (found.target, truth[1])):
        column, row = xy.floor().long().unbind(-1)
        assert inside[row, column].all()
    assert len(found) > 3
    half = Region(maps[0], mask=truth[0] & (torch.arange(100) < 50))  # a mask given comes first
    column = geco.match(half, maps[1], model=model, foreground=True).source[:, 0]
    assert (column < 50).all()


def test_an_image_is_read_as_ever(image_file):
    path = image_file()
    assert place(Region(path, (0, 0, 60, 60))).image.equal(images.read(path)[:, :60, :60])
