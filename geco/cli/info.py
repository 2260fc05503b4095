"""`geco info`: versions, device and available models."""

import importlib.metadata
import importlib.util
import json
import platform
import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from geco.cli._terminal import results

PANEL = "About"

PACKAGES = ("torch", "transformers", "peft", "safetensors", "numpy", "pillow", "accelerate", "kornia")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL)(info)


def info(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions, the device that would be used, and the models that can be loaded, with their licences.

    Example: [b]geco info[/b]
    """
    facts = _facts()
    if as_json:
        json.dump(facts, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    console = results()
    about = Table(title="geco", show_header=False, title_justify="left")
    for name, value in {**facts["versions"], "device": facts["device"], "cache": facts["cache"]}.items():
        about.add_row(name, str(value or "not installed"))
    models = Table("model", "where it comes from", "licence", "available", title="models", title_justify="left")
    for model in facts["models"]:
        known = model["licence"] or "not known here"
        models.add_row(model["name"], model["origin"], known, "yes" if model["available"] else "no")
    console.print(about)
    console.print(models)
    console.print(f"default: {facts['default']}")


def _facts() -> dict[str, Any]:
    from geco import __version__, models
    from geco.system import devices

    versions = {"geco": __version__, "python": platform.python_version(), **{p: _version(p) for p in PACKAGES}}
    packaged = [_packaged(name) for name in models.packaged()]
    backbones = [
        {
            "name": name,
            "origin": source.origin,
            "licence": source.licence,
            "available": models.is_available(name),
        }
        for name, (_, source) in models.sources().items()
    ]
    return {
        "versions": versions,
        "device": str(devices.choose("auto")),
        "cache": str(models.cache_folder()),
        "default": models.default_model(),
        "models": [*packaged, *backbones],
    }


def _packaged(name: str) -> dict[str, Any]:
    """A model that ships with the package: its size, and the licence of what it was trained from beside our own."""
    from geco import models

    folder = models.folder_named(name)
    size = sum(file.stat().st_size for file in folder.iterdir()) if folder is not None else 0
    return {
        "name": name,
        "origin": f"packaged, {size / 1e6:.1f} MB",
        "licence": models.licence_of(name),
        "bytes": size,
        "available": True,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
