"""The page's logic: what a request does to a session, what comes back, and who is turned away."""

import base64
import io
import json
import threading
from importlib.util import find_spec

import pytest
from PIL import Image

import geco
from geco.demo.studio import EXAMPLES, BusyError
from geco.errors import GecoError, InputError


@pytest.fixture
def key(studio, uploaded):
    """A session with two images and a point."""
    key = studio.open()["key"]
    for seed in (0, 1):
        studio.upload(key, uploaded(seed), f"{seed}.png")
    studio.act(key, {"do": "add", "x": 30, "y": 40})
    return key


def decoded(address):
    start, content = address.split(",")
    assert start == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_the_first_image_is_the_source_and_the_second_the_target(studio, key, uploaded):
    state = studio.act(key, {"do": "state"})
    first, second = state["images"]
    assert (state["source"], state["targets"]) == (first["id"], (second["id"], ""))
    assert (first["name"], first["width"], first["height"]) == ("0.png", 120, 90)
    later = studio.upload(key, uploaded(2), "2.png")
    assert (later["source"], later["targets"]) == (state["source"], state["targets"])
    json.dumps(later, allow_nan=False)  # what the page is sent


def test_an_upload_goes_where_it_was_dropped(studio, key, uploaded):
    state = studio.upload(key, uploaded(5), "5.png", 2)
    assert state["targets"][1] == state["images"][-1]["id"]
    assert [len(point["answers"]) for point in state["points"]] == [2]


def test_a_click_is_answered_as_transfer_does(studio, key, uploaded, tiny_encoder):
    state = studio.act(key, {"do": "add", "x": 70.5, "y": 20})
    expected = geco.transfer(uploaded(0), uploaded(1), [(30, 40), (70.5, 20)], model=tiny_encoder)
    for point, match in zip(state["points"], expected, strict=True):
        answer = point["answers"][0]
        assert (answer["x"], answer["y"]) == pytest.approx(match.target)
        assert answer["score"] == pytest.approx(match.score, abs=1e-6)
        assert answer["visible"] == match.visible
        assert point["answers"][1] is None
    heat = decoded(state["heat"][0])
    assert heat.size == (120, 90)
    assert state["heat"][1] == ""


def test_an_image_is_encoded_once(studio, key, monkeypatch, tiny_encoder):
    encoded = []
    kind = type(tiny_encoder)
    original = kind._encode_staged
    monkeypatch.setattr(kind, "_encode_staged", lambda self, batch: encoded.append(1) or original(self, batch))
    for x in range(5):
        studio.act(key, {"do": "move", "number": 1, "x": x, "y": x})
    assert not encoded
    studio.act(key, {"do": "twins", "on": True})
    assert len(encoded) == 1, "the mirrored source"
    studio.act(key, {"do": "move", "number": 1, "x": 50, "y": 50})
    assert len(encoded) == 1


def test_points_can_be_moved_named_deleted_and_all_of_it_undone(studio, key):
    before = studio.act(key, {"do": "state"})
    studio.act(key, {"do": "move", "number": 1, "x": 60, "y": 61})
    studio.act(key, {"do": "rename", "number": 1, "name": "eye"})
    studio.act(key, {"do": "add", "x": 1, "y": 1})
    assert studio.act(key, {"do": "select", "number": 1})["selected"] == 1
    studio.act(key, {"do": "delete", "number": 2})
    state = studio.act(key, {"do": "clear"})
    assert state["points"] == []
    assert state["heat"] == ["", ""]
    for _ in range(5):
        state = studio.act(key, {"do": "undo"})
    assert state["points"] == before["points"]
    assert (state["heat"], state["undo"]) == (before["heat"], before["undo"])


def test_the_other_side_is_only_computed_when_it_is_shown(studio, key):
    assert studio.act(key, {"do": "state"})["points"][0]["twins"] == [None, None]
    state = studio.act(key, {"do": "twins", "on": True})
    assert state["twins"] is True
    assert set(state["points"][0]["twins"][0]) == {"x", "y", "score", "visible"}
    assert studio.act(key, {"do": "twins", "on": False})["points"][0]["twins"] == [None, None]


def test_swapping_takes_the_points_along(studio, key):
    before = studio.act(key, {"do": "state"})
    answer = before["points"][0]["answers"][0]
    after = studio.act(key, {"do": "swap"})
    assert (after["source"], after["targets"][0]) == (before["targets"][0], before["source"])
    assert answer["visible"], "this model finds everything"
    assert (after["points"][0]["x"], after["points"][0]["y"]) == (answer["x"], answer["y"])
    assert studio.act(key, {"do": "undo"})["points"] == before["points"]


def test_points_that_are_not_visible_do_not_swap(studio, key):
    studio.threshold = 2.0
    studio.sessions.find(key).answers.clear()
    assert not studio.act(key, {"do": "state"})["points"][0]["answers"][0]["visible"]
    assert studio.act(key, {"do": "swap"})["points"] == []


def test_two_sessions_do_not_see_each_other(studio, key, uploaded):
    other = studio.open()["key"]
    mine = studio.act(key, {"do": "state"})["images"][0]["id"]
    assert studio.act(other, {"do": "state"})["images"] == []
    for request in (
        lambda: studio.jpeg(other, mine),
        lambda: studio.act(other, {"do": "place", "slot": 0, "image": mine}),
        lambda: studio.act(other, {"do": "remove", "image": mine}),
        lambda: studio.parts(other, {"image": mine, "strokes": []}),
    ):
        with pytest.raises(InputError, match="this page has no image"):
            request()
    studio.close(key)
    with pytest.raises(InputError, match="this page was closed"):
        studio.jpeg(key, mine)


def test_the_models_are_compared_on_the_same_points(studio, key, uploaded):
    columns = studio.compare(key, {"models": ["tiny", "other"]})["columns"]
    assert [column["model"] for column in columns] == ["tiny", "other"]
    for column in columns:
        encoder = studio.encoders.named(column["model"])
        (match,) = geco.transfer(uploaded(0), uploaded(1), [(30, 40)], model=encoder)
        assert (column["answers"][0]["x"], column["answers"][0]["y"]) == pytest.approx(match.target)
        assert decoded(column["heat"]).size == (120, 90)
    assert columns[0]["answers"] != columns[1]["answers"]
    with pytest.raises(InputError, match="no model 'nobody' here; choose one of tiny, other"):
        studio.compare(key, {"models": ["nobody"]})


def test_components_and_parts_cover_every_image(studio, key, tiny_encoder):
    identities = [entry["id"] for entry in studio.act(key, {"do": "state"})["images"]]
    pictures = studio.components(key, {"model": "tiny"})["pictures"]
    assert list(pictures) == identities
    assert decoded(pictures[identities[0]]).size == (4, 4), "one pixel for each patch"
    stroke = {"part": 1, "radius": 9, "points": [[30, 40], [50, 40]]}
    pictures = studio.parts(key, {"image": identities[0], "strokes": [stroke]})["pictures"]
    assert list(pictures) == identities
    assert decoded(pictures[identities[0]]).getpixel((40, 40)) == (0xE6, 0x9F, 0x00, 255)


@pytest.mark.skipif(find_spec("gradio") is None, reason="needs the images of gradio (pip install gradio)")
def test_examples_bring_images_and_points(studio):
    key = studio.open()["key"]
    for name, (files, points) in EXAMPLES.items():
        if len(points) <= studio.settings.points:
            state = studio.act(key, {"do": "example", "name": name})
            names = {entry["id"]: entry["name"] for entry in state["images"]}
            assert names[state["source"]] == f"{files[0]}.jpg"
            assert [point["name"] for point in state["points"]] == list(points)
    assert len(state["images"]) == 4, "images that several examples use are kept once"


HOSTILE = [
    {},
    {"do": "nothing"},
    {"do": ["add"]},
    {"do": "add", "x": "1", "y": None},
    {"do": "add", "x": float("nan"), "y": 1},
    {"do": "move", "number": 99, "x": 1, "y": 1},
    {"do": "rename", "number": 1, "name": {"a": 1}},
    {"do": "place", "slot": 7, "image": ""},
    {"do": "place", "slot": 0, "image": "../../etc/passwd"},
    {"do": "place", "slot": 0, "image": None},
    {"do": "twins", "on": "yes"},
    {"do": "example", "name": "../x"},
    {"do": "remove"},
]


@pytest.mark.parametrize("values", HOSTILE, ids=str)
def test_nonsense_is_one_line_and_changes_nothing(studio, key, values):
    before = studio.act(key, {"do": "state"})
    with pytest.raises(GecoError) as refused:
        studio.act(key, values)
    assert len(str(refused.value).splitlines()) == 1
    assert studio.act(key, {"do": "state"}) == before


@pytest.mark.parametrize(
    "strokes",
    [
        None,
        [],
        [None],
        [{"part": 9, "radius": 1, "points": [[1, 1]]}],
        [{"part": 1, "radius": -1, "points": [[1, 1]]}],
        [{"part": 1, "radius": 1, "points": [[1]]}],
        [{"part": 1, "radius": 1, "points": [[1, float("inf")]]}],
        [{"part": 1, "radius": 1, "points": []}],
        [{"part": 1, "radius": 1, "points": [[1, 1]]}] * 301,
    ],
    ids=range(9),
)
def test_strokes_that_are_none_are_refused(studio, key, strokes):
    source = studio.act(key, {"do": "state"})["source"]
    with pytest.raises(GecoError):
        studio.parts(key, {"image": source, "strokes": strokes})


def test_too_many_who_wait_are_turned_away_at_once(studio, key, monkeypatch):
    started, free = threading.Event(), threading.Event()

    def slow(session):
        started.set()
        assert free.wait(20)
        return {}

    monkeypatch.setattr(studio, "_state", slow)
    waiting = [threading.Thread(target=studio.act, args=(key, {"do": "state"})) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert started.wait(20)
    while studio._places._value:  # until all three are inside
        free.wait(0.01)
    with pytest.raises(BusyError, match="too many requests are waiting"):
        studio.act(key, {"do": "state"})
    free.set()
    for thread in waiting:
        thread.join(20)
    monkeypatch.undo()
    assert studio.act(key, {"do": "state"})["points"]
