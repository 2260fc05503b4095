"""Landmarks of rigged animals: sides, order along the body, and one animal's places on another."""

import numpy as np
import pytest
from dataset_trees import real, real_root
from modelled import animal, rigged_animal

from geco.data import published_skeletons
from geco.errors import InputError
from geco.pose import Geodesics, animal_landmarks, load_mesh, transfer_vertices


def loaded(name):
    return load_mesh(real_root("meshes/quaternius") / f"{name}.glb", vertices=3000)


def test_a_mesh_without_bones_is_refused():
    with pytest.raises(InputError, match="landmarks need a rigged animal"):
        animal_landmarks(animal())
    with pytest.raises(InputError, match="both must be rigged"):
        transfer_vertices(animal(), animal())


def test_landmarks_of_the_animal_of_boxes():
    mesh = rigged_animal(vertices=4000)
    place = {keypoint: mesh.vertices[vertex] for keypoint, vertex in animal_landmarks(mesh).items()}
    assert len(place) == 20
    assert all(place[name][0] > 0 for name in place if name.startswith("left"))
    assert all(place[name][0] < 0 for name in place if name.startswith("right"))
    assert np.linalg.norm(place["left_front_paw"] - (0.35, -1.3, 0.8)) < 0.3
    assert place["nose"][2] == pytest.approx(1.55)
    assert place["withers"][1] == pytest.approx(0.5)


def test_places_go_to_the_same_places_of_longer_legs():
    """Known truth: vertex i of the one is vertex i of the other, only further down."""
    short, long = rigged_animal(), rigged_animal(legs=1.3)
    place = transfer_vertices(short, long)
    off = np.linalg.norm(long.vertices[place] - long.vertices, axis=1) / long.diagonal
    assert np.median(off) < 0.02
    assert off.mean() < 0.05
    assert (transfer_vertices(short, short) == np.arange(len(short.vertices))).mean() > 0.98


@real
@pytest.mark.parametrize("name", ["Horse", "Cow", "ShibaInu"])
def test_keypoints_lie_where_their_names_say(name):
    mesh = loaded(name)
    place = {keypoint: mesh.vertices[vertex] for keypoint, vertex in animal_landmarks(mesh).items()}
    for keypoint in place:
        if keypoint.startswith("left"):  # the animals are symmetric and face +z, so left is +x
            assert np.allclose(place[keypoint] * [-1, 1, 1], place[keypoint.replace("left", "right")], atol=0.15)
            assert place[keypoint][0] > 0
    assert place["nose"][2] > place["left_eye"][2] > place["withers"][2] > place["tailbase"][2]
    for leg in ("left_front", "left_back"):
        heights = [place[f"{leg}_{joint}"][1] for joint in ("elbow", "knee", "paw")]
        assert heights == sorted(heights, reverse=True)
    assert place["withers"][1] > place["left_front_elbow"][1]
    assert place["left_eye"][1] > place["throat"][1]


@real
def test_an_animal_s_own_places_are_its_own():
    horse = loaded("Horse")
    assert (transfer_vertices(horse, horse) == np.arange(3000)).mean() > 0.99


@real
@pytest.mark.parametrize("name", ["Donkey", "Deer", "Alpaca"])
def test_landmarks_go_to_landmarks_and_sides_to_sides(name):
    """The landmarks are found on each animal alone, so they check the transfer through the bones."""
    horse, other = loaded("Horse"), loaded(name)
    place = transfer_vertices(other, horse)
    true, known = animal_landmarks(horse), animal_landmarks(other)
    geodesics = Geodesics(horse)
    error = [float(geodesics.from_vertex(true[keypoint])[place[vertex]]) for keypoint, vertex in known.items()]
    assert np.mean(error) < 0.05
    beside = np.abs(other.vertices[:, 0]) > 0.06 * other.diagonal
    assert (np.sign(other.vertices[beside, 0]) == np.sign(horse.vertices[place[beside], 0])).mean() > 0.99


@real
def test_the_names_are_animal_pose_s():
    names = set(animal_landmarks(loaded("Horse")))
    assert len(names) == 20
    spelled = {name for skeleton in published_skeletons("animalpose").values() for name in skeleton.names}
    assert names == spelled
