"""Models to disk: an adapter in PEFT's layout, or the whole network in Hugging Face format; with our configuration."""

import json
import stat
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from geco.errors import FileError, InputError
from geco.models import cache, shipped
from geco.models.names import as_path
from geco.models.quiet import QuietTransformers
from geco.models.settings import WHOLE, EncoderConfig
from geco.system import codec, documents, files, tensors

NOTE = "geco_note"  # in the config.json of whole weights: what people are told of the backbone they come from
CARD, NOTICE = "README.md", "NOTICE"


def write(
    encoder: Any, folder: Path, config: EncoderConfig, *, note: str, card: str, precision: torch.dtype | None
) -> Path:
    """A network as a model folder; `geco.json`, which makes it a model, comes last."""
    files.make_folder(folder)
    whole = config.backbone == WHOLE
    # Otherwise PEFT looks the backbone up on the hub, to see whether its vocabulary has grown.
    options = {} if whole else {"save_embedding_layers": False}
    try:
        # Without transformers imported, the network is not one of theirs.
        with QuietTransformers() if "transformers" in sys.modules else nullcontext():
            encoder.save_pretrained(str(folder), **options)
        if whole:
            (folder / cache.CHECKSUMS).unlink(missing_ok=True)  # of what was there before
            _tell(folder / cache.CONFIG, note if config.base else "")
        if precision is not None:
            store_as(folder / cache.WEIGHTS, precision)
        files.replace_text(folder / CARD, card)
        files.replace_text(folder / shipped.CONFIG_FILE, config.to_json())
    except (OSError, SafetensorError) as error:
        if isinstance(error, FileError):
            raise
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:80]
        raise FileError(f"the model cannot be saved to {folder}: {reason}; give another folder") from None
    return folder


def _tell(path: Path, note: str) -> None:
    """Put the note into a network's config.json, in place of another."""
    values = documents.read(path, expected="the configuration of a network")
    values.pop(NOTE, None)
    values = {**values, NOTE: note} if note else values
    files.replace_text(path, json.dumps(values, indent=2, sort_keys=True))


def store_as(path: Path, precision: torch.dtype) -> None:
    """A file of weights with its matrices in another precision; vectors stay as they are.

    Norms, biases and scales are half a percent of a vision transformer, and half of what rounding all of it changes.
    """
    state, metadata = tensors.read_safetensors(path, expected="the weights of a model")
    stored = {name: value.to(precision) if value.ndim > 1 else value for name, value in state.items()}
    for name, value in stored.items():
        if not bool(torch.isfinite(value).all()):
            kind = str(precision).removeprefix("torch.")
            raise InputError(f"{path}: {documents.shown(name)} has numbers too large for {kind}; save it in float32")
    files.replace(path, lambda draft: save_file(_contiguous(stored), draft, metadata=metadata))


def _contiguous(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.contiguous() for name, value in state.items()}


def seal(folder: Path, *, notice: str = "") -> None:
    """Finish the folder of a whole model: what licences ask to be kept with it, and checksums for loading to verify."""
    if notice:
        files.replace_text(folder / NOTICE, notice)
    readable = (folder / cache.CONFIG).stat().st_mode  # safetensors makes its files readable by the owner only
    (folder / cache.WEIGHTS).chmod(stat.S_IMODE(readable))
    cache.note_checksums(folder)


def trained_from(backbone: str) -> str:
    """The backbone at the beginning: of a whole model that was trained further, what that was trained from."""
    folder = shipped.folder_named(backbone) or as_path(backbone)
    if not (folder / shipped.CONFIG_FILE).is_file():
        return backbone
    config = codec.read(EncoderConfig, folder / shipped.CONFIG_FILE)
    return config.base if config.backbone == WHOLE and config.base else backbone
