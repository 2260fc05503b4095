"""What an encoder is made of: backbone, layer, input size and adapter."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapter on the attention projections: rank 10, scale alpha/rank = 1, no dropout (GECO supplement)."""

    rank: int = 10
    alpha: float = 10.0
    projections: tuple[str, ...] = ("query", "value")


@dataclass(frozen=True)
class EncoderConfig:
    """Everything needed to build the same encoder again, next to its adapter."""

    backbone: str = "dinov2-base"  # a name, folder or hub id; "." is the folder this configuration lies in
    layer: int | None = None  # block whose output is read, counted from 1; None: the backbone's default
    norm: bool | None = None  # whether the final norm follows, after whatever layer; None: the backbone's default
    size: int = 518  # images are squashed to size × size, as the authors do
    resize: str = "bilinear"  # antialiased; "bicubic" is the other choice
    bin: float = 0.3  # z: similarity below which this encoder's matches are "not visible"
    lora: LoraSettings | None = LoraSettings()  # None: the bare backbone

    def on(self, backbone: str, *, norm: bool | None = None) -> "EncoderConfig":
        """The same on another backbone; where this one is read says nothing about where that one is."""
        return replace(self, backbone=backbone, layer=None, norm=norm)

    def to_json(self) -> str:
        """The configuration as text."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str, *, name: str = "the configuration") -> "EncoderConfig":
        """The configuration in a text; unknown keys are errors."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name} is not JSON: {error}") from None
        lora = values.get("lora")
        _check_keys(cls, values, name)
        values.setdefault("norm", True)  # files from before there was a choice
        if lora is not None:
            _check_keys(LoraSettings, lora, f"{name}, lora")
            values["lora"] = LoraSettings(**{**lora, "projections": tuple(lora.get("projections", ()))})
        return cls(**values)


def _check_keys(kind: type[Any], values: dict[str, Any], name: str) -> None:
    known = {field.name for field in fields(kind)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"{name} has unknown keys {', '.join(unknown)}; known: {', '.join(sorted(known))}")
