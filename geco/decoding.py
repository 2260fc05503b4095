"""Decoding: image files → Pillow images, upright and RGB; whatever a damaged file raises is one line that names it."""

import contextlib
import importlib
import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image as Pillow
from PIL import UnidentifiedImageError

from geco import checks
from geco.errors import GecoError, InputError, MissingFileError
from geco.types import Size

# Nothing else is tried: some of Pillow's other readers are half finished, and that of EPS starts a program.
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "AVIF", "JPEG2000")
READERS = ("Jpeg", "Png", "WebP", "Tiff", "Bmp", "Gif", "Ppm", "Avif", "Jpeg2K")  # Pillow's modules for them
RUN_A_PROGRAM = ("EPS", "WMF")
TO_RGB = ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV")  # modes that Pillow converts; transparent ones aside
TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")
ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {  # what turns an image of this orientation upright
    2: Pillow.Transpose.FLIP_LEFT_RIGHT,
    3: Pillow.Transpose.ROTATE_180,
    4: Pillow.Transpose.FLIP_TOP_BOTTOM,
    5: Pillow.Transpose.TRANSPOSE,
    6: Pillow.Transpose.ROTATE_270,
    7: Pillow.Transpose.TRANSVERSE,
    8: Pillow.Transpose.ROTATE_90,
}


class _Silence:
    """No warnings while any thread decodes.

    `warnings.catch_warnings` puts back the filters that it found, which in another thread may be those of
    another block; this adds one filter and takes out that one.
    """

    FILTER = r"(?s:.*)"

    def __init__(self) -> None:
        self._lock, self._threads = threading.Lock(), 0
        self._filters: list[Any] = []

    def __enter__(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                warnings.filterwarnings("ignore", message=self.FILTER)
                self._filters = cast(list[Any], warnings.filters)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                for filters in (self._filters, cast(list[Any], warnings.filters)):
                    filters[:] = [item for item in filters if getattr(item[1], "pattern", "") != self.FILTER]


_SILENCE = _Silence()


@contextmanager
def opened(image: Any, name: str, *, what: str = "an image") -> Iterator[Pillow.Image]:
    """The file (or bytes) opened but not decoded; what goes wrong inside the block is one line about this file."""
    with guarded(name, what=what):
        if not isinstance(image, bytes):
            checks.regular(checks.path(image, what), what=f"{what} file")
        try:
            file = Pillow.open(io.BytesIO(image) if isinstance(image, bytes) else image, formats=_formats())
        except UnidentifiedImageError:
            about = checks.foreign(image[:512] if isinstance(image, bytes) else _start(image))
            if about:
                raise InputError(f"{name} is not an image: it is {about}") from None
            raise
        with file:
            yield file


@contextmanager
def guarded(name: str, *, what: str = "an image") -> Iterator[None]:
    """Whatever decoding raises, as one line that names the file."""
    try:
        with _SILENCE:  # remarks on odd metadata are not the user's to mend, and for large images our own limit speaks
            yield
    except GecoError:
        raise
    except FileNotFoundError:
        raise MissingFileError(f"{name}: no such file; expected {what}") from None
    except UnidentifiedImageError:
        raise InputError(f"{name} is not an image that can be read (JPEG, PNG, WebP, TIFF, BMP, GIF are)") from None
    except Pillow.DecompressionBombError as error:
        raise InputError(f"{name} is too large to be read: {error}") from None
    except MemoryError:
        raise InputError(f"{name} needs more memory than there is; scale it down, or get the file again") from None
    except Exception as error:  # Pillow's readers let through whatever a damaged file makes them stumble over
        if isinstance(error, OSError) and error.strerror:  # from the system: permissions, a broken disk
            raise InputError(f"{name} cannot be read: {error.strerror}") from None
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"{name} is damaged or cut short: {reason}; get the file again") from None


def size_of(image: Pillow.Image) -> Size:
    """(height, width) of the image once it is upright."""
    width, height = image.size
    # Pillow itself rotates TIFF files, and says so in their size.
    rotated = image.format != "TIFF" and _orientation(image) >= 5
    return (width, height) if rotated else (height, width)


def upright(image: Pillow.Image, name: str) -> Pillow.Image:
    """The image decoded, rotated as its EXIF says, in RGB, transparency over white."""
    if image.format in RUN_A_PROGRAM:
        raise InputError(f"{name} is {image.format}, which another program would have to draw; export it as PNG")
    image.load()
    method = UPRIGHT.get(_orientation(image))
    rgb = to_rgb(image, name)
    return rgb if method is None else rgb.transpose(method)


def to_rgb(image: Pillow.Image, name: str) -> Pillow.Image:
    """The image in RGB.

    16-bit values are scaled by 65535. 32-bit whole numbers within 0…255 are 8-bit values, floating point within [0, 1]
    is a share of white; any others are stretched from their smallest to their largest.
    """
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Pillow.fromarray(_grey(image, name)).convert("RGB")
    if image.mode in TRANSPARENT or "transparency" in image.info:
        layered = image.convert("RGBA")
        white = Pillow.new("RGBA", layered.size, (255, 255, 255, 255))
        return Pillow.alpha_composite(white, layered).convert("RGB")
    if image.mode not in TO_RGB:
        raise InputError(f"{name} has colours of the kind {image.mode!r}, which cannot be converted; save it as RGB")
    return image.convert("RGB")


def _grey(image: Pillow.Image, name: str) -> np.ndarray:
    values = np.asarray(image, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{name} holds NaN or infinity; expected finite values")
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    # PIL clips 16-bit values at 255 when it converts, which turns such images white: scale them instead. PNG and PGM
    # have 16 bits at most, also where Pillow holds them in 32.
    sixteen = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    top = 65535.0 if sixteen else 1.0 if image.mode == "F" else 255.0
    if low < 0 or high > top:
        values, top = values - low, high - low
    return (values / top * 255).round().clip(0, 255).astype(np.uint8)


def _orientation(image: Pillow.Image) -> int:
    """The EXIF orientation, 1 (as it is) if there is none or it makes no sense."""
    try:
        value = image.getexif().get(ORIENTATION, 1)
        return int(value) if value in UPRIGHT else 1
    except MemoryError:
        raise
    except Exception:  # damaged EXIF does not damage the pixels
        return 1


@cache
def _formats() -> list[str]:
    for reader in READERS:  # these alone: Pillow.init() imports forty
        with contextlib.suppress(ImportError):  # older versions lack AVIF
            importlib.import_module(f"PIL.{reader}ImagePlugin")
    return [name for name in FORMATS if name in Pillow.OPEN]


def _start(path: str | Path | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read(512)
