"""Distances along surfaces, against closed forms."""

import numpy as np
import pytest
import trimesh
from modelled import box, mesh_of, plane, sphere

from geco.errors import InputError
from geco.pose import Geodesics, Mesh, subdivide


def test_on_a_sphere_they_are_arcs():
    ball = sphere(4)
    geodesics = Geodesics(ball)
    for vertex in (0, 100, 2000):
        arcs = np.arccos(np.clip(ball.vertices @ ball.vertices[vertex], -1, 1)) / ball.diagonal
        assert np.abs(geodesics.from_vertex(vertex) - arcs).max() < 0.03 * arcs.max()


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_on_a_plane_they_are_straight_whatever_the_unit(scale):
    square = plane(side=scale)
    vertex = len(square.vertices) // 2
    true = np.linalg.norm(square.vertices - square.vertices[vertex], axis=1) / square.diagonal
    error = np.abs(Geodesics(square).from_vertex(vertex) - true)
    assert error.max() < 0.04 * true.max()
    assert error.mean() < 0.01 * true.max()


def test_pieces_are_bridged_and_distances_stay_close_to_the_plane_s():
    """Two halves of a plane with a gap of a cell: the point cloud leads over it."""
    square = plane(cells=40)
    column = np.round(square.vertices[:, 0] * 40).astype(int)
    kept = ~(((column[square.faces] <= 20).any(1)) & ((column[square.faces] > 20).any(1)))
    halves = Mesh(square.vertices, square.faces[kept])
    true = np.linalg.norm(square.vertices - square.vertices[0], axis=1) / square.diagonal
    found = Geodesics(halves).from_vertex(0)
    assert np.isfinite(found).all()
    assert np.abs(found - true).max() < 0.06 * true.max()


def test_several_pieces_are_finite_and_far_ones_far():
    two = subdivide(mesh_of(trimesh.util.concatenate([box(), box(at=(1.2, 0, 0))])), 800)
    found = Geodesics(two).from_vertex(0)
    assert np.isfinite(found).all()
    assert found[two.vertices[:, 0] > 0.7].min() > found[two.vertices[:, 0] < 0.5].min()


def test_pairs_are_read_from_the_rows_and_symmetric():
    ball = sphere(3)
    geodesics = Geodesics(ball)
    start, end = np.array([3, 5, 7, 9]), np.array([100, 100, 7, 200])
    between = geodesics.between(start, end)
    assert between[2] == 0
    assert between == pytest.approx(geodesics.between(end, start), abs=0.02)
    with pytest.raises(InputError, match="a vertex must be in"):
        geodesics.from_vertex(10**6)
