"""The training configuration: the paper's numbers, JSON there and back, mistakes named, keys of earlier releases."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from geco.losses.settings import LossSettings
from geco.system.codec import changed
from geco.training.presets import ABLATIONS, PRESETS, ablation, preset
from geco.training.settings import SamplingSettings, TrainConfig


def test_the_defaults_are_the_papers():
    paper = TrainConfig()
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


def test_a_value_is_changed_by_its_path():
    config = changed(TrainConfig(), "loss.transport.alpha", "inf")
    assert config.loss.transport.alpha == math.inf
    assert changed(config, "encoder.lora.projections", '["query", "key"]').encoder.lora.projections == ("query", "key")
    assert changed(config, "encoder.options.layer", "9").encoder.options == {"layer": 9}
    assert changed(config, "sampling.per_category", "null").sampling.per_category is None
    assert changed(config, "learning_rate", "1").learning_rate == 1.0
    assert changed(config, "checkpointing", "true").checkpointing is True
    assert changed(config, "loss.name", "contrastive").loss.name == "contrastive"


@pytest.mark.parametrize(
    ("then", "now", "value"),
    [
        ("settings.transport.alpha", "loss.transport.alpha", "inf"),
        ("settings.reduction", "loss.reduction", "conditional"),
        ("settings.bin", "loss.weight_bin", "0"),
        ("settings.background", "loss.weight_background", "3"),
        ("loss", "loss.name", "contrastive"),
        ("encoder.layer", "encoder.options.layer", "9"),
        ("encoder.norm", "encoder.options.norm", "false"),
        ("encoder.bin", "encoder.threshold", "0.4"),
    ],
)
def test_keys_of_release_0_1_still_work(then, now, value):
    assert changed(TrainConfig(), then, value) == changed(TrainConfig(), now, value) != TrainConfig()


def test_a_configuration_of_release_0_1_is_still_read():
    text = (Path(__file__).parent / "config_of_release_0.1.json").read_text()
    expected = replace(preset("animals-cpu"), steps=20, validation_pairs=20, save_every=10)
    assert TrainConfig.from_json(text) == expected
    balanced = text.replace('"alpha": 10.0', '"alpha": "inf"').replace('"bin": null', '"bin": 2.0')
    assert TrainConfig.from_json(balanced).loss.transport.alpha == math.inf
    assert TrainConfig.from_json(balanced).loss.weight_bin == 2.0


def test_both_sizes_change_together():
    config = TrainConfig().at_size(224)
    assert config.encoder.size == config.augment.size == 224


def test_masks_are_needed_by_transport_whatever_its_marginals_and_to_draw_points_on():
    uniform = changed(TrainConfig(), "loss.transport.marginals", "uniform")
    contrastive = TrainConfig(loss=LossSettings(name="contrastive"))
    assert TrainConfig().needs_masks
    assert uniform.needs_masks
    assert not contrastive.needs_masks
    assert replace(contrastive, sampling=SamplingSettings(self_pairs=0.1)).needs_masks


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("epoch", "3", "the configuration has unknown keys epoch; known: accumulate, augment, "),
        ("loss.lam", "3", "loss has unknown keys lam; known: contrast_temperature, "),
        ("settings.lam", "3", "loss has unknown keys lam; known: contrast_temperature, "),
        ("loss.transprot.lam", "3", "loss.transprot.lam: 'transprot' has no settings; groups: transport"),
        ("loss.transport.alpha", "-1", "loss.transport.alpha must be above 0, got -1.0"),
        ("epochs", "many", "epochs: expected a whole number, got 'many'"),
        ("epochs", "true", "epochs: expected a whole number, got True"),
        ("learning_rate", "small", "learning_rate: expected a number, got 'small'"),
        ("precision", "fp8", "precision: expected one of no, bf16, fp16, got 'fp8'"),
        ("loss", "l2", "loss.name: expected one of transport, contrastive, soft-argmax, distill, got 'l2'"),
        ("pairing", "every", "pairing: expected one of given, all, got 'every'"),
        ("encoder.lora", "3", "encoder.lora: expected settings of LoraSettings, got 3"),
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


def test_mistakes_in_python_are_named():
    with pytest.raises(ValueError, match=r"run\.json is not JSON"):
        TrainConfig.from_json("{", name="run.json")
    with pytest.raises(ValueError, match="precision must be one of no, bf16, fp16, got 'half'"):
        replace(TrainConfig(), precision="half")
    with pytest.raises(ValueError, match="pairing must be one of given, all, got 'every'"):
        replace(TrainConfig(), pairing="every")
    with pytest.raises(ValueError, match="per_category counts pairs, expected 1 or more"):
        SamplingSettings(0)
    with pytest.raises(ValueError, match="self_pairs is a share, expected 0 to 1, got 2"):
        SamplingSettings(self_pairs=2)
