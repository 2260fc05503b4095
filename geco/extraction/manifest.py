"""What a folder of features is: the file `geco-features.json`, written first and never changed."""

from dataclasses import dataclass
from pathlib import Path

from geco import checks
from geco.errors import InputError, MissingFileError
from geco.extraction.settings import Format, What
from geco.system import codec, documents, files, strict

NAME = "geco-features.json"
VERSION = 1  # of the layout
EXPECTED = "a folder of features as `geco extract` writes it"


@dataclass(frozen=True)
class Manifest:
    """Which model made the features, what is stored of each image, and how."""

    model: str
    fingerprint: str  # of the model
    channels: int  # of the model's maps
    dim: int  # of what is stored
    what: What
    format: Format
    images: int  # that were given
    per_shard: int
    batch_size: int
    image_bytes: int  # that are stored of an image, about; of foreground at most
    inputs: str  # hash of the list of images
    pca: int | None = None
    draft: bool = False
    foreground: str | None = None  # how foreground was decided
    version: int = VERSION

    def __post_init__(self) -> None:
        strict.check(self)
        for name in ("channels", "dim", "images", "per_shard", "batch_size"):
            checks.whole(getattr(self, name), name, least=1)

    @property
    def shards(self) -> int:
        """Number of shards when all are written."""
        return -(-self.images // self.per_shard)

    def images_of(self, shard: int) -> range:
        """The numbers of a shard's images among those given."""
        return range(shard * self.per_shard, min((shard + 1) * self.per_shard, self.images))


def exists(folder: Path) -> bool:
    """Whether this is a folder of features, finished or not."""
    return checks.is_file(folder / NAME)


def read(folder: Path) -> Manifest:
    """The manifest of a folder of features."""
    if not exists(folder):
        what = "it has no " + NAME if folder.is_dir() else "no such folder"
        raise MissingFileError(f"{documents.place(folder)} is not {EXPECTED}: {what}")
    values = documents.read(folder / NAME, expected="what a folder of features is")
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"{folder} was written by a newer geco (layout {version}, this one reads {VERSION}); update it"
        )
    if version != VERSION:
        raise InputError(f"{folder / NAME}: expected version {VERSION}, got {documents.shown(version)}")
    return codec.build(Manifest, values, str(folder / NAME))


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a new folder."""
    files.replace_text(folder / NAME, codec.to_json(manifest) + "\n")
