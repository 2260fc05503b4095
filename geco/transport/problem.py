"""The transport problem: scores with a bin, and marginals from masks and visible keypoints (GECO §3)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from geco.transport.settings import TransportSettings
from geco.types import FeatureMap


def bordered(cosines: Float[Tensor, "b l m"], z: float) -> Float[Tensor, "b r c"]:
    """Scores with the bin: a row, a column and a corner of z after the last patch."""
    return functional.pad(cosines, (0, 1, 0, 1), value=z)


def scores(source: FeatureMap, target: FeatureMap, z: float) -> Float[Tensor, "b r c"]:
    """Bordered cosines of all patches of two unit feature maps, by one matrix product and without a copy.

    Two more channels make the border: source patches are (s, 1, 0) and their bin is (0, 0, 1), target patches
    are (t, 0, z) and their bin is (0, z, z).
    """
    with full_precision(source.values):
        rows = _with_bin(source, patch=(1.0, 0.0), bin=(0.0, 1.0))
        columns = _with_bin(target, patch=(0.0, z), bin=(z, z))
        return rows.mT @ columns


def _with_bin(features: FeatureMap, *, patch: tuple[float, float], bin: tuple[float, float]) -> Tensor:
    values = at_least_float32(features.values).flatten(2)  # (b, d, n)
    border = values.new_tensor([patch] * values.shape[2] + [bin]).mT
    return torch.cat([functional.pad(values, (0, 1)), border.expand(len(values), -1, -1)], dim=1)


def marginals(
    foreground: Bool[Tensor, "b h w"], visible: Float[Tensor, "b"], *, s: float = TransportSettings.s
) -> Float[Tensor, "b n"]:
    """Mass of each patch of an image and, last, of its bin; sums to one.

    The patches of the object share x·s, those of the background 1 − s, and the bin holds the hidden part
    (1 − x)·s, with x the `visible` share of the object. A share without patches goes to the bin.
    """
    object_ = foreground.flatten(1).to(visible.dtype)
    background = 1 - object_
    of_object, of_background = visible * s, torch.full_like(visible, 1 - s)
    patches = _shared(object_, of_object) + _shared(background, of_background)
    bin = (1 - visible) * s
    bin = bin + torch.where(object_.any(1), 0.0, of_object) + torch.where(background.any(1), 0.0, of_background)
    return torch.cat([patches, bin[:, None]], dim=1)


def _shared(members: Float[Tensor, "b n"], mass: Float[Tensor, "b"]) -> Float[Tensor, "b n"]:
    return members * (mass / members.sum(1).clamp(min=1))[:, None]


def uniform_marginals(batch: int, patches: int, *, s: float = TransportSettings.s) -> Float[Tensor, "b n"]:
    """The paper's "-N" ablation: all patches share s equally, whatever they show; the bin holds 1 − s."""
    return functional.pad(torch.full((batch, patches), s / patches), (0, 1), value=1 - s)


def at_least_float32(x: Tensor) -> Tensor:
    """The tensor in float32, unless it is finer."""
    return x if x.dtype == torch.float64 else x.float()


def full_precision(x: Tensor) -> torch.autocast:
    """Autocast off: it would run the matrix products in half precision, where e^{±10} has no room."""
    return torch.autocast(x.device.type, enabled=False)
