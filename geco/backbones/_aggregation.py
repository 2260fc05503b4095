"""The aggregation network of GeoAware-SC: several maps of features → one, a bottleneck for each and a weighted sum.

Geo and DIY-SC share it. Its widths are read off the weights, so one module serves every file of theirs.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco.backbones._parts import fill
from geco.errors import InputError

GROUPS = 32  # of every GroupNorm
FIRST = "bottleneck_layers.0.0.conv1.weight"  # a state dict with this key is a head
MIXING = "mixing_weights"
TRAINING_ONLY = ("logit_scale", "self_logit_scale")  # temperatures of the loss
EXPECTED = "an aggregation head (mixing_weights, bottleneck_layers.0.0.conv1.weight, …)"


def input_widths(state: Mapping[str, Tensor]) -> tuple[int, ...] | None:
    """Channels of each map that a head takes, by its state dict; None if it is no state dict of a head."""
    widths: list[int] = []
    while (weight := state.get(f"bottleneck_layers.{len(widths)}.0.conv1.weight")) is not None and weight.ndim == 4:
        widths.append(weight.shape[1])
    return tuple(widths) or None


class Aggregation(nn.Module):
    """Maps (b, cᵢ, h, w) → one map (b, dim, h, w): Σ softmax(mixing_weights)ᵢ · bottleneckᵢ(mapᵢ), not normalised."""

    def __init__(self, widths: Sequence[int], *, inner: int, dim: int) -> None:
        super().__init__()
        self.widths, self.dim = tuple(widths), dim
        # The list of lists and the names below are those of the files.
        self.bottleneck_layers = nn.ModuleList(nn.Sequential(_Bottleneck(width, inner, dim)) for width in widths)
        self.mixing_weights = nn.Parameter(torch.ones(len(self.widths)))

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], *, name: str) -> "Aggregation":
        """The head of a state dict, every weight in its place, in float32; `name` is what mistakes are reported of."""
        widths = input_widths(state)
        if widths is None or state[FIRST].shape[0] % GROUPS or not state[FIRST].shape[0]:
            raise InputError(f"{name} is not {EXPECTED}")
        inner = state[FIRST].shape[0]
        last = state.get("bottleneck_layers.0.0.conv3.weight")
        if last is None or last.ndim != 4 or not last.shape[0] or last.shape[0] % GROUPS:
            raise InputError(f"{name} is no whole aggregation head: bottleneck_layers.0.0.conv3.weight is missing")
        with torch.device("meta"):
            head = cls(widths, inner=inner, dim=last.shape[0])
        given = {key: value for key, value in state.items() if key not in TRAINING_ONLY}
        fill(head, given, name=name, what="an aggregation head")
        return head

    def forward(self, maps: Sequence[Float[Tensor, "b _ h w"]]) -> Float[Tensor, "b c h w"]:
        """The weighted sum of the bottlenecks' outputs; all maps on one grid, in the order of the branches."""
        weights = self.mixing_weights.softmax(0)
        branches = zip(weights, self.bottleneck_layers, maps, strict=True)
        return sum((weight * branch(values) for weight, branch, values in branches), start=torch.zeros(()).to(weights))


class _Bottleneck(nn.Module):
    """A residual block 1×1 → 3×3 → 1×1; its shortcut is the identity where the widths agree."""

    def __init__(self, width: int, inner: int, dim: int) -> None:
        super().__init__()
        self.conv1 = _Normalised(width, inner, 1)
        self.conv2 = _Normalised(inner, inner, 3)
        self.conv3 = _Normalised(inner, dim, 1)
        self.shortcut = _Normalised(width, dim, 1) if width != dim else None

    def forward(self, values: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d h w"]:
        inner = self.conv2(self.conv1(values).relu()).relu()
        kept = values if self.shortcut is None else self.shortcut(values)
        return (self.conv3(inner) + kept).relu()


class _Normalised(nn.Conv2d):
    """A convolution without bias, then GroupNorm; the norm's weights are named as its child."""

    def __init__(self, width: int, dim: int, side: int) -> None:
        super().__init__(width, dim, side, padding=side // 2, bias=False)
        self.norm = nn.GroupNorm(GROUPS, dim)

    def forward(self, input: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d h w"]:
        return self.norm(super().forward(input))
