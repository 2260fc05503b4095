"""The models of the page: the one it was started with, its bare backbone, and the packaged ones, loaded when needed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from geco import api, checks, models
from geco.errors import InputError
from geco.models import Extractor
from geco.types import Encoder


@dataclass
class Encoders:
    """Models by the name that the page shows; the first is the usual one."""

    first: Encoder
    loaders: dict[str, Callable[[], Encoder]] = field(default_factory=dict)
    loaded: dict[str, Encoder] = field(default_factory=dict)
    missing: str = ""  # which one cannot be offered, and how to get it, for people

    def __post_init__(self) -> None:
        self.loaded[self.first.name] = self.first

    @property
    def names(self) -> list[str]:
        """All that can be chosen."""
        return list(dict.fromkeys([self.first.name, *self.loaders]))

    def named(self, name: object) -> Encoder:
        """The model of this name, loaded the first time."""
        if not isinstance(name, str) or name not in self.names:
            raise InputError(f"there is no model {checks.shown(name)} here; choose one of {', '.join(self.names)}")
        if name not in self.loaded:
            self.loaded[name] = self.loaders[name]()
        return self.loaded[name]


def of_model(encoder: Extractor, *, device: str = "auto", dtype: str = "float32") -> Encoders:
    """A model, the backbone that it was trained from, read at the same size and layer, and the packaged models."""
    config, missing = encoder.config, ""
    loaders: dict[str, Callable[[], Encoder]] = {}
    if encoder.adapted and config.untrained:
        bare = f"{Path(config.untrained).name} (bare backbone)"
        missing = models.why_missing(config.untrained)
        if not missing:
            loaders[bare] = lambda: api.load(
                config.untrained, size=config.size, device=device, dtype=dtype, **config.options
            )
    for name in models.packaged():
        if name != encoder.name:
            loaders[name] = lambda name=name: api.load(name, device=device, dtype=dtype)
    return Encoders(encoder, loaders, missing=missing)
