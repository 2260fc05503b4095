"""A vision transformer as one graph for every size: its positions are interpolated by matrix products.

Interpolation is an operator that runtimes round, align and anti-alias differently; products of matrices that are
computed from the size are the same everywhere, and equal what torch interpolates.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco.types import Size

# Sizes are Any where they may be symbols, while a network is traced.
PLAIN, ANTIALIASED = -0.75, -0.5  # a of the cubic, as torch has it for either way of interpolating


class Traceable(nn.Module):
    """The network for images of any sides, or with the positions of a grid of patches built in."""

    def __init__(
        self, network: Any, table: Float[Tensor, "1 n c"], *, antialias: bool, fixed: Float[Tensor, "1 m c"] | None
    ) -> None:
        super().__init__()
        self.network = network
        self.positions: nn.Module = Positions(table, antialias=antialias) if fixed is None else _Constant(fixed)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Patch tokens of normalised images whose sides are multiples of the patch."""
        return self.network.encode(pixels, self.positions)


class Positions(nn.Module):
    """Positions of a square table at the places of another grid (cubic)."""

    first: Tensor  # (1, 1, c), of the class token
    table: Tensor  # (side, side · c)
    cells: Tensor  # of a side, and beyond it
    border: Tensor  # (cells, side): which cell of the side each of them is

    def __init__(self, table: Float[Tensor, "1 n c"], *, antialias: bool) -> None:
        super().__init__()
        self.side, self.antialias = round((table.shape[1] - 1) ** 0.5), antialias
        self.register_buffer("first", table[:, :1].detach().clone())
        self.register_buffer("table", table[0, 1:].detach().reshape(self.side, -1).clone())
        # Cells beyond the border are those on it: two on either side, which is as far as a cubic reaches.
        beyond = 0 if antialias else 2
        cells = torch.arange(-beyond, self.side + beyond)
        self.register_buffer("cells", cells.float())
        self.register_buffer("border", (cells.clamp(0, self.side - 1)[:, None] == torch.arange(self.side)).float())

    def forward(self, grid: Sequence[Any]) -> Float[Tensor, "1 n c"]:
        """Positions of the class token and of all patches of the grid."""
        channels = self.first.shape[-1]
        rows = self.weights(grid[0]) @ self.table  # (h, side · c)
        patches = self.weights(grid[1]) @ rows.reshape(-1, self.side, channels)  # (h, w, c)
        return torch.cat([self.first, patches.reshape(1, -1, channels)], 1)

    def weights(self, places: Any) -> Float[Tensor, "n side"]:
        """The share of each cell of the table's side in each of this many places."""
        middle = (2 * torch.arange(places, dtype=torch.float32) + 1) * self.side / (2 * places) - 0.5
        distance = (middle[:, None] - self.cells).abs()
        if not self.antialias:
            return cubic(distance, PLAIN) @ self.border
        # A side that shrinks is seen through a wider cubic; min and max of a size that is not known are no graph.
        scale = torch.full((1,), self.side, dtype=torch.float32) / places
        shares = cubic(distance / scale.clamp(min=1), ANTIALIASED)
        return shares / shares.sum(-1, keepdim=True)


class _Constant(nn.Module):
    """Positions of one grid."""

    values: Tensor

    def __init__(self, values: Float[Tensor, "1 n c"]) -> None:
        super().__init__()
        self.register_buffer("values", values.detach().clone())

    def forward(self, grid: Sequence[Any]) -> Float[Tensor, "1 n c"]:
        return self.values


def cubic(x: Float[Tensor, "*n"], a: float) -> Float[Tensor, "*n"]:
    """Cubic convolution at distances x ≥ 0 (Keys 1981): 1 at 0, 0 at 1 and from 2 on."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


Interpolate = Callable[[Size], Float[Tensor, "1 n c"]]
