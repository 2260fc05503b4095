"""The teacher of a student: a model by name, frozen, that sees the same pixels as the student does."""

import torch
from jaxtyping import Float
from torch import Tensor

from geco.errors import InputError
from geco.models import Geco
from geco.training.settings import TrainConfig
from geco.types import Image


class FrozenTeacher:
    """Feature maps of augmented images at the size they left the loader with."""

    def __init__(self, model: Geco) -> None:
        self.model = model

    def __call__(self, pixels: Image) -> Float[Tensor, "n c h2 w2"]:
        """The maps, in float32; nothing is kept of how they were made."""
        with torch.inference_mode():
            maps = self.model(**self.model.prepare(pixels, (pixels.shape[-2], pixels.shape[-1]))).float()
        return maps.clone()  # what was made in inference mode cannot be part of a graph

    def to(self, device: torch.device) -> "FrozenTeacher":
        """The same on a device."""
        self.model.to(device)
        return self


def load_teacher(config: TrainConfig, student: Geco) -> FrozenTeacher | None:
    """The teacher that a configuration names, if it distils; one that does not fit the student is refused."""
    if config.loss.name != "distill":
        return None
    name, side = config.loss.distill.teacher, config.augment.size
    if not name:
        raise InputError("distillation needs a teacher: name a model with --distill, or as loss.distill.teacher")
    if config.pairing != "given":
        raise InputError("distillation compares every two images of a batch itself; set pairing=given")
    model = Geco.for_inference(name, device="cpu", size=side)
    if model.similarity != "cosine" or model.pair is not None:
        raise InputError(f"{name} cannot teach: its maps are not compared by cosine, image by image")
    if model.dim != student.dim:
        raise InputError(
            f"student and teacher must have the same number of channels, got {student.dim} and {model.dim} of {name}; "
            "take the first blocks of the teacher itself as the student"
        )
    if side % model.backbone.multiple:
        raise InputError(
            f"the teacher {name} takes image sides that are multiples of {model.backbone.multiple}, "
            f"got augment.size {side}"
        )
    return FrozenTeacher(model)
