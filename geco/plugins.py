"""Plug-ins: a file in geco/datasets, backbones, benchmarks or cli is a plug-in of that name; no list to edit."""

import importlib
import pkgutil
from difflib import get_close_matches
from types import ModuleType


def names(package: str) -> list[str]:
    """Names of the plug-ins of `geco.<package>`, without importing any of them."""
    path = importlib.import_module(f"geco.{package}").__path__
    return sorted(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))


def find(package: str, name: str) -> ModuleType:
    """The module `geco.<package>.<name>`; hyphens and upper case are forgiven, a typo lists the choices."""
    wanted = name.lower().replace("-", "_")
    choices = names(package)
    by_letters = {choice.replace("_", ""): choice for choice in choices}
    choice = by_letters.get(wanted.replace("_", ""))
    if choice is None:
        near = get_close_matches(wanted, choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{package} has no {name!r}{hint} Choices: {', '.join(choices)}")
    return importlib.import_module(f"geco.{package}.{choice}")
