"""Losses by the name that a configuration gives: a new one is a class in this room, a name in `settings` and here."""

from collections.abc import Callable

from geco.errors import InputError
from geco.losses.contract import Loss
from geco.losses.distillation import DistillLoss, Teacher
from geco.losses.settings import LossSettings, Name
from geco.losses.sparse import ContrastiveLoss, SoftArgmaxLoss
from geco.losses.transport import TransportLoss

# Losses by the name that `--set loss.name=…` takes; "distill" needs a teacher besides annotation, so `choose` makes it.
LOSSES: dict[Name, Callable[[LossSettings], Loss]] = {
    "transport": TransportLoss,
    "contrastive": ContrastiveLoss,
    "soft-argmax": SoftArgmaxLoss,
}


def choose(settings: LossSettings, teacher: Teacher | None = None) -> Loss:
    """The loss that the settings name; `teacher` for the one that distils."""
    if settings.name == "distill":
        if teacher is None:
            raise InputError("distillation needs a teacher: name a model with --distill, or as loss.distill.teacher")
        return DistillLoss(settings, teacher)
    return LOSSES[settings.name](settings)
