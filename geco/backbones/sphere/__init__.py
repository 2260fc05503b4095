"""Sphere (SphericalMaps, Mariotti et al. 2024): DINOv2-B with points on a sphere beside each descriptor."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco import checks
from geco.backbones import Letterboxed, Part, Source, ViT, read_part
from geco.backbones.dinov2 import load as load_dinov2
from geco.backbones.sphere.mapper import is_mapper, mapper_of
from geco.errors import InputError

HOME = "github.com/VICO-UoE/SphericalMaps"
SOURCES = {
    "sphere": Source(
        size=840,
        resize="lanczos",
        note=f"the mapper of SphericalMaps ({HOME}) on DINOv2-B, cosine form without diffusion features",
        licence="CC BY-NC-SA 4.0 (mapper), Apache-2.0 (DINOv2)",
        home="a mapper trained with SphericalMaps, such as 200.pth of DIY-SC",
    ),
}
PARTS = {
    "dinov2": Part("DINOv2-B", default="dinov2-base", backbone=True),
    "mapper": Part(
        "a mapper of SphericalMaps",
        recognise=is_mapper,
        home="ckpts/sph_map/spair71k/ckpts/200.pth of github.com/odunkel/DIY-SC",
    ),
}


def load(parts: Mapping[str, str], *, share: float = 0.2) -> "Sphere":
    """The encoder with the mapper of a file; `share` is how much of the similarity the sphere decides."""
    checks.number(share, "share", least=0, most=1)
    encoder, mapper = load_both(parts)
    return Sphere(encoder, mapper, share=share)


def load_both(parts: Mapping[str, str]) -> tuple[ViT, nn.Sequential]:
    """DINOv2, read before its final norm, and the mapper that was trained on it."""
    mapper = mapper_of(read_part(parts["mapper"], PARTS["mapper"]), name=parts["mapper"])
    encoder = load_dinov2(parts["dinov2"], norm=False)
    width = mapper[0].in_features
    if width != encoder.dim:
        raise InputError(
            f"{parts['mapper']} takes features of {width} channels, {parts['dinov2']} has {encoder.dim}; "
            "expected a mapper and the DINOv2 it was trained on"
        )
    return encoder, mapper


class Sphere(Letterboxed):
    """Maps of unit vectors (√(1−s)·f̂, √s·ŝ): their cosine is (1−s)·cos(f, f') + s·cos(ŝ, ŝ'), exactly."""

    def __init__(self, encoder: ViT, mapper: nn.Sequential, *, share: float) -> None:
        parts = nn.ModuleDict({"dinov2": encoder, "mapper": mapper})
        super().__init__(parts, dim=encoder.dim + 3, stride=encoder.stride)
        self.share, self.options = share, {"share": share}

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Both descriptors of images on their canvas, weighted."""
        tokens = self.encoder["dinov2"](pixels=pixels)
        features = functional.normalize(tokens, dim=1) * (1 - self.share) ** 0.5
        return torch.cat([features, on_sphere(self.encoder["mapper"], tokens) * self.share**0.5], dim=1)


def on_sphere(mapper: nn.Module, tokens: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 3 h w"]:
    """The points on the sphere of all tokens of an image, which the mapper sees together."""
    places = mapper(tokens.flatten(2).mT).mT.unflatten(-1, tokens.shape[-2:])
    return functional.normalize(places, dim=1)
