"""Poses from made-up matches with outliers, against the true pose and between the two engines."""

import numpy as np
import pytest
from modelled import animal

from geco.errors import InputError
from geco.pose import PnpSettings, orbit, rotation_error, solve, subdivide
from geco.pose.cameras import pinhole

MESH = subdivide(animal(), 1000)
SIZE = (300, 400)


def matches(seed, outliers, *, count=150, noise=1.0):
    """Matches of a random view; a share of them lead to another vertex."""
    generator = np.random.default_rng(seed)
    camera = orbit(MESH.vertices, 1, size=SIZE, seed=seed, field_of_view=(30, 50))[0]
    chosen = generator.choice(len(MESH.vertices), count, replace=False)
    xy = camera.project(MESH.vertices[chosen])[0] + generator.normal(0, noise, (count, 2))
    wrong = generator.permutation(count) < round(outliers * count)
    points = MESH.vertices[np.where(wrong, generator.permutation(len(MESH.vertices))[:count], chosen)]
    return camera, xy, points, wrong


def lens_of(camera):
    return pinhole(camera.size, camera.focal[0])


@pytest.mark.parametrize("engine", ["opencv", "poselib"])
@pytest.mark.parametrize("outliers", [0.0, 0.3, 0.5, 0.7])
def test_the_true_pose_is_found_among_outliers(engine, outliers):
    for seed in range(4):
        camera, xy, points, wrong = matches(seed, outliers)
        solution = solve(xy, points, lens_of(camera), settings=PnpSettings(engine, tolerance=0.012))
        assert rotation_error(solution.camera.rotation, camera.rotation) < 1.5
        off = np.linalg.norm(solution.camera.position - camera.position)
        assert off < 0.05 * np.linalg.norm(camera.position)
        assert solution.inliers[~wrong].mean() > 0.95
        assert solution.inliers[wrong].mean() < 0.2 if wrong.any() else True


@pytest.mark.parametrize("outliers", [0.0, 0.4, 0.7])
def test_the_engines_agree(outliers):
    camera, xy, points, _ = matches(11, outliers)
    ours, other = (solve(xy, points, lens_of(camera), settings=PnpSettings(e, 0.012)) for e in ("opencv", "poselib"))
    assert rotation_error(ours.camera.rotation, other.camera.rotation) < 0.1
    assert np.allclose(ours.camera.translation, other.camera.translation, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("engine", ["opencv", "poselib"])
def test_without_noise_it_is_exact(engine):
    camera, xy, points, _ = matches(5, 0.3, noise=0.0)
    solution = solve(xy, points, lens_of(camera), settings=PnpSettings(engine))
    assert rotation_error(solution.camera.rotation, camera.rotation) < 0.05


def test_an_unknown_focal_length_is_found():
    camera, xy, points, _ = matches(3, 0.3, noise=0.3)
    guess = pinhole(SIZE, 3.0 * camera.focal[0])
    solution = solve(xy, points, guess, settings=PnpSettings(tolerance=0.012), focal_known=False)
    assert solution.camera.focal[0] == pytest.approx(camera.focal[0], rel=0.1)
    assert rotation_error(solution.camera.rotation, camera.rotation) < 2


def test_units_do_not_matter():
    camera, xy, points, _ = matches(7, 0.3)
    small, large = (solve(xy, points * scale + 5 * scale, lens_of(camera)) for scale in (1e-3, 1e3))
    assert rotation_error(small.camera.rotation, large.camera.rotation) < 0.01
    assert np.allclose(small.camera.translation * 1e6, large.camera.translation, rtol=1e-3, atol=1e-3 * 1e3)


def test_weights_decide_between_two_poses():
    """Half of the matches say one pose, half another; similarity says which half is refined on."""
    camera, xy, points, _ = matches(1, 0.0, count=100, noise=3.0)
    shifted = xy.copy()
    shifted[50:] += [6, 0]  # within the tolerance of the first half's pose
    weights = np.r_[np.ones(50), np.full(50, 1e-3)]
    free, weighted = (
        solve(shifted, points, lens_of(camera), scores, PnpSettings(tolerance=0.05)) for scores in (None, weights)
    )
    error = [np.abs(np.median(s.camera.project(points[:50])[0] - xy[:50], axis=0)).max() for s in (free, weighted)]
    assert error[1] < error[0]


def test_too_few_or_broken_matches_are_one_line():
    lens = pinhole(SIZE, 400.0)
    with pytest.raises(InputError, match="at least 4 matches, got 3"):
        solve(np.zeros((3, 2)), np.zeros((3, 3)), lens)
    with pytest.raises(InputError, match="one 3D point"):
        solve(np.zeros((5, 2)), np.zeros((6, 3)), lens)
    with pytest.raises(InputError, match="NaN"):
        solve(np.full((5, 2), np.nan), np.zeros((5, 3)), lens)
    with pytest.raises(InputError, match="one of opencv, poselib, got 'other'"):
        PnpSettings(engine="other")


@pytest.mark.parametrize("engine", ["opencv", "poselib"])
def test_degenerate_matches_end_without_a_crash(engine):
    lens = pinhole(SIZE, 400.0)
    solution = solve(np.full((6, 2), 50.0), np.zeros((6, 3)), lens, settings=PnpSettings(engine))
    assert solution.inliers.shape == (6,)


def test_the_angle_between_rotations():
    for degrees in (0.0, 1e-4, 7.0, 90.0, 179.9):
        angle = np.radians(degrees)
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        assert rotation_error(turn, np.eye(3)) == pytest.approx(degrees, abs=1e-6)
