"""Merged weights, kept in the cache: an adapter is added to its backbone once, later starts map one verified file.

Only for backbones that are themselves in the cache, converted from a pinned file: their checksums, the adapter's and
the release say what the merged weights are, without reading the backbone.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from geco import __version__
from geco.backbones import PlainBackbone, load_plain, read_config
from geco.errors import GecoError
from geco.models import cache, saving
from geco.models.settings import EncoderConfig
from geco.system import codec, files

NOTE = saving.NOTE


def folder_of(adapter: Path, weights: str, config: EncoderConfig) -> Path | None:
    """Where the merged weights of an adapter's folder are, or would be; None if they are not kept."""
    if config.lora is None or Path(config.backbone).name != config.backbone:
        return None
    try:
        checksums = (cache.cache_folder() / config.backbone / cache.CHECKSUMS).read_bytes()
        digest = hashlib.sha256(checksums + files.sha256(adapter / weights).encode())
    except (GecoError, OSError, ValueError):
        return None
    # Size, ratio and threshold do not change the weights.
    same = replace(config, size=1, aspect="squash", threshold=0.0, resize="bilinear", base="")
    digest.update(json.dumps([__version__, codec.as_dict(same)], sort_keys=True).encode())
    return cache.cache_folder() / f"{config.backbone}-merged-{digest.hexdigest()[:16]}"


def load(folder: Path | None, config: EncoderConfig) -> tuple[PlainBackbone, str] | None:
    """The backbone with the adapter in it and its note; None if they are not in the cache, or damaged there."""
    if folder is None or not {"layer", "norm"} <= set(config.options) or not cache.is_whole(folder):
        return None
    try:
        backbone = load_plain(str(folder), layer=config.options["layer"], norm=config.options["norm"])
        note = read_config(folder).get(NOTE)
    except GecoError:  # of another layout: it is merged again
        return None
    if backbone is None or not isinstance(note, str):
        return None
    backbone.encoder.config.pop(NOTE, None)
    return backbone, note


def keep(folder: Path | None, backbone: PlainBackbone, note: str, *, origin: str) -> None:
    """Put merged weights into the cache; where that is not possible, the next start merges again."""
    if folder is None:
        return
    network = backbone.encoder
    try:
        cache.store(folder, lambda: (network.as_files(), {**network.config, NOTE: note}), origin=origin)
    except (GecoError, OSError):
        return
