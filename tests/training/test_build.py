"""The model at step 0, and what of it is trained."""

import pytest
import torch
from torch.testing import assert_close
from training_data import config, pairs

import geco
from geco.models import Geco
from geco.models.settings import EncoderConfig
from geco.training import RunFolder, fit
from geco.training.build import build, parameter_groups, speed_up_attention, trainable, transformer_blocks


def test_unfrozen_blocks_are_trained_and_saved(vit, tmp_path):
    settings = config(vit, epochs=2, unfreeze=1)
    fit(settings, {"squares": pairs(4)}, {}, tmp_path / "run")
    before, after = build(settings), Geco.from_pretrained(tmp_path / "run", device="cpu")
    first, last = transformer_blocks(before)
    new_first, new_last = transformer_blocks(after)
    assert torch.equal(first.mlp.fc1.weight, new_first.mlp.fc1.weight)
    assert not torch.equal(last.mlp.fc1.weight, new_last.mlp.fc1.weight)
    assert after.config.lora is None  # merged: the folder holds the whole encoder
    saved = RunFolder(tmp_path / "run").read_checkpoint()["weights"]
    key = next(name for name in saved if name.endswith("mlp.fc1.weight"))
    assert torch.equal(saved[key], new_last.mlp.fc1.weight)


def test_blocks_can_be_trained_without_an_adapter(vit, tmp_path):
    bare = EncoderConfig(backbone=str(vit), size=98, lora=None)
    fit(config(vit, epochs=1, encoder=bare, unfreeze=2), {"squares": pairs(4)}, {}, tmp_path / "run")
    assert geco.load(tmp_path / "run", device="cpu").extract(pairs(1)[0].source.image).grid == (7, 7)


def test_learning_rates_fall_from_block_to_block_and_no_weight_is_left_out(vit):
    model = build(config(vit, unfreeze=2))
    assert [group.keys() for group in parameter_groups(model)] == [{"params"}]
    first, last = parameter_groups(model, 0.5)
    assert (first["scale"], last["scale"]) == (0.5, 1.0)
    blocks = [{id(value) for value in block.parameters() if value.requires_grad} for block in transformer_blocks(model)]
    assert [{id(value) for value in group["params"]} for group in (first, last)] == blocks
    assert len(first["params"]) + len(last["params"]) == len(trainable(model))


def test_a_block_whose_learning_rate_is_half_moves_half_as_far(vit, tmp_path):
    bare = EncoderConfig(backbone=str(vit), size=98, lora=None)
    settings = config(vit, epochs=1, steps=1, encoder=bare, unfreeze=2, layer_decay=0.5)
    fit(settings, {"squares": pairs(4)}, {}, tmp_path / "run")
    before, after = build(settings), Geco.from_pretrained(tmp_path / "run", device="cpu")
    moved = [
        (new.mlp.fc1.weight - old.mlp.fc1.weight).abs().median()
        for old, new in zip(transformer_blocks(before), transformer_blocks(after), strict=True)
    ]
    assert_close(moved[1] / moved[0], torch.tensor(2.0), atol=0.02, rtol=0)  # Adam's first step is its learning rate


@pytest.mark.parametrize(("precision", "kernel"), [("bf16", "eager"), ("no", "sdpa")])
def test_attention_computed_as_products_gives_the_same_features(vit, precision, kernel):
    settings = config(vit, precision=precision)
    model = build(settings)
    inputs = model.prepare(torch.rand(2, 3, 98, 98))
    before = model(**inputs)
    speed_up_attention(model, settings)
    assert model.backbone.encoder.config._attn_implementation == kernel
    assert_close(model(**inputs), before, atol=1e-5, rtol=1e-5)


def test_attention_over_many_patches_is_left_to_the_kernel_that_needs_no_matrix(vit, monkeypatch):
    monkeypatch.setattr("geco.training.build.MOST_PATCHES", 48)  # 7 × 7 are more
    model = build(config(vit, precision="bf16"))
    speed_up_attention(model, config(vit, precision="bf16"))
    assert model.backbone.encoder.config._attn_implementation == "sdpa"
