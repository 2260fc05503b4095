"""Presets and ablations: the paper's recipe, one thing changed, and a few pairs learned by heart."""

import math

import pytest

from geco.training.presets import ABLATIONS, ablation, overfitting, preset
from geco.training.settings import TrainConfig


def test_the_default_recipe_is_the_papers():
    assert preset("paper") == TrainConfig()


def test_each_ablation_changes_one_thing_of_the_paper():
    paper = preset("paper")
    same = {name for name in ABLATIONS if ablation(name, paper) == paper}
    assert same == {"full", "base", "reference"}
    no_kl = ablation("no-kl", paper).loss.transport
    assert no_kl.alpha == no_kl.beta == math.inf
    assert ablation("uniform-marginals", paper).loss.transport.marginals == "uniform"
    assert ablation("no-bin", paper).loss.weights()["bin"] == 0
    assert ablation("small", paper).encoder.backbone == "dinov2-small"
    assert ablation("k-100", paper).sampling.per_category == 100
    assert ablation("contrastive", paper).loss.name == "contrastive"


def test_the_recipe_of_a_few_pairs_leaves_them_unaltered():
    config = overfitting(preset("paper"), {"spair": 1, "cub": 2}, steps=30)
    assert config.augment.plain == ("spair", "cub")
    assert (config.batch_size, config.steps, config.validate_every) == (3, 30, 6)
    assert overfitting(preset("paper"), {"spair": 10}).batch_size == preset("paper").batch_size


def test_a_typo_lists_the_choices():
    with pytest.raises(ValueError, match=r"no preset 'papper'; did you mean 'paper'\? Choices: paper, animals-cpu"):
        preset("papper")
    with pytest.raises(ValueError, match=r"no preset 'zzz'\. Choices: paper"):
        preset("zzz")
    with pytest.raises(ValueError, match="no ablation 'nokl'; did you mean 'no-kl'"):
        ablation("nokl", TrainConfig())
