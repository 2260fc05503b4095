"""Model folders in Hugging Face format, read and checked by us: transformers is handed values and tensors, no files.

So a folder can neither bring code of its own nor make transformers look anywhere else.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from geco.errors import InputError, MissingFileError
from geco.system import documents, tensors

CONFIG = "config.json"
EXPECTED_CONFIG = "the configuration of a model in Hugging Face format"
EXPECTED_WEIGHTS = "the weights of a model"
WEIGHTS = (  # the first that is there is read; diffusers has names of its own
    "model.safetensors",
    "pytorch_model.bin",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin",
)
CODE = ("auto_map", "custom_pipelines")  # keys of a configuration that name code to be run
COMPRESSED = ("quantization_config", "compression_config")  # … and weights that are not plain numbers
POSITIVE = {  # whole numbers of a configuration, and the largest that is no mistake
    "hidden_size": 2**15,
    "num_hidden_layers": 2**9,
    "num_attention_heads": 2**9,
    "intermediate_size": 2**18,
    "mlp_ratio": 2**7,
    "patch_size": 2**10,
    "image_size": 2**14,
    "num_channels": 3,
    "projection_dim": 2**15,
    "vocab_size": 2**20,
    "max_position_embeddings": 2**12,
}
REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size")
SHARES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "drop_path_rate")
COUNTER = "num_batches_tracked"  # of batch norms: the only weights that are whole numbers
BLOCK = re.compile(r"(^|\.)layers?\.\d+\.")


def read_config(folder: str | Path) -> dict[str, Any]:
    """The configuration in a model folder; one that asks for code to be run is refused.

    Its `model_type` is always there: where diffusers wrote it, the `_class_name`.
    """
    path = Path(folder) / CONFIG
    values = documents.read(path, expected=EXPECTED_CONFIG)
    for key in CODE:
        if values.get(key):
            raise InputError(f"{path}: {key} asks for code of the folder's own to be run; geco runs none, use another")
    for key in COMPRESSED:
        if values.get(key):
            raise InputError(f"{path}: {key}: expected plain weights, got compressed ones; use the original model")
    kind = values.get("model_type", values.get("_class_name"))
    if not isinstance(kind, str):
        raise InputError(f"{path}: model_type: expected text, got {documents.shown(kind)}")
    return {**values, "model_type": kind}


def checked_settings(
    values: dict[str, Any], names: set[str], path: str, *, required: tuple[str, ...] = REQUIRED
) -> dict[str, Any]:
    """The values of these names, which decide a transformer's shape, with numbers in sensible ranges."""
    settings = {name: value for name, value in values.items() if name in names and value is not None}
    for name in ("patch_size", "image_size"):  # some write both sides
        sides = settings.get(name)
        if isinstance(sides, list) and len(sides) == 2 and sides[0] == sides[1]:
            settings[name] = sides[0]
    for name in required:
        if name not in settings:
            raise InputError(f"{path}: expected the key {name}, which is missing")
    for name, most in POSITIVE.items():
        value = settings.get(name, 1)
        if isinstance(value, float) and value.is_integer():
            value = settings[name] = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InputError(f"{path}: {name}: expected a whole number from 1 to {most}, got {documents.shown(value)}")
    for name in SHARES:
        value = settings.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InputError(f"{path}: {name}: expected a number from 0 to 1, got {documents.shown(value)}")
    eps = settings.get("layer_norm_eps", 1e-6)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 0.1:
        raise InputError(f"{path}: layer_norm_eps: expected a number between 0 and 0.1, got {documents.shown(eps)}")
    registers = settings.get("num_register_tokens", 0)
    if isinstance(registers, bool) or not isinstance(registers, int) or not 0 <= registers <= 2**10:
        raise InputError(
            f"{path}: num_register_tokens: expected a whole number from 0 to 1024, got {documents.shown(registers)}"
        )
    return settings


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """The tensors of a model folder, in one file or several, all finite."""
    folder = Path(folder)
    for file in WEIGHTS:
        index = folder / f"{file}.index.json"
        if (folder / file).exists():
            paths = [folder / file]
        elif index.exists():
            paths = _shards(index)
        else:
            continue
        state: dict[str, Tensor] = {}
        for path in paths:
            state |= tensors.read_state(path, expected=EXPECTED_WEIGHTS)
        # Older versions of transformers wrote down that positions are 0, 1, 2, …
        state = {key: value for key, value in state.items() if not key.endswith("position_ids")}
        counters = tuple(key for key in state if key.endswith(COUNTER))
        tensors.check_floating({key: value for key, value in state.items() if key not in counters}, str(folder))
        return state
    raise MissingFileError(
        f"{folder} has no {' or '.join(WEIGHTS[:2])}; expected {EXPECTED_WEIGHTS} beside its {CONFIG}"
    )


def _shards(index: Path) -> list[Path]:
    """The files that an index names, which lie beside it."""
    table = documents.read(index, expected="the index of a model's files").get("weight_map")
    if not isinstance(table, dict) or not table:
        raise InputError(
            f"{index}: weight_map: expected names of weights and their files, got {documents.shown(table)}"
        )
    names = list(table.values())
    for name in names:
        if not isinstance(name, str) or PurePosixPath(name).name != name or "\\" in name:
            raise InputError(f"{index}: weight_map: expected files beside it, got {documents.shown(name)}")
    return [index.parent / name for name in sorted(set(names))]
