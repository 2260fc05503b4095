"""Models on disk: half precision for storage only, where a model was trained from, packaged releases, damage."""

import shutil

import pytest
import torch
from safetensors.torch import load_file
from tiny_model import fresh
from torch.testing import assert_close
from training_data import config, pairs, tiny_vit

import geco
from geco.errors import InputError
from geco.models import Geco, shipped, weights
from geco.models.saving import seal
from geco.models.settings import EncoderConfig
from geco.training import fit, starting_from
from geco.training.build import build

IMAGE = torch.randint(0, 256, (3, 60, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
HALF = 2.0**-11  # of a number: what rounding to float16 changes at most


def trained(folder):
    """A tiny model whose adapter is not the identity."""
    model = fresh(folder)
    generator = torch.Generator().manual_seed(2)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data = torch.randn(value.shape, generator=generator) * 0.3
    return model


@pytest.fixture
def shipping(tiny_folder, tmp_path, monkeypatch):
    """The tiny model as the one that ships with the package, under the name geco-t."""
    whole = trained(tiny_folder).merge().save_pretrained(tmp_path / "assets" / "geco-t", dtype="float16")
    seal(whole)
    monkeypatch.setattr(shipped, "ASSETS", tmp_path / "assets")
    return whole


@pytest.mark.parametrize("light", [True, False])
def test_half_precision_is_for_matrices_on_disk_and_bounded(tiny_folder, tmp_path, light):
    folder = trained(tiny_folder).save_pretrained(tmp_path / "adapter")
    model = Geco.from_pretrained(folder, device="cpu", light=light).merge()
    whole, half = (model.save_pretrained(tmp_path / str(dtype), dtype=dtype) for dtype in (None, "float16"))
    before, after = load_file(whole / "model.safetensors"), load_file(half / "model.safetensors")
    assert before.keys() == after.keys()
    for name, value in before.items():
        stored = after[name]
        assert stored.dtype == (torch.float16 if value.ndim > 1 else torch.float32), name
        assert ((stored.float() - value).abs() <= HALF * value.abs() + 2.0**-25).all(), name
    expected = model.extract(IMAGE).values
    for again in (geco.load(half, device="cpu"), Geco.from_pretrained(half, device="cpu")):
        assert again.dtype == "float32"
        assert float((again.extract(IMAGE).values - expected).norm() / expected.norm()) < 8 * HALF


def test_an_adapter_and_numbers_too_large_are_not_stored_in_half(tiny_folder, tmp_path):
    model = fresh(tiny_folder)
    with pytest.raises(InputError, match=r"only a whole model is saved in another precision; merge\(\)"):
        model.save_pretrained(tmp_path / "a", dtype="float16")
    model.merge().backbone.encoder.encoder.layer[0].mlp.fc1.weight.data[0, 0] = 1e5
    with pytest.raises(InputError, match=r"fc1.weight' has numbers too large for float16"):
        model.save_pretrained(tmp_path / "b", dtype="float16")


def test_a_whole_model_knows_what_it_was_trained_from(tiny_folder, tmp_path):
    adapted = trained(tiny_folder).merge().save_pretrained(tmp_path / "one")
    bare = Geco.from_pretrained(tiny_folder, device="cpu", light=True).save_pretrained(tmp_path / "bare")
    assert (geco.load(adapted).adapted, geco.load(adapted).config.untrained) == (True, str(tiny_folder))
    assert (geco.load(bare).adapted, geco.load(bare).config.untrained) == (False, "")
    run = starting_from(config(tiny_folder), str(adapted))
    assert run.encoder.backbone == str(adapted)
    again = build(run).merge().save_pretrained(tmp_path / "two")
    assert geco.load(again).config.base == str(tiny_folder), "the beginning of the chain"


def test_blocks_that_were_trained_without_an_adapter_make_no_bare_backbone(tmp_path):
    vit = tiny_vit(tmp_path / "vit")
    bare = EncoderConfig(backbone=str(vit), size=98, lora=None)
    fit(config(vit, epochs=1, steps=1, encoder=bare, unfreeze=1), {"squares": pairs(2)}, {}, tmp_path / "run")
    model = geco.load(tmp_path / "run", device="cpu")
    assert (model.adapted, model.config.base) == (True, str(vit))


def test_the_base_does_not_change_the_fingerprint(shipping, tmp_path):
    first = geco.load("geco-t", device="cpu")
    copy = shutil.copytree(shipping, tmp_path / "elsewhere")
    second = geco.load(copy, device="cpu")
    assert second.fingerprint() == first.fingerprint()
    (copy / "geco.json").write_text(EncoderConfig.to_json(first.config).replace(first.config.base, "other"))
    assert geco.load(copy, device="cpu").fingerprint() == first.fingerprint()


def test_a_packaged_model_is_trained_further_and_its_release_is_noted(shipping, tmp_path):
    run = starting_from(config("none"), "geco-t")
    release = shipped.release_name("geco-t")
    assert run.encoder.backbone == release
    assert run.encoder.threshold == weights.adapter_config(shipping).threshold
    model = build(run)
    model.eval()
    folder = model.save_pretrained(tmp_path / "adapter")
    assert str(tmp_path) not in (folder / "geco.json").read_text(), "found from wherever geco is installed"
    size = run.encoder.size
    expected = geco.load("geco-t", device="cpu", size=size).extract(IMAGE).values
    assert_close(geco.load(folder, device="cpu").extract(IMAGE).values, expected, atol=1e-5, rtol=1e-5)
    assert geco.load(release, device="cpu").fingerprint() == geco.load("geco-t", device="cpu").fingerprint()
    text = (folder / "geco.json").read_text()
    (folder / "geco.json").write_text(text.replace(release, "geco-t@00000000"))
    with pytest.raises(InputError, match=r"geco-t@00000000 is not the geco-t of this release"):
        geco.load(folder, device="cpu")


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_damaged_packaged_model_is_refused(shipping, file):
    content = (shipping / file).read_bytes()
    (shipping / file).write_bytes(content[:-2] + b" " + content[-1:] if file == "config.json" else content[:-1] + b"x")
    for load in (geco.load, Geco.from_pretrained):
        with pytest.raises(InputError, match=r"geco-t is damaged: .* checksums .*; install or save the model again"):
            load("geco-t", device="cpu")
