"""What an exported file is like, and how far it may be from the model that it was made of."""

from dataclasses import dataclass
from typing import Literal

from geco.system import strict

Engine = Literal["onnx", "openvino"]
Precision = Literal["float32", "float16", "int8"]

MOST_DIFFERENCE = 1e-3  # of a feature in float32, anywhere
# float16 stores a weight to 1 in 2048, and rounding that much leaves cosines above 0.9999; 0.999 is a turn by 2.6°, so
# that what is below is a mistake in the file.
LEAST_COSINE = 0.999
MOST_RELATIVE = 1e-2  # of a map's length, by the precision that the weights of a whole model are stored in
MOST_LOST = 1.0  # percentage points of PCK, by weights and activations of eight bits


@dataclass(frozen=True)
class ExportSettings:
    """How a model is exported."""

    dynamic: bool = True  # any sides that are multiples of the patch; otherwise those of the model's own size alone
    # float16: weights are stored in 16 bits and computed with in 32, unless an engine prefers otherwise.
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        strict.check(self)


@dataclass(frozen=True)
class WarpSettings:
    """Images bent in a known way, to see what a quantised model has lost."""

    images: int = 20  # at most, spread evenly over those that are given
    warps: int = 4  # of each image
    points: int = 10  # along each side, as far as they are visible in both
    side: int = 320  # pixels of the longer side
    rotation: float = 45.0  # degrees at most, to either side
    shift: float = 0.15  # of the side: how far a corner moves at most
    radii: tuple[float, ...] = (0.1, 0.05)  # of the longer side: how near counts as found
    seed: int = 0

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "images", "warps", "points", least=1, most=1000)
        strict.within(self, "side", least=28, most=4096)
        strict.within(self, "rotation", least=0, most=180)
        strict.within(self, "shift", least=0, below=0.25)
        strict.within(self, "radii", above=0, most=1)
        strict.within(self, "seed", least=0, below=2**32)
