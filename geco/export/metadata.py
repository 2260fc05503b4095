"""What an exported file says about itself: enough to prepare images for it and to read its answer, without geco."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from geco import __version__
from geco.errors import InputError
from geco.export.settings import Precision
from geco.images import IMAGENET_MEAN, IMAGENET_STD
from geco.models import Geco, licence_of, packaged
from geco.models.settings import EncoderConfig
from geco.system import codec, documents, strict

FORMAT = 1  # of this metadata
PREFIX = "geco."  # of its keys in an ONNX file
INPUT, OUTPUT = "pixels", "features"  # names of the graph's input and output
ADVICE = "expected a file that `geco export -m MODEL -o model.onnx` (or model.xml) wrote"


@dataclass(frozen=True)
class Metadata:
    """Facts of an exported model; every one is a text in the file, numbers and lists as JSON."""

    model: str
    backbone: str
    adapted: bool  # an adapter was merged into the backbone
    size: int  # side of the square that images are squashed to
    dynamic: bool  # sides may be other multiples of the patch
    patch: int  # pixels of the input for each cell of the map
    channels: int
    resize: str  # how images are resized, always antialiased
    threshold: float  # similarity below which its matches are "not visible"
    precision: Precision
    fingerprint: str  # of the model that it was made of
    licence: str = ""  # of the weights, as far as it is known
    note: str = ""
    similarity: str = "cosine"  # or "dot": how features are compared
    options: dict[str, Any] = field(default_factory=dict)  # how the backbone was read
    mean: tuple[float, float, float] = IMAGENET_MEAN  # of red, green, blue in [0, 1]
    std: tuple[float, float, float] = IMAGENET_STD
    input: str = f"{INPUT}: float32 (batch, 3, height, width), RGB in [0, 1] minus mean, divided by std"
    output: str = f"{OUTPUT}: float32 (batch, channels, height / patch, width / patch), not of length one"
    geco: str = __version__
    format: int = FORMAT

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "patch", "channels", "size", least=1, most=2**16)
        strict.within(self, "std", above=0)
        if self.size % self.patch:
            raise InputError(f"size must be a multiple of the patch, {self.patch}, got {self.size}")
        if self.similarity not in ("cosine", "dot"):
            raise InputError(f"similarity must be cosine or dot, got {documents.shown(self.similarity)}")
        _ = self.config  # checks the rest

    @property
    def config(self) -> EncoderConfig:
        """The configuration of the model."""
        return EncoderConfig(
            self.backbone,
            options=dict(self.options),
            size=self.size,
            resize=self.resize,
            threshold=self.threshold,
            lora=None,
        )

    def texts(self) -> dict[str, str]:
        """Every fact as a text, by its name."""
        return {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in codec.as_dict(self).items()
        }


def of_model(model: Geco, *, dynamic: bool, precision: Precision) -> Metadata:
    """The metadata of a model; folders of this machine are not named in it."""
    backbone = Path(model.config.backbone).name if Path(model.config.backbone).exists() else model.config.backbone
    _, known, licence = model.note.rpartition("licence: ")  # as a place tells it (`Place.about`)
    licence = licence if known else ""
    if model.name in packaged():
        licence = licence_of(model.name)
    return Metadata(
        model=model.name,
        backbone=backbone or model.name,
        adapted=model.adapted,
        size=model.input_size,
        dynamic=dynamic,
        patch=model.stride,
        channels=model.dim,
        resize=model.config.resize,
        threshold=model.threshold,
        precision=precision,
        fingerprint=model.fingerprint(),
        licence=licence,
        note="" if str(Path(model.config.backbone).parent) in model.note else model.note,
        similarity=model.similarity,
        options=dict(model.config.options),
    )


def from_texts(texts: Mapping[str, str], *, name: str) -> Metadata:
    """The metadata that a file holds; `name` is the file in messages."""
    if "format" not in texts or "model" not in texts:
        raise InputError(f"{name} holds no metadata of geco (geco.model, geco.size, geco.mean, …); {ADVICE}")
    if texts["format"] != str(FORMAT):
        shown = documents.shown(texts["format"])
        raise InputError(f"{name} has metadata of format {shown}, this geco reads {FORMAT}; export the model again")
    plain = {entry.name for entry in fields(Metadata) if entry.type in (str, Precision)}
    values = {
        key: text if key in plain else documents.parse(text, name=f"{name}: {PREFIX}{key}", kind=object)
        for key, text in texts.items()
    }
    return codec.build(Metadata, values, name)
