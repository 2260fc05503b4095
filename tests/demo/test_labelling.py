"""Labelling many images: runs agree with propagation itself, go one image at a time, and can be stopped."""

import json
import threading

import pytest
import torch

from geco.data import named
from geco.demo.settings import AppSettings
from geco.errors import InputError
from geco.images import read
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, Animal, Propagator, read_annotations, reference


@pytest.fixture
def session(studio, uploaded):
    """A session with four images, and the identities; the last one is the first one again."""
    key = studio.open()["key"]
    for name, seed in (("a.png", 0), ("b.png", 1), ("../c.png", 2), ("a.png", 0)):
        state = studio.upload(key, uploaded(seed), name)
    return key, [image["id"] for image in state["images"]]


def done(studio, key, what, **values):
    state = studio.label(key, {"do": what, **values})
    json.dumps(state, allow_nan=False)  # what the page is sent
    return state


def label(studio, key, identity, points):
    for x, y in points:
        done(studio, key, "click", image=identity, x=x, y=y)


def entry(state, identity):
    return next(image for image in state["images"] if image["id"] == identity)


def run(studio, key):
    state = done(studio, key, "start")
    while state["run"]:
        state = done(studio, key, "step")
    return state


POINTS = [(30, 40), (70.5, 20)]


@pytest.fixture
def labelled(studio, session):
    """The first two images are labelled; a third keypoint is on the first alone, and hidden on the second."""
    key, identities = session
    label(studio, key, identities[0], [*POINTS, (100, 60)])
    label(studio, key, identities[1], [(40, 50), (80, 30)])
    for number, name in enumerate(("left eye", "right eye", "nose"), 1):
        done(studio, key, "rename", number=number, name=name)
    done(studio, key, "show", image=identities[1], number=3, visible=False)
    return session


def test_a_run_finds_what_propagation_finds(studio, labelled, uploaded, tiny_encoder):
    key, identities = labelled
    state = run(studio, key)
    nowhere = torch.nan, torch.nan
    animals = [
        Animal(torch.tensor([*POINTS, (100.0, 60.0)]), torch.tensor([VISIBLE, VISIBLE, VISIBLE])),
        Animal(torch.tensor([(40.0, 50.0), (80.0, 30.0), nowhere]), torch.tensor([VISIBLE, VISIBLE, HIDDEN])),
    ]
    maps = tiny_encoder.extract_stream([read(uploaded(seed)) for seed in (0, 1)])
    references = [reference(features, one, (0, 0, 120, 90)) for features, one in zip(maps, animals, strict=True)]
    skeleton = named(["left eye", "right eye", "nose"])
    expected = Propagator.of_references(tiny_encoder, references, skeleton).label(read(uploaded(2)))[0]
    places = entry(state, identities[2])["places"]
    assert [place["number"] for place in places] == [1, 2, 3]
    for row, place in enumerate(places):
        assert (place["x"], place["y"]) == pytest.approx(expected.xy[row].tolist(), abs=1e-3)
        assert place["visible"] == (expected.state[row] == VISIBLE)
        assert place["score"] == pytest.approx(float(expected.score[row]), abs=1e-5)
        assert place["uncertainty"] == pytest.approx(float(expected.uncertainty[row]), abs=1e-5)


def test_the_same_image_gets_the_same_points(studio, session):
    key, identities = session
    label(studio, key, identities[0], POINTS)
    state = run(studio, key)
    for place, (x, y) in zip(entry(state, identities[3])["places"], POINTS, strict=True):
        assert (place["x"], place["y"]) == pytest.approx((x, y), abs=8)  # a patch
    order = [one["id"] for one in state["images"]]
    assert order[0] == identities[0]
    errors = [entry(state, identity)["expected_errors"] for identity in order[1:]]
    assert errors == sorted(errors, reverse=True)


def test_a_run_goes_one_image_at_a_time_and_can_be_stopped(studio, labelled):
    key, identities = labelled
    assert done(studio, key, "start")["run"] == {"done": 0, "total": 4}
    assert [done(studio, key, "step")["run"]["done"] for _ in range(3)] == [1, 2, 3]
    state = done(studio, key, "cancel")
    assert state["run"] is None
    assert entry(state, identities[2])["places"]
    assert not entry(state, identities[3])["places"]
    assert done(studio, key, "step") == state, "nothing is under way"
    assert not entry(done(studio, key, "undo"), identities[2])["places"], "a run is one step"


def test_what_was_corrected_stays_and_can_teach_the_next_run(studio, labelled):
    key, identities = labelled
    run(studio, key)
    done(studio, key, "move", image=identities[2], number=1, x=5, y=6)
    before = entry(done(studio, key, "show", image=identities[2], number=2, visible=False), identities[2])
    assert (before["corrected"], before["is_label"]) == (True, False)
    assert entry(run(studio, key), identities[2]) == before
    done(studio, key, "use", image=identities[2], on=True)
    assert done(studio, key, "start")["run"]["total"] == 4  # three labels, and the last image
    assert not done(studio, key, "clear", image=identities[2])["images"][-1]["places"]


def test_corrections_and_removals_during_a_run(studio, labelled):
    key, identities = labelled
    done(studio, key, "start")
    label(studio, key, identities[3], [(1, 2)])  # set by hand in the meantime
    studio.act(key, {"do": "remove", "image": identities[2]})
    state = done(studio, key, "state")
    while state["run"]:
        state = done(studio, key, "step")
    assert len(entry(state, identities[3])["places"]) == 1
    assert {one["id"] for one in state["images"]} == {identities[0], identities[1], identities[3]}
    done(studio, key, "clear", image=identities[3])
    done(studio, key, "start")
    studio.act(key, {"do": "remove", "image": identities[0]})
    assert done(studio, key, "state")["run"] is None, "a label of the run is gone"
    done(studio, key, "start")
    assert done(studio, key, "delete", number=1)["run"] is None, "the keypoints are others"


def test_moves_of_one_point_are_one_step_back(studio, labelled):
    key, identities = labelled
    steps = done(studio, key, "state")["undo"]
    for x in (31, 32, 33):
        state = done(studio, key, "move", image=identities[0], number=1, x=x, y=40, nudge=True)
    assert state["undo"] == steps + 1
    assert entry(done(studio, key, "undo"), identities[0])["places"][0]["x"] == 30


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"do": "fly"}, "what to do"),
        ({"do": "click", "image": "../../etc/passwd", "x": 1, "y": 1}, "no image"),
        ({"do": "click", "image": None, "x": 1, "y": 1}, "no image"),
        ({"do": "move", "number": 1, "x": float("nan"), "y": 1}, "x must be"),
        ({"do": "move", "number": 9, "x": 1, "y": 1}, "no keypoint 9"),
        ({"do": "show", "number": 1, "visible": "yes"}, "visible"),
        ({"do": "use", "on": 1}, "on"),
        ({"do": "rename", "number": 1, "name": ["x"]}, "is text"),
        ({"do": "select", "number": True}, "no keypoint True"),
    ],
)
def test_nonsense_is_one_line_and_changes_nothing(studio, labelled, values, line):
    key, identities = labelled
    before = done(studio, key, "state")
    with pytest.raises(InputError, match=line):
        studio.label(key, {"image": identities[0], **values})
    assert done(studio, key, "state") == before


def test_a_run_needs_a_label_and_something_to_label(studio, session):
    key, identities = session
    with pytest.raises(InputError, match="no image is a label yet"):
        done(studio, key, "start")
    for identity in identities:
        label(studio, key, identity, POINTS[:1])
    with pytest.raises(InputError, match="every image is labelled"):
        done(studio, key, "start")


def test_visitors_do_not_meet(studio, labelled):
    _, identities = labelled
    other = studio.open()["key"]
    assert studio.label(other, {"do": "state"})["keypoints"] == []
    with pytest.raises(InputError, match="no image"):
        studio.label(other, {"do": "click", "image": identities[0], "x": 1, "y": 1})
    with pytest.raises(InputError, match="no image is labelled yet"):
        studio.download(other, "labels-csv")
    with pytest.raises(InputError, match="this page was closed"):
        studio.label("nobody", {"do": "state"})


def test_others_are_served_between_the_steps(studio, labelled):
    key, _ = labelled
    done(studio, key, "start")
    other = studio.open()["key"]
    thread = threading.Thread(target=lambda: [done(studio, key, "step") for _ in range(4)])
    thread.start()
    assert studio.act(other, {"do": "state"})["images"] == []
    thread.join(30)
    assert studio.sessions.find(key).labelling.run is None


@pytest.mark.parametrize(("kind", "name"), [("labels-csv", "labels.csv"), ("labels-coco", "labels.json")])
def test_labels_can_be_read_again(studio, labelled, uploaded, tmp_path, kind, name):
    key, identities = labelled
    run(studio, key)
    state = done(studio, key, "clear", image=identities[3], number=2)
    content = studio.download(key, kind)
    assert b".." not in content
    for file, seed in (("a.png", 0), ("b.png", 1), ("c.png", 2), ("4 a.png", 0)):
        (tmp_path / file).write_bytes(uploaded(seed))
    (tmp_path / name).write_bytes(content)
    labels = read_annotations(tmp_path / name)
    assert labels.skeleton.names == ("left eye", "right eye", "nose")
    assert [image.path.name for image in labels.images] == ["a.png", "b.png", "c.png", "4 a.png"]
    for identity, image in zip(identities, labels.images, strict=True):
        animal = image.animals[0]
        places = {place["number"]: place for place in entry(state, identity)["places"]}
        for row in range(3):
            place = places.get(row + 1)
            if place is None or not place["visible"]:
                assert animal.state[row] == (UNKNOWN if place is None else HIDDEN)
            else:
                assert animal.state[row] == VISIBLE
                assert animal.xy[row].tolist() == pytest.approx([place["x"], place["y"]], abs=1e-3)


def test_the_limits_of_the_page_hold(studio):
    assert studio.open()["images"] == studio.settings.images == 4
    assert AppSettings().images == 40
