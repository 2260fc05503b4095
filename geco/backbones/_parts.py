"""Backbones put together from parts: what the parts are, the manifest of a folder that names them, and their files.

The manifest is `parts.json`, whose paths are relative to it:

    {"model": "sphere", "parts": {"mapper": "200.pth", "dinov2": "facebook/dinov2-base"}}

A part that it does not name is the default one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch.nn import Module

from geco.errors import GecoError, InputError
from geco.system import documents, plugins, tensors

MANIFEST = "parts.json"  # names the files of a model of several parts
KEYS = {"model", "parts"}
WRAPPERS = ("model", "state_dict", "model_state_dict")  # what training programs put a state dict into


@dataclass(frozen=True)
class Part:
    """A part of a backbone: what it is, and where it comes from if no manifest names it.

    A part is a backbone of ours (`backbone`), a folder that can be fetched from the hub (`files`), or a checkpoint.
    """

    what: str  # for people: "the mapper of SphericalMaps"
    default: str | None = None  # name or hub id; None: a user has to have it
    backbone: bool = False  # found like any model: short name, hub id, folder or original file
    files: tuple[str, ...] = ()  # what is fetched of a hub repository, as patterns
    optional: bool = False
    recognise: Callable[[Mapping[str, Tensor]], bool] | None = None  # whether a state dict is one of it, by its keys
    home: str = ""  # where the public has it


@dataclass(frozen=True)
class Manifest:
    """Which model a folder holds, and where its parts are: paths, names or hub ids."""

    path: Path
    model: str  # a short name
    parts: Mapping[str, str]


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of a folder; the names of models and parts in it are checked later."""
    path = Path(folder) / MANIFEST
    values = documents.read(path, expected="the parts of a model")
    unknown = sorted(set(values) - KEYS)
    if unknown:
        raise InputError(f"{path}: expected the keys model and parts, got {documents.shown(unknown[0])}")
    model, parts = values.get("model"), values.get("parts", {})
    if not isinstance(model, str):
        raise InputError(f"{path}: model: expected a short name like sphere, got {documents.shown(model)}")
    if not isinstance(parts, dict):
        raise InputError(f"{path}: parts: expected names of parts and where they are, got {documents.shown(parts)}")
    for name, place in parts.items():
        if not isinstance(place, str) or not place.strip() or "\0" in place:
            raise InputError(f"{path}: parts.{name}: expected a path, name or hub id, got {documents.shown(place)}")
    return Manifest(path, model, parts)


def read_part(path: str | Path, part: Part) -> dict[str, Tensor]:
    """The state dict of a part's checkpoint; a file of something else is named as what it is."""
    state = unwrapped(path, expected=part.what)
    if part.recognise is not None and not part.recognise(state):
        raise InputError(f"{path} is {kind(state)}; expected {part.what}")
    tensors.check_floating(state, str(path))
    return state


def unwrapped(path: str | Path, *, expected: str) -> dict[str, Tensor]:
    """Names → tensors of a checkpoint, also of one that keeps them under model or state_dict; nothing is executed."""
    if Path(path).suffix == ".safetensors":
        return tensors.read_state(path, expected=expected)
    values = tensors.read_torch(path, expected=expected)
    inner = [values[name] for name in WRAPPERS if isinstance(values, dict) and isinstance(values.get(name), dict)]
    return tensors.checked_state(inner[0] if inner else values, str(path))


def fill(network: Module, state: Mapping[str, Tensor], *, known: Collection[str] = (), name: str, what: str) -> None:
    """Put weights into a network made on the meta device, in float32: all that it has, of the right shapes, no others.

    Weights that are `known`, as those of a part that was cut off are, may be there and are left out. `name` and `what`
    are for messages: the file, and what it should hold.
    """
    expected = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    foreign = set(state) - set(expected) - set(known)
    for words, keys in (("has no", foreign), ("needs", set(expected) - set(state))):
        if keys:
            raise InputError(f"{name}: {what} {words} {min(keys)!r} ({len(keys)} such keys)")
    for key, shape in expected.items():
        if tuple(state[key].shape) != shape:
            raise InputError(f"{name}: {key} has shape {tuple(state[key].shape)}, expected {shape}")
    network.load_state_dict({key: state[key].float() for key in expected}, assign=True)
    network.eval().requires_grad_(False)


def kind(state: Mapping[str, Tensor]) -> str:
    """What a state dict looks like, for people: a checkpoint or a part of one of the families, or its first keys."""
    for family in plugins.names("backbones"):
        module = plugins.find("backbones", family)
        for part in getattr(module, "PARTS", {}).values():
            if part.recognise is not None and part.recognise(state):
                return part.what
        if _is_converted(getattr(module, "convert", None), state):
            return f"an original checkpoint of {family}"
    keys = documents.listed(list(state)[:3])
    return f"a file of other tensors, whose keys begin with {keys}" if keys else "a file without any tensor"


def _is_converted(convert: Callable[..., object] | None, state: Mapping[str, Tensor]) -> bool:
    try:
        return convert is not None and convert(state) is not None
    except (GecoError, ValueError, LookupError, RuntimeError, TypeError):  # the family's keys, of other shapes
        return True
