"""The plan of a training run before it starts: data, steps, parameters, and the memory a step will need."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from geco.models import Geco
from geco.training.sampling import Datasets
from geco.training.settings import TrainConfig
from geco.training.setup import set_up

MATRICES = 5  # of all patches against all patches that a pair needs at once: scores, kernel, their gradients, one spare
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    pairs: dict[str, tuple[int, int]]  # dataset/category: available, taken in each epoch
    validation: dict[str, int]
    steps_per_epoch: int
    steps: int
    trainable: int
    parameters: int
    memory: int  # bytes of a step on one process, estimated


def plan(
    config: TrainConfig, train: Datasets, valid: Datasets, folder: str | Path | None = None, *, processes: int = 1
) -> Plan:
    """What `fit` would do with the same arguments, and the errors it would raise before its first step."""
    setup = set_up(config, train, valid, folder, world=processes)
    most = {group: config.sampling.most(group.partition("/")[0]) for group in setup.counts}
    model, images = setup.model, 2 * -(-setup.keys.size // config.accumulate)
    return Plan(
        pairs={group: (count, min(count, most[group] or count)) for group, count in setup.counts.items()},
        validation={name: len(setup.valid.get(name, ())) for name in valid},
        steps_per_epoch=len(setup.keys),
        steps=setup.total,
        trainable=model.trainable(),
        parameters=sum(value.numel() for value in model.parameters()),
        memory=step_memory(model, images=images, all_pairs=config.pairing == "all" or setup.teacher is not None)
        + (0 if setup.teacher is None else sum(value.nbytes for value in setup.teacher.model.parameters())),
    )


def step_memory(model: Geco, *, images: int, all_pairs: bool = False) -> int:
    """Bytes of weights, gradients, Adam's two moments, stored activations and transport plans of a step.

    With `all_pairs` every two images are compared, if all are of one category: the worst case, and that of animals.

    What the encoder stores for its backward pass is counted on one image, not guessed.
    """
    side = model.input_size
    weights = sum(value.nbytes for value in model.parameters())
    trained = sum(value.nbytes for value in model.parameters() if value.requires_grad)
    patches = (side // model.stride) ** 2
    pairs = images * (images - 1) // 2 if all_pairs else images // 2
    plans = pairs * MATRICES * (patches + 1) ** 2 * FLOAT
    return weights + 3 * trained + images * activations(model, side) + plans


def activations(model: Geco, side: int) -> int:
    """Bytes that a forward pass of one square image stores for the backward pass."""
    own = {value.untyped_storage().data_ptr() for value in model.parameters()}
    stored: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            stored[storage.data_ptr()] = storage.nbytes()
        return tensor

    inputs = model.prepare(torch.zeros(1, 3, side, side, device=model.device), (side, side))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        features = model(**inputs)
    del features  # it held what was counted, so no storage could be counted twice
    return sum(stored.values())
