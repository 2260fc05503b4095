"""DIFT's features of ADM (Tang et al. 2023; Dhariwal & Nichol 2021), the paper's row DIFT_ad: a noisy image, denoised.

The image is squashed to 512 × 512, noise of step t is added, and the hidden state after one block of the decoder is
read. The authors draw new noise for every call; here it is drawn once for a size and a seed, so that an image has one
map, whatever batch it is in.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geco import checks
from geco.backbones import Source, fill, read_config, read_weights
from geco.backbones._diffusion import PER_LEVEL, STEPS, Denoiser, cut, level_of, linear_betas, noise, noisy
from geco.backbones.adm.conversion import FILE, WIDTHS, configuration, from_original, network
from geco.errors import InputError
from geco.system import documents
from geco.types import Size

MODEL_TYPES = ("UNet2DModel",)
HOME = f"https://openaipublic.blob.core.windows.net/diffusion/jul-2021/{FILE}"
DEFAULT = Source(
    original=FILE,
    size=512,
    resize="bicubic",
    note="DIFT's features of OpenAI's ADM (ImageNet, unconditional); the noise has a seed, the authors' has none",
    licence="MIT",
    home=HOME,
)
SOURCES = {"dift-adm": DEFAULT}
BLOCKS = len(WIDTHS) * PER_LEVEL  # of the decoder
LARGEST_WIDTH = 2**14
MOST_MEMBERS = 64
convert = from_original


def load(location: str, *, t: int = 101, block: int = 4, seed: int = 42, ensemble: int = 1) -> "ADM":
    """The ADM in a folder of diffusers' layout.

    `t` is the step of the noise, `block` the decoder's block that is read (from 0, as DIFT counts), `seed` that of the
    noise, `ensemble` over how many draws of it features are averaged.
    """
    checks.whole(t, "t", least=0, most=STEPS - 1)
    checks.whole(block, "block", least=0, most=BLOCKS - 1)
    checks.whole(seed, "seed", least=0, most=2**63 - 1)
    checks.whole(ensemble, "ensemble", least=1, most=MOST_MEMBERS)
    config = _checked_config(location)
    whole = network(config)
    known = set(whole.state_dict())
    encoder = cut(whole, block)
    fill(encoder, read_weights(location), known=known, name=location, what=f"an ADM up to block {block}")
    return ADM(encoder, t=t, block=block, seed=seed, ensemble=ensemble)


class ADM(Denoiser):
    """Hidden states of a denoising network after one block of its decoder."""

    def __init__(self, encoder: Any, *, t: int, block: int, seed: int, ensemble: int) -> None:
        level, upsampled = level_of(block, levels=len(WIDTHS))
        widths = encoder.config.block_out_channels
        coarsest = 2 ** (len(WIDTHS) - 1)
        stride = coarsest // 2 ** (level + upsampled)
        super().__init__(encoder, dim=widths[::-1][level], stride=stride, multiple=coarsest)
        self.options = {"t": t, "block": block, "seed": seed, "ensemble": ensemble}
        self._betas = linear_betas(1e-4, 0.02)
        self._drawn: Tensor | None = None  # for the last size

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Features of images in [−1, 1], the mean over the ensemble; every image gets the same noise."""
        self.check_sides(pixels)
        t = self.options["t"]
        members = [
            self.encoder(noisy(pixels, drawn, self._betas, t), t, return_dict=False)[0]
            for drawn in self._noise((pixels.shape[-2], pixels.shape[-1]))
        ]
        return torch.stack(members).mean(0) if len(members) > 1 else members[0]

    def _noise(self, size: Size) -> Float[Tensor, "e 3 h w"]:
        """The noise of every member of the ensemble; the first members of a larger one are the same."""
        if self._drawn is None or tuple(self._drawn.shape[-2:]) != size:
            self._drawn = noise((self.options["ensemble"], 3, *size), seed=self.options["seed"])
        return self._drawn


def _checked_config(location: str) -> dict[str, Any]:
    """The configuration of an ADM of some width; other UNets are refused."""
    values: Mapping[str, Any] = read_config(location)
    widths = values.get("block_out_channels")
    sizes: list[Any] = widths if isinstance(widths, list) and len(widths) == len(WIDTHS) else [None]
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or not 32 <= size <= LARGEST_WIDTH or size % 32:
            raise InputError(
                f"{location}: block_out_channels: expected {len(WIDTHS)} multiples of 32 up to {LARGEST_WIDTH}, "
                f"got {documents.shown(widths)}"
            )
    config = configuration(sizes)
    for key, expected in config.items():
        if values.get(key, expected) != expected:
            raise InputError(
                f"{location}: {key}: expected {documents.shown(expected)} as in OpenAI's ADM, "
                f"got {documents.shown(values[key])}"
            )
    return config
