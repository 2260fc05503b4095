"""A vision transformer by torch alone, for inference: DINOv2 with and without registers, and DINO.

transformers takes seconds to import and is needed for training only. A folder in Hugging Face format is read into
this network, and written from it, under the names that files have.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from geco.backbones._contract import FrozenBackbone
from geco.backbones._folder import CONFIG, WEIGHTS, checked_settings, read_config, read_weights
from geco.backbones._tracing import Interpolate, Traceable
from geco.backbones._vit import checked_layer
from geco.errors import InputError
from geco.system import documents
from geco.types import Size

EPS = {"dinov2": 1e-6, "dinov2_with_registers": 1e-6, "vit": 1e-12}  # of a norm, by model type, unless the file says
SETTINGS = {  # of a configuration that decide the network; what else it says is for training
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "mlp_ratio",
    "patch_size",
    "image_size",
    "num_channels",
    "layer_norm_eps",
    "num_register_tokens",
}
PROJECTIONS = {name: name for name in ("query", "key", "value", "output", "fc1", "fc2")}
NAMES = (  # in files and in adapters → here
    (r"^(?:encoder\.layer|layers)\.", "blocks."),
    (r"\.attention\.attention\.", "."),
    (r"\.attention\.output\.dense\.", ".output."),
    (r"\.attention\.q_proj\b", ".query"),
    (r"\.attention\.k_proj\b", ".key"),
    (r"\.attention\.v_proj\b", ".value"),
    (r"\.attention\.o_proj\b", ".output"),
    (r"\.intermediate\.dense\.", ".fc1."),
    (r"(?<=\d)\.output\.dense\.", ".fc2."),
    (r"\.mlp\.", "."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.layer_scale([12])\.lambda1$", r".scale\1"),
    (r"^embeddings\.patch_embeddings\.projection\.", "patches."),
    (r"^embeddings\.", ""),
    (r"^layernorm\.", "norm."),
)

BESIDES = ("cls_token", "register_tokens", "position_embeddings", "patches.", "norm.")  # not mask token, pooler or head


def renamed(name: str) -> str:
    """What a weight of a file, or a module that an adapter adapts, is called in `PlainViT`."""
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name)
    return name


class Block(nn.Module):
    """Attention and MLP, each after a norm and before a scale (1 where there is none)."""

    def __init__(self, width: int, *, heads: int, hidden: int, eps: float, bias: bool, gated: bool) -> None:
        super().__init__()
        self.heads, self.gated = heads, gated
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=bias) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        if gated:
            self.weights_in, self.weights_out = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)
        else:
            self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        """The tokens after this block."""
        y = self.norm1(x)
        layers = self.query, self.key, self.value
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in layers)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = torch.addcmul(x, self.output(y), self.scale1)
        return torch.addcmul(x, self._mlp(self.norm2(x)), self.scale2)

    def _mlp(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        if not self.gated:
            return self.fc2(functional.gelu(self.fc1(x)))
        gate, value = self.weights_in(x).chunk(2, -1)
        return self.weights_out(functional.silu(gate) * value)


class PlainViT(nn.Module):
    """Patches and blocks; `config` is what the folder's file says, for saving the network again."""

    def __init__(self, config: Mapping[str, Any], *, norm: bool, hidden: int, gated: bool, bias: bool) -> None:
        super().__init__()
        width, patch = config["hidden_size"], config["patch_size"]
        self.config, self.registers, self._norm = dict(config), config["num_register_tokens"], norm
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        if self.registers:
            self.register_tokens = nn.Parameter(torch.zeros(1, self.registers, width))
        self.position_embeddings = nn.Parameter(torch.zeros(1, 1 + (config["image_size"] // patch) ** 2, width))
        heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
        self.blocks = nn.ModuleList(
            Block(width, heads=heads, hidden=hidden, eps=eps, bias=bias, gated=gated)
            for _ in range(config["num_hidden_layers"])
        )
        self.norm = nn.LayerNorm(width, eps=eps)
        self._file_names: dict[str, str] = {}

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Patch tokens of normalised images, after the last norm unless it is left out."""
        return self.encode(pixels, self.positions)

    def encode(self, pixels: Float[Tensor, "b 3 h w"], positions: Interpolate) -> Float[Tensor, "b c h2 w2"]:
        """The same with other positions of a grid of patches than torch interpolates."""
        patches = self.patches(pixels)
        count, grid = patches.shape[0], patches.shape[-2:]  # not len(), which tracing would take for a constant
        x = torch.cat([self.cls_token.expand(count, -1, -1), patches.flatten(2).mT], 1)
        x = x + positions(grid)
        if self.registers:
            x = torch.cat([x[:, :1], self.register_tokens.expand(count, -1, -1), x[:, 1:]], 1)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x) if self._norm else x
        return x[:, 1 + self.registers :].mT.unflatten(-1, grid)

    def positions(self, grid: Size) -> Float[Tensor, "1 n c"]:
        """Positions of the class token and of all patches of a grid."""
        table = self.position_embeddings
        side = round((table.shape[1] - 1) ** 0.5)
        if tuple(grid) == (side, side):
            return table
        patches = table[:, 1:].mT.unflatten(-1, (side, side)).float()  # half precision shifts what is interpolated
        patches = functional.interpolate(
            patches, size=tuple(grid), mode="bicubic", align_corners=False, antialias=self.antialias
        )
        return torch.cat([table[:, :1], patches.flatten(2).mT.to(table.dtype)], 1)

    @property
    def antialias(self) -> bool:
        """Whether positions are interpolated as DINOv2's authors do for networks with registers."""
        return self.config["model_type"] == "dinov2_with_registers"

    def keep(self, count: int) -> None:
        """Drop all blocks but the first `count`."""
        self.blocks = self.blocks[:count]
        self.config["num_hidden_layers"] = count
        there = self.state_dict().keys()
        self._file_names = {file: name for file, name in self._file_names.items() if name in there}

    def save_pretrained(self, folder: str) -> None:
        """Write the network as the folder that it was read from: transformers opens it too."""
        save_file(self.as_files(), Path(folder) / WEIGHTS[0], metadata={"format": "pt"})
        (Path(folder) / CONFIG).write_text(json.dumps(self.config, indent=2, sort_keys=True), encoding="utf-8")

    def as_files(self) -> dict[str, Tensor]:
        """The weights under the names that files have."""
        state = self.state_dict()
        return {file: state[name].detach().cpu().contiguous() for file, name in self._file_names.items()}

    @classmethod
    def read(cls, folder: str, config: dict[str, Any], *, layer: int, norm: bool) -> "PlainViT":
        """The network of a folder, its blocks after `layer` left out; weights that do not fit are named."""
        state, names = _state(folder, layer)
        first = {name: value for name, value in state.items() if name.startswith("blocks.0.")}
        gated = "blocks.0.weights_in.weight" in first
        mlp = first.get("blocks.0.weights_out.weight" if gated else "blocks.0.fc2.weight")
        hidden = mlp.shape[1] if mlp is not None and mlp.ndim == 2 else 1
        config = {**config, "num_hidden_layers": layer}
        with torch.device("meta"):
            network = cls(config, norm=norm, hidden=hidden, gated=gated, bias="blocks.0.query.bias" in first)
        expected = network.state_dict()
        scales = {name: torch.ones(config["hidden_size"]) for name in expected if re.search(r"\.scale[12]$", name)}
        state = {**scales, **state} if config["model_type"] == "vit" else state
        wrong = sorted(expected.keys() ^ state.keys()) or sorted(
            name for name in expected if expected[name].shape != state[name].shape
        )
        if wrong:
            raise InputError(
                f"{folder}: the weights do not fit {CONFIG}: {len(wrong)} of them, first {documents.shown(wrong[0])}"
            )
        network.load_state_dict(state, assign=True)
        network._file_names = names
        return network


def _state(folder: str, layer: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Weights by our names, in single precision, and our name of each name in the file."""
    state, names = {}, {}
    for file, value in read_weights(folder).items():
        name = renamed(re.sub(r"^(dinov2|dinov2_with_registers|vit)\.", "", file))
        block = re.match(r"blocks\.(\d+)\.", name)
        wanted = int(block[1]) < layer if block else name.startswith(BESIDES)
        if wanted:
            state[name], names[file] = value.float(), name
    return state, names


class PlainBackbone(FrozenBackbone):
    """`PlainViT` as a backbone; adapters cannot be trained in it, only merged."""

    adaptable: Mapping[str, str] = PROJECTIONS

    def __init__(self, network: PlainViT, *, layer: int, norm: bool) -> None:
        super().__init__(network, dim=network.config["hidden_size"], stride=network.config["patch_size"])
        self.options = {"layer": layer, "norm": norm}

    def projections(self, names: Sequence[str]) -> dict[str, nn.Linear]:
        """The projections of these names in every block, by their names in the network."""
        blocks = list(self.encoder.blocks)
        return {f"blocks.{n}.{name}": getattr(block, name) for n, block in enumerate(blocks) for name in names}

    def cut(self, layer: int) -> None:
        """Drop the blocks after this one, counted from 1."""
        layer = checked_layer(layer, len(self.encoder.blocks))
        self.encoder.keep(layer)
        self.options = {**self.options, "layer": layer}

    def name_of(self, module: str) -> str:
        """What a module that an adapter of transformers' network names is called here."""
        return renamed(module)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Patch tokens of normalised images whose sides are multiples of the patch."""
        height, width = pixels.shape[-2:]
        if height % self.multiple or width % self.multiple or not height or not width:
            raise InputError(
                f"image sides must be multiples of {self.multiple}, got {height}×{width}; use images.prepare() first"
            )
        return self.encoder(pixels)

    def traceable(self, size: Size | None = None) -> Traceable:
        """The network as a module that can be traced once for all sizes, or for images of this one alone."""
        network = self.encoder
        fixed = None if size is None else network.positions((size[0] // self.stride, size[1] // self.stride))
        return Traceable(network, network.position_embeddings, antialias=network.antialias, fixed=fixed)


def load_plain(location: str, *, layer: int | None, norm: bool, from_last: int = 0) -> PlainBackbone | None:
    """The vision transformer in a folder by torch alone; None for one that only transformers can run.

    `layer` None is the last block, or `from_last` blocks before it.
    """
    values, path = read_config(location), str(Path(location) / CONFIG)
    kind = values["model_type"]
    if kind not in EPS or values.get("hidden_act", "gelu") != "gelu":
        return None
    settings = {"layer_norm_eps": EPS[kind], **checked_settings(values, SETTINGS, path)}
    registers = settings.get("num_register_tokens", 4) if kind == "dinov2_with_registers" else 0
    if settings["hidden_size"] % settings["num_attention_heads"]:
        return None  # transformers' own words
    depth = settings["num_hidden_layers"]
    layer = checked_layer(max(1, depth - from_last) if layer is None else layer, depth)
    if not isinstance(norm, bool):
        raise InputError(f"norm must be true or false, got {documents.shown(norm)}")
    config = {**values, **settings, "num_register_tokens": registers}
    network = PlainViT.read(location, config, layer=layer, norm=norm)
    return PlainBackbone(network, layer=layer, norm=norm)
