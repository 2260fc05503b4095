"""What the vision-transformer backbones share: a frozen encoder cut off after the block that is read."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geco.backbones._contract import FrozenBackbone
from geco.errors import InputError

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

    def __init__(
        self,
        encoder: Any,
        *,
        layer: int | None,
        norm: bool = True,
        prefix_tokens: int,
        arguments: Mapping[str, Any] = {},
    ) -> None:
        owner, blocks = _blocks(encoder)
        layer = _checked_layer(layer, len(blocks))
        if not isinstance(norm, bool):
            raise InputError(f"norm must be true or false, got {norm!r}")
        setattr(owner, "layer" if hasattr(owner, "layer") else "layers", blocks[:layer])
        encoder.config.num_hidden_layers = layer
        if not norm:
            encoder.layernorm = _Bypassed(encoder.layernorm)
        super().__init__(encoder, dim=encoder.config.hidden_size, stride=encoder.config.patch_size)
        self.options = {"layer": layer, "norm": norm}
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


def _checked_layer(layer: int | None, depth: int) -> int:
    layer = depth if layer is None else layer
    if isinstance(layer, bool) or not isinstance(layer, int) or not 1 <= layer <= depth:
        raise InputError(f"layer must be between 1 and {depth} for this backbone, got {layer}")
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
    owner = encoder.encoder if hasattr(encoder, "encoder") else encoder
    return owner, owner.layer if hasattr(owner, "layer") else owner.layers


def load_encoder(kind: Any, location: str, **options: Any) -> Any:
    """A transformers model with every weight found, or an error that names what is missing."""
    encoder, report = kind.from_pretrained(
        location, output_loading_info=True, attn_implementation="sdpa", dtype=torch.float32, **options
    )
    # The mask token is only used in pre-training; some released files leave it out.
    missing = sorted(key for key in report["missing_keys"] if not key.endswith("mask_token"))
    if missing or report["mismatched_keys"]:
        wrong = missing or sorted(str(key) for key in report["mismatched_keys"])
        raise InputError(f"{location} does not hold a complete {kind.__name__}: {len(wrong)} weights, first {wrong[0]}")
    return encoder
