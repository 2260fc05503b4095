"""Lazy packages: their public names, each imported when it is first used (PEP 562)."""

import ast
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any


def door(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package whose public names stand in its `if TYPE_CHECKING:` block.

    The block tells type checkers and editors what the names are; reading it here saves a second list that could
    differ (as in scientific Python's lazy_loader, which reads a stub file).
    """
    homes = _homes(package)
    names = list(homes)

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, original = homes[name]
        if home == package:  # a submodule that is public as a whole
            return importlib.import_module(f"{package}.{original}")
        return getattr(importlib.import_module(home), original)

    return names, resolve, lambda: sorted(names)


def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Public name → (module, name there), in the order of the block."""
    spec = find_spec(package)
    source = spec.loader.get_source(package) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        raise ImportError(f"{package} has no source to read its public names from")
    homes: dict[str, tuple[str, str]] = {}
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    homes |= {entry.asname or entry.name: (line.module, entry.name) for entry in line.names}
    return homes
