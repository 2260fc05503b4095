"""The data that flows: frozen dataclasses that hold tensors and nothing else; and Encoder, what makes feature maps.

Points are (x, y) in pixels with the origin at the image's top-left *corner* (the first pixel's centre is (0.5, 0.5)),
sizes are (height, width), boxes are (x0, y0, x1, y1). A batch is leading dimensions of the same type; padding is
`visible=False`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from geco import checks
from geco.errors import InputError, MissingPackageError

Size = tuple[int, int]  # (height, width)
# Pixels of one image or of a batch, 0 to 255 or 0 to 1.
Image = UInt8[Tensor, "*b 3 h w"] | Float[Tensor, "*b 3 h w"]


@dataclass(frozen=True)
class Skeleton:
    """Names of a category's keypoints and their two involutions.

    `twin[i]` is the geometric counterpart of i (used by metrics and negatives: left eye ↔ right eye, but also front
    wheel ↔ back wheel); `mirror[i]` is the row a horizontal flip moves i to. A row without counterpart names itself.
    `mirror=None` says the table is not known: such a category is never flipped.
    """

    names: tuple[str, ...]
    twin: tuple[int, ...]
    mirror: tuple[int, ...] | None

    def __post_init__(self) -> None:
        for label, table in (("twin", self.twin), ("mirror", self.mirror)):
            if table is None:
                continue
            if len(table) != len(self.names):
                raise InputError(f"{label} must have one entry per keypoint: {len(self.names)}, got {len(table)}")
            for i, j in enumerate(table):
                checks.whole(j, f"{label}[{i}]")
                if not 0 <= j < len(table) or table[j] != i:
                    raise InputError(
                        f"{label} must be an involution (i → j → i), but {label}[{i}] = {j} does not come back"
                    )

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Keypoints:
    """Points of one object; row i is the same body point in every image of its category."""

    xy: Float[Tensor, "*b k 2"]
    visible: Bool[Tensor, "*b k"]


@dataclass(frozen=True)
class MaskFile:
    """Where a foreground mask lies on disk and which of its pixel values mean foreground.

    `label` given (class masks): the pixels equal to it. Without one (votes or grey masks), values of at least half of
    the scale: 128 of 255; 0.5 of 1, in files that hold nothing above 1; 32768 of 65535, in those with values above 255.
    The values are the alpha channel, if there is one that is not the same everywhere (cut-outs); else the first
    channel: indices of a palette, but the colours of one that is only black and white.
    `whole`: it covers the whole image file, of which a view may show only a window; otherwise just that window.
    """

    path: Path
    label: int | None = None
    whole: bool = True

    def __post_init__(self) -> None:
        if self.label is not None:
            checks.whole(self.label, "the label of a mask", least=0)


@dataclass(frozen=True)
class Window:
    """The part of an image file that a view shows, cut out when the file is read (`images.load_view`).

    `box` is a whole-pixel (x0, y0, x1, y1), may leave the image, and counts in the mirrored image if `flipped`;
    `size` is the file's own, so that a file of another size is noticed.
    """

    box: tuple[int, int, int, int]
    size: Size
    flipped: bool = False


@dataclass(frozen=True)
class View:
    """One annotated image of one object.

    `image` and `mask` are files until the pixels are needed (`images.load_view`), so a dataset can be counted,
    shuffled and pickled without touching them. `name` is unique within a dataset and identifies the *image content*
    (two instances in one image have two names only if their crops differ). While `window` is set, image and mask
    are files of the whole image; size, keypoints and box are already those of the window.
    """

    image: Path | Image
    size: Size
    keypoints: Keypoints | None = None
    box: Float[Tensor, "*b 4"] | None = None
    mask: MaskFile | Bool[Tensor, "*b h w"] | None = None
    parts: Int[Tensor, "*b h w"] | None = None
    name: str | tuple[str, ...] = ""
    window: Window | None = None

    @property
    def pixels(self) -> Image:
        """The image, once it has been read."""
        if not isinstance(self.image, Tensor):
            raise InputError(f"{self.image} has not been read; call images.load_view(view) first")
        return self.image

    @property
    def points(self) -> Keypoints:
        """The keypoints, of a view that is annotated with them."""
        if self.keypoints is None:
            raise InputError(f"{self.label} has no keypoints; expected a view annotated with them")
        return self.keypoints

    @property
    def foreground(self) -> Bool[Tensor, "*b h w"]:
        """The mask, once it has been read."""
        if not isinstance(self.mask, Tensor):
            known = "the mask has not been read; call images.load_view(view) first" if self.mask else "there is no mask"
            raise InputError(f"{self.label}: {known}; see geco.masks")
        return self.mask

    @property
    def part_map(self) -> Int[Tensor, "*b h w"]:
        """The part labels, of a view that is annotated with them."""
        if self.parts is None:
            raise InputError(f"{self.label} has no part map; expected a view annotated with parts")
        return self.parts

    @property
    def identity(self) -> str:
        """What identifies the image content: the name, or the path of an unnamed file."""
        if not self.name and not isinstance(self.image, Path):
            raise InputError("a view that holds pixels needs a name, so that its image is encoded only once")
        return str(self.name or self.image)

    @property
    def label(self) -> str:
        """The view in an error message."""
        return str(self.name or (self.image if isinstance(self.image, Path) else "a view"))


@dataclass(frozen=True)
class Pair:
    """Two views of one category; row i of both sets of keypoints is the same body point.

    In a batch the categories may differ, so `skeleton` and `category` are tuples with one entry per sample.
    """

    source: View
    target: View
    skeleton: Skeleton | tuple[Skeleton, ...]
    category: str | tuple[str, ...] = ""

    @property
    def skeletons(self) -> tuple[Skeleton, ...]:
        """One skeleton per sample of a batch; of a single pair, its one."""
        if isinstance(self.skeleton, tuple):
            return self.skeleton
        samples = self.source.points.visible.shape[:-1]
        return (self.skeleton,) * (samples[0] if samples else 1)

    @property
    def table(self) -> Skeleton:
        """The skeleton of a single pair."""
        if isinstance(self.skeleton, tuple):
            raise InputError(f"expected a single pair, got a batch of {len(self.skeleton)}; take its `skeletons`")
        return self.skeleton


@runtime_checkable
class PairSequence(Protocol):
    """Pairs in a fixed order: a list of them, or a dataset that puts each together when it is asked for."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Pair]: ...
    def __getitem__(self, index: int, /) -> Pair: ...


@dataclass(frozen=True)
class FeatureMap:
    """Dense features of an image: a descriptor for each patch, and the size of the image they describe."""

    values: Float[Tensor, "*b c h w"]
    size: Size

    def __post_init__(self) -> None:
        if not isinstance(self.values, Tensor) or not self.values.is_floating_point() or self.values.ndim < 3:
            shape = f"{tuple(self.values.shape)} of {self.values.dtype}" if isinstance(self.values, Tensor) else "none"
            raise InputError(f"a feature map is a floating point tensor (channels, height, width), got {shape}")
        if not isinstance(self.size, Sequence) or len(self.size) != 2:
            raise InputError(f"the size of an image is (height, width), got {checks.shown(self.size)}")
        for side in self.size:
            checks.whole(side, "the side of the image that a feature map describes", least=1)

    @property
    def grid(self) -> Size:
        """(rows, columns) of patches."""
        return self.values.shape[-2], self.values.shape[-1]

    def unit(self) -> "FeatureMap":
        """The same map with descriptors of length one, so that dot products are cosines."""
        return FeatureMap(torch.nn.functional.normalize(self.values, dim=-3), self.size)

    def numpy(self) -> np.ndarray:
        """The values (…, channels, rows, columns) as an array."""
        array: np.ndarray = self.values.detach().float().cpu().numpy()
        return array

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.values.shape))
        height, width = self.size
        return f"FeatureMap({shape} {str(self.values.dtype).removeprefix('torch.')}, image {width}×{height})"


@dataclass(frozen=True)
class Matches:
    """Points of a source image and where they went in the target, in original pixels of each image."""

    source: Float[Tensor, "*b k 2"]
    target: Float[Tensor, "*b k 2"]
    score: Float[Tensor, "*b k"]
    visible: Bool[Tensor, "*b k"]  # False: the best score stayed below the threshold: "not visible here"

    def __len__(self) -> int:
        return self.score.shape[-1]

    def __iter__(self) -> Iterator["Match"]:
        """The matches of two images one by one."""
        if self.score.ndim != 1:
            raise InputError(f"matches of one pair can be walked through, got a batch {tuple(self.score.shape)}")
        columns = (self.source, self.target, self.score, self.visible)
        for source, target, score, visible in zip(*(column.tolist() for column in columns), strict=True):
            yield Match((source[0], source[1]), (target[0], target[1]), score, visible)

    def numpy(self) -> dict[str, np.ndarray]:
        """Arrays by the names of the fields."""
        names = ("source", "target", "score", "visible")
        return {name: getattr(self, name).detach().cpu().numpy() for name in names}

    def to_pandas(self) -> Any:
        """A table of the matches of two images: source_x, source_y, target_x, target_y, score, visible."""
        try:
            import pandas
        except ImportError as error:
            raise MissingPackageError("a table needs pandas; install it with: pip install pandas") from error
        rows = [(*match.source, *match.target, match.score, match.visible) for match in self]
        columns = ["source_x", "source_y", "target_x", "target_y", "score", "visible"]
        return pandas.DataFrame(rows, columns=columns)


class Match(NamedTuple):
    """One of `Matches`: a point of the source image (x, y), where it went, and how sure that is."""

    source: tuple[float, float]
    target: tuple[float, float]
    score: float
    visible: bool


@runtime_checkable
class Encoder(Protocol):
    """What makes feature maps: a model of ours, an exported engine, or anything else that has these.

    It may also have `similarity`, "dot" if its maps are compared by dot products instead of cosines, and `pair`, which
    takes the maps of two images and returns both as they are compared (`geco.matching.paired`).
    """

    name: str

    @property
    def threshold(self) -> float:
        """Similarity below which its matches are "not visible"."""

    @property
    def dim(self) -> int:
        """Channels of a feature map."""

    @property
    def stride(self) -> int:
        """Side of a patch, in pixels of the encoder's input."""

    @property
    def device(self) -> torch.device:
        """Where feature maps are made, and stay."""

    def extract_stream(self, pictures: Iterable[Any], *, batch_size: int = 8) -> Iterator[FeatureMap]:
        """Feature maps (c, h, w) of images of any kind that `images.read` takes, each with the size of its image."""

    def fingerprint(self) -> str:
        """Equal for encoders that give equal features."""
