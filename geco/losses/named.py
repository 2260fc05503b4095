"""Losses by the name that a configuration gives: a new one is a class in this room, a name in `settings` and here."""

from collections.abc import Callable

from geco.losses.contract import Loss
from geco.losses.settings import LossSettings, Name
from geco.losses.sparse import ContrastiveLoss, SoftArgmaxLoss
from geco.losses.transport import TransportLoss

# Losses by the name that `--set loss.name=…` takes.
LOSSES: dict[Name, Callable[[LossSettings], Loss]] = {
    "transport": TransportLoss,
    "contrastive": ContrastiveLoss,
    "soft-argmax": SoftArgmaxLoss,
}


def choose(settings: LossSettings) -> Loss:
    """The loss that the settings name."""
    return LOSSES[settings.name](settings)
