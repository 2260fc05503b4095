"""Stable Diffusion as an encoder, against diffusers' own networks: latents, the walk through the decoder, FreeU."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_diffusion import CAPTION

from geco.backbones import _stable_diffusion as stable_diffusion
from geco.backbones._diffusion import cut, noise, noisy

pytest.importorskip("diffusers", reason="needs the extra diffusion")

FACTORS = {96: (1.2, 0.9), 64: (1.4, 0.2)}


@pytest.fixture(scope="module")
def folder(diffusion_parts):
    return diffusion_parts / "sd"


@pytest.fixture(scope="module")
def ours(folder):
    return stable_diffusion.load(str(folder), block=7, what="a test")


@pytest.fixture(scope="module")
def whole(folder):
    """diffusers' UNet of the same folder, not cut."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel.from_pretrained(folder / "unet").eval().requires_grad_(False)


def latents(seed=0):
    return torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(seed))


def captions(seed=1):
    return torch.randn(2, 77, CAPTION, generator=torch.Generator().manual_seed(seed))


# --- noise and latents ------------------------------------------------------------------------------------------------


def test_the_noise_is_the_buffer_that_the_authors_draw():
    drawn = noise((1, 4, 64, 64), seed=42)
    expected = torch.tensor([1.92692, 1.48728, 0.90072, -2.10552])
    torch.testing.assert_close(drawn.flatten()[:4], expected, rtol=0, atol=5e-6)


def test_noise_is_added_as_diffusers_does():
    from diffusers import DDPMScheduler

    x, drawn = latents(), torch.randn(4, 16, 16)
    scheduler = DDPMScheduler(1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
    expected = scheduler.add_noise(x, drawn.expand_as(x), torch.tensor([50, 50]))
    torch.testing.assert_close(noisy(x, drawn, stable_diffusion.BETAS, 50), expected, rtol=1e-4, atol=5e-6)


def test_latents_are_the_mean_of_diffusers_vae_also_with_the_older_names_of_its_attention(folder, ours):
    from diffusers import AutoencoderKL

    names = set(load_file(folder / "vae" / "diffusion_pytorch_model.safetensors"))
    assert "encoder.mid_block.attentions.0.query.weight" in names
    vae = AutoencoderKL.from_pretrained(folder / "vae").eval()
    x = torch.rand(2, 3, 64, 32) * 2 - 1
    with torch.no_grad():
        expected = 0.18215 * vae.encode(x).latent_dist.mean
        torch.testing.assert_close(ours.latents(x), expected)
    assert not hasattr(ours.vae, "decoder")


def test_the_networks_of_the_release_have_the_published_numbers_of_weights():
    """859.5 M in the UNet and 34.2 M in the VAE's encoder; on the meta device, so without memory."""
    import diffusers

    with torch.device("meta"):
        unet = diffusers.UNet2DConditionModel(
            **stable_diffusion.UNET,
            block_out_channels=[320, 640, 1280, 1280],
            cross_attention_dim=768,
            attention_head_dim=8,
        )
        vae = diffusers.AutoencoderKL(
            **stable_diffusion.VAE,
            block_out_channels=[128, 256, 512, 512],
            up_block_types=["UpDecoderBlock2D"] * 4,
        )
    assert sum(p.numel() for p in unet.parameters()) == 859_520_964
    encoder = [*vae.encoder.parameters(), *vae.quant_conv.parameters()]
    assert round(sum(p.numel() for p in encoder) / 1e6, 1) == 34.2
    shapes = {}
    for name in ("up_blocks.0.resnets.1", "up_blocks.1.attentions.1", "up_blocks.2.attentions.1"):
        module = unet.get_submodule(name)
        module.register_forward_hook(
            lambda *values, name=name: shapes.update({name: (values[-1][0] if "att" in name else values[-1]).shape})
        )
    unet(torch.zeros(1, 4, 64, 64, device="meta"), 50, torch.zeros(1, 77, 768, device="meta"), return_dict=False)
    assert [tuple(shape[1:]) for shape in shapes.values()] == [(1280, 8, 8), (1280, 16, 16), (640, 32, 32)]


# --- the walk ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def hooked(unet, x, caption, t=50):
    """What diffusers' own forward pass has at the places that are read, and after the second level of the decoder."""
    seen = {}
    places = {2: unet.up_blocks[0].resnets[1], 5: unet.up_blocks[1].attentions[1], 8: unet.up_blocks[2].attentions[1]}
    places[6] = unet.up_blocks[1]
    hooks = [
        module.register_forward_hook(
            lambda *values, block=block: seen.update(
                {block: values[-1][0] if isinstance(values[-1], tuple) else values[-1]}
            )
        )
        for block, module in places.items()
    ]
    unet(x, t, encoder_hidden_states=caption, return_dict=False)
    for hook in hooks:
        hook.remove()
    return seen


def test_without_freeu_the_walk_has_what_hooks_see(ours, whole):
    x, caption = latents(), captions()
    with torch.no_grad():
        states = ours.hidden(x, 50, entering=(2, 5, 6, 8), caption=caption)
    expected = hooked(whole, x, caption)
    assert {block: tuple(values.shape) for block, values in states.items()} == {
        2: (2, 96, 2, 2),
        5: (2, 96, 4, 4),
        6: (2, 96, 8, 8),
        8: (2, 64, 8, 8),
    }
    for block, values in states.items():
        assert values.equal(expected[block]), block


def test_with_freeu_it_has_what_hooks_that_scale_and_filter_by_hand_see(ours, whole):
    """A hook before each block splits its input again into hidden state and skip, and applies the factors in numpy."""
    x, caption = latents(), captions()
    blocks = [resnet for block in whole.up_blocks for resnet in block.resnets]
    before = [96, 96, 96, 96, 96, 96, 96, 64, 64, 64, 32, 32]  # channels of the hidden states that enter them
    seen = {}

    def enhance(block):
        def hook(_, inputs):
            joined, *others = inputs
            h, skip = joined.numpy().copy(), None
            h, skip = h[:, : before[block]], h[:, before[block] :]
            if before[block] in (96, 64):
                enlarge, damp = (1.2, 0.9) if before[block] == 96 else (1.4, 0.2)
                h[:, : before[block] // 2] *= enlarge
                spectrum = np.fft.fft2(skip)  # the lowest frequencies are −1 and 0 in each direction
                for row in (-1, 0):
                    for column in (-1, 0):
                        spectrum[..., row, column] *= damp
                skip = np.fft.ifft2(spectrum).real
            seen[block] = torch.from_numpy(h)
            return torch.from_numpy(np.concatenate([h, skip.astype(np.float32)], 1)), *others

        return hook

    hooks = [resnet.register_forward_pre_hook(enhance(block)) for block, resnet in enumerate(blocks)]
    with torch.no_grad():
        whole(x, 50, encoder_hidden_states=caption, return_dict=False)
        states = ours.hidden(x, 50, entering=(2, 5, 8), caption=caption, factors=FACTORS)
        plain = ours.hidden(x, 50, entering=(2, 5, 8), caption=caption)
    for hook in hooks:
        hook.remove()
    for block, values in states.items():
        torch.testing.assert_close(values, seen[block], rtol=1e-4, atol=1e-5)
        assert (values - plain[block]).abs().max() > 0.01


def test_a_time_is_added_to_the_embedding_and_the_caption_is_the_empty_one_unless_given(ours, folder):
    from transformers import CLIPTextModel

    text = CLIPTextModel.from_pretrained(folder / "text_encoder").eval()
    tokens = torch.tensor([[49406] + [49407] * 76])  # start, end, and the padding of Stable Diffusion 1
    x = latents()
    with torch.no_grad():
        empty = text(tokens).last_hidden_state
        plain = ours.hidden(x, 50, entering=(2,))[2]
        assert plain.equal(ours.hidden(x, 50, entering=(2,), caption=empty.expand(2, -1, -1))[2])
        assert plain.equal(ours.hidden(x, 50, entering=(2,), time=torch.zeros(2, 128))[2])
        assert not plain.equal(ours.hidden(x, 50, entering=(2,), time=torch.ones(2, 128))[2])


def test_the_cut_unet_has_no_weights_that_are_not_read(ours, whole):
    kept = {key for key in whole.state_dict() if not key.startswith(("up_blocks.3.", "conv_norm_out", "conv_out"))}
    kept = {key for key in kept if not key.startswith(("up_blocks.2.resnets.2", "up_blocks.2.attentions.2"))}
    kept = {key for key in kept if not key.startswith("up_blocks.2.upsamplers")}
    assert set(ours.unet.state_dict()) == kept
    assert cut(whole, 11) is whole  # the last block: everything but the output's convolution stays


# --- folders that are something else ----------------------------------------------------------------------------------


@pytest.fixture
def copy(folder, tmp_path):
    """A copy of the folder in which a configuration can be changed; weights are links."""
    place = tmp_path / "sd"
    shutil.copytree(folder, place, copy_function=lambda a, b: (b and shutil.os.symlink(a, b)) or b)

    def change(part, **changes):
        file = place / part / "config.json"
        values = {**json.loads(file.read_text()), **changes}
        file.unlink()
        file.write_text(json.dumps(values))
        return str(place)

    return change


@pytest.mark.parametrize(
    ("part", "changes", "words"),
    [
        ("unet", {"_class_name": "UNet2DModel"}, "holds a 'UNet2DModel'; expected a UNet2DConditionModel"),
        ("unet", {"down_block_types": ["DownBlock2D"] * 3}, "down_block_types: expected .* as in Stable Diffusion 1"),
        ("unet", {"block_out_channels": [320, 640, 1280]}, "block_out_channels: expected 4 multiples of 32, got"),
        ("unet", {"block_out_channels": [32, 64, 96, 10**9]}, "block_out_channels: expected 4 multiples of 32, got"),
        ("unet", {"cross_attention_dim": "x"}, "cross_attention_dim: expected whole numbers above 0, got"),
        ("unet", {"cross_attention_dim": 64}, r"attn2\.to_k\.weight has shape \(32, 32\), expected \(32, 64\)"),
        ("unet", {"attention_head_dim": 0}, "attention_head_dim: expected whole numbers above 0"),
        ("unet", {"auto_map": {"a": "b"}}, "asks for code of the folder's own"),
        ("vae", {"latent_channels": 16}, "latent_channels: expected 4 as in Stable Diffusion 1.x and 2.x, got 16"),
        ("text_encoder", {"vocab_size": 100}, "do not|complete|vocabulary"),
        ("text_encoder", {"hidden_size": None}, "expected the key hidden_size, which is missing"),
    ],
)
def test_a_folder_of_something_else_is_refused_in_one_line(copy, part, changes, words):
    with pytest.raises(ValueError, match=words):
        stable_diffusion.load(copy(part, **changes), block=7, what="a test")


def test_a_folder_without_a_part_and_with_foreign_weights(copy, folder):
    place = copy("unet")
    file = f"{place}/unet/diffusion_pytorch_model.safetensors"
    state = load_file(file)
    shutil.os.unlink(file)
    save_file({**state, "add_embedding.linear_1.weight": torch.zeros(2, 2)}, file)
    with pytest.raises(ValueError, match=r"unet: Stable Diffusion's UNet has no 'add_embedding.* \(1 such keys\)"):
        stable_diffusion.load(place, block=7, what="a test")
    state.pop("mid_block.resnets.0.conv1.weight")
    save_file(state, file)
    with pytest.raises(ValueError, match=r"UNet needs 'mid_block\.resnets\.0\.conv1\.weight' \(1 such keys\)"):
        stable_diffusion.load(place, block=7, what="a test")
    shutil.os.unlink(f"{place}/vae/config.json")
    with pytest.raises(
        FileNotFoundError, match=r"has no vae/config\.json; expected Stable Diffusion in diffusers' lay"
    ):
        stable_diffusion.load(place, block=7, what="a test")
