"""Inference by torch alone: the same features as with transformers and PEFT, which are not imported."""

import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close
from training_data import tiny_vit

import geco
from geco.errors import InputError
from geco.models import Geco
from geco.models.settings import EncoderConfig, LoraSettings
from geco.models.weights import load_backbone, locate

EVERY = ("query", "key", "value", "output", "fc1", "fc2")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    """An adapter on every projection, none of whose matrices is zero."""
    vit = tiny_vit(tmp_path_factory.mktemp("vit"))
    config = EncoderConfig(str(vit), size=98, lora=LoraSettings(rank=3, alpha=5.0, projections=EVERY))
    model = Geco(load_backbone(locate(str(vit))), config)
    generator = torch.Generator().manual_seed(0)
    for name, value in model.named_parameters():
        if "lora_" in name:
            value.data = torch.randn(value.shape, generator=generator) * 0.1
    return model.save_pretrained(tmp_path_factory.mktemp("adapter"))


def test_an_adapter_is_merged_as_peft_merges_it(adapter, tmp_path):
    ours, theirs = geco.load(adapter, device="cpu"), Geco.from_pretrained(adapter, device="cpu").merge()
    image = torch.randint(0, 256, (3, 60, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    expected = theirs.extract(image)
    assert_close(ours.extract(image).values, expected.values, atol=1e-5, rtol=1e-5)
    assert (ours.adapted, ours.config) == (theirs.adapted, theirs.config)
    for model in (ours, theirs):  # saved whole, either opens either way
        saved = model.save_pretrained(tmp_path / type(model.backbone).__name__)
        for again in (geco.load(saved, device="cpu"), Geco.from_pretrained(saved, device="cpu")):
            assert_close(again.extract(image).values, expected.values, atol=1e-5, rtol=1e-5)


def test_an_adapter_of_another_shape_is_refused(adapter, tmp_path):
    from safetensors.torch import load_file, save_file

    for file in adapter.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    state = load_file(adapter / "adapter_model.safetensors")
    name = next(key for key in state if "layer.1" in key and "q_proj.lora_A" in key)
    save_file({key: value for key, value in state.items() if key != name}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(InputError, match=r"does not fit its backbone .*: 1 weights, first blocks.1.query A"):
        geco.load(tmp_path, device="cpu")
    save_file({**state, name: state[name][:, :5].contiguous()}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(InputError, match=r"does not fit its backbone .*: 1 weights, first blocks.1.query A"):
        geco.load(tmp_path, device="cpu")


def test_what_needs_transformers_or_peft_names_the_extra(adapter, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"needs peft; install it with: pip install 'geco-features\[train\]'"):
        Geco.from_pretrained(adapter, device="cpu")
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "transformers.utils", None)
    with pytest.raises(ImportError, match=r"needs transformers; install it with: pip install 'geco-features\[train\]'"):
        Geco.from_pretrained(adapter, device="cpu")
    geco.load(adapter, device="cpu").save_pretrained(tmp_path / "whole", dtype="float16")
    assert geco.load(tmp_path / "whole", device="cpu").adapted


def test_neither_transformers_nor_peft_is_imported(adapter):
    code = (
        "import sys, torch, geco\n"
        f"model = geco.load({str(adapter)!r}, device='cpu')\n"
        "a = torch.zeros(3, 40, 40, dtype=torch.uint8)\n"
        "geco.transfer(a, a, [(3, 4)], model=model)\n"
        "heavy = ('transformers', 'peft', 'matplotlib', 'accelerate', 'onnxruntime', 'openvino')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
