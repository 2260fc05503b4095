"""Parity: how far an exported file is from the model that it was made of, on real images at several sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional

from geco.errors import InputError
from geco.export.settings import LEAST_COSINE, MOST_DIFFERENCE, Precision
from geco.models import Geco
from geco.types import Size

MOST = 8  # images that are compared


@dataclass(frozen=True)
class Parity:
    """The largest difference of a feature, the smallest cosine of a descriptor, and of how many maps."""

    difference: float
    cosine: float
    maps: int
    sizes: tuple[Size, ...]
    relative: float = 0.0  # the largest length of a map's difference, as a share of the map's own

    def __str__(self) -> str:
        sizes = ", ".join(f"{height}×{width}" for height, width in self.sizes)
        return f"max difference {self.difference:.2g}, least cosine {self.cosine:.7f} ({self.maps} maps at {sizes})"


@torch.inference_mode()
def compare(
    model: Geco,
    run: Callable[[Float[Tensor, "b 3 h w"]], Float[Tensor, "b c h2 w2"]],
    pictures: Sequence[UInt8[Tensor, "3 _ _"]],
    *,
    dynamic: bool,
) -> Parity:
    """The model and `run` on the same prepared images: one by one at the model's size, and together at others."""
    if not pictures:
        raise InputError("no images to compare features on; give some")
    pictures = pictures[:MOST]
    side, step = model.input_size, model.stride
    own = [_prepared(model, [picture], (side, side)) for picture in pictures]
    together = [_prepared(model, pictures[:2], size) for size in _others(side, step)] if dynamic else []
    difference, cosine, relative, maps = 0.0, 1.0, 0.0, 0
    for pixels in (*own, *together):
        expected, values = model(pixels=pixels).float(), run(pixels)
        if values.shape != expected.shape:
            raise InputError(f"the file gives maps {tuple(values.shape)} where the model gives {tuple(expected.shape)}")
        difference = max(difference, float((values - expected).abs().max().nan_to_num(torch.inf)))
        cosine = min(cosine, float(functional.cosine_similarity(values, expected, dim=1).min().nan_to_num(-1)))
        lengths = (values - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
        relative = max(relative, float(lengths.max().nan_to_num(torch.inf)))
        maps += len(pixels)
    sizes = ((side, side), *(_others(side, step) if dynamic else ()))
    return Parity(difference, cosine, maps, sizes, relative)


def _others(side: int, step: int) -> tuple[Size, ...]:
    """Sizes besides the model's own: smaller and upright, larger and wide."""
    half = max(1, side // step // 2)
    return ((side, half * step), ((half + 1) * step, side + 3 * step))


def _prepared(model: Geco, pictures: Sequence[Tensor], size: Size) -> Any:
    return torch.stack([model.prepare(picture, size)["pixels"] for picture in pictures])


def check(parity: Parity, precision: Precision, *, name: str) -> None:
    """Refuse a file that is further from its model than its precision explains; int8 is evaluated by what it finds."""
    if precision == "float32" and not parity.difference <= MOST_DIFFERENCE:
        raise InputError(
            f"{name} was not written: its features differ from torch's by {parity.difference:.2g}, "
            f"at most {MOST_DIFFERENCE:g} is accepted in float32"
        )
    if precision == "float16" and not parity.cosine >= LEAST_COSINE:
        raise InputError(
            f"{name} was not written: a descriptor's cosine with torch's is {parity.cosine:.5f}, "
            f"at least {LEAST_COSINE:g} is accepted in float16"
        )
