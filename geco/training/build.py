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
from geco.system import cost, documents
from geco.training.settings import TrainConfig

MOST_PATCHES = 600  # of an image whose attention may be computed as whole matrices, for memory's sake


def starting_from(config: TrainConfig, model: str) -> TrainConfig:
    """The recipe on another backbone, or starting from an adapter, whose encoder it then takes over.

    A model that is saved whole is a backbone, whose images and threshold it takes over; to a recipe without an adapter,
    which trains blocks themselves, any model is. Folders are noted by their full path, packaged models with their
    release: the run must find them again from wherever it is loaded.
    """
    place = _noted(model)
    folder = models.find_adapter(model)
    if config.encoder.lora is None and folder is not None:
        return replace(config, encoder=replace(config.encoder, backbone=place))
    if folder is None:
        same = place == config.encoder.backbone
        return config if same else replace(config, encoder=config.encoder.on(place))
    adapted = models.adapter_config(folder)
    if adapted.lora is None:  # saved whole, so it is a backbone; its blocks end with the one that is read
        options = {key: value for key, value in adapted.options.items() if key != "layer"}
        place = place if model in models.packaged() else str(folder.resolve())
        encoder = replace(config.encoder, aspect=adapted.aspect, resize=adapted.resize, threshold=adapted.threshold)
        return replace(config, encoder=encoder.on(place, **options))
    return replace(config, start=place, encoder=replace(adapted, size=config.encoder.size))


def distilling(config: TrainConfig, teacher: str) -> TrainConfig:
    """The recipe with another teacher, whose first blocks are the student and which sees images at its own size.

    A teacher that is itself an adapter takes no second one: it is merged, and all blocks of the student are trained.
    """
    place, folder = _noted(teacher), models.find_adapter(teacher)
    taught = None if folder is None else models.adapter_config(folder)
    size = models.locate(teacher).source.size if taught is None else taught.size
    encoder = replace(config.encoder, backbone=place)
    if taught is not None and taught.lora is not None:
        encoder = replace(encoder, lora=None)
    whole = encoder.lora is None
    return replace(
        config,
        encoder=encoder,
        augment=replace(config.augment, size=size),
        loss=replace(config.loss, name="distill", distill=replace(config.loss.distill, teacher=place)),
        pairing="given",
        unfreeze=config.unfreeze or (int(encoder.options.get("layer", 1)) if whole else 0),
        unfreeze_norm=config.unfreeze_norm or whole,
    )


def _noted(model: str) -> str:
    """The name of a model by which a run finds it again."""
    if model in models.packaged():
        return models.release_name(model)
    return str(Path(model).resolve()) if Path(model).is_dir() else model


def build(config: TrainConfig) -> Geco:
    """The model at step 0: its backbone, or the adapter it starts from.

    Only what is trained has gradients.
    """
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        model = _model(config)
    backbone = model.backbone
    _check_size(config.encoder.size, backbone.multiple)
    cost.check(config.encoder.size, stride=backbone.stride, or_else="")
    if config.start is not None:
        _start(model, config.start)
    blocks = transformer_blocks(model)
    if config.unfreeze > len(blocks):
        raise InputError(f"unfreeze must be at most {len(blocks)}, the blocks of the encoder, got {config.unfreeze}")
    for block in list(blocks)[len(blocks) - config.unfreeze :]:
        block.requires_grad_(True)
    if config.unfreeze_norm:
        _final_norm(model).requires_grad_(True)
    model.adapted = model.adapted or config.unfreeze > 0
    if config.checkpointing:
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model


def _model(config: TrainConfig) -> Geco:
    """The encoder, its adapter fresh; without an adapter, the backbone may be any model, which is merged and cut."""
    encoder = config.encoder
    if encoder.lora is not None or models.find_adapter(encoder.backbone) is None:
        place = models.locate(encoder.backbone)
        return Geco(models.load_backbone(place, encoder.options), encoder, name="geco", note=place.about)
    whole = models.first_blocks(Geco.from_pretrained(encoder.backbone, device="cpu"), encoder.options.get("layer"))
    read = whole.config.options
    if any(read.get(key) != value for key, value in encoder.options.items()):
        raise InputError(
            f"{encoder.backbone} is read as it was trained, with {documents.shown(read)}; only layer can be another, "
            f"got {documents.shown(encoder.options)}"
        )
    return Geco(whole.backbone, replace(encoder, base=whole.config.untrained), name="geco", note=whole.note)


def _final_norm(model: nn.Module) -> nn.Module:
    inside = {id(module) for block in transformer_blocks(model) for module in block.modules()}
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm) and id(module) not in inside]
    if not norms:
        raise InputError("the encoder has no norm after its blocks; set unfreeze_norm=false")
    return norms[-1]


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


def speed_up_attention(model: Geco, config: TrainConfig) -> None:
    """Compute attention as two matrix products in runs where that is faster than torch's fused kernel: bf16 on a CPU.

    A forward and backward pass with LoRA at 168 px takes 0.79 of the time. The products need memory for patches².
    """
    encoder = getattr(model.backbone, "encoder", None)
    patches = (config.encoder.size // model.stride) ** 2
    if config.precision != "bf16" or model.device.type != "cpu" or patches > MOST_PATCHES:
        return
    for module in encoder.modules() if isinstance(encoder, nn.Module) else ():
        choose: Any = getattr(module, "set_attn_implementation", None)
        if choose is not None:
            choose("eager")


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
