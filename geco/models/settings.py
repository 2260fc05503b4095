"""What an encoder is made of: backbone and how it is read, input size, adapter."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from geco.errors import InputError
from geco.system import codec, documents, strict

LARGEST_SIZE = 2**16  # pixels; what is affordable is far less, and depends on the backbone (`geco.system.cost`)
LARGEST_RANK = 2**16
WHOLE = "."  # the backbone of a model that is saved whole: the folder its configuration lies in
ASPECTS = ("squash", "fit")  # how an image comes to the encoder's input


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapter on the attention projections: rank 10, scale alpha/rank = 1, no dropout (GECO supplement)."""

    rank: int = 10
    alpha: float = 10.0
    projections: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "rank", "alpha", above=0)
        strict.within(self, "rank", most=LARGEST_RANK)
        if not self.projections or len(set(self.projections)) < len(self.projections):
            raise InputError(
                f"projections must be one or more names, each once, got {documents.shown(self.projections)}"
            )


@dataclass(frozen=True)
class EncoderConfig:
    """Everything needed to build the same encoder again, next to its adapter (`geco.json`)."""

    RENAMED: ClassVar[Mapping[str, str]] = {  # since release 0.1
        "layer": "options.layer",
        "norm": "options.norm",
        "bin": "threshold",
    }

    backbone: str = "dinov2-base"  # a name, folder or hub id, or WHOLE
    options: dict[str, Any] = field(default_factory=dict)  # of the backbone's family: layer and norm of a ViT
    size: int = 518  # images are squashed to size × size, as the authors do; or keep their ratio (`aspect`)
    aspect: str = "squash"  # or "fit": sides in the image's own ratio, rounded to patches
    resize: str = "bilinear"  # antialiased; or "bicubic", or "lanczos"
    threshold: float = 0.3  # z: similarity below which this encoder's matches are "not visible"
    lora: LoraSettings | None = LoraSettings()  # None: the bare backbone
    base: str = ""  # of a model that is saved whole: the backbone it was trained from; its features do not need it

    def __post_init__(self) -> None:
        strict.check(self)
        given = {key: value for key, value in self.options.items() if value is not None}
        object.__setattr__(self, "options", given)  # an option that is None is the backbone's default
        if self.resize not in ("bilinear", "bicubic", "lanczos"):
            raise InputError(f"resize must be bilinear, bicubic or lanczos, got {documents.shown(self.resize)}")
        if self.aspect not in ASPECTS:
            raise InputError(f"aspect must be {' or '.join(ASPECTS)}, got {documents.shown(self.aspect)}")
        if not self.backbone.strip() or "\0" in self.backbone:
            raise InputError(f"backbone must be a name, folder or hub id, got {documents.shown(self.backbone)}")
        strict.within(self, "size", least=1, most=LARGEST_SIZE)
        strict.within(self, "threshold", least=-1, most=1)  # a cosine
        try:
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError):
            raise InputError(f"options must be plain finite values, got {documents.shown(given)}") from None

    @property
    def untrained(self) -> str:
        """The backbone before training: the one that is adapted, or that a whole model was trained from, if known."""
        return self.base if self.backbone == WHOLE else self.backbone

    def on(self, backbone: str, **options: Any) -> "EncoderConfig":
        """The same on another backbone; how this one is read says nothing about how that one is."""
        return replace(self, backbone=backbone, options=options)

    def to_json(self) -> str:
        """The configuration as text."""
        return codec.to_json(self)

    @classmethod
    def from_json(cls, text: str, *, name: str = "the configuration") -> "EncoderConfig":
        """The configuration in a text, also of release 0.1; unknown keys are errors."""
        return codec.from_json(cls, text, name=name)
