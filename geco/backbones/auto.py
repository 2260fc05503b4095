"""Any other vision backbone of transformers (Swin, ConvNeXt, ResNet, BEiT, Hiera, …), frozen.

Shapes are asked of the network itself, made without weights, so that nothing has to be known about a kind beforehand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geco import images
from geco.backbones import FrozenBackbone, Source, read_config, read_weights
from geco.backbones._folder import CONFIG
from geco.backbones._vit import gist, with_weights
from geco.errors import InputError
from geco.images import Colour
from geco.system import documents
from geco.types import Image, Size

SOURCES: dict[str, Source] = {}
ELSEWHERE = ("dinov2", "dinov2_with_registers", "dinov3_vit", "timm_backbone")  # plug-ins of their own, or none
USUAL_SIDE = 224
FINE = 16  # pixels: of the stages, the deepest whose cells are no larger is read
LARGEST = 2**16  # number in a configuration that is no mistake
DEEPEST = 2**9  # blocks
PROCESSOR = "preprocessor_config.json"


def __getattr__(name: str) -> Any:
    """MODEL_TYPES, asked of transformers when it is needed: the import takes a while."""
    if name != "MODEL_TYPES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING_NAMES

    return tuple(kind for kind in MODEL_FOR_BACKBONE_MAPPING_NAMES if kind not in ELSEWHERE)


def DEFAULT(location: str) -> Source:  # noqa: N802 (the contract's name)
    """The backbone of a folder at the size of its own training."""
    return Source(size=_side(read_config(location)))


def load(
    location: str, *, layer: int | None = None, mean: Sequence[float] | None = None, std: Sequence[float] | None = None
) -> "Maps":
    """The backbone in a folder; `layer` counts its stages from 1, by default the deepest with cells of at most 16 px.

    `mean` and `std` of colours are those of the folder's preprocessor_config.json, or ImageNet's.
    """
    values = read_config(location)
    config = _configured(values, location)
    stages = [stage for stage in config.stage_names if stage != "stem"]
    shapes = _probed(config, stages, _side(values), location)
    chosen = _chosen(layer, shapes)
    config.out_features = [stages[chosen - 1]]
    colours = _colours(location, mean, std)
    kind = _kind(values["model_type"])
    network = with_weights(
        kind, config, read_weights(location), location, absent=("mask_token", "hidden_states_norms.")
    )
    return Maps(network, shapes, layer=chosen, mean=colours[0], std=colours[1])


@dataclass(frozen=True)
class Shapes:
    """What a network makes of an image: channels and stride of each stage, and which sides it takes."""

    stages: tuple[tuple[int, int], ...]  # (channels, stride)
    multiple: int
    only: int | None  # the one side it takes, if it takes no others


class Maps(FrozenBackbone):
    """The map of one stage of a backbone."""

    def __init__(self, network: Any, shapes: Shapes, *, layer: int, mean: Colour, std: Colour) -> None:
        dim, stride = shapes.stages[layer - 1]
        super().__init__(network, dim=dim, stride=stride, multiple=shapes.multiple)
        self.options = {"layer": layer, "mean": list(mean), "std": list(std)}
        self._mean, self._std, self._only = mean, std, shapes.only

    def prepare(self, pixels: Image, size: Size, *, resize: str = "bilinear") -> dict[str, Tensor]:
        """`pixels`, squashed to `size` and normalised as the network was trained."""
        return {"pixels": images.prepare(pixels, size, mode=resize, mean=self._mean, std=self._std)}

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """The stage's map of normalised images."""
        height, width = pixels.shape[-2:]
        if self._only is not None and (height, width) != (self._only, self._only):
            raise InputError(f"this backbone takes images of {self._only} pixels only, got {height}×{width}")
        if height % self.multiple or width % self.multiple or not height or not width:
            raise InputError(
                f"image sides must be multiples of {self.multiple}, got {height}×{width}; use images.prepare() first"
            )
        return self.encoder(pixel_values=pixels).feature_maps[0]


# --- configuration ----------------------------------------------------------------------------------------------------


def _kind(model_type: str) -> Any:
    """The class of a backbone of this type."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING_NAMES

    return getattr(transformers, MODEL_FOR_BACKBONE_MAPPING_NAMES[model_type])


def _configured(values: Mapping[str, Any], location: str) -> Any:
    """The configuration of a backbone, of what its class declares and nothing else."""
    path = Path(location) / CONFIG
    _check_bounded(values, str(path))
    config_class = _kind(values["model_type"]).config_class
    parents = [parent for parent in config_class.__mro__ if "transformers.models." in parent.__module__]
    names = {name for parent in parents for name in vars(parent).get("__annotations__", {}) if not name.startswith("_")}
    try:
        return config_class(**{name: value for name, value in values.items() if name in names and value is not None})
    except Exception as error:  # each version of transformers has its own
        raise InputError(f"{path} is no configuration of a {values['model_type']}: {gist(error)}") from None


def _check_bounded(value: Any, path: str, name: str = "") -> None:
    """Refuse numbers that no network has, before one of their size is made."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("id2label", "label2id"):
                _check_bounded(inner, path, str(key))
    elif isinstance(value, list):
        for inner in value:
            _check_bounded(inner, path, name)
    most = DEEPEST if "depth" in name or "layers" in name else LARGEST
    if isinstance(value, int | float) and abs(value) > most:
        raise InputError(f"{path}: {name}: expected at most {most}, got {documents.shown(value)}")


def _side(values: Mapping[str, Any]) -> int:
    """The side of the images that a network was trained with."""
    side = values.get("image_size")
    side = side[0] if isinstance(side, list) and side else side
    is_side = isinstance(side, int) and not isinstance(side, bool) and 0 < side <= 2**14
    return side if is_side else USUAL_SIDE  # type: ignore[return-value]


def _colours(location: str, mean: Sequence[float] | None, std: Sequence[float] | None) -> tuple[Colour, Colour]:
    path = Path(location) / PROCESSOR
    stated = documents.read(path, expected="how images are prepared for a model") if path.is_file() else {}
    return (
        _colour(mean or stated.get("image_mean") or images.IMAGENET_MEAN, "mean", above=-1e-9),
        _colour(std or stated.get("image_std") or images.IMAGENET_STD, "std", above=0),
    )


def _colour(value: Any, name: str, *, above: float) -> Colour:
    is_list = isinstance(value, list | tuple) and len(value) == 3
    if not is_list or not all(isinstance(v, int | float) and not isinstance(v, bool) and above < v <= 1 for v in value):
        raise InputError(f"{name} must be three numbers from 0 to 1, one for each colour, got {documents.shown(value)}")
    red, green, blue = (float(number) for number in value)
    return red, green, blue


# --- shapes -----------------------------------------------------------------------------------------------------------


def _probed(config: Any, stages: Sequence[str], side: int, location: str) -> Shapes:
    """What the network makes of images of its usual side and of twice that, without computing anything."""
    config.out_features = list(stages)
    try:
        with torch.device("meta"):
            network = _kind(config.model_type)(config).eval()
        usual = _map_shapes(network, side)
    except InputError:
        raise
    except Exception as error:  # of all kinds, by what the configuration asks for
        raise InputError(f"{location}: {config.model_type} cannot be used as a backbone: {gist(error)}") from None
    if len(usual) != len(stages) or any(
        len(shape) != 3 or shape[-1] != shape[-2] or side % shape[-1] for shape in usual
    ):
        raise InputError(f"{location}: {config.model_type} gives no square maps of images of {side} pixels")
    strides = [side // shape[-1] for shape in usual]
    try:
        wider = [2 * side // shape[-1] for shape in _map_shapes(network, 2 * side)]
    except Exception:  # it has a table of positions for one size only
        wider = []
    only = None if wider == strides else side
    channels = [shape[0] for shape in usual]
    return Shapes(tuple(zip(channels, strides, strict=True)), only or max(strides), only)


def _map_shapes(network: Any, side: int) -> list[tuple[int, ...]]:
    maps = network(pixel_values=torch.empty(1, 3, side, side, device="meta")).feature_maps
    return [tuple(values.shape[1:]) for values in maps]


def _chosen(layer: int | None, shapes: Shapes) -> int:
    if layer is None:
        fine = [number for number, (_, stride) in enumerate(shapes.stages, 1) if stride <= FINE]
        return fine[-1] if fine else 1
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= len(shapes.stages):
        raise InputError(
            f"layer must be between 1 and {len(shapes.stages)} for this backbone, got {documents.shown(layer)}"
        )
    return layer
