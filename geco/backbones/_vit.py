"""What the vision-transformer backbones share: a frozen encoder cut off after the block that is read."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Our word for a projection → its name inside transformers' attention and MLP modules.
PROJECTIONS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "o_proj",
    "fc1": "fc1",
    "fc2": "fc2",
}


class Backbone(nn.Module):
    """Frozen encoder, (b, 3, h, w) → patch tokens (b, c, h/patch, w/patch) after the final norm, or before it.

    Blocks after `layer` are dropped, not just ignored, so reading layer 11 of 12 also costs 11/12.
    """

    projections: Mapping[str, str] = PROJECTIONS

    def __init__(
        self,
        encoder: Any,
        *,
        layer: int | None,
        norm: bool = True,
        prefix_tokens: int,
        options: dict[str, Any],
    ) -> None:
        super().__init__()
        owner, blocks = _blocks(encoder)
        depth = len(blocks)
        self.layer = depth if layer is None else layer
        if not 1 <= self.layer <= depth:
            raise ValueError(f"layer must be between 1 and {depth} for this backbone, got {self.layer}")
        setattr(owner, "layer" if hasattr(owner, "layer") else "layers", blocks[: self.layer])
        encoder.config.num_hidden_layers = self.layer
        self.norm = norm
        if not norm:
            encoder.layernorm = _Bypassed(encoder.layernorm)
        self.encoder = encoder.eval().requires_grad_(False)
        self.dim: int = encoder.config.hidden_size
        self.patch: int = encoder.config.patch_size
        self.prefix_tokens = prefix_tokens
        self.options = options

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Patch tokens of normalised images whose sides are multiples of the patch."""
        height, width = images.shape[-2:]
        if height % self.patch or width % self.patch or not height or not width:
            raise ValueError(
                f"image sides must be multiples of {self.patch}, got {height}×{width}; use images.prepare() first"
            )
        tokens = self.encoder(pixel_values=images, **self.options).last_hidden_state[:, self.prefix_tokens :]
        return tokens.mT.unflatten(-1, (height // self.patch, width // self.patch))

    def train(self, mode: bool = True) -> "Backbone":
        """Stay in evaluation mode: the backbone is frozen, and its stochastic depth would change its features."""
        return super().train(False)


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
        raise ValueError(f"{location} does not hold a complete {kind.__name__}: {len(wrong)} weights, first {wrong[0]}")
    return encoder
