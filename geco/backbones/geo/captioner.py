"""ODISE's implicit captioner (Xu et al. 2023): what CLIP sees in an image, as a caption for Stable Diffusion."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco import images
from geco.backbones import fill, kind, load_encoder, unwrapped
from geco.backbones._stable_diffusion import TOKENS
from geco.errors import InputError
from geco.system import tensors

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's
LAST = "alpha_cond"  # what one of its weights is called, after a prefix
VISION = ("vision_model.", "visual_projection.")


class Captioner(nn.Module):
    """Images in [0, 1] → what is added to the embedding of the empty caption, and to that of the step.

    tanh(α) ⊙ (W e + b + P), where e is CLIP's embedding of the image, not normalised. Names are those of ODISE's file.
    """

    def __init__(self, *, embedding: int, tokens: int, width: int, time: int) -> None:
        super().__init__()
        self.clip_project = _Projection(embedding, width, tokens)
        self.alpha_cond = nn.Parameter(torch.zeros(1, tokens, width))
        self.time_embed_project = _Projection(embedding, time, 1)
        self.alpha_cond_time_embed = nn.Parameter(torch.zeros(time))
        self.clip: Any = None

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b e"]]:
        """What is to be added to the caption, and to the step's embedding."""
        side = self.clip.config.image_size
        # Not antialiased: so the captioner was trained.
        seen = functional.interpolate(pixels.float(), (side, side), mode="bicubic", align_corners=False)
        embedding = self.clip(pixel_values=images.normalise(seen, mean=MEAN, std=STD).to(pixels)).image_embeds
        time = self.alpha_cond_time_embed.tanh() * self.time_embed_project(embedding)
        return self.alpha_cond.tanh() * self.clip_project(embedding), time[:, 0]


class _Projection(nn.Module):
    def __init__(self, embedding: int, width: int, tokens: int) -> None:
        super().__init__()
        self.linear = nn.Linear(embedding, width)
        self.positional_embedding = nn.Parameter(torch.zeros(1, tokens, width))

    def forward(self, embedding: Float[Tensor, "b e"]) -> Float[Tensor, "b n d"]:
        return self.linear(embedding)[:, None] + self.positional_embedding


def is_captioner(state: Mapping[str, Tensor]) -> bool:
    """Whether a checkpoint has a captioner in it, as those of ODISE have among much else."""
    return _prefix(state) is not None


def read_captioner(path: str, *, expected: str) -> dict[str, Tensor]:
    """The captioner's weights in ODISE's checkpoint, without the prefix of their names."""
    state = unwrapped(path, expected=expected)
    prefix = _prefix(state)
    if prefix is None:
        raise InputError(f"{path} is {kind(state)}; expected {expected}")
    with torch.device("meta"):
        names = Captioner(embedding=1, tokens=1, width=1, time=1).state_dict()
    weights = {name: state[prefix + name] for name in names if prefix + name in state}
    missing = sorted(set(names) - set(weights))
    if missing:
        raise InputError(f"{path}: {expected} needs {missing[0]!r} ({len(missing)} such keys)")
    tensors.check_floating(weights, path)
    return weights


def load_captioner(weights: Mapping[str, Tensor], clip: str, *, width: int, time: int, name: str) -> Captioner:
    """The captioner of these weights for captions of a width and embeddings of the step, with the CLIP of a folder."""
    from transformers import CLIPVisionModelWithProjection

    eyes = load_encoder(CLIPVisionModelWithProjection, clip, section="vision_config", prefixes=VISION)
    with torch.device("meta"):
        captioner = Captioner(embedding=eyes.config.projection_dim, tokens=TOKENS, width=width, time=time)
    fill(captioner, weights, name=name, what="the captioner for these networks")
    captioner.clip = eyes.eval().requires_grad_(False)
    return captioner


def _prefix(state: Mapping[str, Tensor]) -> str | None:
    """What the names of the captioner's weights begin with; None if there is none."""
    found = (key[: -len(LAST)] for key in state if key.endswith(f".{LAST}") or key == LAST)
    return next((prefix for prefix in found if f"{prefix}alpha_cond_time_embed" in state), None)
