"""Images: whatever the user has → an 8-bit RGB tensor, within limits; and the encoder's input from it."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError
from torch import Tensor

from geco import geometry
from geco.errors import InputError, MissingFileError
from geco.types import Image, MaskFile, Size, View

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ImageLimits:
    """What is refused before it is decoded."""

    megapixels: float = 80.0  # above any camera in common use, below what would fill a laptop's memory
    shortest_side: int = 8  # pixels; smaller files are icons or mistakes, there is nothing to match in them


Readable = str | Path | bytes | Pillow.Image | Shaped[np.ndarray, "..."] | Shaped[Tensor, "..."]


def read(image: Readable, *, limits: ImageLimits = ImageLimits()) -> UInt8[Tensor, "3 h w"]:
    """RGB pixels of a file, bytes, PIL image, array (h, w[, c]) or tensor (3, h, w), turned upright as its EXIF says.

    Grey, palette, CMYK, 16-bit and transparent images are converted (transparency over white). Floating point arrays
    and tensors must lie in [0, 1].
    """
    if isinstance(image, Tensor):
        return _within(_from_tensor(image), "the tensor", limits)
    if isinstance(image, np.ndarray):
        return _within(_from_array(image), "the array", limits)
    if isinstance(image, Pillow.Image):
        return _from_pillow(image, "the image", limits)
    name = "the bytes" if isinstance(image, bytes) else str(image)
    with _opened(image, name) as opened:
        return _from_pillow(opened, name, limits)


def size_of(path: str | Path) -> Size:
    """(height, width) of an image file as `read` will return it, from its header alone."""
    with _opened(path, str(path)) as opened:
        width, height = opened.size
        turned = opened.getexif().get(0x0112, 1) >= 5  # orientations 5 to 8 exchange the sides
        return (width, height) if turned else (height, width)


def read_mask(mask: MaskFile, *, limits: ImageLimits = ImageLimits()) -> Bool[Tensor, "h w"]:
    """Foreground pixels of a mask file."""
    values = _values(mask.path, limits)
    if values.dtype == np.bool_:
        return torch.from_numpy(values)
    return torch.from_numpy(values >= 128 if mask.label is None else values == mask.label)


def read_labels(path: Path, *, limits: ImageLimits = ImageLimits()) -> Int[Tensor, "h w"]:
    """Pixel values of a file of labels, such as classes or objects: palette indices or grey values, not colours."""
    return torch.from_numpy(_values(path, limits).astype(np.int64))


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
    scale = 1.0 if longest is None else longest / max(size)
    height, width = (max(multiple, round(side * scale / multiple) * multiple) for side in size)
    return height, width


def prepare(image: Image, to: Size, *, mode: str = "bilinear") -> Float[Tensor, "*b 3 h2 w2"]:
    """Encoder input: the image squashed to `to`, scaled to [0, 1] if it is 8-bit, normalised as ImageNet."""
    pixels = image if image.is_floating_point() else image.float() / 255
    pixels = geometry.resize_image(pixels, to, mode=mode).clamp(0, 1)
    mean, std = pixels.new_tensor(IMAGENET_MEAN), pixels.new_tensor(IMAGENET_STD)
    return (pixels - mean[:, None, None]) / std[:, None, None]


@contextmanager
def _opened(image: str | Path | bytes, name: str) -> Iterator[Pillow.Image]:
    """The file opened but not decoded, or one line that says why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Pillow.DecompressionBombWarning)  # our own limit speaks for it
            opened = Pillow.open(io.BytesIO(image) if isinstance(image, bytes) else image)
    except FileNotFoundError:
        raise MissingFileError(f"{name}: no such file; expected an image") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder; expected an image file") from None
    except UnidentifiedImageError:
        raise InputError(f"{name} is not an image that can be read (JPEG, PNG, WebP, TIFF, BMP, GIF are)") from None
    except Pillow.DecompressionBombError as error:
        raise InputError(f"{name} is too large to be read: {error}") from None
    except OSError as error:
        if error.strerror:  # from the system: permissions, a broken disk
            raise InputError(f"{name} cannot be read: {error.strerror}") from None
        raise InputError(f"{name} is damaged or cut short: {error}; get the file again") from None
    with opened:
        yield opened


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises all three for damaged files
        raise InputError(f"{name} is damaged or cut short: {error}; get the file again") from None


def _from_pillow(opened: Pillow.Image, name: str, limits: ImageLimits) -> UInt8[Tensor, "3 h w"]:
    _check_size(opened.size, name, limits)
    with _decoding(name):
        upright = ImageOps.exif_transpose(opened)
        assert upright is not None
        pixels = np.array(_to_rgb(upright))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def _to_rgb(image: Pillow.Image) -> Pillow.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        # PIL clips 16-bit values at 255 when it converts, which turns such images white: scale them instead.
        values = np.asarray(image, dtype=np.float64)
        top = 1.0 if image.mode == "F" and values.max(initial=0) <= 1 else 65535.0
        return Pillow.fromarray((values / top * 255).round().clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layered = image.convert("RGBA")
        white = Pillow.new("RGBA", layered.size, (255, 255, 255, 255))
        return Pillow.alpha_composite(white, layered).convert("RGB")
    return image.convert("RGB")


def _from_array(array: np.ndarray) -> UInt8[Tensor, "3 h w"]:
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=2)
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise InputError(f"an image array must be (height, width), or (height, width, 1, 3 or 4), got {array.shape}")
    if array.dtype == np.uint8 and array.shape[2] == 4:
        return torch.from_numpy(np.array(_to_rgb(Pillow.fromarray(array)))).permute(2, 0, 1).contiguous()
    array = np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array[..., :3]
    if array.dtype == np.uint16:
        array = array / 65535.0
    return _from_tensor(torch.from_numpy(np.ascontiguousarray(array)).permute(2, 0, 1))


def _from_tensor(tensor: Tensor) -> UInt8[Tensor, "3 h w"]:
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3):
        raise InputError(f"an image tensor must be (3, height, width), got {tuple(tensor.shape)}")
    pixels = tensor.detach().expand(3, -1, -1)
    if pixels.dtype == torch.uint8:
        return pixels.contiguous()
    if not pixels.is_floating_point():
        raise InputError(f"an image must be uint8 or floating point in [0, 1], got {pixels.dtype}")
    if not torch.isfinite(pixels).all():
        raise InputError("the image holds NaN or infinity; expected values in [0, 1]")
    low, high = (float(edge) for edge in torch.aminmax(pixels)) if pixels.numel() else (0.0, 0.0)
    if low < 0 or high > 1:
        raise InputError(
            f"a floating point image must lie in [0, 1], got [{low:.3g}, {high:.3g}]; divide by 255, or undo a mean/std"
        )
    return (pixels * 255).round().to(torch.uint8)


def _within(pixels: UInt8[Tensor, "3 h w"], name: str, limits: ImageLimits) -> UInt8[Tensor, "3 h w"]:
    _check_size((pixels.shape[2], pixels.shape[1]), name, limits)
    return pixels


def _values(path: Path, limits: ImageLimits) -> np.ndarray:
    """The first channel of an image file as it is stored."""
    with _opened(path, str(path)) as opened:
        _check_size(opened.size, str(path), limits)
        with _decoding(str(path)):
            values = np.array(opened)
    return values if values.ndim == 2 else values[..., 0]


def _check_size(size: tuple[int, int], name: str, limits: ImageLimits) -> None:
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
