"""Points, masks and images move together under every transform, and pixels and cells agree for any size."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from geco import geometry
from geco.types import Keypoints, Skeleton, View

SKELETON = Skeleton(("left", "right", "middle"), (1, 0, 2), (1, 0, 2))
sides = st.integers(4, 40)


def painted(height, width, columns, rows):
    """A view whose three keypoints are pixel centres painted red, green and blue, with masks on just those pixels."""
    image = torch.zeros(3, height, width, dtype=torch.uint8)
    mask = torch.zeros(height, width, dtype=torch.bool)
    parts = torch.zeros(height, width, dtype=torch.long)
    for k, (x, y) in enumerate(zip(columns, rows, strict=True)):
        image[:, y, x] = 0
        image[k, y, x] = 255
        mask[y, x] = True
        parts[y, x] = k + 1
    xy = torch.tensor([[x + 0.5, y + 0.5] for x, y in zip(columns, rows, strict=True)])
    box = torch.cat([xy.amin(0) - 0.5, xy.amax(0) + 0.5])
    return View(image, (height, width), Keypoints(xy, torch.ones(3, dtype=torch.bool)), box, mask, parts, name="dots")


@st.composite
def dots(draw):
    """Arguments of `painted`. The shape checker draws random numbers, which must not happen inside a strategy."""
    height, width = draw(sides), draw(sides)
    cells = draw(st.lists(st.integers(0, height * width - 1), min_size=3, max_size=3, unique=True))
    return height, width, [c % width for c in cells], [c // width for c in cells]


def equal(first, second):
    torch.testing.assert_close(first.keypoints.xy, second.keypoints.xy)
    assert first.keypoints.visible.equal(second.keypoints.visible)
    torch.testing.assert_close(first.box, second.box)
    assert first.image.equal(second.image)
    assert first.mask.equal(second.mask)
    assert first.parts.equal(second.parts)
    assert first.size == second.size


@settings(max_examples=40, deadline=None)
@given(dots())
def test_flipping_twice_is_the_identity(spots):
    view = painted(*spots)
    equal(geometry.flip(geometry.flip(view, SKELETON), SKELETON), view)


@settings(max_examples=40, deadline=None)
@given(dots())
def test_a_flip_moves_the_dot_under_its_point_and_renames_it(spots):
    view = painted(*spots)
    flipped = geometry.flip(view, SKELETON)
    for new_row, old_row in ((0, 1), (1, 0), (2, 2)):
        x, y = flipped.keypoints.xy[new_row].tolist()
        assert flipped.image[old_row, int(y), int(x)] == 255, "the colour of the point that is now called so"
        assert flipped.mask[int(y), int(x)]
        assert flipped.parts[int(y), int(x)] == old_row + 1


@settings(max_examples=60, deadline=None)
@given(dots(), st.data())
def test_a_crop_keeps_dots_under_their_points_and_hides_what_left(spots, data):
    view = painted(*spots)
    height, width = view.size
    x0, y0 = data.draw(st.integers(-5, width - 2)), data.draw(st.integers(-5, height - 2))
    x1, y1 = data.draw(st.integers(x0 + 1, width + 5)), data.draw(st.integers(y0 + 1, height + 5))
    cropped = geometry.crop(view, (x0, y0, x1, y1))
    assert cropped.size == (y1 - y0, x1 - x0) == tuple(cropped.image.shape[-2:])
    for k in range(3):
        x, y = view.keypoints.xy[k].tolist()
        stays = x0 < x < x1 and y0 < y < y1
        assert bool(cropped.keypoints.visible[k]) == stays
        if stays:
            new_x, new_y = cropped.keypoints.xy[k].tolist()
            assert cropped.image[k, int(new_y), int(new_x)] == 255
            assert cropped.parts[int(new_y), int(new_x)] == k + 1
    assert cropped.mask.sum() == cropped.keypoints.visible.sum(), "what lies beyond the image is background"
    assert (cropped.box >= 0).all()


@settings(max_examples=40, deadline=None)
@given(dots(), st.integers(1, 4))
def test_enlarging_keeps_dots_under_their_points(spots, factor):
    view = painted(*spots)
    height, width = view.size
    larger = geometry.resize(view, (height * factor, width * factor))
    for k in range(3):
        x, y = (int(v) for v in larger.keypoints.xy[k])
        assert larger.mask[y, x]
        assert larger.parts[y, x] == k + 1
        # The brightest place of the channel, weighted, is the point itself unless another dot is its neighbour.
        assert larger.image[k, y, x] >= 0.5 * larger.image[k].max()
    assert larger.mask.sum() == 3 * factor**2
    torch.testing.assert_close(larger.box, view.box * factor)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 30), st.integers(0, 3), st.data())
def test_a_quarter_turn_of_a_square_is_rot90(side, quarters, data):
    cells = data.draw(st.lists(st.integers(0, side**2 - 1), min_size=3, max_size=3, unique=True))
    view = painted(side, side, [c % side for c in cells], [c // side for c in cells])
    turned = geometry.rotate(view, 90.0 * quarters)
    assert turned.image.equal(view.image.rot90(quarters, (-2, -1)))
    assert turned.mask.equal(view.mask.rot90(quarters, (-2, -1)))
    assert turned.parts.equal(view.parts.rot90(quarters, (-2, -1)))
    for k in range(3):
        x, y = (int(value) for value in turned.keypoints.xy[k])
        assert turned.parts[y, x] == k + 1
    xy = turned.keypoints.xy
    torch.testing.assert_close(turned.box, torch.cat([xy.amin(0) - 0.5, xy.amax(0) + 0.5]))


@pytest.mark.parametrize("degrees", [-130.0, -20.0, 7.5, 60.0])
def test_a_turn_is_opencv_s(degrees):
    height, width = 60, 90
    image = torch.rand(3, height, width, generator=torch.Generator().manual_seed(0))
    image = geometry.resize_image(geometry.resize_image(image, (8, 12)), (height, width))  # smooth
    corner_to_centre = (width - 1) / 2, (height - 1) / 2  # OpenCV counts from the centre of the first pixel
    matrix = cv2.getRotationMatrix2D(corner_to_centre, degrees, 1.0)
    expected = cv2.warpAffine(image.permute(1, 2, 0).numpy(), matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
    turned = geometry.rotate(View(image, (height, width)), degrees)
    # OpenCV rounds positions to 1/32 of a pixel.
    torch.testing.assert_close(turned.image.permute(1, 2, 0), torch.from_numpy(expected), atol=0.01, rtol=0)


def test_a_turn_hides_what_leaves_the_frame():
    view = painted(20, 40, [1, 20, 38], [10, 10, 10])
    turned = geometry.rotate(view, 90.0)
    assert turned.keypoints.visible.tolist() == [False, True, False]
    assert turned.mask.sum() == 1
    assert turned.size == view.size
    assert turned.box.tolist() == pytest.approx([20.0, 0.0, 21.0, 20.0], abs=1e-4)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 500), st.integers(1, 500), st.data())
def test_pixel_to_cell_to_pixel_stays_within_the_cell(rows, columns, height, width, data):
    x, y = data.draw(st.floats(0, width)), data.draw(st.floats(0, height))
    xy = torch.tensor([[x, y]], dtype=torch.float64)
    index = geometry.cells(xy, size=(height, width), grid=(rows, columns))
    centre = geometry.cell_centres(index, size=(height, width), grid=(rows, columns))
    assert 0 <= int(index) < rows * columns
    slack = 1e-4 * max(height, width)
    assert abs(float(centre[0, 0]) - x) <= width / columns / 2 + slack
    assert abs(float(centre[0, 1]) - y) <= height / rows / 2 + slack
    assert geometry.cells(centre, size=(height, width), grid=(rows, columns)).equal(index)


def test_cells_are_row_major_and_the_far_border_counts_to_the_last_cell():
    xy = torch.tensor([[0.0, 0.0], [99.0, 0.0], [0.0, 49.0], [100.0, 50.0], [-3.0, 200.0]])
    assert geometry.cells(xy, size=(50, 100), grid=(2, 4)).tolist() == [0, 3, 4, 7, 4]


def test_sample_is_exact_at_cell_centres_and_linear_between():
    values = torch.arange(12.0).view(1, 3, 4)
    centres = geometry.cell_centres(torch.arange(12), size=(30, 80), grid=(3, 4))
    torch.testing.assert_close(geometry.sample(values, centres, size=(30, 80))[:, 0], torch.arange(12.0))
    between = (centres[0] + centres[1])[None] / 2
    torch.testing.assert_close(geometry.sample(values, between, size=(30, 80))[0, 0], torch.tensor(0.5))


def test_sample_of_a_batch_equals_its_samples():
    values, xy = torch.randn(2, 3, 5, 4, 6), torch.rand(2, 3, 7, 2) * 20
    batched = geometry.sample(values, xy, size=(20, 20))
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(batched[i, j], geometry.sample(values[i, j], xy[i, j], size=(20, 20)))


@pytest.mark.parametrize("to", [(17, 40), (60, 30), (45, 64)], ids=["smaller", "larger", "one side"])
def test_lanczos_is_pillow_s(to):
    """Pillow rounds to 8 bits after each of the two passes, ours does not."""
    pixels = np.random.default_rng(0).integers(70, 180, (45, 64, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(pixels).resize(to[::-1], Image.Resampling.LANCZOS)).astype(float)
    ours = geometry.resize_image(torch.from_numpy(pixels).permute(2, 0, 1), to, mode="lanczos")
    assert np.abs(ours.permute(1, 2, 0).numpy() - expected).max() <= 1.5
    batch = torch.rand(2, 2, 3, 45, 64)
    together = geometry.resize_image(batch, to, mode="lanczos")
    torch.testing.assert_close(together[1, 0], geometry.resize_image(batch[1, 0], to, mode="lanczos"))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31 - 1))
def test_neighbours_and_their_shares_are_what_a_sample_is_made_of(rows, columns, seed):
    """Also on and beyond the outer centres, and where a grid has one row or column only."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(3, rows, columns, generator=generator)
    xy = torch.rand(20, 2, generator=generator) * torch.tensor([44.0, 34.0]) - 2
    index, shares = geometry.neighbours(xy, size=(30, 40), grid=(rows, columns))
    read = (values.flatten(1)[:, index] * shares).sum(-1).mT
    assert torch.allclose(read, geometry.sample(values, xy, size=(30, 40)), atol=1e-5)
    assert torch.allclose(shares.sum(-1), torch.ones(20))


def test_labels_are_resized_by_the_pixel_under_each_new_centre():
    labels = torch.arange(6).view(2, 3)
    assert geometry.resize_labels(labels, (4, 6)).tolist() == [[0, 0, 1, 1, 2, 2]] * 2 + [[3, 3, 4, 4, 5, 5]] * 2
    assert geometry.resize_labels(labels, (1, 1)).tolist() == [[4]]


def test_flip_needs_a_mirror_table_and_pixels():
    view = painted(6, 6, [1, 2, 3], [1, 2, 3])
    with pytest.raises(ValueError, match="no mirror table"):
        geometry.flip(view, Skeleton(("a", "b", "c"), (0, 1, 2), None))
    from pathlib import Path

    with pytest.raises(ValueError, match="has not been read"):
        geometry.flip(replace(view, image=Path("cat.jpg")), SKELETON)


def test_an_empty_crop_is_refused():
    with pytest.raises(ValueError, match="x0 < x1"):
        geometry.crop(painted(6, 6, [1, 2, 3], [1, 2, 3]), (4, 0, 4, 6))
