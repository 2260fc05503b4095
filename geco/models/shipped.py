"""Models that ship with the package: by name, and by the release that an adapter was trained on."""

from pathlib import Path

from geco.errors import DISTRIBUTION, InputError
from geco.models import cache
from geco.system import documents, files

ASSETS = Path(__file__).parents[1] / "assets"
CONFIG_FILE = "geco.json"
SIGN = "@"  # between the name and the release: geco-s@1a2b3c4d
DIGITS = 8


def packaged() -> list[str]:
    """Names of the models that ship with the package."""
    return sorted(folder.parent.name for folder in ASSETS.glob(f"*/{CONFIG_FILE}"))


def folder_named(name: str) -> Path | None:
    """The folder of a packaged model, by its name or that of a release; None of any other name."""
    short, sign, _ = name.partition(SIGN)
    if short not in packaged():
        return None
    if sign and name != release_name(short):
        raise InputError(
            f"{name} is not the {short} of this release ({release_name(short)}), and an adapter fits only the weights "
            f"that it was trained on; install the {DISTRIBUTION} that it was trained with, or train it again"
        )
    return ASSETS / short


def release_name(name: str) -> str:
    """The name of a packaged model with a digest of its weights: what an adapter of it notes as its backbone."""
    folder = ASSETS / name
    if not (folder / cache.WEIGHTS).is_file():  # an adapter, whose backbone has a name of its own
        return name
    noted = folder / cache.CHECKSUMS
    digests = documents.read(noted, expected="checksums of weights") if noted.is_file() else {}
    return f"{name}{SIGN}{str(digests.get(cache.WEIGHTS) or files.sha256(folder / cache.WEIGHTS))[:DIGITS]}"
