"""How an index of patches is built, and how it is searched."""

from dataclasses import dataclass
from typing import Literal

from geco.system import strict

MOST_VECTORS = 10**10
MOST_HITS = 100_000


@dataclass(frozen=True)
class IndexSettings:
    """Exact for small collections, IVF-PQ for large: patches in groups, each stored as a code of some bytes."""

    kind: Literal["auto", "flat", "ivfpq"] = "auto"
    exact: int = 200_000  # auto: vectors up to which the index is exact; 500 images of 20 × 20 patches, 0.3 GB
    foreground: bool = False  # only patches unlike their image's border (`matching.own_foreground`)
    lists: int | None = None  # ivfpq: groups; None: the power of two nearest to √vectors
    parts: int = 64  # ivfpq: bytes of a code at most, each of a part of the channels; they must divide evenly
    sample: int = 100_000  # ivfpq: vectors at most that groups and codes are learned from
    rounds: int = 10  # ivfpq: of k-means
    seed: int = 0  # ivfpq: of the sample and of k-means

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "exact", "seed", least=0)
        strict.within(self, "lists", "parts", "sample", "rounds", least=1)
        strict.within(self, "exact", "sample", most=MOST_VECTORS)
        strict.within(self, "lists", most=1 << 20)
        strict.within(self, "parts", most=4096)
        strict.within(self, "rounds", most=1000)
        strict.within(self, "seed", most=2**31 - 1)


@dataclass(frozen=True)
class SearchSettings:
    """How many answers there are, and how many images are looked at to find them."""

    count: int = 20  # images at most
    threshold: float | None = None  # similarity below which an image does not show the part; None: the model's
    probes: float = 0.1  # ivfpq: share of the groups that are looked through
    shortlist: int = 200  # images at least, the index's best, whose own maps are scored coarsely; 10 × count if more
    refined: int = 30  # images at least, the best of those, that are scored pixel by pixel; 2 × count if that is more

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "count", "shortlist", "refined", least=1)
        strict.within(self, "count", "shortlist", "refined", most=MOST_HITS)
        strict.within(self, "threshold", least=-1, most=1)
        strict.within(self, "probes", above=0, most=1)
