"""How a mesh is decorated with features, and how a pose is solved from matches with it."""

from dataclasses import dataclass
from typing import Literal

from geco.errors import InputError
from geco.system import strict

MOST_VIEWS = 10_000
MOST_VERTICES = 1_000_000
LARGEST_SIDE = 4096  # pixels of a rendered view
MOST_ITERATIONS = 10_000_000


@dataclass(frozen=True)
class DecorateSettings:
    """From which rendered views a mesh gets its features."""

    views: int = 60
    side: int = 392  # pixels of a rendered view; the encoder resizes it to its own input
    vertices: int = 5000  # a coarser mesh is subdivided to this many
    up: Literal["x", "y", "z", "-x", "-y", "-z"] = "y"  # axis of the mesh that points to the sky
    elevation: tuple[float, float] = (-15.0, 50.0)  # degrees of the cameras above the horizon
    field_of_view: tuple[float, float] = (20.0, 40.0)  # degrees
    looks: Literal["own", "varied"] = "varied"  # the mesh's own colours, or also plain and patched coats
    batch_size: int = 8
    chunk: int = 256  # vertices whose samples of all views are in memory at once
    seed: int = 0

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "views", "vertices", "batch_size", "chunk", least=1)
        strict.within(self, "views", most=MOST_VIEWS)
        strict.within(self, "vertices", most=MOST_VERTICES)
        strict.within(self, "side", least=28, most=LARGEST_SIDE)
        strict.within(self, "seed", least=0, below=2**32)
        if not -90 <= self.elevation[0] <= self.elevation[1] <= 90:
            raise InputError(f"elevation is (lowest, highest) in degrees from -90 to 90, got {self.elevation}")
        if not 0 < self.field_of_view[0] <= self.field_of_view[1] < 180:
            raise InputError(f"field_of_view is (narrowest, widest) in degrees below 180, got {self.field_of_view}")


@dataclass(frozen=True)
class PnpSettings:
    """RANSAC, then a weighted refinement on its inliers."""

    engine: Literal["opencv", "poselib"] = "opencv"
    tolerance: float = 0.03  # reprojection error of an inlier, as a share of the image's longer side
    iterations: int = 2000  # shared by the focal lengths that are tried
    confidence: float = 0.9999
    refine: bool = True
    focals: tuple[float, ...] = (0.7, 1.0, 1.4, 2.0, 2.8)  # × longer side: tried where the focal length is unknown
    seed: int = 0

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "tolerance", above=0, most=1)
        strict.within(self, "iterations", least=1, most=MOST_ITERATIONS)
        strict.within(self, "confidence", above=0, below=1)
        strict.within(self, "seed", least=0, below=2**32)
        if not self.focals or min(self.focals) <= 0:
            raise InputError(f"focals must name at least one positive focal length, got {self.focals}")


USUAL = PnpSettings()


@dataclass(frozen=True)
class PoseSettings:
    """Which patches are matched with the mesh, and when a pose counts as found."""

    pnp: PnpSettings = USUAL
    cycle: float = 2.0  # patches: a vertex must lead back to within this many of where the match began; inf: any
    # Chosen on 24 horses and 24 images of other objects: 20 inliers tell them apart better than any share does.
    confidence: float = 0.15  # share of inliers below which there is no pose
    matches: int = 20  # inliers below which there is no pose

    def __post_init__(self) -> None:
        strict.check(self, infinite=("cycle",))
        strict.within(self, "cycle", least=0)
        strict.within(self, "confidence", least=0, most=1)
        strict.within(self, "matches", least=4)
