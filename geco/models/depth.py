"""The first blocks of a model: a smaller one, read earlier, for a student to begin with."""

from dataclasses import replace
from typing import Any

from geco.errors import InputError
from geco.models.geco import Geco


def first_blocks(model: Geco, count: int | None) -> Geco:
    """The model, its adapter merged and cut off after block `count`, in place; None keeps all blocks.

    What was the norm after the last block comes after this one; features are other ones until they are trained.
    """
    backbone: Any = model.merge().backbone
    if count is not None:
        if not hasattr(backbone, "cut"):
            raise InputError(f"{model.name} cannot be cut: only vision transformers are blocks one after the other")
        backbone.cut(count)
    model.config = replace(model.config, options=dict(backbone.options))
    return model
