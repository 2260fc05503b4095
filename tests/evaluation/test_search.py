"""Search, evaluated on painted animals: what is right, what is the twin, what brute force finds."""

import dataclasses

import painted
import pytest
import torch
from searched import Collected

from geco import data, images
from geco.errors import InputError
from geco.evaluation import report_json
from geco.evaluation import search as evaluation
from geco.evaluation.search.questions import Annotated, near
from geco.evaluation.settings import SearchProtocol
from geco.search import build_index
from geco.types import Keypoints, View

pytest.importorskip("faiss", reason="needs the extra search")

PROTOCOL = SearchProtocol(questions=12, count=4, resamples=50, timed=1)


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    return painted.views(16, folder=tmp_path_factory.mktemp("painted"))


@pytest.fixture(scope="module")
def gallery(views):
    def pairs(some):
        rows = [(i, (i + 1) % len(some)) for i in range(len(some))]
        return data.Pairs(tuple(some), rows, ["animal"] * len(rows), [painted.SKELETON] * len(rows))

    return evaluation.gather([("painted", pairs(views[:11]), False), ("painted", pairs(views[11:]), True)])


def index_of(views, encoder):
    maps = {str(view.image): next(encoder.extract_stream([images.read(view.image)])) for view in views}
    return build_index(Collected(maps, fingerprint=encoder.fingerprint()))


def test_an_encoder_that_sees_everything_is_always_right(views, gallery):
    report = evaluation.run(index_of(views, painted.Painter()), gallery, PROTOCOL, label="painter")
    values = report.values
    assert values["against brute force recall@4"] == 1
    assert values["animal precision@4"] == values["all precision@4"] == 1
    assert values["all confused@4"] == 0
    assert report.counts["questions"] == {"animal": 12}
    assert "NaN" not in report_json(report)


def test_an_encoder_without_sides_confuses_them(views, gallery):
    report = evaluation.run(index_of(views, painted.Painter(blind=True)), gallery, PROTOCOL)
    assert 0.2 < report.values["all confused@4"] < 0.8
    assert report.values["all precision@4"] < 1


def test_brute_force_is_what_transfer_says_of_every_image(views, gallery):
    from geco import matching

    index = index_of(views, painted.Painter())
    questions = evaluation.draw_questions(gallery, PROTOCOL)[:5]
    for question, best in zip(questions, evaluation.brute_force(index, questions, PROTOCOL), strict=True):
        source = index.features[str(question.image)]
        scores = {
            name: float(matching.transfer(source, index.features[name], torch.tensor([question.xy])).score[0])
            for name in index.features.names
            if name != str(question.image)
        }
        assert best.tolist() == pytest.approx(sorted(scores.values(), reverse=True)[:4], abs=1e-5)


def test_questions_are_keypoints_of_held_out_images(views, gallery):
    questions = evaluation.draw_questions(gallery, PROTOCOL)
    assert questions == evaluation.draw_questions(gallery, PROTOCOL)
    assert questions != evaluation.draw_questions(gallery, dataclasses.replace(PROTOCOL, seed=1))
    held_out = {view.image: view for view in views[11:]}
    assert {question.image for question in questions} == set(held_out)  # every image before any asks twice
    for question in questions:
        points = held_out[question.image].points
        assert bool(points.visible[question.row])
        assert list(question.xy) == points.xy[question.row].tolist()
        shown = [view for view in views if bool(view.points.visible[question.row]) and view.image != question.image]
        assert question.relevant == len(shown)


def test_near_means_a_share_of_the_objects_box():
    points = Keypoints(torch.tensor([[10.0, 10.0], [30.0, 10.0], [50.0, 10.0]]), torch.tensor([True, True, False]))
    skeleton = data.named(("nose", "left eye", "right eye"))
    annotated = Annotated("g", "cat", skeleton, points, side=40.0)
    asked = evaluation.Question(painted.Path("a.png"), (0.0, 0.0), "g", "cat", 1, 2, 3)
    assert near([annotated], torch.tensor([34.0, 10.0]), asked, alpha=0.1) == (True, False, True)
    assert near([annotated], torch.tensor([34.1, 10.0]), asked, alpha=0.1) == (False, False, True)
    assert near([annotated], torch.tensor([50.0, 10.0]), asked, alpha=0.1) == (False, False, True)  # it is hidden
    mirrored = dataclasses.replace(asked, row=2, twin=1)
    assert near([annotated], torch.tensor([30.0, 11.0]), mirrored, alpha=0.1) == (False, True, True)
    assert near([], torch.tensor([30.0, 11.0]), asked, alpha=0.1) == (False, False, False)


def test_unnamed_keypoints_of_two_categories_are_not_the_same(views):
    skeleton = data.unnamed(5)
    pairs = data.Pairs(tuple(views[:4]), [(0, 1), (2, 3)], ["car", "duck"], [skeleton] * 2)
    groups = {one.group for some in evaluation.gather([("w", pairs, True)]).objects.values() for one in some}
    assert len(groups) == 2


def test_copies_of_an_image_are_one_and_join_their_categories(views, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(views[1].image.read_bytes())
    some = (*views[:4], dataclasses.replace(views[1], image=copy, name="copy"), views[5])
    rows, categories = [(0, 1), (4, 2), (3, 5)], ["car(M)", "car(S)", "duck(S)"]
    gallery = evaluation.gather([("w", data.Pairs(some, rows, categories, [data.unnamed(5)] * 3), True)])
    assert len(gallery.objects) == len(gallery.held_out) == 5
    kinds = {view.image: {(one.group, one.category) for one in gallery.objects[view.image]} for view in views[:4]}
    assert kinds[views[0].image] == kinds[views[1].image] == kinds[views[2].image]
    assert [category for _, category in kinds[views[0].image]] == ["car"]
    assert [category for _, category in kinds[views[3].image]] == ["duck(S)"]


def test_what_cannot_be_evaluated_is_one_line(views, gallery):
    index = index_of(views[:5], painted.Painter())
    with pytest.raises(InputError, match=r"the features have no image .*; extract all images"):
        evaluation.run(index, gallery, PROTOCOL)
    alone = dataclasses.replace(gallery, held_out=frozenset())
    with pytest.raises(InputError, match="no held-out image shows a keypoint"):
        evaluation.draw_questions(alone, PROTOCOL)
    view = View(torch.zeros(3, 8, 8), (8, 8), Keypoints(torch.zeros(1, 2), torch.ones(1).bool()), name="pixels")
    pairs = data.Pairs((view, view), [(0, 1)], ["a"], [data.unnamed(1)])
    with pytest.raises(InputError, match="pixels: search is evaluated on files of whole images"):
        evaluation.gather([("p", pairs, True)])
