"""The plan of a training run before it starts: data, steps, parameters, and the memory a step will need."""

from dataclasses import dataclass

import torch
from torch import Tensor

from geco.batches import StepKeys, total_steps
from geco.config.training import TrainConfig
from geco.jobs import Datasets, build
from geco.model import Geco
from geco.sampling import Joint

MATRICES = 5  # of all patches against all patches that a pair needs at once: scores, kernel, their gradients, one spare
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    pairs: dict[str, tuple[int, int]]  # dataset/category: at hand, taken in each epoch
    validation: dict[str, int]
    steps_per_epoch: int
    steps: int
    trainable: int
    parameters: int
    memory: int  # bytes of a step on one process, estimated


def plan(config: TrainConfig, train: Datasets, valid: Datasets, *, processes: int = 1) -> Plan:
    """Everything but the training."""
    joint = Joint(train)
    keys = StepKeys(joint, config, world=processes)
    most = config.sampling.per_category
    counts = {f"{name}/{category}": len(rows) for (name, category), rows in joint.groups().items()}
    model = build(config)
    return Plan(
        pairs={group: (count, min(count, most or count)) for group, count in counts.items()},
        validation={name: min(len(pairs), config.validation_pairs) for name, pairs in valid.items()},
        steps_per_epoch=len(keys),
        steps=total_steps(config, len(keys)),
        trainable=model.trainable(),
        parameters=sum(value.numel() for value in model.parameters()),
        memory=step_memory(model, images=2 * -(-keys.size // config.accumulate), all_pairs=config.pairing == "all"),
    )


def step_memory(model: Geco, *, images: int, all_pairs: bool = False) -> int:
    """Bytes of weights, gradients, Adam's two moments, kept activations and plans of a step with so many images.

    With `all_pairs` every two of them are compared, if all are of one category: the worst case, and that of animals.

    What the encoder keeps for its backward pass is counted on one image, not guessed.
    """
    side = model.input_size
    weights = sum(value.nbytes for value in model.parameters())
    trained = sum(value.nbytes for value in model.parameters() if value.requires_grad)
    patches = (side // model.patch) ** 2
    pairs = images * (images - 1) // 2 if all_pairs else images // 2
    plans = pairs * MATRICES * (patches + 1) ** 2 * FLOAT
    return weights + 3 * trained + images * kept_activations(model, side) + plans


def kept_activations(model: Geco, side: int) -> int:
    """Bytes that a forward pass of one square image keeps for the backward pass."""
    own = {value.untyped_storage().data_ptr() for value in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        features = model(torch.zeros(1, 3, side, side, device=model.device))
    del features  # it held what was counted, so no storage could be counted twice
    return sum(kept.values())
