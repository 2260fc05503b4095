"""How a model is trained: which pairs are sampled, how they are augmented, which loss, how long."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from geco.errors import InputError
from geco.losses.settings import TERMS, LossSettings
from geco.models.settings import EncoderConfig
from geco.system import codec, strict

LARGEST_KERNEL = 255  # pixels
MOST_WORKERS = 256
LARGEST_BATCH = 100_000  # pairs


@dataclass(frozen=True)
class AugmentSettings:
    """The authors' recipe. `flip`, `jitter`, `blur` and `solarise` are probabilities."""

    size: int = (
        518  # pixels; every view leaves as a square of this side, the encoder's or, in distillation, the teacher's
    )
    plain: tuple[str, ...] = ("pfpascal",)  # datasets that are only resized, as the authors do

    flip: float = 0.5
    scale: tuple[float, float] = (0.5, 0.98)  # of the image's area that a crop keeps
    ratio: tuple[float, float] = (0.9, 1.1)  # width / height of a crop …
    ratio_of: Literal["image", "pixels"] = "image"  # … relative to the image's own, or in pixels
    rotate: float = 0.0  # largest angle in degrees, either way; the authors rotate nothing

    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1  # of the whole circle, either way

    blur: float = 0.1
    kernel: int = 9
    sigma: tuple[float, float] = (0.1, 2.0)

    solarise: float = 0.2
    threshold: int = 128  # of 255; brighter pixels are inverted

    def __post_init__(self) -> None:
        strict.check(self)
        for name in ("flip", "jitter", "blur", "solarise"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is a probability, expected 0 to 1, got {getattr(self, name)}")
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise InputError(
                f"scale is (smallest, largest) share of the area, expected 0 < a ≤ b ≤ 1, got {self.scale}"
            )
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise InputError(f"ratio is (narrowest, widest), expected 0 < a ≤ b, got {self.ratio}")
        if not 0 < self.sigma[0] <= self.sigma[1]:
            raise InputError(f"sigma is (smallest, largest) in pixels, expected 0 < a ≤ b, got {self.sigma}")
        if not 0 <= self.rotate <= 180:
            raise InputError(f"rotate is the largest angle in degrees, expected 0 to 180, got {self.rotate}")
        strict.within(self, "size", least=1)
        strict.within(self, "brightness", "contrast", "saturation", least=0, most=1)
        strict.within(self, "hue", least=0, most=0.5)
        strict.within(self, "threshold", least=0, most=255)
        strict.within(self, "kernel", least=1, most=LARGEST_KERNEL)
        if self.kernel % 2 == 0:
            raise InputError(f"the blur's kernel has a centre, expected an odd side, got {self.kernel}")


@dataclass(frozen=True)
class SamplingSettings:
    """Balance between categories of very different size, and between annotated pairs and pairs of one image."""

    per_category: int | None = 800  # pairs per category and dataset in an epoch, all if fewer; None: always all
    factors: Mapping[str, float] = field(default_factory=dict)  # of per_category, by dataset; 1 where none is given
    in_a_row: int = 1  # pairs of one category that follow each other: more for pairing "all" to compare

    self_pairs: float = 0.0  # share of the pairs that become two views of their source image …
    self_points: int = 64  # … with this many known correspondences on the object

    def __post_init__(self) -> None:
        strict.check(self)
        if self.per_category is not None and self.per_category < 1:
            raise InputError(
                f"per_category counts pairs, expected 1 or more (or None for all), got {self.per_category}"
            )
        for dataset, factor in self.factors.items():
            if not factor > 0:
                raise InputError(f"factors.{dataset} multiplies per_category, expected a number above 0, got {factor}")
        if self.in_a_row < 1:
            raise InputError(f"in_a_row counts pairs, expected 1 or more, got {self.in_a_row}")
        if not 0 <= self.self_pairs <= 1:
            raise InputError(f"self_pairs is a share, expected 0 to 1, got {self.self_pairs}")
        if self.self_points < 1:
            raise InputError(f"self_points counts points, expected 1 or more, got {self.self_points}")

    def most(self, dataset: str) -> int | None:
        """Pairs of each category of a dataset in an epoch, at most; None: all."""
        if self.per_category is None:
            return None
        return max(1, round(self.per_category * self.factors.get(dataset, 1.0)))


@dataclass(frozen=True)
class TrainConfig:
    """The paper's recipe; everything that decides the numbers of a run is in here, except the data."""

    RENAMED: ClassVar[Mapping[str, str]] = {  # since release 0.1
        **{f"encoder.{old}": f"encoder.{new}" for old, new in EncoderConfig.RENAMED.items()},
        "loss": "loss.name",
        "settings.": "loss.",
        **{f"settings.{term}": f"loss.weight_{term}" for term in TERMS},
    }

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    start: str | None = None  # adapter of such an encoder to begin with; None: the bare backbone
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    loss: LossSettings = field(default_factory=LossSettings)

    epochs: int = 8
    steps: int | None = None  # the run ends after this many, in whatever epoch
    batch_size: int = 6  # pairs of a step, over all processes and all parts of `accumulate`
    accumulate: int = 1  # parts a process's share of a step is encoded in: less memory, same given pairs
    pairing: Literal["given", "all"] = "given"  # all: every two images of a batch that share a keypoint table
    learning_rate: float = 1e-4  # Adam's; the authors use no schedule and no weight decay
    schedule: Literal["constant", "cosine"] = "constant"  # cosine: down to 0 at the last step
    warmup: int = 0  # steps over which the learning rate rises, at most half of the run
    clip: float | None = None  # largest norm of the gradient
    unfreeze: int = 0  # the last blocks that are trained whole, besides the adapter
    unfreeze_norm: bool = False  # and the norm after them
    layer_decay: float = 1.0  # each block's learning rate is that of the block after it times this
    average: float = 0.0  # decay per step of the running mean of the weights that is validated and saved; 0: none
    checkpointing: bool = False  # activations of blocks are computed twice instead of stored
    precision: Literal["no", "bf16", "fp16"] = "no"  # of the encoder; transport is always float32
    seed: int = 0

    save_every: int = 200  # steps between checkpoints
    validate_every: int | None = None  # steps; None: after each epoch
    validation_pairs: int = 200  # of each validation set, spread evenly over it
    patience: int | None = None  # validations without a better one after which the run ends; None: it never does
    calibrate: bool = False  # threshold of saved models: what one in ten visible points of validation stays below
    workers: int = 2  # processes that load pairs
    cpu: bool = False  # even where there is a GPU
    tensorboard: bool = False

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "epochs", "batch_size", "accumulate", "save_every", "validation_pairs", above=0)
        strict.within(self, "learning_rate", above=0)
        for name in ("steps", "validate_every", "patience", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be above 0, or None, got {value}")
        strict.within(self, "unfreeze", "workers", "warmup", "seed", least=0)
        strict.within(self, "workers", most=MOST_WORKERS)
        strict.within(self, "batch_size", most=LARGEST_BATCH)
        strict.within(self, "seed", below=2**63)
        strict.within(self, "layer_decay", above=0, most=1)
        strict.within(self, "average", least=0, below=1)
        if self.augment.size != self.encoder.size and self.loss.name != "distill":
            raise InputError(
                f"pairs must leave the loader at the encoder's size, got augment.size {self.augment.size} "
                f"and encoder.size {self.encoder.size}; change both"
            )
        if self.encoder.lora is None and not self.unfreeze:
            raise InputError("nothing to train: give the encoder an adapter (encoder.lora) or unfreeze blocks")

    def to_json(self) -> str:
        """The configuration as text; infinity is the word "inf"."""
        return codec.to_json(self)

    @classmethod
    def from_json(cls, text: str, *, name: str = "the configuration") -> "TrainConfig":
        """The configuration in a text, also of release 0.1; unknown keys are errors."""
        return codec.from_json(cls, text, name=name)

    @property
    def needs_masks(self) -> bool:
        """Whether training reads foreground masks: for the background term and the marginals, or to draw points on."""
        return self.loss.reads_masks or self.sampling.self_pairs > 0

    def at_size(self, size: int) -> "TrainConfig":
        """The same with images of another size; a teacher still sees them at its own."""
        encoder = replace(self.encoder, size=size)
        if self.loss.name == "distill":
            return replace(self, encoder=encoder)
        return replace(self, encoder=encoder, augment=replace(self.augment, size=size))


@dataclass(frozen=True)
class AdaptSettings:
    """A short training on someone's own labels."""

    fewest: int = 20  # labelled animals, below which nothing is trained
    held_out: float = 0.25  # share of the animals that training is stopped by
    steps: int = 120
    validate_every: int = 20
    patience: int = 2  # validations without a better one after which training ends
    batch_size: int = 4  # pairs
    learning_rate: float = 2e-4
    margin: float = 0.25  # of its longer side that an animal's box is grown by on each side before it is cut out
    sources: int = 8  # animals that each held-out one is compared with
    workers: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "fewest", least=3)
        strict.within(self, "held_out", above=0, below=1)
        strict.within(self, "steps", "validate_every", "patience", "batch_size", "sources", least=1)
        strict.within(self, "learning_rate", above=0)
        strict.within(self, "margin", least=0, most=10)
        strict.within(self, "workers", "seed", least=0)


# What may change when a run resumes: none of it alters the steps already taken or how the next ones are taken …
FREE = ("calibrate", "save_every", "validate_every", "validation_pairs", "patience", "workers", "cpu", "tensorboard")
LENGTH = ("epochs", "steps")  # … nor does the length, unless the learning rate falls towards the end
