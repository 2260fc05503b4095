"""Rendering against projection: what the camera says and what the rays find are the same."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modelled import animal, box, mesh_of, plane, sphere

from geco.errors import InputError
from geco.pose import Camera, Look, Mesh, Scene, draw_look, orbit, paint, subdivide
from geco.pose.cameras import look_at, pinhole, upward
from geco.pose.looks import DECORATING, TESTING

SIZE = (120, 160)
MESH = subdivide(animal(), 600)
SCENE = Scene(MESH)


def brute_force(mesh, camera, xy):
    """Depth of the nearest triangle behind each point, by Möller and Trumbore, triangle by triangle."""
    rays = camera.rays(xy)
    inside = mesh.vertices @ camera.rotation.T + camera.translation
    best = np.full(len(xy), np.inf)
    for a, b, c in inside[mesh.faces]:
        p = np.cross(rays, c - a)
        determinant = p @ (b - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = -(p @ a) / determinant
            q = np.cross(-a, b - a)
            v = rays @ q / determinant
            depth = (c - a) @ q / determinant
            hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (depth > 0)
        best = np.where(hit & (depth < best), depth, best)
    return best


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_a_visible_vertex_is_found_where_it_projects_to(seed):
    """At the vertex's own pixel, moved so that its centre is the vertex's projection, depth agrees to 1e-5."""
    camera = orbit(MESH.vertices, 1, size=SIZE, seed=seed)[0]
    xy, depth = camera.project(MESH.vertices)
    visible = SCENE.visible(camera)
    assert 0.1 < visible.mean() < 0.9
    # The middle of each face, so that the ray meets the inside of a triangle and not a corner.
    centres = MESH.vertices[MESH.faces].mean(1)
    middle, along = camera.project(centres)
    first = brute_force(MESH, camera, middle)
    face = SCENE._rays.first(camera.position, centres - camera.position)
    seen = np.flatnonzero(first > along * (1 - 1e-9))
    assert (face[seen] >= 0).all()
    assert np.mean(face[seen] == seen) > 0.95  # all but where boxes of the animal touch and two faces are as near
    _, found = SCENE._on_plane(camera, camera.rays(middle[seen]), face[seen])
    assert np.abs(found / along[seen] - 1).max() < 1e-5
    # Vertices: nothing nearer than them by brute force.
    nearest = brute_force(MESH, camera, xy)
    assert not (visible & (nearest < depth * (1 - 2e-4))).any()
    assert not (~visible & (nearest > depth * (1 - 1e-6))).any()


def test_depth_and_faces_are_those_of_brute_force():
    camera = orbit(MESH.vertices, 1, size=(40, 50), seed=3)[0]
    hits = SCENE.look(camera)
    row, column = np.divmod(np.arange(2000), 50)
    xy = np.stack([column + 0.5, row + 0.5], 1)
    depth = brute_force(MESH, camera, xy).reshape(40, 50)
    assert np.mean(np.isfinite(depth) == hits.mask) > 0.998  # an outline in single precision may differ by a pixel
    both = np.isfinite(depth) & hits.mask
    assert np.abs(hits.depth[both] / depth[both] - 1).max() < 1e-5
    points = np.einsum("nk,nkd->nd", hits.barycentric[both], MESH.vertices[MESH.faces[hits.face[both]]])
    back, along = camera.project(points)
    assert np.abs(back - xy.reshape(40, 50, 2)[both]).max() < 1e-4
    assert np.allclose(along, hits.depth[both], rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-45, 1e45])
def test_units_do_not_matter(unit):
    """Single precision, in which rays are cast, ends at 1e38; squares of such lengths end far earlier."""
    scene = Scene(Mesh(MESH.vertices * unit, MESH.faces))
    camera = orbit(MESH.vertices, 1, size=SIZE, seed=4)[0]
    far = replace(camera, translation=camera.translation * unit)
    assert np.array_equal(scene.look(far).mask, SCENE.look(camera).mask)
    assert np.array_equal(scene.visible(far), SCENE.visible(camera))


def test_a_sphere_has_its_known_depth_and_outline():
    ball = Scene(sphere(5))
    camera = look_at(pinhole((101, 101), 200.0), np.zeros(3), np.array([0, 0, 5.0]), upward("y"))
    hits = ball.look(camera)
    assert hits.depth[50, 50] == pytest.approx(4, abs=2e-3)
    radius = 200 * np.tan(np.arcsin(1 / 5))
    assert hits.mask.sum() == pytest.approx(np.pi * radius**2, rel=0.01)


def test_left_is_left():
    """The animal faces +z and carries a horn on its left (+x): seen from the front that is on the image's right."""
    camera = look_at(pinhole((200, 200), 300.0), np.zeros(3), np.array([0, 0.5, 9.0]), upward("y"))
    horn, _ = camera.project(np.array([[0.25, 1.6, 1.2], [-0.25, 1.6, 1.2]]))
    assert horn[0, 0] > 100 > horn[1, 0]
    mask = SCENE.look(camera).mask
    (x, y), (x_other, y_other) = horn.astype(int)
    assert mask[y, x]
    assert not mask[y_other, x_other]


def test_a_mirrored_mesh_gives_the_mirrored_image_and_not_the_same():
    camera = look_at(pinhole((120, 120), 200.0), np.zeros(3), np.array([0, 0.5, 9.0]), upward("y"))
    mirrored = Scene(Mesh(MESH.vertices * [-1, 1, 1], MESH.faces[:, ::-1]))
    depth, other = SCENE.look(camera).depth, mirrored.look(camera).depth
    both = np.isfinite(depth[:, ::-1]) & np.isfinite(other)
    assert both.mean() > 0.05
    assert np.abs(depth[:, ::-1][both] / other[both] - 1).max() < 1e-5
    assert (np.isfinite(depth) != np.isfinite(other)).sum() > 20


def test_a_reflection_is_not_a_camera():
    with pytest.raises(InputError, match="left and right are exchanged"):
        Camera(np.diag([-1.0, 1, 1]), np.zeros(3), (1.0, 1.0), (0.0, 0.0), (8, 8))
    with pytest.raises(InputError, match="orthonormal"):
        Camera(2 * np.eye(3), np.zeros(3), (1.0, 1.0), (0.0, 0.0), (8, 8))
    with pytest.raises(InputError, match="focal"):
        pinhole((8, 8), 0.0)


@pytest.mark.parametrize("up", ["x", "y", "z", "-y"])
def test_orbits_frame_the_mesh_upright(up):
    for camera in orbit(MESH.vertices, 12, size=SIZE, up=up, seed=5):
        xy, depth = camera.project(MESH.vertices)
        assert (depth > 0).all()
        assert (xy >= 0).all()
        assert (xy <= [SIZE[1], SIZE[0]]).all()
        assert np.ptp(xy, axis=0).max() > 0.3 * min(SIZE)
        foot, head = camera.project(np.array([-0.5 * upward(up), 0.5 * upward(up)]))[0]
        assert head[1] < foot[1]


@pytest.mark.parametrize("field_of_view", [(20, 40), (120, 160)])
def test_orbits_frame_a_rod_seen_end_on_too(field_of_view):
    rod = mesh_of(box((0.01, 0.01, 5)))
    how = {"elevation": (-1, 1), "field_of_view": field_of_view}
    for camera in orbit(rod.vertices, 100, size=(100, 100), **how):
        xy, depth = camera.project(rod.vertices)
        assert (depth > 0).all()
        assert 0.69 <= np.abs(xy / 50 - 1).max() <= 0.96


def test_a_resized_camera_sees_the_same():
    camera = orbit(MESH.vertices, 1, size=SIZE, seed=1)[0]
    wide = camera.resized((60, 320))
    assert np.allclose(wide.project(MESH.vertices)[0], camera.project(MESH.vertices)[0] * [2, 0.5])


def test_pictures_differ_by_look_alone():
    camera = orbit(MESH.vertices, 1, size=SIZE, seed=2)[0]
    hits = SCENE.look(camera)
    first, again = (paint(SCENE, camera, hits, draw_look(3, *DECORATING)) for _ in range(2))
    other = paint(SCENE, camera, hits, draw_look(3, *TESTING))
    assert first.shape == (3, *SIZE)
    assert (first == again).all()
    assert (first != other).any()
    assert not set(DECORATING[0]) & set(TESTING[0])
    assert not set(DECORATING[1]) & set(TESTING[1])


def test_given_colours_and_background_are_used():
    square = plane()
    red = replace(square, colours=np.tile(np.array([1.0, 0, 0]), (len(square.faces), 3, 1)))
    scene = Scene(red)
    camera = look_at(pinhole((40, 40), 60.0), np.array([0.5, 0.5, 0]), np.array([0.5, 0.5, 3.0]), upward("y"))
    blue = np.zeros((4, 4, 3), np.uint8) + np.array([0, 0, 255], np.uint8)
    picture = paint(scene, camera, scene.look(camera), Look(background=blue, light=(0, 0, -1), ambient=1.0))
    assert picture[:, 20, 20].tolist() == [255, 0, 0]
    assert picture[:, 0, 0].tolist() == [0, 0, 255]


def test_light_comes_from_where_it_is_said_to():
    """A sphere lit from the image's left is brighter there, whichever way its faces are oriented."""
    for mesh in (sphere(3), Mesh(sphere(3).vertices, sphere(3).faces[:, ::-1])):
        scene = Scene(mesh)
        camera = look_at(pinhole((60, 60), 90.0), np.zeros(3), np.array([0, 0, 4.0]), upward("y"))
        picture = paint(scene, camera, scene.look(camera), Look(coat="plain", light=(-1, 0, -0.2), seed=1)).float()
        assert picture[:, 30, 18].mean() > picture[:, 30, 42].mean() + 20


def test_a_camera_inside_the_mesh_sees_it_all_around():
    """Half of the sphere is behind the camera, and every ray still ends on the half before it."""
    camera = look_at(pinhole((20, 30), 12.0), np.zeros(3), np.array([0, 0, 0.3]), upward("y"))
    hits = Scene(sphere(3)).look(camera)
    assert hits.mask.all()
    rays = camera.rays(np.stack(np.meshgrid(np.arange(30) + 0.5, np.arange(20) + 0.5), -1).reshape(-1, 2))
    places = (hits.depth.reshape(-1, 1) * rays) @ camera.rotation + camera.position
    assert np.abs(np.linalg.norm(places, axis=1) - 1).max() < 0.02


def test_a_camera_that_sees_nothing_sees_nothing():
    camera = look_at(pinhole((20, 20), 30.0), np.array([0, 0, 50.0]), np.array([0, 0, 9.0]), upward("y"))
    assert not SCENE.look(camera).mask.any()
    assert not SCENE.visible(camera).any()
    assert paint(SCENE, camera, SCENE.look(camera), Look()).shape == (3, 20, 20)
