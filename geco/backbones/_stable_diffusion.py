"""Stable Diffusion as an encoder: an image's latents, and hidden states on their way through the UNet's decoder.

Folders have diffusers' layout (`unet`, `vae`, `text_encoder`). Only the VAE's encoder is read; the text encoder gives
one constant, the embedding of the empty caption, and is dropped.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco.backbones._diffusion import PER_LEVEL, cut, library, scaled_linear_betas
from geco.backbones._folder import read_config, read_weights
from geco.backbones._parts import fill
from geco.backbones._vit import load_encoder
from geco.errors import InputError, MissingFileError
from geco.system import documents

FILES = (  # of a repository on the hub
    "unet/config.json",
    "unet/diffusion_pytorch_model.safetensors",
    "vae/config.json",
    "vae/diffusion_pytorch_model.safetensors",
    "text_encoder/config.json",
    "text_encoder/model.safetensors",
)
EXPECTED = "Stable Diffusion in diffusers' layout: folders unet, vae and text_encoder"
BETAS = scaled_linear_betas(0.00085, 0.012)
MULTIPLE = 64  # the UNet halves the latents three times
SCALE = 0.18215  # latents × this have about unit variance
TOKENS = 77  # of a caption
START, END = 49406, 49407  # tokens of CLIP's vocabulary
LARGEST_WIDTH = 2**14
LEVELS = 4
UNET = {  # the same in all of 1.x and 2.x
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": PER_LEVEL - 1,
    "norm_num_groups": 32,
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
}
VAE = {
    "in_channels": 3,
    "latent_channels": 4,
    "layers_per_block": 2,
    "norm_num_groups": 32,
    "down_block_types": ["DownEncoderBlock2D"] * LEVELS,
}
OLD_ATTENTION = {
    "query": "to_q",
    "key": "to_k",
    "value": "to_v",
    "proj_attn": "to_out.0",
}  # in the VAE's released files
TEXT = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings")

Factors = Mapping[int, tuple[float, float]]  # channels of a hidden state → FreeU's factors of it and of the skip
UNCHANGED: Factors = {}


class StableDiffusion(nn.Module):
    """The VAE's encoder, a UNet that is cut off after a block of its decoder, and the empty caption."""

    caption: Tensor

    def __init__(self, vae: Any, unet: Any, caption: Float[Tensor, "1 n d"]) -> None:
        super().__init__()
        self.vae, self.unet = vae, unet
        self.register_buffer("caption", caption)

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of the UNet's levels, from the finest."""
        return tuple(self.unet.config.block_out_channels)

    def latents(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 4 h2 w2"]:
        """The mean of the posterior of images in [−1, 1]: without a draw, so always the same."""
        moments = self.vae.quant_conv(self.vae.encoder(pixels))
        return SCALE * moments.chunk(2, 1)[0]

    def hidden(
        self,
        latents: Float[Tensor, "b 4 h w"],
        t: int,
        *,
        entering: Collection[int],
        caption: Float[Tensor, "b n d"] | None = None,
        time: Float[Tensor, "b e"] | None = None,
        factors: Factors = UNCHANGED,
    ) -> dict[int, Float[Tensor, "b _ _ _"]]:
        """The hidden states that enter these blocks of the decoder, before the skip is joined; with FreeU's `factors`.

        The number of the block after the last is the decoder's output. `caption` is the empty one unless another is
        given, `time` is added to the embedding of the step.
        """
        unet = self.unet
        caption = self.caption.expand(len(latents), -1, -1) if caption is None else caption
        embedding = unet.time_embedding(unet.get_time_embed(sample=latents, timestep=t))
        embedding = embedding if time is None else embedding + time
        h = unet.conv_in(latents)
        skipped = [h]
        for block in unet.down_blocks:
            attended = {"encoder_hidden_states": caption} if hasattr(block, "attentions") else {}
            h, states = block(hidden_states=h, temb=embedding, **attended)
            skipped += states
        h = unet.mid_block(h, embedding, encoder_hidden_states=caption)
        seen: dict[int, Tensor] = {}
        number = 0
        for block in unet.up_blocks:
            for place, resnet in enumerate(block.resnets):
                h, skip = free_u(h, skipped.pop(), factors)
                seen |= {number: h} if number in entering else {}
                h = resnet(torch.cat([h, skip], 1), embedding)
                if hasattr(block, "attentions"):
                    h = block.attentions[place](h, encoder_hidden_states=caption, return_dict=False)[0]
                number += 1
            for upsampler in block.upsamplers or ():
                h = upsampler(h)
        return {**seen, number: _scaled(h, factors)} if number in entering else seen


def free_u(
    h: Float[Tensor, "b c h w"], skip: Float[Tensor, "b d h w"], factors: Factors
) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "b d h w"]]:
    """FreeU (Si et al. 2024) as its authors have it: by the number of channels, half of the hidden state is enlarged.

    The low frequencies of the skip are made smaller. diffusers' `enable_freeu` has the same factors for other blocks.
    """
    from diffusers.utils.torch_utils import fourier_filter

    if h.shape[1] not in factors:
        return h, skip
    return _scaled(h, factors), fourier_filter(skip, threshold=1, scale=factors[h.shape[1]][1])  # type: ignore[arg-type]


def _scaled(h: Float[Tensor, "b c h w"], factors: Factors) -> Float[Tensor, "b c h w"]:
    enlarged, kept = h.chunk(2, 1)
    return torch.cat([factors[h.shape[1]][0] * enlarged, kept], 1) if h.shape[1] in factors else h


# --- from a folder ----------------------------------------------------------------------------------------------------


def load(
    folder: str, *, block: int, what: str, padding: int = END, unet: Mapping[str, Tensor] | None = None
) -> StableDiffusion:
    """The networks of a folder, up to a block of the decoder; `what` needs them.

    Captions are filled up with the token `padding`. `unet` are weights to put in place of the folder's.
    """
    library(what)
    for part in ("unet", "vae", "text_encoder"):
        if not (Path(folder) / part / "config.json").is_file():
            raise MissingFileError(f"{folder} has no {part}/config.json; expected {EXPECTED}")
    network = _unet(str(Path(folder) / "unet"), block, unet, what)
    caption = _empty_caption(str(Path(folder) / "text_encoder"), padding)
    if caption.shape[-1] != network.config.cross_attention_dim:
        raise InputError(
            f"{folder}: text_encoder gives {caption.shape[-1]} channels, unet takes "
            f"{network.config.cross_attention_dim}; expected both of one release"
        )
    return StableDiffusion(_vae(str(Path(folder) / "vae"), what), network, caption)


def _unet(folder: str, block: int, weights: Mapping[str, Tensor] | None, what: str) -> Any:
    values = _checked(folder, "UNet2DConditionModel", UNET)
    heads = values.get("attention_head_dim", 8)
    numbers = {"cross_attention_dim": [values.get("cross_attention_dim")]}
    numbers["attention_head_dim"] = heads if isinstance(heads, list) and len(heads) == LEVELS else [heads]
    for name, sizes in numbers.items():
        if not all(_is_size(size) for size in sizes):
            raise InputError(f"{folder}: {name}: expected whole numbers above 0, got {documents.shown(sizes)}")
    options = {
        "block_out_channels": values["block_out_channels"],
        "cross_attention_dim": values["cross_attention_dim"],
        "attention_head_dim": heads,
        "use_linear_projection": bool(values.get("use_linear_projection")),
        "upcast_attention": bool(values.get("upcast_attention")),
    }
    with torch.device("meta"):
        whole = library(what).UNet2DConditionModel(**UNET, **options)
    known = set(whole.state_dict())
    unet, state = cut(whole, block), read_weights(folder) if weights is None else weights
    fill(unet, state, known=known, name=folder, what="Stable Diffusion's UNet")
    return unet


def _vae(folder: str, what: str) -> Any:
    """The VAE without its decoder."""
    values = _checked(folder, "AutoencoderKL", VAE)
    with torch.device("meta"):
        vae = library(what).AutoencoderKL(
            **VAE, block_out_channels=values["block_out_channels"], up_block_types=["UpDecoderBlock2D"] * LEVELS
        )
    known = set(vae.state_dict())
    del vae.decoder, vae.post_quant_conv
    state = {_renamed(key): value for key, value in read_weights(folder).items()}
    fill(vae, state, known=known, name=folder, what="Stable Diffusion's VAE")
    return vae


def _renamed(key: str) -> str:
    """The name of a weight in today's diffusers; the released VAE still has older names in its attention."""
    before, _, rest = key.partition(".attentions.0.")
    name, _, kind = rest.rpartition(".")
    return f"{before}.attentions.0.{OLD_ATTENTION[name]}.{kind}" if name in OLD_ATTENTION else key


def _empty_caption(folder: str, padding: int) -> Float[Tensor, "1 n d"]:
    """What the text encoder makes of a caption without words, which needs no tokenizer."""
    from transformers import CLIPTextModel

    encoder = load_encoder(CLIPTextModel, folder, required=TEXT)
    if encoder.config.vocab_size <= END or encoder.config.max_position_embeddings < TOKENS:
        raise InputError(f"{folder}: expected CLIP's vocabulary of {END + 1} tokens and captions of {TOKENS}")
    tokens = torch.tensor([[START, END] + [padding] * (TOKENS - 2)])
    with torch.no_grad():
        return encoder.eval()(input_ids=tokens).last_hidden_state


def _checked(folder: str, kind: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a network of this kind, in which only widths may differ from Stable Diffusion's."""
    values = read_config(folder)
    if values["model_type"] != kind:
        raise InputError(f"{folder} holds a {documents.shown(values['model_type'])}; expected a {kind}")
    for key, expected in fixed.items():
        if values.get(key, expected) != expected:
            got = documents.shown(values[key])
            raise InputError(
                f"{folder}: {key}: expected {documents.shown(expected)} as in Stable Diffusion 1.x and 2.x, got {got}"
            )
    widths = values.get("block_out_channels")
    if not isinstance(widths, list) or len(widths) != LEVELS or not all(_is_size(w) and w % 32 == 0 for w in widths):
        raise InputError(
            f"{folder}: block_out_channels: expected {LEVELS} multiples of 32, got {documents.shown(widths)}"
        )
    return values


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_WIDTH
