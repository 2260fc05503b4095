"""Many files: read ahead, failures collected, a journal that a kill does not hurt."""

import json
from dataclasses import replace

import pytest
import torch
from coloured import COLOURS, SKELETON, Colours, labelled, write_image
from torch.testing import assert_close

from geco.errors import InputError
from geco.propagation import HIDDEN, VISIBLE, Journal, LabelSet, Propagator, digest, label_files, read_boxes


@pytest.fixture
def labels(tmp_path):
    places = ({"left": (2, 3), "right": (9, 3), "tail": (5, 12)}, {"left": (4, 4), "right": (12, 5)})
    return LabelSet(SKELETON, [labelled(tmp_path / f"label{i}.png", some) for i, some in enumerate(places)])


@pytest.fixture
def propagator(labels):
    return Propagator.of(Colours(), labels)


@pytest.fixture
def pictures(tmp_path):
    return [write_image(tmp_path / f"{i}.png", {"left": (i, 5), "tail": (12 - i, 9)}) for i in range(6)]


def test_results_are_those_of_one_image_at_a_time(propagator, pictures):
    from geco import images

    results = list(label_files(propagator, pictures))
    assert [one.image.path for one in results] == pictures
    for result in results:
        (alone,) = propagator.label(images.read(result.image.path))
        (together,) = result.image.animals
        assert_close(together.xy, alone.xy, equal_nan=True)
        assert_close(together.uncertainty, alone.uncertainty)
        assert together.state.tolist() == alone.state.tolist() == [VISIBLE, HIDDEN, VISIBLE]


def test_files_that_cannot_be_read_are_left_out_and_named(propagator, pictures, tmp_path):
    pictures[2].write_bytes(b"no image")
    failures: dict = {}
    results = list(label_files(propagator, [*pictures, tmp_path / "absent.png"], failures=failures))
    assert [one.image.path for one in results] == [path for i, path in enumerate(pictures) if i != 2]
    assert set(failures) == {pictures[2], tmp_path / "absent.png"}
    assert "no such file" in failures[tmp_path / "absent.png"]
    with pytest.raises(InputError):
        list(label_files(propagator, pictures))


def test_with_boxes_each_is_an_animal_and_an_image_without_shows_none(propagator, pictures, tmp_path):
    file = tmp_path / "boxes.csv"
    file.write_text("image,x0,y0,x1,y1\n0.png,0,0,32,64\n0.png,32,0,64,64\n1.png,0,0,64,64\n")
    counts = [len(one.image.animals) for one in label_files(propagator, pictures[:3], read_boxes(file).of)]
    assert counts == [2, 1, 0]


def test_a_journal_gives_back_what_it_was_told_even_if_its_last_line_was_cut(propagator, pictures, tmp_path):
    journal = Journal(tmp_path / "all.json", {"labels": "x"})
    results = list(label_files(propagator, pictures[:3]))
    for result in results:
        journal.add(result)
    content = journal.path.read_bytes()
    for cut in range(len(content) - 400, len(content), 37):
        journal.path.write_bytes(content[:cut])
        again = Journal(tmp_path / "all.json", {"labels": "x"})
        assert list(again.done) == pictures[:2]
    again.add(results[2])
    last = Journal(tmp_path / "all.json", {"labels": "x"}).done[pictures[2]]
    (before,), (after,) = results[2].image.animals, last.image.animals
    for name in ("xy", "score", "uncertainty", "twin_margin"):
        assert_close(getattr(after, name), getattr(before, name), equal_nan=True, rtol=1e-6, atol=1e-6)
    assert (after.box, after.state.tolist(), last.image.size) == (before.box, before.state.tolist(), (64, 64))
    assert_close(last.look, results[2].look, rtol=1e-3, atol=1e-3)


def test_the_journal_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    journal = Journal(tmp_path / "all.json", {"labels": "x"})
    with pytest.raises(InputError, match="other labels, model or settings"):
        Journal(tmp_path / "all.json", {"labels": "y"})
    with journal.path.open("a") as file:
        file.write(json.dumps({"image": "a", "size": 3}) + "\n" + json.dumps({}) + "\n")
    with pytest.raises(InputError, match="line 2: expected the results of an image"):
        Journal(tmp_path / "all.json", {"labels": "x"})


def test_a_digest_changes_with_everything_that_changes_results(labels, tmp_path):
    (first, second), one = labels.images, digest(labels)
    assert digest(replace(labels, format="coco")) == one
    moved = replace(first, animals=(replace(first.animals[0], xy=first.animals[0].xy + 1),))
    unseen = replace(first, animals=(replace(first.animals[0], state=torch.full((len(COLOURS),), HIDDEN)),))
    boxed = replace(first, animals=(replace(first.animals[0], box=(0.0, 0.0, 9.0, 9.0)),))
    others = {digest(replace(labels, images=[image, second])) for image in (moved, unseen, boxed)}
    write_image(first.path, {})
    others.add(digest(labels))
    assert len(others | {one}) == 5
