"""What a backbone is, and where one comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from geco import images
from geco.types import Image, Size

State = dict[str, Tensor]
Converted = tuple[State, dict[str, Any]]  # weights and config.json of a Hugging Face folder


@runtime_checkable
class Backbone(Protocol):
    """A `torch.nn.Module` from prepared images to maps of features; a transformer, a UNet, or several together.

    It may also have
      similarity           "dot" if its maps are compared by dot products instead of cosines
      pair(first, second)  the maps of two images (`FeatureMap`) as they are compared, if each depends on the other
      traceable(size)      the network as a module that can be exported (`geco.export`): images of any sides if size is
                           None, else of that one
      adapter              weights of a low-rank adapter that it comes with, as the reference implementation saves them
    """

    encoder: Any  # the network itself: what an adapter is put into, and what is saved
    dim: int  # channels of a map
    stride: int  # pixels of the input per cell of the map; per token, where a head makes the map finer than that
    multiple: int  # the input's sides must be multiples of it
    adaptable: Mapping[str, str]  # our word for a projection → its module's name inside `encoder`; may be empty
    options: Mapping[str, Any]  # how it is read; with the weights, all that decides its features

    def prepare(self, pixels: Image, size: Size, *, resize: str = "bilinear") -> dict[str, Tensor]:
        """What the network takes, by name, for 8-bit or [0, 1] images to be seen at `size`."""

    def __call__(self, **inputs: Tensor) -> Float[Tensor, "b c h w"]:
        """Features of a batch of prepared images."""

    def finish(self, values: Float[Tensor, "c h w"], size: Size) -> Float[Tensor, "c h w"]:
        """The part of a map that shows the image of `size`: what `prepare` padded is cut off."""


class FrozenBackbone(nn.Module):
    """A backbone whose images are squashed to the input and normalised as ImageNet; subclasses bring the network."""

    adaptable: Mapping[str, str] = {}
    options: Mapping[str, Any] = {}

    def __init__(self, encoder: nn.Module, *, dim: int, stride: int, multiple: int | None = None) -> None:
        super().__init__()
        self.encoder: Any = encoder.eval().requires_grad_(False)
        self.dim, self.stride, self.multiple = dim, stride, multiple or stride

    def prepare(self, pixels: Image, size: Size, *, resize: str = "bilinear") -> dict[str, Tensor]:
        """`pixels`, squashed to `size` and normalised."""
        return {"pixels": images.prepare(pixels, size, mode=resize)}

    def finish(self, values: Float[Tensor, "c h w"], size: Size) -> Float[Tensor, "c h w"]:
        """The whole map: nothing was padded."""
        return values

    def train(self, mode: bool = True) -> "FrozenBackbone":
        """Stay in evaluation mode: a frozen network's stochastic depth would change its features."""
        return super().train(False)


@dataclass(frozen=True)
class PackagedFile:
    """A file of weights inside a pip package, which is never imported, and how to convert it."""

    requirement: str  # what to install
    package: str  # what it is installed as
    file: str
    sha256: str
    convert: Callable[[str], Converted]


@dataclass(frozen=True)
class Source:
    """A backbone with a short name: where its files come from (if it needs any), and how it is best read."""

    hub: str | None = None  # repository on the model hub
    packaged: PackagedFile | None = None
    original: str = ""  # name of the file that it is converted from, which geco does not fetch
    options: Mapping[str, Any] = field(default_factory=dict)  # of `load`
    size: int = 518  # images are squashed to size × size
    resize: str = "bilinear"  # how
    threshold: float = 0.3  # similarity below which its matches are "not visible"
    note: str = ""
    licence: str = ""  # of the weights, as their authors state it; empty: not known here
    notice: str = ""  # what that licence asks to be kept with copies of the weights
    home: str = ""  # where the public has files that geco does not fetch

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        packaged = f"pip package {self.packaged.requirement}" if self.packaged else ""
        return self.hub or packaged or self.home or "the package itself"
