"""Where weights come from: packaged models, a model hub, a local folder, an original .pth, or a pip package.

Every source ends as a place in Hugging Face format (a folder or a hub id) that a backbone plug-in can load. Converted
weights are written once, as safetensors, into the user's cache (`GECO_CACHE`, or the system's cache folder).
"""

import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import Tensor

from geco.backbones import MANIFEST, Backbone, PlainBackbone, Source, read_config, read_manifest, unwrapped
from geco.errors import DISTRIBUTION, FileError, GecoError, InputError, needing
from geco.models import cache, hub, originals, packages, places, saving, shipped
from geco.models.cache import cache_folder
from geco.models.names import as_path, checked_name, looks_like_hub_id
from geco.models.places import Place
from geco.models.quiet import QuietTransformers
from geco.models.settings import EncoderConfig
from geco.models.shipped import CONFIG_FILE, packaged
from geco.system import codec, documents, files, plugins, tensors

ADAPTER_FILES = (CONFIG_FILE, "adapter_config.json", "adapter_model.safetensors")
RUN_MODELS = ("best", "last")  # subfolders of a training run, the first that is there is taken
WAYS_OUT = (
    f"Three ways out: (1) pip install '{DISTRIBUTION}[backbone]' and use focus-small; "
    "(2) connect once, so that the hub's files are cached; "
    "(3) give a local folder or an original dinov2_vit*14_pretrain.pth"
)


# --- backbones --------------------------------------------------------------------------------------------------------


def sources() -> dict[str, tuple[str, Source]]:
    """Every backbone that has a short name: its plug-in, and where it comes from."""
    return {
        name: (family, source)
        for family in plugins.names("backbones")
        for name, source in plugins.find("backbones", family).SOURCES.items()
    }


def locate(name: str) -> Place:
    """The place of a backbone given by short name, local folder, original file or hub id."""
    try:
        return _located(name)
    except hub.HubError as error:
        raise FileError(f"{error}. {WAYS_OUT}") from None


def _located(name: str) -> Place:
    name = checked_name(name)
    known = sources()
    if name in known:
        return _named(name, *known[name])
    path = shipped.folder_named(name) or as_path(name)
    if path.is_dir():
        cache.check(path)
        if (path / MANIFEST).exists():
            return places.from_manifest(read_manifest(path), known, locate=_located)
        if not (path / "config.json").exists():
            raise InputError(f"{path} has no config.json; expected a model folder in Hugging Face format")
        return _in_folder(path, note="")
    if path.exists():
        documents.check_file(path, expected="an original checkpoint")
        if path.suffix.lower() in (".onnx", ".xml"):
            raise InputError(
                f"{path} is an exported model, for inference only; geco.load and -m take it, training cannot"
            )
        return _original(path)
    if looks_like_hub_id(name):
        folder = _on_hub(name)
        if (folder / MANIFEST).is_file() and not (folder / "config.json").exists():
            return places.from_manifest(places.fetched(name), known, locate=_located)
        return _in_folder(folder, note=f"from the model hub, {name}")
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    local = [*packaged(), *(short for short, (_, source) in known.items() if source.hub is None and not source.home)]
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
    where = place.parts if places.parts_of(place.family) else place.location
    options = {**place.source.options, **options}
    backbone = plugin.load_light(where, **options) if light and hasattr(plugin, "load_light") else None
    if backbone is None:
        with QuietTransformers(), needing(f"loading {place.source.origin if not place.location else place.location}"):
            backbone = load(where, **options)
    if not isinstance(backbone, PlainBackbone):  # whose file has been checked; others may have read theirs themselves
        tensors.check_finite(dict(backbone.encoder.named_parameters()), place.location or place.family)
    return backbone


def is_available(name: str) -> bool:
    """Whether a backbone with a short name can be loaded without a network: installed, or its files cached."""
    family, source = sources()[name]
    if places.parts_of(family):
        return _is_composed(name)
    if source.packaged is not None:
        cached = (cache_folder() / name / cache.CHECKSUMS).is_file()
        return cached or importlib.util.find_spec(source.packaged.package) is not None
    if source.original:
        return originals.is_there(source)
    if source.hub is None:
        return True
    from huggingface_hub import try_to_load_from_cache

    return any(
        isinstance(try_to_load_from_cache(source.hub, file), str) for file in ("model.safetensors", "pytorch_model.bin")
    )


def _is_composed(name: str) -> bool:
    """Whether all parts of a model can be had without a network."""
    with hub.offline():
        try:
            return bool(_located(name).parts)
        except GecoError:
            return False


def _named(name: str, family: str, source: Source) -> Place:
    if places.parts_of(family):
        folder = cache_folder() / name  # may hold a manifest that says where the parts are
        manifest = read_manifest(folder) if (folder / MANIFEST).exists() else None
        return places.composed(
            name,
            family,
            source,
            given=manifest.parts if manifest else {},
            manifest=manifest.path if manifest else None,
            locate=_located,
        )
    if source.packaged is not None:
        folder = packages.converted(name, source.packaged, note=source.note, ways_out=WAYS_OUT)
        return Place(family, str(folder), source, source.note)
    if source.original:
        return replace(_located(str(originals.find(name, source))), source=source, note=source.note)
    if source.hub is not None:
        return Place(family, str(_on_hub(source.hub)), source, source.note or f"from the model hub, {source.hub}")
    return Place(family, "", source, source.note)


def _in_folder(folder: Path, *, note: str) -> Place:
    """A folder in Hugging Face format, loaded by the plug-in that names its model type."""
    config = read_config(folder)
    family, plugin = _plugin_of(config["model_type"], folder)
    default = getattr(plugin, "DEFAULT", Source())
    note = note or str(config.get(saving.NOTE) or f"local folder {folder}")
    return Place(family, str(folder), default(str(folder)) if callable(default) else default, note)


def _plugin_of(kind: str, folder: Path) -> tuple[str, Any]:
    """The plug-in that loads a model type, and its name; those that have to ask transformers come last."""
    families = {family: plugins.find("backbones", family) for family in plugins.names("backbones")}
    known: list[str] = []
    for family, plugin in sorted(families.items(), key=lambda item: "MODEL_TYPES" not in vars(item[1])):
        with needing(f"a {documents.shown(kind)} model"):
            types = getattr(plugin, "MODEL_TYPES", ())
        if kind in types:
            return family, plugin
        known += types
    choices = documents.listed(sorted(known, key=lambda name: ("dino" not in name, name)))
    raise InputError(f"{folder} holds a {documents.shown(kind)} model; expected one of {choices}")


def _on_hub(name: str) -> Path:
    """The folder of a backbone's files on the hub, or of a manifest."""
    folder = hub.fetch(name, ["config.json", "model.safetensors"], optional=["preprocessor_config.json", MANIFEST])
    if not list(folder.glob("*.safetensors")) and not (folder / MANIFEST).is_file():
        folder = hub.fetch(name, ["config.json", "pytorch_model.bin"])  # older repositories have nothing else
    if not (folder / "config.json").is_file() and not (folder / MANIFEST).is_file():
        raise hub.HubError(f"{name} on the hub has no config.json, so it is no backbone")
    return folder


def _original(path: Path) -> Place:
    """The place of a family's original checkpoint, converted once per file content, or of a part of a backbone."""
    try:
        digest, size = files.sha256(path), path.stat().st_size
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    folder, note = cache_folder() / f"{path.stem[:100]}-{digest[:12]}", f"converted from {path.name}"
    if cache.is_whole(folder):
        return _in_folder(folder, note=note)
    state = unwrapped(path, expected="a checkpoint of plain tensors")
    for family in plugins.names("backbones"):
        for label, part in places.parts_of(family).items():
            if part.recognise is not None and part.recognise(state):
                name, source = next(iter(plugins.find("backbones", family).SOURCES.items()))
                return places.composed(name, family, source, given={label: str(path)}, manifest=None, locate=_located)
    return _in_folder(cache.store(folder, lambda: _converted(state, path), origin=digest, room=size), note=note)


def _converted(state: dict[str, Tensor], path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and configuration in Hugging Face format of a family's original checkpoint."""
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


def default_model() -> str:
    """The best model that needs no network: a packaged one, else the bare pip backbone."""
    return next(iter(packaged()), "focus-small")


def find_adapter(name: str | Path) -> Path | None:
    """Folder of the adapter or whole model called `name` (packaged, local, run or hub id); None of a bare backbone."""
    name = checked_name(name)
    if (folder := shipped.folder_named(name)) is not None:
        return folder
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
