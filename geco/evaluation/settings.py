"""How features are evaluated: named protocols for keypoints, parts and running time."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal, NamedTuple

from geco.errors import InputError
from geco.matching.settings import MatchSettings
from geco.pose.settings import DecorateSettings, PoseSettings
from geco.propagation.settings import CentroidSettings
from geco.propagation.settings import KeypointSettings as LabelSettings
from geco.search.settings import IndexSettings, SearchSettings
from geco.system import strict

AS_PUBLISHED = MatchSettings()
RENDERED = DecorateSettings()
AS_PROPAGATED = LabelSettings()
AS_INDEXED, AS_SEARCHED = IndexSettings(), SearchSettings()
EVERY_IMAGE = PoseSettings(confidence=0.0, matches=4)  # the unsure ones count as well
LARGEST_RADIUS = 10  # times the longer side; beyond 1.5 everything is a hit
LARGEST_BATCH = 100_000  # images
MOST_RESAMPLES = 10_000_000
MOST_REPEATS = 1_000_000
MOST_DRAWS = 10_000
LARGEST_FRAME = 8192  # pixels of a side
MOST_POINTS = 10_000


def _check_radii(settings: object, name: str) -> None:
    """Refuse no radii, and radii that are no share of a side."""
    if not getattr(settings, name):
        raise InputError(f"{name} must be one radius or more, got none")
    strict.within(settings, name, above=0, most=LARGEST_RADIUS)


@dataclass(frozen=True)
class Protocol:
    """What counts as a hit and how hits are averaged; two numbers compare only under the same protocol."""

    name: str = "geco"
    definition: str = (
        "hits / annotated pairs over the whole split; hit: distance ≤ α · longer side of the target image; "
        "target upsampled to image resolution"
    )
    alphas: tuple[float, ...] = (0.01, 0.05, 0.10, 0.15)
    threshold: Literal["image", "box"] = "image"  # α multiplies the longer side of the target's image or box
    average: Literal["point", "image"] = "point"  # every keypoint counts the same, or every pair
    match: MatchSettings = AS_PUBLISHED

    def __post_init__(self) -> None:
        strict.check(self)
        _check_radii(self, "alphas")

    def visible_above(self, similarity: float) -> "Protocol":
        """The same protocol for an encoder whose matches below this similarity are "not visible"."""
        return replace(self, match=replace(self.match, threshold=similarity))


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(),
        Protocol(
            "geco-apk",
            "hits / annotated pairs over the whole split; hit: distance ≤ α · longer side of the target "
            "image; no upsampling, the prediction is a patch's centre (as the authors run APK)",
            match=MatchSettings(upsample=False),
        ),
        Protocol(
            "bbox-image",
            "mean over pairs of the share of hits in a pair; hit: distance ≤ α · longer side of the target's "
            "box; target upsampled to image resolution",
            threshold="box",
            average="image",
        ),
    )
}


def protocols_named(names: tuple[str, ...]) -> tuple[Protocol, ...]:
    """The protocols with these names; a typo lists the choices."""
    for name in names:
        if name not in PROTOCOLS:
            raise InputError(f"there is no protocol {name!r}; choices: {', '.join(PROTOCOLS)}")
    return tuple(PROTOCOLS[name] for name in names)


@dataclass(frozen=True)
class KeypointSettings:
    """Settings of a keypoint run that do not change its numbers, except where a comment says so."""

    main_alpha: float = 0.10  # the radius of headline numbers, of PGCK tables and of the "01" analysis
    radii: tuple[float, ...] = tuple(round(0.01 * step, 2) for step in range(1, 21))  # of the sweep
    batch_size: int = 8  # images encoded at once
    memory: int = 2 * 1024**3  # bytes of feature maps kept in memory; more goes to disk
    resamples: int = 1000  # of the bootstrap over pairs
    confidence: float = 0.95
    seed: int = 0  # of the bootstrap
    false_alarms: float = 0.1  # visible points that the reported threshold calls hidden
    examples: int = 4  # qualitative rows per case

    def __post_init__(self) -> None:
        strict.check(self)
        _check_radii(self, "radii")
        strict.within(self, "main_alpha", above=0, most=LARGEST_RADIUS)
        strict.within(self, "batch_size", "resamples", least=1)
        strict.within(self, "resamples", most=MOST_RESAMPLES)
        strict.within(self, "batch_size", most=LARGEST_BATCH)
        strict.within(self, "memory", "seed", "examples", least=0)
        strict.within(self, "confidence", above=0, below=1)
        strict.within(self, "false_alarms", least=0, most=1)


@dataclass(frozen=True)
class PartsProtocol(CentroidSettings):
    """How parts are labelled, from which images, and what is counted; the defaults are the paper's."""

    train_images: int | None = None  # at most this many per category (the authors' code: 100)
    background: bool = True  # given by the true mask; counts as a row of its own
    batch_size: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        strict.check(self)
        strict.within(self, "train_images", "batch_size", "components", "pixels", least=1)
        strict.within(self, "batch_size", most=LARGEST_BATCH)


@dataclass(frozen=True)
class PoseProtocol:
    """A mesh decorated from some views and tested on others, in coats, light and before backgrounds of other kinds."""

    images: int = 20  # novel images of each mesh
    decorate: DecorateSettings = RENDERED
    solve: PoseSettings = EVERY_IMAGE
    angles: tuple[float, ...] = (5.0, 10.0, 30.0)  # degrees within which images are counted
    wrong: float = 0.1  # of the diagonal: matches further off are outlined in pictures
    resamples: int = 1000  # of the bootstrap over images
    examples: int = 4  # rows of the picture
    seed: int = 0


@dataclass(frozen=True)
class SurfaceProtocol:
    """Keypoints of images matched with a mesh decorated from rendered views."""

    decorate: DecorateSettings = RENDERED
    radius: float = 0.1  # of the diagonal: a keypoint that lands within is near
    resamples: int = 1000  # of the bootstrap over images
    seed: int = 0


@dataclass(frozen=True)
class FewShotProtocol:
    """Keypoints of some animals carried to others of their category; α is `labels.radius`, of the longer side."""

    references: tuple[int, ...] = (1, 2, 5, 10, 20, 50)
    draws: int = 3  # of references and targets, in each category
    targets: int | None = 40  # of a draw at most; None: all animals that are no references
    headline: int = 10  # references of the reliability diagram and the reviewer's curve, or the nearest number below
    labels: LabelSettings = AS_PROPAGATED  # how the references vote
    reviewed: float = 0.2  # share of the points, the most uncertain, among which errors are counted
    right: float = 0.95  # share of right points that a review should reach
    bins: int = 10  # of the reliability diagram
    batch_size: int = 8
    memory: int = 2 * 1024**3  # bytes of feature maps kept in memory; more goes to disk
    resamples: int = 1000  # of the bootstrap over images
    confidence: float = 0.95
    seed: int = 0  # of the draws and the bootstrap

    def __post_init__(self) -> None:
        strict.check(self)
        if not self.references:
            raise InputError("references must be one number or more, got none")
        if len(set(self.references)) < len(self.references):
            raise InputError(f"references must be different numbers, got {', '.join(map(str, self.references))}")
        strict.within(self, "references", "targets", "headline", "bins", "batch_size", "resamples", least=1)
        strict.within(self, "references", most=LARGEST_BATCH)
        strict.within(self, "draws", least=1, most=MOST_DRAWS)
        strict.within(self, "bins", most=1000)
        strict.within(self, "batch_size", most=LARGEST_BATCH)
        strict.within(self, "resamples", most=MOST_RESAMPLES)
        strict.within(self, "reviewed", "right", "confidence", above=0, below=1)
        strict.within(self, "memory", "seed", least=0)

    @property
    def alpha(self) -> float:
        """Share of an image's longer side within which a point is right."""
        return self.labels.radius


@dataclass(frozen=True)
class SearchProtocol:
    """Annotated keypoints of held-out images searched for among all others."""

    questions: int = 20  # of a category
    count: int = 10  # answers that are looked at: recall@10, precision@10
    alpha: float = 0.1  # share of the longer side of an object's box within which an answer is at a keypoint
    index: IndexSettings = AS_INDEXED
    search: SearchSettings = AS_SEARCHED
    timed: int = 3  # questions whose brute force is timed, one at a time
    resamples: int = 1000  # of the bootstrap over questions
    confidence: float = 0.95
    seed: int = 0  # of the questions and the bootstrap

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "questions", "count", "timed", "resamples", least=1)
        strict.within(self, "questions", "count", "timed", most=LARGEST_BATCH)
        strict.within(self, "resamples", most=MOST_RESAMPLES)
        strict.within(self, "alpha", above=0, most=LARGEST_RADIUS)
        strict.within(self, "confidence", above=0, below=1)
        strict.within(self, "seed", least=0)


class Conditions(NamedTuple):
    """The conditions that a model is timed under."""

    device: str
    dtype: str
    size: int
    batch: int

    @property
    def name(self) -> str:
        """All conditions in one line of text."""
        return f"{self.device}, {self.dtype}, {self.size} px, batch {self.batch}"


@dataclass(frozen=True)
class RuntimeProtocol:
    """What is timed; loading and resizing images is not."""

    batches: tuple[int, ...] = (1, 8)
    sizes: tuple[int, ...] = (518,)
    dtypes: tuple[str, ...] = ("float32",)
    devices: tuple[str, ...] = field(default=("cpu",))
    warmup: int = 3
    repeats: int = 20

    def __post_init__(self) -> None:
        strict.check(self)
        for name in ("batches", "sizes", "dtypes", "devices"):
            if not getattr(self, name):
                raise InputError(f"{name} must be one or more, got none")
        strict.within(self, "batches", "sizes", "repeats", least=1)
        strict.within(self, "batches", most=LARGEST_BATCH)
        strict.within(self, "repeats", "warmup", most=MOST_REPEATS)
        strict.within(self, "warmup", least=0)

    def conditions(self) -> Iterator[Conditions]:
        """Every combination."""
        return (Conditions(*choice) for choice in product(self.devices, self.dtypes, self.sizes, self.batches))


@dataclass(frozen=True)
class FrameProtocol:
    """What is timed end to end, decoding apart."""

    frame: tuple[int, int] = (480, 640)  # height and width of a frame
    points: int = 8  # that are looked for in each
    warmup: int = 3
    repeats: int = 20

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "frame", least=8, most=LARGEST_FRAME)
        strict.within(self, "points", "repeats", least=1)
        strict.within(self, "points", most=MOST_POINTS)
        strict.within(self, "repeats", "warmup", most=MOST_REPEATS)
        strict.within(self, "warmup", least=0)


@dataclass(frozen=True)
class TableSettings:
    """How the rows of a table are evaluated and timed."""

    keypoints: KeypointSettings = KeypointSettings()
    parts: PartsProtocol = PartsProtocol()
    repeats: int = 20  # timed calls of each model, one image at a time; 0: no timing
    seconds: float = 60.0  # of timing at most, where the number of calls would take longer (three are made anyway)

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "repeats", least=0, most=MOST_REPEATS)
        strict.within(self, "seconds", above=0)
