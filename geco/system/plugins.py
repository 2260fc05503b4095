"""Plug-ins: a module in geco/datasets, backbones or cli, or an entry point of another package; no list to edit.

A third party's package names its module in its pyproject.toml, and geco finds it by that name:

    [project.entry-points."geco.datasets"]
    zebras = "my_package.zebras"
"""

import importlib
import pkgutil
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from geco.errors import InputError
from geco.system import documents

OPEN = ("datasets", "backbones")  # rooms that other packages may add to


def names(room: str) -> list[str]:
    """Names of the plug-ins of a room, without importing any of them."""
    return sorted({*_own(room), *_foreign(room)})


def spelled(room: str, name: str) -> str:
    """The plug-in's name as it is written; hyphens and upper case are forgiven, a typo lists the choices."""
    if not isinstance(name, str):
        raise InputError(f"{room} are chosen by name, got {documents.shown(name)}")
    wanted = name.lower().replace("-", "_")
    choices = names(room)
    by_letters = {_letters(choice): choice for choice in choices}
    choice = by_letters.get(_letters(wanted))
    if choice is None:
        near = get_close_matches(wanted, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(f"{room} has no {documents.shown(name)}{hint} Choices: {documents.listed(choices)}")
    return choice


def find(room: str, name: str) -> ModuleType:
    """The plug-in of this name, however it is `spelled`."""
    own = _own(room)
    choice = name if name in own else spelled(room, name)  # other packages are asked only if need be: it takes a while
    if choice in own:  # another package cannot replace one of ours
        return importlib.import_module(f"geco.{room}.{choice}")
    try:
        module = _foreign(room)[choice].load()
    except Exception as error:  # another package's code
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise InputError(
            f"the plug-in {choice!r} of geco.{room} cannot be imported: {reason}; uninstall or mend it"
        ) from None
    if not isinstance(module, ModuleType):
        raise InputError(f"the entry point {choice!r} of geco.{room} must name a module, got {module!r}")
    return module


def _own(room: str) -> list[str]:
    path = importlib.import_module(f"geco.{room}").__path__
    return [module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_")]


def _foreign(room: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"geco.{room}")} if room in OPEN else {}


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
