"""Images: whatever the user has → an 8-bit RGB tensor, within limits; and the encoder's input from it."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from PIL import Image as Pillow
from torch import Tensor

from geco import checks, decoding, geometry
from geco.errors import InputError
from geco.types import Image, MaskFile, Size, View

Colour = tuple[float, float, float]  # red, green, blue

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ImageLimits:
    """What is refused before it is decoded."""

    megapixels: float = 80.0  # above any camera in common use, below what would fill a laptop's memory
    shortest_side: int = 8  # pixels; smaller files are icons or mistakes, there is nothing to match in them

    def __post_init__(self) -> None:
        if self.megapixels != math.inf:
            checks.number(self.megapixels, "ImageLimits.megapixels", above=0)
        checks.whole(self.shortest_side, "ImageLimits.shortest_side", least=1)


# An image: a path, the bytes of a file, a Pillow image, or an array or tensor of pixels.
Readable = str | Path | bytes | Pillow.Image | Shaped[np.ndarray, "..."] | Shaped[Tensor, "..."]


def read(image: Readable, *, limits: ImageLimits = ImageLimits(), name: str | None = None) -> UInt8[Tensor, "3 h w"]:
    """RGB pixels of a file, bytes, PIL image, array (h, w[, c]) or tensor (3, h, w), rotated upright as its EXIF says.

    Of an animated file it is the first frame. Grey, palette, CMYK, 16-bit and transparent images are converted
    (transparency over white), 32-bit and floating point files as `decoding.to_rgb` says. Floating point arrays and
    tensors must lie in [0, 1]. `name` is what errors call a file or bytes, if not by the path.
    """
    if isinstance(image, Tensor):
        return _within(_from_tensor(image), "the tensor", limits)
    if isinstance(image, np.ndarray):
        return _within(_from_array(image), "the array", limits)
    if isinstance(image, Pillow.Image):
        with decoding.guarded("the image"):
            return _from_pillow(image, "the image", limits)
    if not isinstance(image, str | Path | bytes):
        raise InputError(
            f"an image must be a path, bytes, PIL image, array or tensor, got {type(image).__name__} "
            f"({checks.shown(image)})"
        )
    name = name or ("the bytes" if isinstance(image, bytes) else str(image) or "''")
    with decoding.opened(image, name) as opened:
        return _from_pillow(opened, name, limits)


def read_reduced(image: Readable, *, least: Size, limits: ImageLimits = ImageLimits()) -> UInt8[Tensor, "3 h w"]:
    """The same, but a JPEG may come at 1/2, 1/4 or 1/8 of its size, with at least this height and width.

    The decoder then reconstructs fewer pixels, which takes a fraction of the time; they are not quite what reading and
    resizing gives. Whatever is no JPEG file comes whole.
    """
    if not isinstance(image, str | Path | bytes):
        return read(image, limits=limits)
    name = "the bytes" if isinstance(image, bytes) else str(image) or "''"
    with decoding.opened(image, name) as opened:
        check_size(opened.size, name, limits)
        longest = max(least)  # it may be rotated afterwards
        opened.draft("RGB", (longest, longest))
        return torch.from_numpy(np.array(decoding.upright(opened, name))).permute(2, 0, 1).contiguous()


def size_of(image: str | Path | bytes) -> Size:
    """(height, width) of an image file (or its bytes) as `read` will return it, from its header alone."""
    with decoding.opened(image, "the bytes" if isinstance(image, bytes) else str(image)) as opened:
        return decoding.size_of(opened)


def read_mask(mask: MaskFile, *, limits: ImageLimits = ImageLimits()) -> Bool[Tensor, "h w"]:
    """Foreground pixels of a mask file, by the rules of `MaskFile`."""
    name = str(mask.path)
    with decoding.opened(mask.path, name, what="a mask") as opened:
        check_size(opened.size, name, limits)
        foreground = _labelled(opened, mask.label, name) if mask.label is not None else _foreground(opened, name)
    return torch.from_numpy(np.ascontiguousarray(foreground))


def _labelled(opened: Pillow.Image, label: int, name: str) -> np.ndarray:
    values = np.array(opened)
    if values.ndim == 3 and opened.mode not in decoding.TRANSPARENT and (values != values[..., :1]).any():
        raise InputError(f"{name} is a picture in colours; expected one channel of labels, {label} for the object")
    return np.asarray((values if values.ndim == 2 else values[..., 0]) == label)


def _foreground(opened: Pillow.Image, name: str) -> np.ndarray:
    values = np.array(opened.convert("RGB") if opened.mode in ("CMYK", "YCbCr", "HSV") else opened)
    if opened.mode == "P" and _is_black_and_white(opened, values):
        values = np.array(opened.convert("L"))
    if opened.mode in decoding.TRANSPARENT and values[..., -1].min() != values[..., -1].max():
        values = values[..., -1]
    values = values if values.ndim == 2 else values[..., 0]
    if values.dtype == np.bool_:
        return values
    if not np.isfinite(values).all():
        raise InputError(f"{name} holds NaN or infinity; expected 0 and 255, or 0 and 1")
    high = values.max(initial=0)
    if high <= 1:
        return np.asarray(values >= 0.5)
    return np.asarray(values >= (128 if high <= 255 else 32768))


def _is_black_and_white(opened: Pillow.Image, values: np.ndarray) -> bool:
    """Whether a palette image shows only black and white, so that its colours and not its indices are the mask."""
    colours = np.array(opened.getpalette("RGB") or [], dtype=np.uint8).reshape(-1, 3)
    used = np.unique(values)
    return bool(
        len(used)
        and used[-1] < len(colours)
        and np.isin(colours[used], (0, 255)).all()
        and (colours[used] == colours[used][:, :1]).all()
    )


def read_labels(path: Path, *, limits: ImageLimits = ImageLimits()) -> Int[Tensor, "h w"]:
    """Pixel values of a file of labels, such as classes or objects: palette indices or grey values, not colours."""
    with decoding.opened(path, str(path), what="an image of labels") as opened:
        check_size(opened.size, str(path), limits)
        values = np.array(opened)
    return torch.from_numpy((values if values.ndim == 2 else values[..., 0]).astype(np.int64))


def read_view(view: View, *, limits: ImageLimits = ImageLimits()) -> UInt8[Tensor, "3 h w"] | Float[Tensor, "3 h w"]:
    """The pixels that a view shows; its mask is left unread."""
    return load_view(replace(view, mask=None, parts=None), limits=limits).pixels


def load_view(view: View, *, limits: ImageLimits = ImageLimits()) -> View:
    """The view with image and mask read from their files and cut to its window; what is pixels stays as it is."""
    image, mask = view.image, view.mask
    if not isinstance(image, Tensor):
        image = _shown(read(image, limits=limits), view, f"{image}: the image", beyond="edge")
    if isinstance(mask, MaskFile):
        shown = view if mask.whole else replace(view, window=None)
        mask = _shown(read_mask(mask, limits=limits), shown, f"{mask.path}: the mask", beyond="zero")
    for what, pixels in (("image", image), ("mask", mask)):
        if pixels is not None:
            _check_annotated(pixels, view.size, f"{view.name or 'the view'}: the {what}")
    return replace(view, image=image, mask=mask, window=None)


def _shown(pixels: Tensor, view: View, what: str, *, beyond: Literal["edge", "zero"]) -> Tensor:
    """What the view shows of the pixels of its file."""
    if view.window is None:
        _check_annotated(pixels, view.size, what)
        return pixels
    _check_annotated(pixels, view.window.size, what)
    return geometry.cut(pixels.flip(-1) if view.window.flipped else pixels, view.window.box, beyond=beyond)


def _check_annotated(pixels: Tensor, size: Size, what: str) -> None:
    if tuple(pixels.shape[-2:]) != tuple(size):
        raise InputError(
            f"{what} is {pixels.shape[-2]}×{pixels.shape[-1]} (height×width), "
            f"but its annotation says {size[0]}×{size[1]}"
        )


def fit(size: Size, *, multiple: int, longest: int | None = None) -> Size:
    """The size nearest to `size` (scaled to `longest`, if given) whose sides are multiples of this."""
    for side in size:
        checks.number(side, "the side of an image", above=0)
    scale = 1.0 if longest is None else checks.number(longest, "the longest side", least=1) / max(size)
    height, width = (max(multiple, round(side * scale / multiple) * multiple) for side in size)
    return height, width


def keep_aspect(size: Size, *, side: int, multiple: int) -> Size:
    """Sides in the ratio of an image of `size`, multiples of this, with about the area of a square of `side`.

    Never more than that area, rounding apart: of a very long image the other side is at least one multiple.
    """
    cells = (side / multiple) ** 2
    rows, columns = (max(1, round(math.sqrt(cells * ratio))) for ratio in (size[0] / size[1], size[1] / size[0]))
    most = max(1, round(cells))
    return min(rows, most) * multiple, min(columns, most) * multiple


def prepare(
    image: Image, to: Size, *, mode: str = "bilinear", mean: Colour = IMAGENET_MEAN, std: Colour = IMAGENET_STD
) -> Float[Tensor, "*b 3 h2 w2"]:
    """Encoder input: the image squashed to `to`, scaled to [0, 1] if it is 8-bit, and normalised (as ImageNet)."""
    pixels = image if image.is_floating_point() else image.float() / 255
    return normalise(geometry.resize_image(pixels, to, mode=mode).clamp(0, 1), mean=mean, std=std)


def normalise(
    pixels: Float[Tensor, "*b 3 h w"], *, mean: Colour = IMAGENET_MEAN, std: Colour = IMAGENET_STD
) -> Float[Tensor, "*b 3 h w"]:
    """Colours in [0, 1] with their mean taken off and divided by their deviation."""
    return (pixels - pixels.new_tensor(mean)[:, None, None]) / pixels.new_tensor(std)[:, None, None]


def _from_pillow(opened: Pillow.Image, name: str, limits: ImageLimits) -> UInt8[Tensor, "3 h w"]:
    check_size(opened.size, name, limits)
    return torch.from_numpy(np.array(decoding.upright(opened, name))).permute(2, 0, 1).contiguous()


def _from_array(array: np.ndarray) -> UInt8[Tensor, "3 h w"]:
    array = np.asarray(array)  # a np.matrix stays flat whatever is done to it
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise InputError(f"an image array must be (height, width), or (height, width, 1, 3 or 4), got {array.shape}")
    if not array.size:
        raise InputError(f"the array is empty, {array.shape}; expected an image")
    if array.dtype == np.uint8 and array.shape[2] == 4:
        layered = Pillow.fromarray(np.ascontiguousarray(array))
        return torch.from_numpy(np.array(decoding.to_rgb(layered, "the array"))).permute(2, 0, 1).contiguous()
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        array = array / 65535.0
    if array.dtype != np.uint8 and (array.dtype.kind != "f" or array.dtype.itemsize > 8):
        raise InputError(f"an image must be uint8 or floating point in [0, 1] (or uint16), got {array.dtype}")
    if array.shape[2] == 4:  # transparency over white
        array = 1 - array[..., 3:] * (1 - array[..., :3])
    array = np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array
    # A copy: torch takes neither foreign byte orders nor negative strides, and warns of arrays that are read-only.
    own = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return _from_tensor(torch.from_numpy(own).permute(2, 0, 1))


def _from_tensor(tensor: Tensor) -> UInt8[Tensor, "3 h w"]:
    if tensor.layout != torch.strided or tensor.device.type == "meta" or tensor.is_quantized or tensor.is_nested:
        raise InputError("an image tensor must be an ordinary one, got a sparse, quantized, nested or meta tensor")
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3):
        raise InputError(f"an image tensor must be (3, height, width), got {tuple(tensor.shape)}")
    pixels = tensor.detach().expand(3, -1, -1)
    if pixels.dtype == torch.uint8:
        return pixels.contiguous()
    if not pixels.is_floating_point():
        raise InputError(f"an image must be uint8 or floating point in [0, 1], got {pixels.dtype}")
    pixels = pixels.float() if pixels.dtype.itemsize == 1 else pixels  # eight-bit floats know no arithmetic
    if not torch.isfinite(pixels).all():
        raise InputError("the image holds NaN or infinity; expected values in [0, 1]")
    low, high = (float(edge) for edge in torch.aminmax(pixels)) if pixels.numel() else (0.0, 0.0)
    if low < 0 or high > 1:
        raise InputError(
            f"a floating point image must lie in [0, 1], got [{low:.3g}, {high:.3g}]; divide by 255, or undo a mean/std"
        )
    return (pixels * 255).round().to(torch.uint8)


def _within(pixels: UInt8[Tensor, "3 h w"], name: str, limits: ImageLimits) -> UInt8[Tensor, "3 h w"]:
    check_size((pixels.shape[2], pixels.shape[1]), name, limits)
    return pixels


def check_size(size: tuple[int, int], name: str, limits: ImageLimits) -> None:
    """Raise if an image of (width, height), as Pillow says it, is beyond the limits."""
    width, height = size
    if min(width, height) < limits.shortest_side:
        raise InputError(
            f"{name} is {width}×{height} pixels; an image needs at least {limits.shortest_side} on each side"
        )
    megapixels = width * height / 1e6
    if megapixels > limits.megapixels:
        raise InputError(
            f"{name} is {width}×{height} = {megapixels:.0f} megapixels, above the limit of {limits.megapixels:.0f}; "
            "scale it down, or raise ImageLimits.megapixels"
        )
