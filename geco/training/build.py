"""The model at step 0: a backbone and a fresh adapter, or the adapter it starts from; and what of it is trained."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from geco import models
from geco.errors import InputError
from geco.models import Geco
from geco.system import cost
from geco.training.settings import TrainConfig


def starting_from(config: TrainConfig, model: str) -> TrainConfig:
    """The recipe on another backbone, or starting from an adapter, whose encoder it then takes over.

    A model that is saved whole is a backbone, whose images and threshold it takes over. Folders are noted by their full
    path, packaged models with their release: the run must find them again from wherever it is loaded.
    """
    place = str(Path(model).resolve()) if Path(model).is_dir() else model
    folder = models.find_adapter(model)
    if folder is None:
        same = place == config.encoder.backbone
        return config if same else replace(config, encoder=config.encoder.on(place))
    adapted = models.adapter_config(folder)
    if adapted.lora is None:  # saved whole, so it is a backbone; its blocks end with the one that is read
        options = {key: value for key, value in adapted.options.items() if key != "layer"}
        place = models.release_name(model) if model in models.packaged() else str(folder.resolve())
        encoder = replace(config.encoder, aspect=adapted.aspect, resize=adapted.resize, threshold=adapted.threshold)
        return replace(config, encoder=encoder.on(place, **options))
    return replace(config, start=place, encoder=replace(adapted, size=config.encoder.size))


def build(config: TrainConfig) -> Geco:
    """The model at step 0: its backbone, or the adapter it starts from.

    What is trained wants gradients, everything else does not.
    """
    place = models.locate(config.encoder.backbone)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        backbone = models.load_backbone(place, config.encoder.options)
        model = Geco(backbone, config.encoder, name="geco", note=place.about)
    _check_size(config.encoder.size, backbone.multiple)
    cost.check(config.encoder.size, stride=backbone.stride, or_else="")
    if config.start is not None:
        _start(model, config.start)
    blocks = transformer_blocks(model)
    if config.unfreeze > len(blocks):
        raise InputError(f"unfreeze must be at most {len(blocks)}, the blocks of the encoder, got {config.unfreeze}")
    for block in list(blocks)[len(blocks) - config.unfreeze :]:
        block.requires_grad_(True)
    model.adapted = model.adapted or config.unfreeze > 0
    if config.checkpointing:
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model


def _check_size(size: int, multiple: int) -> None:
    if size % multiple:
        below = size // multiple * multiple
        nearest = [str(side) for side in (below, below + multiple) if side]
        raise InputError(
            f"image sides must be multiples of {multiple} for this backbone, got {size}; use {' or '.join(nearest)}"
        )


def _start(model: Geco, name: str) -> None:
    folder = models.find_adapter(name)
    if folder is None:
        raise InputError(f"{name} is no adapter to start from; expected a name, a folder or a hub id of one")
    config = models.adapter_config(folder)
    differences = [
        f"{key} {getattr(config, key)}, not {getattr(model.config, key)}"
        for key in ("backbone", "lora")  # the number of blocks is seen by the weights
        if getattr(config, key) != getattr(model.config, key)
    ]
    if differences:
        raise InputError(f"{name} is an adapter for another encoder: {'; '.join(differences)}")
    model.load_adapter(folder)


def transformer_blocks(model: nn.Module) -> nn.ModuleList:
    """The encoder's blocks: its longest list of modules."""
    return max((module for module in model.modules() if isinstance(module, nn.ModuleList)), key=len)


def parameter_groups(model: nn.Module, layer_decay: float = 1.0) -> list[dict[str, Any]]:
    """What is trained, as an optimiser takes it: a group for each block if their learning rates differ.

    `scale` is what the learning rate of a group is multiplied with: 1 for the last block and what comes after it,
    `layer_decay` for the block before, its square for the one before that, …
    """
    weights = trainable(model)
    if layer_decay == 1:
        return [{"params": list(weights.values())}]
    blocks = list(transformer_blocks(model))
    depth = {id(value): number for number, block in enumerate(blocks) for value in block.parameters()}
    groups: dict[int, list[Tensor]] = {}
    for value in weights.values():
        groups.setdefault(depth.get(id(value), len(blocks) - 1), []).append(value)
    last = len(blocks) - 1
    return [{"params": groups[n], "scale": layer_decay ** (last - n)} for n in sorted(groups)]


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The weights that are trained, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}
