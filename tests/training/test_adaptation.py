"""Adapting to labels: coloured squares as files, a random ViT with a fresh adapter as the start."""

import math

import pytest
import torch
from PIL import Image
from training_data import SIDE, SKELETON, config, view

import geco
from geco.errors import InputError
from geco.evaluation import keypoints
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.propagation import HIDDEN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.training import adapt, build_model
from geco.training.adaptation import _validation_pairs, animals, split
from geco.training.settings import AdaptSettings

SETTINGS = AdaptSettings(steps=4, validate_every=2, batch_size=2, learning_rate=3e-3, sources=3, workers=0)


def labelled(path, number):
    shown = view(number, hidden=(1 + number % 4,))
    Image.fromarray(shown.pixels.permute(1, 2, 0).numpy()).save(path)
    state = torch.where(shown.points.visible, VISIBLE, HIDDEN)
    return LabelledImage(path, (Animal(shown.points.xy, state, box=(0.0, 0.0, SIDE, SIDE)),))


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    return LabelSet(SKELETON, [labelled(folder / f"{number}.png", number) for number in range(20)])


@pytest.fixture(scope="module")
def start(vit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    build_model(config(vit)).save_pretrained(folder)
    return str(folder)


def weights(folder):
    return geco.load(folder, device="cpu").state_dict()


def test_too_few_labels_are_refused(labels):
    few = LabelSet(SKELETON, labels.images[:19])
    with pytest.raises(
        InputError, match="adapting needs 20 labelled animals with at least 3 visible keypoints, got 19"
    ):
        split(few)
    with pytest.raises(InputError, match="labels of a video cannot be trained on"):
        animals(LabelledImage(labels.images[0].path, labels.images[0].animals, frame=3))
    outside = Animal(torch.full((5, 2), 200.0), torch.full((5,), VISIBLE))
    with pytest.raises(InputError, match=r"at \(200, 200\), outside the image of 98×98 pixels"):
        animals(LabelledImage(labels.images[0].path, (outside,)))


def test_an_animal_is_seen_in_a_window_around_it(labels):
    image = labels.images[3]
    (seen,) = animals(image)
    whole = image.animals[0]
    corner = torch.tensor(seen.window.box[:2])
    assert seen.size == (147, 147)  # 98 and a quarter of it on either side
    visible = whole.state == VISIBLE
    assert torch.equal(seen.points.visible, visible)
    assert torch.equal((seen.points.xy + corner)[visible], whole.xy[visible])
    without_box = Animal(whole.xy, whole.state)
    (around,) = animals(LabelledImage(image.path, (without_box,)))
    inside = (around.points.xy >= around.box[:2]) & (around.points.xy <= around.box[2:])
    assert inside[visible].all()


def test_no_image_is_trained_on_and_held_out(labels):
    train, held_out = split(labels)
    assert (len(train), len(held_out)) == (15, 5)
    assert not {view.image for view in train} & {view.image for view in held_out}
    other, _ = split(labels, AdaptSettings(seed=1))
    assert [view.image for view in other] != [view.image for view in train]


def test_the_best_validation_is_kept_and_the_start_is_one_of_them(labels, start, tmp_path):
    records = []
    adapted = adapt(labels, tmp_path / "run", start, SETTINGS, watch=lambda step, total, record: records.append(record))
    validations = {record["step"]: record["PCK"] for record in records if record["kind"] == "validation"}
    assert adapted.before == validations[0]
    assert adapted.after == max(validations.values()) >= adapted.before
    assert adapted.outcome.finished
    pairs = _validation_pairs(*split(labels, SETTINGS), labels, SETTINGS)
    for folder, expected in ((start, adapted.before), (tmp_path / "run", adapted.after)):
        model = geco.load(folder, device="cpu")
        assert model.input_size == SIDE
        report = keypoints.run(model, pairs, (Protocol(alphas=(0.1,)),), settings=KeypointSettings(resamples=1))
        assert 100 * report.measure("PCK", "geco", 0.1).value == pytest.approx(expected, abs=0.5)
    again = adapt(labels, tmp_path / "run", start, SETTINGS)
    assert (again.before, again.after) == (adapted.before, adapted.after)


def test_training_that_only_harms_ends_early_and_keeps_the_start(labels, start, tmp_path):
    harmful = AdaptSettings(steps=40, validate_every=1, patience=2, batch_size=2, learning_rate=30.0, workers=0)
    adapted = adapt(labels, tmp_path / "run", start, harmful)
    assert not adapted.improved
    assert adapted.outcome.stopped
    assert adapted.outcome.step == 2 < adapted.outcome.total == 40
    assert adapted.after == adapted.before
    before, after = weights(start), weights(tmp_path / "run")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not math.isnan(adapted.before)
