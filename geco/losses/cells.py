"""Sets of cells: which entries of a plan a pair's annotation speaks about (GECO §3.3)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from geco import geometry
from geco.transport.settings import TransportSettings
from geco.types import Pair, Size, View


@dataclass(frozen=True)
class Cells:
    """Entries (i, j) of the plans of a batch; those not `valid` are padding or duplicates."""

    i: Int[Tensor, "b n"]
    j: Int[Tensor, "b n"]
    valid: Bool[Tensor, "b n"]


@dataclass(frozen=True)
class CellSets:
    """The paper's four sets. Cells are row-major, the bin comes after the last; a skipped pair has empty sets."""

    positive: Cells  # M⁺: visible in both images
    bin: Cells  # M⁰: visible in one image, so matched with the bin of the other
    negative: Cells  # M⁻: a keypoint and its twin
    background_rows: Bool[Tensor, "2 b r"]  # M^{fg/bg} is rows[k] × columns[k]: object × background, then the reverse
    background_columns: Bool[Tensor, "2 b c"]
    foregrounds: tuple[Bool[Tensor, "b h w"], Bool[Tensor, "b h2 w2"]]  # on the patch grids
    skipped: Bool[Tensor, "b"]  # one of the images shows no foreground patch

    def counts(self) -> Int[Tensor, "4"]:
        """Size of each set, in the order of TERMS."""
        sparse = [cells.valid.sum() for cells in (self.positive, self.bin, self.negative)]
        background = (self.background_rows.sum(-1) * self.background_columns.sum(-1)).sum()
        return torch.stack([*sparse, background])


def cell_sets(pairs: Pair, grids: tuple[Size, Size]) -> CellSets:
    """The sets of a batch of pairs on the patch grids of source and target, duplicates within a pair removed."""
    views = pairs.source, pairs.target
    foregrounds = _foreground(pairs.source, grids[0]), _foreground(pairs.target, grids[1])
    skipped = ~(foregrounds[0].flatten(1).any(1) & foregrounds[1].flatten(1).any(1))
    i, j = (geometry.cells(view.points.xy, size=view.size, grid=grid) for view, grid in zip(views, grids, strict=True))
    in_source, in_target = (view.points.visible & ~skipped[:, None] for view in views)
    row_bin, column_bin = (torch.full_like(i, grid[0] * grid[1]) for grid in grids)
    twin = _twins(pairs, like=i)
    j_twin, twin_in_target = j.gather(1, twin), in_target.gather(1, twin)
    has_twin = twin != torch.arange(twin.shape[1], device=twin.device)
    rows, columns = (_object_and_rest(foreground, skipped) for foreground in foregrounds)
    return CellSets(
        positive=distinct(i, j, in_source & in_target),
        bin=distinct(
            torch.cat([i, row_bin], 1),
            torch.cat([column_bin, j], 1),
            torch.cat([in_source & ~in_target, in_target & ~in_source], 1),
        ),
        # (σ(i)_s, i_t) needs no line of its own: it is what the keypoint σ(i) adds.
        negative=distinct(i, j_twin, in_source & twin_in_target & has_twin),
        background_rows=rows,
        background_columns=columns.flip(0),
        foregrounds=foregrounds,
        skipped=skipped,
    )


def visible_shares(pairs: Pair, settings: TransportSettings) -> tuple[Float[Tensor, "b"], Float[Tensor, "b"]]:
    """x of source and target: how much of the skeleton each image shows, by its visible keypoints."""
    visible = [view.points.visible for view in (pairs.source, pairs.target)]
    sizes = [len(skeleton) for skeleton in pairs.skeletons]
    n = torch.tensor(sizes, dtype=torch.float32, device=visible[0].device)
    n = torch.full_like(n, visible[0].shape[1]) if settings.count_padding else n
    more = 1 if settings.share == "smoothed" else 0
    source, target = ((mask.sum(1) + more) / (n + more) for mask in visible)
    return source, target


def distinct(i: Int[Tensor, "b n"], j: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"]) -> Cells:
    """Entries (i, j): of equal valid entries only the first stays valid."""
    same = (i[:, :, None] == i[:, None]) & (j[:, :, None] == j[:, None]) & valid[:, None]
    return Cells(i, j, valid & ~same.tril(-1).any(2))


def _object_and_rest(foreground: Bool[Tensor, "b h w"], skipped: Bool[Tensor, "b"]) -> Bool[Tensor, "2 b n"]:
    masks = torch.stack([foreground, ~foreground]).flatten(2) & ~skipped[:, None]
    return functional.pad(masks, (0, 1), value=False)  # the bin is neither


def _twins(pairs: Pair, like: Int[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    batch, k = like.shape
    tables = [[*skeleton.twin, *range(len(skeleton), k)] for skeleton in pairs.skeletons]
    return torch.tensor(tables, dtype=torch.long, device=like.device).view(batch, k)


def _foreground(view: View, grid: Size) -> Bool[Tensor, "b h w"]:
    return geometry.resize_labels(view.foreground, grid)
