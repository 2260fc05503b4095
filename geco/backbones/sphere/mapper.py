"""The mapper of SphericalMaps: tokens of an image → points on a sphere, which tell left from right."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from geco.backbones import fill
from geco.errors import InputError

PREFIX = "sphere_mapper."
FIRST = f"{PREFIX}0.weight"  # a state dict with this key is a mapper
TRAINING_ONLY = ("sphere.", "prototypes.")
HEAD_WIDTH = 64


def is_mapper(state: Mapping[str, Tensor]) -> bool:
    """Whether this is the state dict of a mapper."""
    return FIRST in state


def mapper_of(state: Mapping[str, Tensor], *, name: str) -> nn.Sequential:
    """The mapper of a state dict, every weight in its place; `name` is what mistakes are reported of."""
    first = state.get(FIRST)
    if first is None or first.ndim != 2 or not first.numel():
        raise InputError(f"{name} is no mapper of SphericalMaps: {FIRST} is missing or no matrix")
    inner, width = first.shape
    with torch.device("meta"):
        mapper = nn.Sequential(nn.Linear(width, inner), nn.GELU(), _Block(inner), nn.Linear(inner, 3))
    given = {key: value for key, value in state.items() if not key.startswith(TRAINING_ONLY)}
    whole = nn.ModuleDict({PREFIX.rstrip("."): mapper})  # the names of the file
    fill(whole, given, name=name, what="a mapper of SphericalMaps")
    return mapper


class _Block(nn.Module):
    """A transformer block, norms first; queries, keys and values have no bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = _Attention(width), _Mlp(width)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // HEAD_WIDTH)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (b, heads, n, c)
        return self.proj(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class _Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        return self.fc2(functional.gelu(self.fc1(x)))
