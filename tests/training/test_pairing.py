"""Pairing: every two images of a batch, and a step with them against encoding each pair on its own."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from accelerate import Accelerator
from torch.testing import assert_close
from training_data import config, pairs, plain_config, tiny_vit

from geco.batching import collate
from geco.losses import transport as losses_transport
from geco.losses.settings import LossSettings
from geco.training import augment, pairing, step
from geco.training import build as training_build
from geco.training.step import Stepper
from geco.types import FeatureMap


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("vit"))


def batch_of(made):
    return collate([augment.plain(pair, plain_config("none").augment) for pair in made])


def test_every_two_images_with_one_keypoint_table_meet_once():
    batch = batch_of(pairs(5))  # cat, dog, cat, dog, cat
    regrouped = pairing.every_two(batch)
    names = (*batch.source.name, *batch.target.name)
    kinds = batch.category * 2
    wanted = {(names[i], names[j]) for i, j in combinations(range(10), 2) if kinds[i] == kinds[j]}
    found = list(zip(regrouped.pairs.source.name, regrouped.pairs.target.name, strict=True))
    assert len(found) == len(wanted) == 15 + 6
    assert set(found) == wanted
    assert set(zip(batch.source.name, batch.target.name, strict=True)) <= wanted
    for k, (source, _) in enumerate(found):
        which = names.index(source)
        side, row = (batch.source, which) if which < 5 else (batch.target, which - 5)
        assert torch.equal(regrouped.pairs.source.image[k], side.image[row])
        assert torch.equal(regrouped.pairs.source.keypoints.xy[k], side.keypoints.xy[row])
        assert torch.equal(regrouped.pairs.source.mask[k], side.mask[row])
        assert regrouped.pairs.category[k] == kinds[which]


def test_an_image_that_is_there_twice_meets_itself_only_if_given_so():
    made = [replace(pair, category="cat") for pair in pairs(2)]
    twice = [made[0], replace(made[1], source=made[0].source), replace(made[1], target=made[1].source)]
    regrouped = pairing.every_two(batch_of(twice))
    found = list(zip(regrouped.pairs.source.name, regrouped.pairs.target.name, strict=True))
    assert ("view 0", "view 0") not in found, "two draws of one image are no pair"
    assert found.count(("view 2", "view 2")) == 1, "but a self-pair is"


def test_other_keypoints_never_meet():
    made = pairs(2)
    other = replace(made[0].skeleton, names=("a", "b", "c", "d", "e"))
    alike = [replace(made[0], category="cat"), replace(made[1], category="cat", skeleton=other)]
    assert len(pairing.every_two(batch_of(alike)).source) == 2


def test_a_step_over_all_pairs_has_the_gradient_of_each_pair_encoded_on_its_own(vit):
    settings = plain_config(vit)
    batch = batch_of([replace(pair, category="cat") for pair in pairs(3)])
    loss = losses_transport.TransportLoss(LossSettings(reduction="conditional"))
    model = training_build.build(settings)
    regrouped = pairing.every_two(batch)
    source, target = step.encode(model, regrouped.pairs)  # thirty images instead of six
    loss(source, target, regrouped.pairs).total.backward()
    wanted = {name: value.grad.clone() for name, value in training_build.trainable(model).items()}

    model.zero_grad()
    seen = {}

    class Watcher(torch.optim.SGD):
        def step(self, closure=None):
            seen.update({name: value.grad.clone() for name, value in training_build.trainable(model).items()})

    stepper = Stepper(
        model, Watcher(training_build.trainable(model).values(), lr=1.0), loss, Accelerator(cpu=True), pairing="all"
    )
    values = stepper([batch])
    assert (values.images, values.pairs) == (6, 15)
    assert any(gradient.abs().max() > 0 for gradient in wanted.values())
    for name, gradient in wanted.items():
        assert_close(seen[name], gradient, atol=1e-6, rtol=1e-4)


def test_features_go_where_their_images_go():
    batch = batch_of(pairs(4))
    regrouped = pairing.every_two(batch)
    numbers = torch.arange(8.0).reshape(8, 1, 1, 1)
    source, target = regrouped.features(FeatureMap(numbers[:4], (98, 98)), FeatureMap(numbers[4:], (98, 98)))
    assert source.values.flatten().tolist() == regrouped.source.tolist()
    assert target.values.flatten().tolist() == regrouped.target.tolist()


def test_a_typo_is_named():
    with pytest.raises(ValueError, match="pairing must be one of given, all"):
        config("x", pairing="every")
