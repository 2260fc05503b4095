"""The authors' LoRA file: given by path it is a model on DINOv2, equal to the products added to the weights by hand."""

import json

import pytest
import torch
from small_rows import lora_state
from transformers import Dinov2Model

import geco
from geco.models import adapters, weights
from geco.models.geco import Geco

BLOCKS, WIDTH, RANK = 2, 24, 3


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


@pytest.fixture
def folder(tmp_path, tiny_folder):
    """The file beside a manifest that names a small backbone for it."""
    torch.save(lora_state(), tmp_path / "geco.pth")
    parts = {"lora": "geco.pth", "dinov2": str(tiny_folder)}
    (tmp_path / "parts.json").write_text(json.dumps({"model": "geco", "parts": parts}))
    return tmp_path


def test_the_released_file_has_these_keys_and_this_size():
    """LoRA of rank 10 on queries and values of ViT-B: 368,640 numbers (GECO, supplement)."""
    state = lora_state(blocks=12, width=768, rank=10)
    assert (len(state), sum(value.numel() for value in state.values())) == (48, 368_640)
    matrices = adapters.reference_lora(state)
    assert set(matrices) == {(block, name) for block in range(12) for name in ("query", "value")}
    assert all((a.shape, b.shape) == ((10, 768), (768, 10)) for a, b in matrices.values())


def test_the_file_s_matrices_are_added_to_queries_and_values(folder, tiny_folder):
    model = geco.load(folder, size=56, device="cpu")
    expected = Dinov2Model.from_pretrained(tiny_folder).eval()
    names = {0: "q_proj", 1: "v_proj"}
    state = lora_state()
    with torch.no_grad():
        for i in range(2 * BLOCKS):
            (weight,) = [
                module.weight
                for name, module in expected.named_modules()
                if f".{i // 2}." in f".{name}." and name.endswith(names[i % 2])
            ]
            weight += state[f"w_b_{i:03d}"] @ state[f"w_a_{i:03d}"]
        pixels = torch.randn(1, 3, 56, 56)
        tokens = expected(pixel_values=pixels).last_hidden_state[:, 1:].mT.unflatten(-1, (4, 4))
        torch.testing.assert_close(model(pixels=pixels), tokens, rtol=1e-4, atol=1e-5)
    assert model.adapted
    assert "github.com/reginehartwig/geco" in model.note


def test_it_is_an_adapter_that_can_be_trained_and_saved(folder, tmp_path, tiny_folder):
    model = Geco.from_pretrained(folder, device="cpu")
    assert (model.config.lora.rank, model.config.lora.alpha, model.config.backbone) == (RANK, RANK, str(tiny_folder))
    assert model.trainable() == 2 * BLOCKS * 2 * RANK * WIDTH
    again = Geco.from_pretrained(model.save_pretrained(tmp_path / "saved"), device="cpu")
    pixels = torch.randn(1, 3, 28, 28)
    with torch.no_grad():
        assert again(pixels=pixels).equal(model(pixels=pixels))


def test_without_a_backbone_one_line_says_so(folder):
    with pytest.raises(OSError, match=r"geco needs DINOv2-B: facebook/dinov2-base is not in .*; connect once, or name"):
        geco.load(str(folder / "geco.pth"))
    with pytest.raises(FileNotFoundError, match="geco needs a LoRA file of GECO's authors"):
        geco.load("geco")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({key: value for key, value in lora_state().items() if key != "w_b_002"}, r"geco\.pth.* is incomplete"),
        (lora_state(blocks=3), r"geco\.pth adapts 3 blocks, .* has 2"),
        (lora_state(width=32), r"geco\.pth does not fit its backbone"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(folder, state, words):
    torch.save(state, folder / "geco.pth")
    with pytest.raises(ValueError, match=words):
        Geco.from_pretrained(folder, device="cpu")


def test_it_is_no_backbone_to_train_on(folder):
    from geco.models.settings import EncoderConfig

    backbone = weights.load_backbone(weights.locate(str(folder)))
    with pytest.raises(ValueError, match="comes with an adapter of its own"):
        Geco(backbone, EncoderConfig(str(folder)))
