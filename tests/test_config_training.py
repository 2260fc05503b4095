"""The training configuration: the paper's numbers, JSON there and back, mistakes named."""

import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from geco.config.training import ABLATIONS, PRESETS, TrainConfig, ablation, changed, preset


def test_the_defaults_are_the_papers():
    paper = preset("paper")
    assert paper == TrainConfig()
    assert (paper.epochs, paper.batch_size, paper.learning_rate, paper.steps) == (8, 6, 1e-4, None)
    assert paper.sampling.per_category == 800
    assert (paper.encoder.backbone, paper.encoder.size) == ("dinov2-base", 518)
    assert (paper.encoder.lora.rank, paper.encoder.lora.alpha) == (10, 10.0)
    assert paper.augment.plain == ("pfpascal",)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("other", ABLATIONS)
def test_json_there_and_back(name, other):
    config = ablation(other, preset(name))
    assert TrainConfig.from_json(config.to_json()) == config
    assert "Infinity" not in config.to_json()  # which is Python's JSON, not everybody's


def test_each_ablation_changes_one_thing_of_the_paper():
    paper = preset("paper")
    same = {name for name in ABLATIONS if ablation(name, paper) == paper}
    assert same == {"full", "base", "reference"}
    no_kl = ablation("no-kl", paper).settings.transport
    assert no_kl.alpha == no_kl.beta == math.inf
    assert ablation("uniform-marginals", paper).settings.transport.marginals == "uniform"
    assert ablation("small", paper).encoder.backbone == "dinov2-small"
    assert ablation("k-100", paper).sampling.per_category == 100
    assert ablation("contrastive", paper).loss == "contrastive"


def test_one_value_is_changed_by_its_path():
    config = changed(TrainConfig(), "settings.transport.alpha", "inf")
    assert config.settings.transport.alpha == math.inf
    assert changed(config, "encoder.lora.projections", '["query", "key"]').encoder.lora.projections == (
        "query",
        "key",
    )
    assert changed(config, "sampling.per_category", "null").sampling.per_category is None
    assert changed(config, "learning_rate", "1").learning_rate == 1.0
    assert changed(config, "checkpointing", "true").checkpointing is True
    assert changed(config, "loss", "contrastive").loss == "contrastive"


def test_both_sizes_change_together():
    config = TrainConfig().at_size(224)
    assert config.encoder.size == config.augment.size == 224


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("epoch", "3", "the configuration has unknown keys epoch; known: accumulate, augment, "),
        ("settings.lam", "3", "settings has unknown keys lam; known: background, "),
        (
            "settings.transprot.lam",
            "3",
            "settings.transprot.lam: 'transprot' has no settings; groups: transport",
        ),
        ("epochs", "many", "epochs: expected int, got 'many'"),
        ("epochs", "true", "epochs: expected int, got True"),
        ("learning_rate", "small", "learning_rate: expected a number, got 'small'"),
        ("precision", "fp8", "precision: expected one of no, bf16, fp16, got 'fp8'"),
        ("encoder.lora", "3", "encoder, lora: expected settings of LoraSettings, got 3"),
        (
            "encoder.size",
            "224",
            "pairs must leave the loader at the encoder's size, got augment.size 518 and encoder.size 224",
        ),
        ("encoder.lora", "null", "nothing to train: give the encoder an adapter"),
        ("batch_size", "0", "batch_size must be above 0, got 0"),
        ("clip", "-1", "clip must be above 0, or None, got -1.0"),
        ("workers", "-1", "workers must be 0 or more, got -1"),
    ],
)
def test_mistakes_are_named(key, value, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        changed(TrainConfig(), key, value)


def test_a_typo_lists_the_choices():
    with pytest.raises(ValueError, match=r"no preset 'papper'; did you mean 'paper'\? Choices: paper, animals-cpu"):
        preset("papper")
    with pytest.raises(ValueError, match=r"no preset 'zzz'\. Choices: paper"):
        preset("zzz")
    with pytest.raises(ValueError, match="no ablation 'nokl'; did you mean 'no-kl'"):
        ablation("nokl", TrainConfig())
    with pytest.raises(ValueError, match=r"run\.json is not JSON"):
        TrainConfig.from_json("{", name="run.json")
    with pytest.raises(ValueError, match="precision must be one of no, bf16, fp16, got 'half'"):
        replace(TrainConfig(), precision="half")


def test_the_learning_rate_rises_stays_and_falls():
    from geco.jobs import learning_rate

    plain = TrainConfig(learning_rate=2.0, warmup=4)
    assert [learning_rate(plain, step, 100) for step in (0, 1, 4, 50, 99)] == pytest.approx([0.4, 0.8, 2, 2, 2])
    cosine = replace(plain, schedule="cosine")
    rates = [learning_rate(cosine, step, 104) for step in range(104)]
    assert rates[4] == pytest.approx(2)
    assert rates[54] == pytest.approx(1)  # half of what follows the warm-up
    assert rates[-1] == pytest.approx(2 * (1 - math.cos(math.pi / 100)) / 2)
    assert all(a > b for a, b in pairwise(rates[4:]))
    assert learning_rate(TrainConfig(), 0, 10) == TrainConfig().learning_rate
