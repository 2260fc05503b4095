"""What the backbones from diffusion models share: the library, noise, and networks that are cut off.

diffusers takes seconds to import and comes with an extra, so it is imported here, when a network is made.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco import images
from geco.backbones._contract import FrozenBackbone
from geco.errors import InputError, MissingPackageError
from geco.types import Image, Size

STEPS = 1000  # of noise, in every model that is read here
HALF = (0.5, 0.5, 0.5)  # mean and deviation that bring colours from [0, 1] to [−1, 1]
PER_LEVEL = 3  # blocks of the decoder at each resolution, in all of them


def library(what: str) -> Any:
    """The package diffusers; `what` needs it."""
    try:
        import diffusers
    except ImportError:
        raise MissingPackageError.of_extra("diffusion", "diffusers", what=what) from None
    return diffusers


# --- noise ------------------------------------------------------------------------------------------------------------


def linear_betas(first: float, last: float) -> Float[Tensor, "t"]:
    """Variances of the steps, evenly spaced (Ho et al. 2020)."""
    return torch.linspace(first, last, STEPS, dtype=torch.float64)


def scaled_linear_betas(first: float, last: float) -> Float[Tensor, "t"]:
    """Variances of the steps whose roots are evenly spaced, as in Stable Diffusion."""
    return torch.linspace(first**0.5, last**0.5, STEPS, dtype=torch.float64).square()


def noise(shape: tuple[int, ...], *, seed: int) -> Float[Tensor, "..."]:
    """Standard normal numbers, the same for a shape and a seed on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def noisy(
    x: Float[Tensor, "b c h w"], epsilon: Float[Tensor, "c h w"], betas: Float[Tensor, "t"], t: int
) -> Float[Tensor, "b c h w"]:
    """x_t = √ᾱ_t x + √(1 − ᾱ_t) ε, every image of the batch with the same ε; ᾱ_t = ∏ (1 − β_s), s ≤ t."""
    share = float((1 - betas[: t + 1]).prod())
    return share**0.5 * x + (1 - share) ** 0.5 * epsilon.to(x)


# --- networks ---------------------------------------------------------------------------------------------------------


class Denoiser(FrozenBackbone):
    """A backbone whose images are squashed to the input, with colours in [−1, 1]."""

    def prepare(self, pixels: Image, size: Size, *, resize: str = "bicubic") -> dict[str, Tensor]:
        """`pixels`, squashed to `size`, in [−1, 1]."""
        return {"pixels": images.prepare(pixels, size, mode=resize, mean=HALF, std=HALF)}

    def check_sides(self, pixels: Float[Tensor, "b 3 h w"]) -> None:
        """Refuse images that the network cannot halve as often as it does."""
        height, width = pixels.shape[-2:]
        if height % self.multiple or width % self.multiple or not height or not width:
            raise InputError(f"image sides must be multiples of {self.multiple}, got {height}×{width}")


def level_of(block: int, *, levels: int) -> tuple[int, bool]:
    """The level of a decoder that a block belongs to, from the coarsest, and whether the block ends with upsampling."""
    level, place = divmod(block, PER_LEVEL)
    return level, place == PER_LEVEL - 1 and level < levels - 1


def cut(unet: Any, block: int) -> Any:
    """A UNet of diffusers without what comes after a block of its decoder, so that its output is the block's."""
    level, upsampled = level_of(block, levels=len(unet.up_blocks))
    unet.up_blocks = unet.up_blocks[: level + 1]
    last, kept = unet.up_blocks[level], block % PER_LEVEL + 1
    last.resnets = last.resnets[:kept]
    if hasattr(last, "attentions"):
        last.attentions = last.attentions[:kept]
    if not upsampled:
        last.upsamplers = None
    unet.conv_norm_out = unet.conv_act = unet.conv_out = nn.Identity()
    return unet
