"""What the vision-transformer backbones share: a frozen encoder cut off after the block that is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco.backbones._contract import FrozenBackbone
from geco.backbones._folder import BLOCK, CONFIG, REQUIRED, checked_settings, read_config, read_weights
from geco.errors import InputError
from geco.system import documents

# Our word for a projection → its name inside transformers' attention and MLP modules.
PROJECTIONS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "o_proj",
    "fc1": "fc1",
    "fc2": "fc2",
}


class ViT(FrozenBackbone):
    """Frozen encoder, (b, 3, h, w) → patch tokens (b, c, h/patch, w/patch) after the final norm, or before it.

    Blocks after `layer` are dropped, not just ignored, so reading layer 11 of 12 also costs 11/12.
    """

    adaptable: Mapping[str, str] = PROJECTIONS
    adapter: Mapping[str, Tensor] | None = None

    def __init__(
        self,
        encoder: Any,
        *,
        layer: int | None,
        norm: bool = True,
        prefix_tokens: int,
        arguments: Mapping[str, Any] = {},
        adaptable: Mapping[str, str] = PROJECTIONS,
    ) -> None:
        if not isinstance(norm, bool):
            raise InputError(f"norm must be true or false, got {documents.shown(norm)}")
        layer = _keep_blocks(encoder, layer)
        if not norm:
            final = "layernorm" if hasattr(encoder, "layernorm") else "norm"
            setattr(encoder, final, _Bypassed(getattr(encoder, final)))
        super().__init__(encoder, dim=encoder.config.hidden_size, stride=encoder.config.patch_size)
        self.options, self.adaptable = {"layer": layer, "norm": norm}, adaptable
        self._prefix_tokens, self._arguments = prefix_tokens, dict(arguments)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Patch tokens of normalised images whose sides are multiples of the patch."""
        height, width = pixels.shape[-2:]
        if height % self.multiple or width % self.multiple or not height or not width:
            raise InputError(
                f"image sides must be multiples of {self.multiple}, got {height}×{width}; use images.prepare() first"
            )
        output = self.encoder(pixel_values=pixels, **self._arguments)
        tokens = output.last_hidden_state[:, self._prefix_tokens :]
        return tokens.mT.unflatten(-1, (height // self.stride, width // self.stride))

    def cut(self, layer: int) -> None:
        """Drop the blocks after this one, counted from 1; the final norm, if it is applied, comes after it then."""
        self.options = {**self.options, "layer": _keep_blocks(self.encoder, layer)}


def checked_layer(layer: int | None, depth: int) -> int:
    """The block that is read, counted from 1; None is the last."""
    layer = depth if layer is None else layer
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= depth:
        raise InputError(f"layer must be between 1 and {depth} for this backbone, got {documents.shown(layer)}")
    return layer


class _Bypassed(nn.LayerNorm):
    """A norm that is not applied, only kept, so that a saved encoder is complete and opens anywhere."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__(norm.normalized_shape, eps=norm.eps)
        self.load_state_dict(norm.state_dict())

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens


def _blocks(encoder: Any) -> tuple[Any, nn.ModuleList]:
    """The module that owns the list of transformer blocks, and that list."""
    owner = next((getattr(encoder, name) for name in ("encoder", "model") if hasattr(encoder, name)), encoder)
    return owner, owner.layer if hasattr(owner, "layer") else owner.layers


def _keep_blocks(encoder: Any, layer: int | None) -> int:
    """Drop the blocks after `layer`, which comes back; None keeps all."""
    owner, blocks = _blocks(encoder)
    layer = checked_layer(layer, len(blocks))
    setattr(owner, "layer" if hasattr(owner, "layer") else "layers", blocks[:layer])
    encoder.config.num_hidden_layers = layer
    return layer


def load_encoder(
    kind: Any,
    location: str,
    *,
    section: str = "",
    prefixes: tuple[str, ...] = (),
    required: tuple[str, ...] = REQUIRED,
    **options: Any,
) -> Any:
    """A transformers model of the weights in a folder, all found and in place, or an error that names what is missing.

    Of a folder that holds more than this model, `section` is the part of the configuration that is about it, if it has
    parts, and `prefixes` are how its weights begin; `required` are the numbers that the configuration must have.
    transformers gets the values and the tensors, not the folder: it would run code, ask questions and follow names.
    """
    path = str(Path(location) / CONFIG)
    config_class = kind.config_class
    names = {name for name in vars(config_class).get("__annotations__", {}) if not name.startswith("_")}
    try:
        values = read_config(location)
        values = values.get(section, values) if isinstance(values.get(section, values), dict) else values
        config = config_class(**checked_settings(values, names, path, required=required))
        _check_activation(config, path)
    except InputError:
        raise
    except Exception as error:  # each version of transformers has its own
        raise InputError(f"{path} is no configuration of a {kind.__name__}: {gist(error)}") from None
    state = {key: value for key, value in read_weights(location).items() if key.startswith(prefixes or "")}
    _check_shape(state, config, location)
    # The mask token is only used in pre-training; some released files leave it out.
    return with_weights(kind, config, state, location, absent=("mask_token",), attn_implementation="sdpa", **options)


def with_weights(
    kind: Any, config: Any, state: Mapping[str, Tensor], location: str, *, absent: Sequence[str], **options: Any
) -> Any:
    """A transformers model with these weights in float32; names that hold one of `absent` may be missing."""
    try:
        encoder, report = kind.from_pretrained(
            None,
            config=config,
            state_dict=state,
            output_loading_info=True,
            dtype=torch.float32,
            trust_remote_code=False,
            **options,
        )
    except (RuntimeError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise InputError(f"{location}: the weights do not fit {CONFIG} of a {kind.__name__}: {gist(error)}") from None
    missing = sorted(key for key in report["missing_keys"] if not any(name in key for name in absent))
    # Heads that come after the encoder are left out; a block must not be.
    unused = sorted(key for key in report["unexpected_keys"] if BLOCK.search(key))
    wrong = missing or sorted(str(key) for key in report["mismatched_keys"]) or unused
    if wrong:
        raise InputError(f"{location} does not hold a complete {kind.__name__}: {len(wrong)} weights, first {wrong[0]}")
    return encoder


def _check_activation(config: Any, path: str) -> None:
    from transformers.activations import ACT2FN

    if config.hidden_act not in ACT2FN:
        raise InputError(
            f"{path}: hidden_act: expected an activation like gelu, got {documents.shown(config.hidden_act)}"
        )
    if config.hidden_size % config.num_attention_heads:
        raise InputError(
            f"{path}: hidden_size {config.hidden_size} must be a multiple of num_attention_heads "
            f"{config.num_attention_heads}"
        )


def _check_shape(state: Mapping[str, Tensor], config: Any, location: str) -> None:
    """Refuse a configuration much larger than the weights, before a network of its size is made."""
    table = next((value for key, value in state.items() if key.endswith("position_embeddings")), None)
    if table is None:
        return
    cells = (config.image_size // config.patch_size) ** 2 + 1
    if tuple(table.shape) not in ((1, cells, config.hidden_size), (1, cells - 1, config.hidden_size)):
        raise InputError(
            f"{location}: the weights do not fit {CONFIG}: position_embeddings has shape {tuple(table.shape)}, "
            f"expected {(1, cells, config.hidden_size)}"
        )


def gist(error: Exception) -> str:
    """A library's message in a line."""
    return " ".join(str(error).split())[:120] or type(error).__name__
