"""Augmentation: Pair → Pair, seeded; image, mask, keypoints and box of a view go through one transform.

What happens to a view is drawn first (`draw`) and done afterwards (`apply`). Positions are the business of `geometry`
(origin at the corner, antialiased); brightness, contrast, saturation, blur, solarise are kornia's. `resize` is the
encoder's way of resizing, so that images reach it in training as they do afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geco import geometry
from geco.errors import InputError, MissingPackageError
from geco.training.settings import AugmentSettings
from geco.types import Keypoints, Pair, Size, Skeleton, View

try:
    from kornia import enhance, filters
except ImportError as error:  # pragma: no cover (kornia is there whenever tests run)
    raise MissingPackageError.of_extra("train", "kornia", what="augmentation") from error


CROP_TRIES = 10  # as in other libraries; after them the sides are cut to the image's


@dataclass(frozen=True)
class Draw:
    """The random choices of one augmentation."""

    window: tuple[int, int, int, int]  # (x0, y0, x1, y1) of the crop, in pixels
    flip: bool
    jitter: tuple[tuple[str, float], ...]  # (adjustment, factor) in the order they are applied
    sigma: float | None  # of the blur, in pixels of the result
    solarise: bool
    angle: float = 0.0  # degrees the view is rotated by, before the window is cut out

    def matrix(self, size: int, *, view: Size) -> Float[Tensor, "3 3"]:
        """Where a position (x, y, 1) of the view, itself of the size `view`, lies in the result, a square of `size`."""
        x0, y0, x1, y1 = self.window
        across, down = size / (x1 - x0), size / (y1 - y0)
        horizontal = [-across, 0.0, across * x1] if self.flip else [across, 0.0, -across * x0]
        onto_square = torch.tensor([horizontal, [0.0, down, -down * y0], [0.0, 0.0, 1.0]])
        return onto_square @ geometry.rotation(self.angle, size=view)


def augment(
    pair: Pair, settings: AugmentSettings, *, seed: int, epoch: int, index: int, resize: str = "bilinear"
) -> Pair:
    """The pair with each view altered by a draw of its own; without a mirror table nothing is flipped."""
    if isinstance(pair.skeleton, tuple):
        raise InputError("augmentation takes one pair at a time, got a batch; stack the pairs afterwards")
    may_flip = pair.table.mirror is not None
    altered = []
    for which, view in enumerate((pair.source, pair.target)):
        drawn = draw(view.size, settings, generator(seed, epoch, index, which), may_flip=may_flip)
        altered.append(apply(view, pair.table, settings, drawn, resize=resize))
    return replace(pair, source=altered[0], target=altered[1])


def self_pair(
    view: View,
    settings: AugmentSettings,
    *,
    points: int,
    seed: int,
    epoch: int,
    index: int,
    resize: str = "bilinear",
) -> Pair:
    """Two alterations of one view; its keypoints are random points of the object, so where each went is known.

    Both are mirrored or neither: a mirrored left eye looks like a right eye and must not be matched with a left one.
    """
    xy = _points_on(view, points, generator(seed, epoch, index, 2))
    rows = tuple(range(points))
    nameless = Skeleton(tuple(f"{view.name} {row}" for row in rows), twin=rows, mirror=rows)
    marked = replace(view, keypoints=Keypoints(xy, torch.ones(points, dtype=torch.bool)))
    first, second = (draw(view.size, settings, generator(seed, epoch, index, which), may_flip=True) for which in (0, 1))
    second = replace(second, flip=first.flip)
    source, target = (apply(marked, nameless, settings, drawn, resize=resize) for drawn in (first, second))
    return Pair(source, target, nameless, category=f"{view.name} with itself, {epoch}/{index}")


def plain(pair: Pair, settings: AugmentSettings, *, resize: str = "bilinear") -> Pair:
    """The pair with both views only resized: what an unaltered dataset goes through."""
    source, target = (_resized(view, settings.size, resize) for view in (pair.source, pair.target))
    return replace(pair, source=source, target=target)


def generator(seed: int, epoch: int, index: int, view: int) -> np.random.Generator:
    """The random numbers of one view of one pair: independent of processes, workers and earlier draws."""
    return np.random.default_rng((seed, epoch, index, view))


def draw(size: Size, settings: AugmentSettings, rng: np.random.Generator, *, may_flip: bool) -> Draw:
    """The random choices for a view of this size."""
    # Every number is drawn, needed or not: switching one alteration off leaves the others as they were.
    # A new one is drawn last, so that the runs of before can be repeated.
    flips, jitters, blurs, solarises = rng.random(4).tolist()
    jitter = _draw_jitter(settings, rng)
    sigma = float(rng.uniform(*settings.sigma))
    window = _draw_window(size, settings, rng)
    return Draw(
        window=window,
        flip=may_flip and flips < settings.flip,
        jitter=jitter if jitters < settings.jitter else (),
        sigma=sigma if blurs < settings.blur else None,
        solarise=solarises < settings.solarise,
        angle=settings.rotate * float(rng.uniform(-1, 1)),
    )


def apply(view: View, skeleton: Skeleton, settings: AugmentSettings, drawn: Draw, *, resize: str = "bilinear") -> View:
    """The view after its draw: a square of `settings.size` in the type (8-bit or [0, 1]) it came in."""
    view = geometry.rotate(view, drawn.angle) if drawn.angle else view
    view = geometry.crop(view, drawn.window)
    view = geometry.flip(view, skeleton) if drawn.flip else view
    return _resized(view, settings.size, resize, lambda pixels: _colours(pixels, settings, drawn))


# --- drawing ----------------------------------------------------------------------------------------------------------


def _points_on(view: View, count: int, rng: np.random.Generator) -> Float[Tensor, "n 2"]:
    """Random positions on the object, anywhere in the image if there is no mask or it is empty."""
    height, width = view.size
    inside = view.mask.flatten().nonzero()[:, 0].numpy() if isinstance(view.mask, Tensor) else np.empty(0, int)
    pixel = rng.choice(inside if len(inside) else height * width, count)
    corner = np.stack([pixel % width, pixel // width], -1)
    return torch.from_numpy(corner + rng.random((count, 2))).float()


def _draw_jitter(settings: AugmentSettings, rng: np.random.Generator) -> tuple[tuple[str, float], ...]:
    spread = {
        "brightness": settings.brightness,
        "contrast": settings.contrast,
        "saturation": settings.saturation,
        "hue": settings.hue,
    }
    middle = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0}
    factors = [(name, middle[name] + float(rng.uniform(-spread[name], spread[name]))) for name in spread]
    return tuple(factors[position] for position in rng.permutation(len(factors)))


def _draw_window(size: Size, settings: AugmentSettings, rng: np.random.Generator) -> tuple[int, int, int, int]:
    height, width = size
    shape = width / height if settings.ratio_of == "image" else 1.0
    for _ in range(CROP_TRIES):
        area = rng.uniform(*settings.scale) * height * width
        ratio = shape * np.exp(rng.uniform(*np.log(settings.ratio)))
        w, h = round(float(np.sqrt(area * ratio))), round(float(np.sqrt(area / ratio)))
        if w <= width and h <= height:
            break
    w, h = max(1, min(w, width)), max(1, min(h, height))
    x0, y0 = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
    return x0, y0, x0 + w, y0 + h


# --- pixels -----------------------------------------------------------------------------------------------------------


def _resized(view: View, size: int, mode: str, colours: Callable[[Tensor], Tensor] = lambda pixels: pixels) -> View:
    """The view as a square of `size`, its colours altered in floating point, in the type it came in."""
    resized = geometry.resize(view, (size, size), mode=mode)
    is_float = view.pixels.is_floating_point()
    pixels = resized.pixels if is_float else resized.pixels.div_(255)
    if mode != "bilinear":
        pixels = pixels.clamp(0, 1)  # a bicubic kernel overshoots at edges
    pixels = colours(pixels)
    if not is_float:
        pixels = pixels.mul(255).round_().clamp_(0, 255).to(torch.uint8)
    return replace(resized, image=pixels)


def _colours(pixels: Float[Tensor, "3 h w"], settings: AugmentSettings, drawn: Draw) -> Float[Tensor, "3 h w"]:
    for name, factor in drawn.jitter:
        pixels = ADJUSTMENTS[name](pixels, factor)
    if drawn.sigma is not None:
        side = (settings.kernel, settings.kernel)
        pixels = filters.gaussian_blur2d(pixels[None], side, (drawn.sigma, drawn.sigma))[0]
    if drawn.solarise:
        pixels = enhance.solarize(pixels, settings.threshold / 255)
    return pixels


def shift_hue(image: Float[Tensor, "*b 3 h w"], turns: float) -> Float[Tensor, "*b 3 h w"]:
    """Colours moved along the circle of hues by this share of it; lightness and saturation (HSV) stay.

    The same as kornia's adjust_hue(image, 2π · turns), which takes four times as long and was most of the
    loader's time: value and chroma do not change with the hue, so the way back from HSV is one product.
    """
    red, green, blue = image.unbind(-3)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = high - low
    per = 1 / chroma.clamp(min=1e-12)  # grey has no hue: any will do, its chroma is zero
    sixths = torch.where(
        high == red,
        (green - blue) * per,
        torch.where(high == green, 2 + (blue - red) * per, 4 + (red - green) * per),
    )
    sixths = sixths + 6 * turns
    sixths = sixths - 6 * torch.floor(sixths / 6)
    share = torch.stack([(sixths - 3).abs() - 1, 2 - (sixths - 2).abs(), 2 - (sixths - 4).abs()], -3).clamp(0, 1)
    return torch.addcmul(low.unsqueeze(-3), chroma.unsqueeze(-3), share)


ADJUSTMENTS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "brightness": enhance.adjust_brightness_accumulative,
    "contrast": enhance.adjust_contrast_with_mean_subtraction,
    "saturation": enhance.adjust_saturation_with_gray_subtraction,
    "hue": shift_hue,
}
