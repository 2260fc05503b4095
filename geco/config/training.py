"""How a model is trained: one frozen configuration, named presets, named ablations, to and from JSON."""

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal

from geco.config.augment import AugmentSettings
from geco.config.encoder import EncoderConfig, LoraSettings
from geco.config.sampling import SamplingSettings
from geco.config.transport import LossSettings


@dataclass(frozen=True)
class TrainConfig:
    """The paper's recipe; everything that decides the numbers of a run is in here, except the data."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    start: str | None = None  # adapter of such an encoder to begin with; None: the bare backbone
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    loss: str = "transport"  # a name of `geco.losses.LOSSES`
    settings: LossSettings = field(default_factory=LossSettings)  # of that loss

    epochs: int = 8
    steps: int | None = None  # stop after so many, in whatever epoch
    batch_size: int = 6  # pairs of a step, over all processes and all parts of `accumulate`
    accumulate: int = 1  # parts a process's share of a step is encoded in: less memory, same given pairs
    pairing: Literal["given", "all"] = "given"  # all: every two images of a batch that share a keypoint table
    learning_rate: float = 1e-4  # Adam's; the authors use no schedule and no weight decay
    schedule: Literal["constant", "cosine"] = "constant"  # cosine: down to 0 at the last step
    warmup: int = 0  # steps over which the learning rate rises, at most half of the run
    clip: float | None = None  # largest norm of the gradient
    unfreeze: int = 0  # the last so many blocks are trained whole, besides the adapter
    checkpointing: bool = False  # activations of blocks are computed twice instead of kept
    precision: Literal["no", "bf16", "fp16"] = "no"  # of the encoder; transport is always float32
    seed: int = 0

    save_every: int = 200  # steps between checkpoints
    validate_every: int | None = None  # steps; None: after each epoch
    validation_pairs: int = 200  # of each validation set, spread evenly over it
    calibrate: bool = False  # bin of saved models: what one in ten visible points of validation stays below
    workers: int = 2  # processes that load pairs
    cpu: bool = False  # even where there is a GPU
    tensorboard: bool = False

    def __post_init__(self) -> None:
        positive = ("epochs", "batch_size", "accumulate", "save_every", "validation_pairs", "learning_rate")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in ("steps", "validate_every", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, or None, got {value}")
        for name in ("unfreeze", "workers", "warmup"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        for name, allowed in (
            ("precision", ("no", "bf16", "fp16")),
            ("pairing", ("given", "all")),
            ("schedule", ("constant", "cosine")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if self.augment.size != self.encoder.size:
            raise ValueError(
                f"pairs must leave the loader at the encoder's size, got augment.size {self.augment.size} "
                f"and encoder.size {self.encoder.size}; change both"
            )
        if self.encoder.lora is None and not self.unfreeze:
            raise ValueError("nothing to train: give the encoder an adapter (encoder.lora) or unfreeze blocks")

    def to_json(self) -> str:
        """The configuration as text; infinity is the word "inf"."""
        return json.dumps(as_dict(self), indent=2)

    @classmethod
    def from_json(cls, text: str, *, name: str = "the configuration") -> "TrainConfig":
        """The configuration in a text; unknown keys are errors."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name} is not JSON: {error}") from None
        return _build(cls, values, name)

    def at_size(self, size: int) -> "TrainConfig":
        """The same with images of another size."""
        return replace(self, encoder=replace(self.encoder, size=size), augment=replace(self.augment, size=size))


# What may change when a run goes on: none of it alters the steps already taken or how the next ones are taken …
FREE = (
    "calibrate",
    "save_every",
    "validate_every",
    "validation_pairs",
    "workers",
    "cpu",
    "tensorboard",
)
LENGTH = ("epochs", "steps")  # … nor does the length, unless the learning rate falls towards the end

PRESETS: dict[str, TrainConfig] = {
    "paper": TrainConfig(),
    # Two cores, no GPU, the photographs of Animal-Pose: found by measurement (docs/model-geco-s.md).
    "animals-cpu": TrainConfig(
        encoder=EncoderConfig(
            backbone="focus-small",
            layer=11,
            norm=True,
            size=224,
            lora=LoraSettings(rank=16, alpha=16.0, projections=("query", "key", "value", "output", "fc1", "fc2")),
        ),
        augment=AugmentSettings(size=224),
        settings=LossSettings(reduction="conditional"),
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
}


def preset(name: str) -> TrainConfig:
    """The configuration of this name; a typo lists the choices."""
    return PRESETS[_choice("preset", name, PRESETS)]


# --- ablations --------------------------------------------------------------------------------------------


def _transport(**values: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(
        config, settings=replace(config.settings, transport=replace(config.settings.transport, **values))
    )


def _loss(loss: str = "transport", **values: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, loss=loss, settings=replace(config.settings, **values))


def _per_category(most: int) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, sampling=replace(config.sampling, per_category=most))


def _backbone(name: str) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, start=None, encoder=config.encoder.on(name))


ABLATIONS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "full": lambda config: config,
    "uniform-marginals": _transport(marginals="uniform"),  # the paper's "-N"
    "no-kl": _transport(alpha=math.inf, beta=math.inf),  # the balanced problem
    "no-bin": _loss(bin=0.0),
    "no-negatives": _loss(negative=0.0),
    "no-background": _loss(background=0.0),
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
    """The configuration with one thing changed; a typo lists the choices."""
    return ABLATIONS[_choice("ablation", name, ABLATIONS)](config)


# --- to and from plain values -----------------------------------------------------------------------------


def as_dict(config: Any) -> dict[str, Any]:
    """Plain values that JSON can hold."""
    return {entry.name: _plain(getattr(config, entry.name)) for entry in fields(config)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return as_dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def changed(config: TrainConfig, key: str, text: str) -> TrainConfig:
    """The configuration with one value changed, `settings.transport.alpha` → inf, say; text as on a command line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    values = as_dict(config)
    *path, last = key.split(".")
    place = values
    for part in path:
        if not isinstance(place.get(part), dict):
            raise ValueError(f"{key}: {part!r} has no settings; groups: {', '.join(_groups(place)) or 'none'}")
        place = place[part]
    place[last] = value
    return _build(TrainConfig, values)


def _groups(values: Mapping[str, Any]) -> list[str]:
    return [name for name, value in values.items() if isinstance(value, dict)]


def _build(kind: Any, values: Any, name: str = "") -> Any:
    """A dataclass from plain values, its fields converted to what they are declared as; `name` is for mistakes."""
    if not isinstance(values, dict):
        raise ValueError(f"{name}: expected settings of {kind.__name__}, got {values!r}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        owner = name or "the configuration"
        raise ValueError(f"{owner} has unknown keys {', '.join(unknown)}; known: {', '.join(sorted(hints))}")
    inside = f"{name}, " if name else ""
    return kind(**{key: _field(hints[key], value, inside + key) for key, value in values.items()})


def _field(hint: Any, value: Any, name: str) -> Any:
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if value is None and type(None) in choices:
        return None
    hint = choices[0]
    if is_dataclass(hint):
        return _build(hint, value, name)
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return tuple(value)
    if typing.get_origin(hint) is Literal:
        return _literal(hint, value, name)
    if hint is float and isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"{name}: expected a number, got {value!r}") from None
    if isinstance(hint, type) and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise ValueError(f"{name}: expected {hint.__name__}, got {value!r}")
    return value


def _literal(hint: Any, value: Any, name: str) -> Any:
    allowed = typing.get_args(hint)
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(map(str, allowed))}, got {value!r}")
    return value


def _choice(what: str, name: str, choices: Mapping[str, Any]) -> str:
    if name not in choices:
        near = get_close_matches(name, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"there is no {what} {name!r}{hint} Choices: {', '.join(choices)}")
    return name
