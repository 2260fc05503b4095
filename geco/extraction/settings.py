"""What is kept of each image of a collection, and how it lies on disk."""

from dataclasses import dataclass
from typing import Literal

from geco import checks
from geco.system import strict

What = Literal["maps", "global", "foreground"]
Format = Literal["safetensors", "parquet"]
WHATS: tuple[What, ...] = ("maps", "global", "foreground")
FORMATS: tuple[Format, ...] = ("safetensors", "parquet")
SHARD_BYTES = 128 * 2**20  # what a shard holds, if the number of its images is not given


@dataclass(frozen=True)
class ExtractSettings:
    """How a collection is extracted; everything here decides the bytes of the shards."""

    what: What = "maps"  # the whole map, one vector, or the patches of the foreground
    format: Format = "safetensors"
    pca: int | None = None  # components that are kept of each descriptor
    batch_size: int = 8  # images encoded at once
    draft: bool = False  # decode large JPEG files at a fraction of their size: faster, features differ a little
    per_shard: int | None = None  # images of a shard; None: enough for about SHARD_BYTES

    def __post_init__(self) -> None:
        strict.check(self)
        checks.whole(self.batch_size, "batch_size", least=1)
        for name in ("pca", "per_shard"):
            if getattr(self, name) is not None:
                checks.whole(getattr(self, name), name, least=1)
