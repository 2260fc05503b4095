"""The encoder: identity at the start, exact to merge, save and load; counts as in the paper."""

import json

import pytest
import torch
from peft import PeftModel
from tiny_model import fresh
from transformers import Dinov2Config, Dinov2Model

from geco import images
from geco.backbones import ViT
from geco.models import weights
from geco.models.geco import Geco
from geco.models.settings import EncoderConfig, LoraSettings
from geco.system import devices
from geco.types import Encoder


@pytest.fixture
def adapted(tiny_folder):
    """A tiny model with an adapter whose B-matrices are not zero, as after some training."""
    model = fresh(tiny_folder)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


@pytest.fixture
def batch():
    return torch.randn(3, 3, 42, 56, generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def values(model, images):
    return model(pixels=images)


def test_the_adapter_of_vit_b_has_the_papers_number_of_parameters():
    """768·10·2·12·2 = 368,640 (GECO supplement); the weights need no memory to be counted."""
    with torch.device("meta"):
        base = Dinov2Model(Dinov2Config(hidden_size=768, num_hidden_layers=12, num_attention_heads=12))
        backbone = ViT(base, layer=None, prefix_tokens=1)
        model = Geco(backbone, EncoderConfig())
    assert model.trainable() == 368_640


def test_step_zero_equals_the_backbone(tiny_folder, batch):
    bare = Geco.from_pretrained(tiny_folder, device="cpu")
    assert bare.trainable() == 0
    assert not bare.adapted
    assert values(fresh(tiny_folder), batch).equal(values(bare, batch))


def test_only_query_and_value_are_adapted(tiny_folder):
    names = [name for name, p in fresh(tiny_folder).named_parameters() if p.requires_grad]
    assert len(names) == 2 * 2 * 2  # blocks × projections × matrices
    assert all(".q_proj." in name or ".v_proj." in name for name in names)
    other = fresh(tiny_folder, rank=3, projections=("key", "fc1"))
    assert any(".fc1." in name for name, p in other.named_parameters() if p.requires_grad)


def test_unknown_projections_are_refused(tiny_folder):
    with pytest.raises(ValueError, match=r"projections must be among query, key, value.*, got qkv"):
        fresh(tiny_folder, projections=("qkv",))


def test_merged_equals_unmerged_and_costs_no_parameter(adapted, tiny_folder, batch):
    before = values(adapted, batch)
    bare = Geco.from_pretrained(tiny_folder, device="cpu")
    assert (before - values(bare, batch)).abs().max() > 1e-2, "the adapter does something"
    merged = adapted.merge()
    torch.testing.assert_close(values(merged, batch), before, rtol=0, atol=1e-5)
    assert sum(p.numel() for p in merged.parameters()) == sum(p.numel() for p in bare.parameters())
    assert merged.trainable() == 0
    assert merged.adapted
    assert merged.merge() is merged


def test_save_and_load_is_exact_and_in_peft_layout(adapted, tiny_folder, tmp_path, batch):
    folder = adapted.save_pretrained(tmp_path / "run")
    assert {"adapter_config.json", "adapter_model.safetensors", "geco.json", "README.md"} <= {
        f.name for f in folder.iterdir()
    }
    again = Geco.from_pretrained(folder, device="cpu")
    assert values(again, batch).equal(values(adapted, batch))
    assert again.config == adapted.config
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == str(tiny_folder)
    card = (folder / "README.md").read_text()
    assert "LoRA rank 10, alpha 10, on query and value" in card


def test_the_saved_adapter_loads_with_peft_alone(adapted, tiny_folder, tmp_path, batch):
    folder = adapted.save_pretrained(tmp_path / "run")
    model = PeftModel.from_pretrained(Dinov2Model.from_pretrained(tiny_folder), folder).eval()
    with torch.no_grad():
        tokens = model(pixel_values=batch).last_hidden_state[:, 1:].mT
    torch.testing.assert_close(tokens.unflatten(-1, (3, 4)), values(adapted, batch), rtol=1e-5, atol=1e-6)


def test_a_merged_model_is_saved_whole(adapted, tmp_path, batch):
    expected = values(adapted.merge(), batch)
    folder = adapted.save_pretrained(tmp_path / "whole")
    assert values(Geco.from_pretrained(folder, device="cpu"), batch).equal(expected)


@pytest.mark.parametrize("merged", [False, True])
def test_an_encoder_read_before_its_norm_stays_so_on_disk_and_loses_no_weight(tiny_folder, tmp_path, batch, merged):
    model = fresh(tiny_folder, norm=False)
    expected = values(model.merge() if merged else model, batch)
    assert not torch.allclose(expected, values(fresh(tiny_folder), batch))
    folder = model.save_pretrained(tmp_path / "before")
    assert values(Geco.from_pretrained(folder, device="cpu"), batch).equal(expected)
    if merged:
        whole = Dinov2Model.from_pretrained(folder).eval()  # complete for transformers alone, which applies the norm
        with torch.no_grad():
            tokens = whole(pixel_values=batch).last_hidden_state[:, 1:]
            by_hand = whole.layernorm(expected.flatten(2).mT)
        torch.testing.assert_close(tokens, by_hand, rtol=1e-5, atol=1e-6)


def test_a_batch_equals_its_images(adapted, image_file):
    pictures = [image_file(f"{i}.jpg", size, seed=i) for i, size in enumerate([(120, 90), (60, 80), (100, 100)])]
    together = adapted.extract_batch(pictures, batch_size=2)
    for picture, features in zip(pictures, together, strict=True):
        alone = adapted.extract(picture)
        torch.testing.assert_close(features.values, alone.values, rtol=1e-5, atol=1e-5)
        assert features.size == alone.size
    assert [features.size for features in together] == [(90, 120), (80, 60), (100, 100)]
    assert together[0].values.shape == (24, 4, 4)


def test_any_size_of_whole_patches_works(adapted):
    for size in ((14, 14), (28, 70), (98, 56)):
        assert adapted(pixels=torch.zeros(1, 3, *size)).shape[-2:] == (size[0] // 14, size[1] // 14)


def test_the_reference_checkpoint_is_read_even_query_odd_value(tiny_folder, tmp_path, batch):
    """The oracle adds B·A to the projections of a bare backbone by hand."""
    torch.manual_seed(7)
    state = {f"w_a_{i:03d}": torch.randn(5, 24) * 0.3 for i in range(4)}
    state |= {f"w_b_{i:03d}": torch.randn(24, 5) * 0.3 for i in range(4)}
    torch.save(state, tmp_path / "reference.pt")
    model = Geco.from_reference(tmp_path / "reference.pt", backbone=str(tiny_folder))
    bare = Geco.from_pretrained(tiny_folder, device="cpu")
    for i in range(4):
        attention = bare.backbone.encoder.encoder.layer[i // 2].attention
        projection = attention.q_proj if i % 2 == 0 else attention.v_proj
        projection.weight += state[f"w_b_{i:03d}"] @ state[f"w_a_{i:03d}"]
    torch.testing.assert_close(values(model, batch), values(bare, batch), rtol=1e-4, atol=1e-5)


def test_a_reference_checkpoint_for_another_depth_is_refused(tiny_folder, tmp_path):
    state = {f"w_{m}_{i:03d}": torch.zeros(1, 1) for i in range(24) for m in "ab"}
    torch.save(state, tmp_path / "deep.pt")
    with pytest.raises(ValueError, match=r"adapts 12 blocks, .* has 2"):
        Geco.from_reference(tmp_path / "deep.pt", backbone=str(tiny_folder))


def test_an_adapter_of_another_backbone_is_refused(adapted, tmp_path):
    folder = adapted.save_pretrained(tmp_path / "run")
    config = EncoderConfig.from_json((folder / "geco.json").read_text())
    (folder / "geco.json").write_text(EncoderConfig(config.backbone, {"layer": 1}, size=56, lora=config.lora).to_json())
    with pytest.raises(ValueError, match="does not fit its backbone"):
        Geco.from_pretrained(folder)


def test_unknown_keys_in_a_configuration_are_errors():
    with pytest.raises(ValueError, match=r"geco\.json has unknown keys colour; known: aspect, backbone"):
        EncoderConfig.from_json('{"colour": 1}', name="geco.json")
    with pytest.raises(ValueError, match=r"lora has unknown keys dropout"):
        EncoderConfig.from_json('{"lora": {"dropout": 1}}')
    with pytest.raises(ValueError, match="is not JSON"):
        EncoderConfig.from_json("{")
    config = EncoderConfig("x", {"layer": 3, "norm": False}, size=224, lora=LoraSettings(4, 8.0, ("key",)))
    assert EncoderConfig.from_json(config.to_json()) == config


def test_a_configuration_of_release_0_1_is_read():
    old = '{"backbone": "focus-small", "layer": 11, "norm": true, "size": 280, "bin": 0.5, "lora": null}'
    new = EncoderConfig("focus-small", {"layer": 11, "norm": True}, size=280, threshold=0.5, lora=None)
    assert EncoderConfig.from_json(old) == new
    assert "bin" not in json.loads(new.to_json())


def test_an_option_that_is_not_given_is_the_backbones_own():
    assert EncoderConfig(options={"layer": None}) == EncoderConfig()


def test_layer_is_for_bare_backbones(adapted, tiny_folder, tmp_path):
    assert Geco.from_pretrained(tiny_folder, layer=1).config.options["layer"] == 1
    folder = adapted.save_pretrained(tmp_path / "run")
    for option in ({"layer": 1}, {"norm": False}):
        with pytest.raises(ValueError, match="such options are for bare backbones"):
            Geco.from_pretrained(folder, **option)


def test_an_option_that_the_family_does_not_have_is_refused(tiny_folder):
    with pytest.raises(ValueError, match="dinov2 backbones have no option timestep; options: layer, norm"):
        Geco.from_pretrained(tiny_folder, timestep=101)


def test_fingerprints_tell_models_apart(adapted, tiny_folder):
    bare = Geco.from_pretrained(tiny_folder)
    assert bare.fingerprint() == Geco.from_pretrained(tiny_folder).fingerprint()
    assert (
        len(
            {
                bare.fingerprint(),
                adapted.fingerprint(),
                Geco.from_pretrained(tiny_folder, layer=1).fingerprint(),
                Geco.from_pretrained(tiny_folder, norm=False).fingerprint(),
            }
        )
        == 4
    )


DEVICES = ["cpu", "cuda", "mps"]


def test_it_is_an_encoder(adapted):
    assert isinstance(adapted, Encoder)
    assert (adapted.dim, adapted.stride, adapted.threshold) == (24, 14, 0.3)


def test_the_input_is_prepared_as_the_configuration_says(tiny_folder, image_file):
    picture = images.read(image_file())
    for resize in ("bilinear", "bicubic"):
        config = EncoderConfig(str(tiny_folder), size=60, resize=resize, lora=None)
        model = Geco(weights.load_backbone(weights.locate(str(tiny_folder))), config)
        expected = images.prepare(picture, (56, 56), mode=resize)
        assert model.prepare(picture)["pixels"].equal(expected)
    with pytest.raises(ValueError, match="resize must be bilinear, bicubic or lanczos, got 'nearest'"):
        EncoderConfig(resize="nearest")


@pytest.mark.parametrize("device", DEVICES)
def test_every_available_device_gives_the_cpus_features(tiny_folder, image_file, device):
    if not present()[device]:
        pytest.skip(f"no {device} on this machine")
    path = image_file()
    expected = Geco.from_pretrained(tiny_folder, device="cpu").extract(path).values
    found = Geco.from_pretrained(tiny_folder, device=device).extract(path).values.cpu()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near_and_comes_back_as_float32(tiny_folder, image_file, dtype):
    path = image_file()
    expected = Geco.from_pretrained(tiny_folder, device="cpu").extract(path).unit().values
    found = Geco.from_pretrained(tiny_folder, device="cpu", dtype=dtype).extract(path)
    assert found.values.dtype == torch.float32
    assert ((found.unit().values * expected).sum(0) > 0.99).all()


def test_auto_is_an_available_device_and_nonsense_is_refused():
    assert devices.choose("auto").type in DEVICES
    with pytest.raises(ValueError, match=r"device must be auto, cpu, cuda.*got 'gpu0'"):
        devices.choose("gpu0")
    absent = [name for name, there in present().items() if not there]
    for name in absent:
        with pytest.raises(ValueError, match="be on this machine"):
            devices.choose(name)


def present():
    return {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
