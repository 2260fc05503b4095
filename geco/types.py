"""The data that flows: frozen dataclasses that hold tensors and nothing else.

Points are (x, y) in pixels with the origin at the image's top-left *corner* (the first pixel's centre is (0.5, 0.5)),
sizes are (height, width), boxes are (x0, y0, x1, y1). A batch is leading dimensions of the same type; padding is
`visible=False`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

Size = tuple[int, int]  # (height, width)
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
                raise ValueError(f"{label} must have one entry per keypoint: {len(self.names)}, got {len(table)}")
            for i, j in enumerate(table):
                if not 0 <= j < len(table) or table[j] != i:
                    raise ValueError(
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

    `label=None`: first channel ≥ 128 (votes or grey masks); otherwise the pixels equal to `label` (class masks).
    `whole`: it covers the whole image file, of which a view may show only a window; otherwise just that window.
    """

    path: Path
    label: int | None = None
    whole: bool = True


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

    `image` and `mask` are files until somebody needs the pixels (`images.load_view`), so a dataset can be counted,
    shuffled and pickled without touching them. `name` is unique within a dataset and identifies the *image content*
    (two instances in one photograph have two names only if their crops differ). While `window` is set, image and mask
    are files of the whole photograph; size, keypoints and box are already those of the window.
    """

    image: Path | Image
    size: Size
    keypoints: Keypoints | None = None
    box: Float[Tensor, "*b 4"] | None = None
    mask: MaskFile | Bool[Tensor, "*b h w"] | None = None
    parts: Int[Tensor, "*b h w"] | None = None
    name: str | tuple[str, ...] = ""
    window: Window | None = None


@dataclass(frozen=True)
class Pair:
    """Two views of one category; row i of both sets of keypoints is the same body point.

    In a batch the categories may differ, so `skeleton` and `category` are tuples with one entry per sample.
    """

    source: View
    target: View
    skeleton: Skeleton | tuple[Skeleton, ...]
    category: str | tuple[str, ...] = ""


@dataclass(frozen=True)
class FeatureMap:
    """Patch tokens after the backbone's final norm, and the size of the image they describe."""

    values: Float[Tensor, "*b c h w"]
    size: Size

    @property
    def grid(self) -> Size:
        """(rows, columns) of patches."""
        return self.values.shape[-2], self.values.shape[-1]

    def unit(self) -> "FeatureMap":
        """The same map with descriptors of length one, so that dot products are cosines."""
        return FeatureMap(torch.nn.functional.normalize(self.values, dim=-3), self.size)


@dataclass(frozen=True)
class Matches:
    """Points of a source image and where they went in the target, in original pixels of each image."""

    source: Float[Tensor, "*b k 2"]
    target: Float[Tensor, "*b k 2"]
    score: Float[Tensor, "*b k"]
    visible: Bool[Tensor, "*b k"]  # False: the best score stayed below the bin's, "not visible here"


T = TypeVar("T")
PER_SAMPLE = ("name", "category", "skeleton")  # fields that become tuples in a batch


def stack(items: Sequence[T]) -> T:
    """One object whose tensors have a new leading batch dimension; every other field must be the same in all items.

    Keypoints of different number are padded with `visible=False`, so categories can be mixed in a batch.
    """
    first = items[0]
    if isinstance(first, Keypoints):
        return _stack_keypoints(items)  # type: ignore[arg-type, return-value]
    values: dict[str, Any] = {}
    for field in dataclasses.fields(first):  # type: ignore[arg-type]
        parts = [getattr(item, field.name) for item in items]
        values[field.name] = _stack_field(field.name, parts)
    return type(first)(**values)


def _stack_field(name: str, parts: list[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.stack(parts)
    if name in PER_SAMPLE:
        return tuple(parts)
    if isinstance(parts[0], Keypoints | View):
        return stack(parts)
    if any(part != parts[0] for part in parts[1:]):
        raise ValueError(f"cannot stack items whose {name} differ: {parts[0]!r} and others")
    return parts[0]


def _stack_keypoints(items: Sequence[Keypoints]) -> Keypoints:
    longest = max(item.visible.shape[-1] for item in items)
    xy = [torch.nn.functional.pad(item.xy, (0, 0, 0, longest - item.xy.shape[-2])) for item in items]
    visible = [
        torch.nn.functional.pad(item.visible, (0, longest - item.visible.shape[-1]), value=False) for item in items
    ]
    return Keypoints(torch.stack(xy), torch.stack(visible))


def mapped(
    item: T, of_tensor: Callable[[Tensor], Tensor], of_entries: Callable[[Any], Any] = lambda entries: entries
) -> T:
    """The batch with every tensor, and every tuple that has an entry per sample, replaced."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(item):  # type: ignore[arg-type]
        value = getattr(item, field.name)
        if isinstance(value, Tensor):
            values[field.name] = of_tensor(value)
        elif field.name in PER_SAMPLE:
            values[field.name] = of_entries(value)
        elif dataclasses.is_dataclass(value):
            values[field.name] = mapped(value, of_tensor, of_entries)
    return dataclasses.replace(item, **values)  # type: ignore[type-var]


def picked(batch: T, index: Int[Tensor, "n"]) -> T:
    """A batch of the samples with these numbers."""
    return mapped(batch, lambda tensor: tensor[index], lambda entries: tuple(entries[i] for i in index.tolist()))
