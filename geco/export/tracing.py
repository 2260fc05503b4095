"""Tracing: a model as one graph of torch's operators, for images of any size or of one."""

import torch
from torch.export import Dim, ExportedProgram

from geco.errors import InputError
from geco.export.metadata import INPUT
from geco.export.quiet import gist, quiet
from geco.models import Geco

PATCHES = (4, 5)  # of the image that is traced: unequal, so that nothing takes height and width for one number


def check_traceable(model: Geco) -> None:
    """Refuse a model that has no graph of its own."""
    if getattr(model.backbone, "traceable", None) is None or model.pair is not None:
        raise InputError(
            f"{model.name} cannot be exported; vision transformers of DINOv2 (also with registers) and DINO can, "
            "with their adapters merged (geco.load does that)"
        )


@torch.no_grad()
def trace(model: Geco, *, dynamic: bool) -> ExportedProgram:
    """The graph from normalised images to feature maps; the batch is free in any case."""
    check_traceable(model)
    side = model.input_size
    size = (PATCHES[0] * model.stride, PATCHES[1] * model.stride) if dynamic else (side, side)
    network = model.backbone.traceable(None if dynamic else size).eval()  # type: ignore[attr-defined]
    free = {0: Dim.DYNAMIC, **({2: Dim.DYNAMIC, 3: Dim.DYNAMIC} if dynamic else {})}
    try:
        with quiet():
            return torch.export.export(network, (torch.zeros(2, 3, *size),), dynamic_shapes={INPUT: free})
    except Exception as error:  # of all kinds, by what the network does
        raise InputError(f"{model.name} cannot be traced as one graph: {gist(error)}") from None
