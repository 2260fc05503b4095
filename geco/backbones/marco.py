"""MARCO (Cuttano et al. 2026): DINOv2-L with registers, adapters in its late blocks, and a map upsampled four times."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco import images
from geco.backbones import Letterboxed, Part, Source, ViT, cut, fill, paste, read_part
from geco.backbones.dinov2 import load as load_dinov2
from geco.errors import InputError
from geco.types import Image, Size

HOME = "github.com/visinf/MARCO"
SCALE = 0.1  # of what an adapter adds
ADAPTER = re.compile(r"dino\.blocks\.(\d+)\.adapter\.(.+)")
UPSAMPLING = re.compile(r"upscale\.(\d+)\.(.+)")
SOURCES = {
    "marco": Source(
        size=840,
        note=f"MARCO, from {HOME}: plain dot products of a map upsampled four times, without its soft-argmax",
        licence="Apache-2.0",
        home=f"file marco_release.pth of {HOME}",
    ),
}


def _is_marco(state: Mapping[str, Tensor]) -> bool:
    return any(ADAPTER.fullmatch(key) for key in state)


PARTS = {
    "dinov2": Part("DINOv2-L with registers", default="dinov2-large-reg", backbone=True),
    "weights": Part("MARCO's adapters and upsampling", recognise=_is_marco, home=f"release v1.0 of {HOME}"),
}


def load(parts: Mapping[str, str]) -> "Marco":
    """DINOv2 with the adapters and the upsampling of a file."""
    state, name = read_part(parts["weights"], PARTS["weights"]), parts["weights"]
    encoder = load_dinov2(parts["dinov2"])
    blocks = encoder.encoder.encoder.layer
    numbers = {int(match[1]) for key in state if (match := ADAPTER.fullmatch(key))}
    steps = {int(match[1]) for key in state if (match := UPSAMPLING.fullmatch(key))}
    if max(numbers) >= len(blocks):
        raise InputError(f"{name} adapts block {max(numbers)}, {parts['dinov2']} has {len(blocks)}")
    down = state.get(f"dino.blocks.{max(numbers)}.adapter.down_proj.weight")
    if down is None or down.ndim != 2 or down.shape[1] != encoder.dim:
        raise InputError(f"{name} was not trained on {parts['dinov2']}, whose features have {encoder.dim} channels")
    with torch.device("meta"):
        adapters = {number: _Adapter(encoder.dim, len(down)) for number in sorted(numbers)}
        upscale = nn.Sequential(*(_Upsampling(encoder.dim) for _ in steps))
    named = _Named(adapters, upscale)
    fill(named, state, name=name, what="MARCO's file")
    for number, adapter in adapters.items():
        _adapt(blocks[number], adapter)
    return Marco(encoder, upscale)


class Marco(Letterboxed):
    """Tokens of the adapted encoder, upsampled; divided by the root of their channels, so that scores are near cosines.

    The image lies in the upper left of its canvas; the border is grey: zero after normalisation.
    """

    similarity = "dot"

    def __init__(self, encoder: ViT, upscale: nn.Sequential) -> None:
        parts = nn.ModuleDict({"dinov2": encoder, "upscale": upscale})
        super().__init__(parts, dim=encoder.dim, stride=encoder.stride)

    def prepare(self, pixels: Image, size: Size, *, resize: str = "bilinear") -> dict[str, Tensor]:
        """`pixels`: the image on its canvas of `size`, normalised as ImageNet."""
        grid = size[0] // self.multiple, size[1] // self.multiple
        canvas = paste(pixels, grid, cell=self.multiple, centred=False, border=images.IMAGENET_MEAN, mode=resize)
        return {"pixels": images.normalise(canvas)}

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Features of images on their canvas, upsampled: several cells for each patch."""
        return self.encoder["upscale"](self.encoder["dinov2"](pixels=pixels)) / self.dim**0.5

    def finish(self, values: Float[Tensor, "c h w"], size: Size) -> Float[Tensor, "c h2 w2"]:
        """The part of a map that shows the image of `size`."""
        finer = 2 ** len(self.encoder["upscale"])
        return cut(values, size, grid=(values.shape[-2] // finer, values.shape[-1] // finer), centred=False)


# --- the file's modules, under its names ------------------------------------------------------------------------------


class _Named(nn.Module):
    """The modules of the file, so that its keys are theirs."""

    def __init__(self, adapters: Mapping[int, nn.Module], upscale: nn.Module) -> None:
        super().__init__()
        blocks = {str(number): nn.ModuleDict({"adapter": adapter}) for number, adapter in adapters.items()}
        self.dino = nn.ModuleDict({"blocks": nn.ModuleDict(blocks)})
        self.upscale = upscale


class _Adapter(nn.Module):
    """A bottleneck beside the MLP of a block (AdaptFormer)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.adapter_layer_norm_before = nn.LayerNorm(width)
        self.down_proj, self.up_proj = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        return SCALE * self.up_proj(self.down_proj(self.adapter_layer_norm_before(x)).relu())


class _Upsampling(nn.Module):
    """Twice the resolution: a transposed convolution, a convolution of each channel, a norm over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h2 w2"]:
        x = self.conv2(functional.gelu(self.conv1(x)))
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


class _Beside(nn.Module):
    """What a block adds after its attention: its norm, MLP and layer scale, and the adapter beside them."""

    def __init__(self, norm: nn.Module, mlp: nn.Module, layer_scale: nn.Module, adapter: nn.Module) -> None:
        super().__init__()
        self.norm, self.mlp, self.layer_scale, self.adapter = norm, mlp, layer_scale, adapter

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        return self.adapter(x) + self.layer_scale(self.mlp(self.norm(x)))


def _adapt(block: Any, adapter: nn.Module) -> None:
    """Put an adapter into a block of transformers' DINOv2, whose forward pass stays what it is."""
    block.mlp = _Beside(block.norm2, block.mlp, block.layer_scale2, adapter)
    block.norm2, block.layer_scale2 = nn.Identity(), nn.Identity()
