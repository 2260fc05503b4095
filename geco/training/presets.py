"""Recipes with a name; ablations: a recipe with one change; and the recipe that overfits a few pairs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from geco.losses.settings import DistillSettings, LossSettings, Name
from geco.models.settings import EncoderConfig, LoraSettings
from geco.system import codec
from geco.training.settings import AugmentSettings, TrainConfig

# Configurations by the name that `--preset` takes.
PRESETS: dict[str, TrainConfig] = {
    "paper": TrainConfig(),
    # Two cores, no GPU, the images of Animal-Pose: found by measurement (docs/model-geco-s.md).
    "animals-cpu": TrainConfig(
        encoder=EncoderConfig(
            backbone="focus-small",
            options={"layer": 11, "norm": True},
            size=224,
            lora=LoraSettings(rank=16, alpha=16.0, projections=("query", "key", "value", "output", "fc1", "fc2")),
        ),
        augment=AugmentSettings(size=224),
        loss=LossSettings(reduction="conditional"),
        batch_size=4,
        pairing="all",
        learning_rate=1e-3,
        schedule="cosine",
        warmup=20,
        steps=600,
        epochs=100,
        save_every=50,
        validate_every=200,
        validation_pairs=150,
        calibrate=True,
        workers=1,
    ),
    # Two cores, no GPU: a model learns to be itself on images of 168 pixels (docs/training.md); for --distill.
    "xs-cpu": TrainConfig(
        encoder=EncoderConfig(
            backbone="geco-s",
            options={"layer": 11, "norm": True},
            size=168,
            lora=LoraSettings(rank=32, alpha=32.0, projections=("query", "key", "value", "output", "fc1", "fc2")),
        ),
        augment=AugmentSettings(size=280),
        loss=LossSettings(
            name="distill",
            reduction="conditional",
            distill=DistillSettings(teacher="geco-s", weight_labels=0.1),
        ),
        batch_size=4,
        learning_rate=5e-4,
        schedule="cosine",
        warmup=40,
        clip=1.0,
        steps=1000,
        epochs=100,
        save_every=50,
        validate_every=250,
        validation_pairs=150,
        calibrate=True,
        workers=1,
    ),
}


def preset(name: str) -> TrainConfig:
    """The configuration of this name; a typo lists the choices."""
    return codec.choose("preset", name, PRESETS)


def _transport(**values: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, loss=replace(config.loss, transport=replace(config.loss.transport, **values)))


def _loss(name: Name = "transport", **values: Any) -> Callable[[TrainConfig], TrainConfig]:
    def changed(config: TrainConfig) -> TrainConfig:
        augment = replace(config.augment, size=config.encoder.size)  # no teacher sees the images any more
        return replace(config, loss=replace(config.loss, name=name, **values), augment=augment)

    return changed


def _per_category(most: int) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, sampling=replace(config.sampling, per_category=most))


def _backbone(name: str) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, start=None, encoder=config.encoder.on(name))


OVERFIT_STEPS = 200
# Changes of a configuration by the name that `--ablation` takes.
ABLATIONS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "full": lambda config: config,
    "uniform-marginals": _transport(marginals="uniform"),  # the paper's "-N"
    "no-kl": _transport(alpha=math.inf, beta=math.inf),  # the balanced problem
    "no-bin": _loss(weight_bin=0.0),
    "no-negatives": _loss(weight_negative=0.0),
    "no-background": _loss(weight_background=0.0),
    "conditional": _loss(reduction="conditional"),
    "reference": _loss(reduction="reference"),
    "contrastive": _loss("contrastive"),
    "soft-argmax": _loss("soft-argmax"),
    "k-100": _per_category(100),
    "k-400": _per_category(400),
    "small": _backbone("dinov2-small"),
    "base": _backbone("dinov2-base"),
}


def ablation(name: str, config: TrainConfig) -> TrainConfig:
    """The configuration with one change; a typo lists the choices."""
    return codec.choose("ablation", name, ABLATIONS)(config)


def overfitting(config: TrainConfig, sizes: Mapping[str, int], *, steps: int | None = None) -> TrainConfig:
    """The recipe for these few pairs of each dataset, without augmentation, to test that the model learns at all."""
    steps = steps or OVERFIT_STEPS
    return replace(
        config,
        augment=replace(config.augment, plain=tuple(sizes)),
        batch_size=min(config.batch_size, sum(sizes.values())),
        epochs=steps,
        steps=steps,
        validate_every=max(1, steps // 5),
    )
