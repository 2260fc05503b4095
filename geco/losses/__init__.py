"""Losses: what a transport plan teaches the features, the sparse losses it is compared with, and distillation."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.losses.cells import Cells, CellSets, cell_sets, visible_shares
    from geco.losses.contract import Loss, LossValue
    from geco.losses.distillation import DistillLoss, Teacher
    from geco.losses.named import LOSSES, choose
    from geco.losses.sparse import ContrastiveLoss, SoftArgmaxLoss
    from geco.losses.transport import TransportLoss

__all__, __getattr__, __dir__ = lazy.door(__name__)
