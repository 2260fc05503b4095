"""References: what the labelled animals say about each keypoint, and the windows of images that animals are seen in."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional

from geco import geometry, images, matching
from geco.errors import InputError
from geco.propagation import video
from geco.propagation.annotations import HIDDEN, UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.propagation.settings import KeypointSettings
from geco.types import Encoder, FeatureMap, Size

Box = tuple[int, int, int, int]  # (x0, y0, x1, y1), whole pixels; may leave the image
FEWEST_POINTS = 3  # of an animal without a box, for its points to tell where it is


@dataclass(frozen=True)
class Reference:
    """A labelled animal, seen in a window of its image."""

    features: FeatureMap  # of the window
    descriptors: Float[Tensor, "k c"]  # unit length; of points that are not visible, anything
    points: Float[Tensor, "k 2"]  # in pixels of the window
    visible: Bool[Tensor, "k"]
    hidden: Bool[Tensor, "k"]  # labelled as hidden; what is neither is not known
    whole: Float[Tensor, "c"]  # mean descriptor: references that are like a target are like it here
    mirrored: FeatureMap | None = None  # of the window's mirror image


def gather(encoder: Encoder, labels: LabelSet, settings: KeypointSettings) -> Iterator[Reference]:
    """The labelled animals one after the other; those without a visible point are left out."""
    for image, pixels in opened([image for image in labels.images if _visible_animals(image)]):
        size = pixels.shape[-2], pixels.shape[-1]
        for animal in _visible_animals(image):
            _check_inside(animal, size, image.path)
            box = window_of(animal, size, settings.margin)
            features, mirrored = next(encode(encoder, [pixels_in(pixels, box)], mirror=settings.mirror))
            yield reference(features, animal, box, mirrored=mirrored)


def _visible_animals(image: LabelledImage) -> list[Animal]:
    return [animal for animal in image.animals if bool((animal.state == VISIBLE).any())]


def opened(labelled: Sequence[LabelledImage]) -> Iterator[tuple[LabelledImage, UInt8[Tensor, "3 _ _"]]]:
    """The images with their pixels, one after the other; the frames of a video together, since it is decoded once."""
    films: dict[Path, list[LabelledImage]] = {}
    for image in labelled:
        if image.frame is None:
            yield image, images.read(image.path)
        else:
            films.setdefault(image.path, []).append(image)
    for path, frames in films.items():
        for number, pixels in video.pick(path, [int(image.frame or 0) for image in frames]):
            for image in frames:
                if image.frame == number:
                    yield image, pixels


def encode(
    encoder: Encoder, windows: Iterable[UInt8[Tensor, "3 _h _w"]], *, mirror: bool
) -> Iterator[tuple[FeatureMap, FeatureMap | None]]:
    """The features of each window and, with `mirror`, those of its mirror image."""
    if not mirror:
        for features in encoder.extract_stream(windows):
            yield features, None
        return
    maps = encoder.extract_stream(pixels for window in windows for pixels in (window, window.flip(-1)))
    for features in maps:
        yield features, next(maps)


def reference(features: FeatureMap, animal: Animal, box: Box, *, mirrored: FeatureMap | None = None) -> Reference:
    """The animal whose window has these features."""
    corner = torch.tensor(box[:2], dtype=torch.float32)
    visible = animal.state == VISIBLE
    points = torch.where(visible[:, None], animal.xy - corner, 0.0)
    descriptors = matching.queries(features, points.to(features.values.device))
    hidden = animal.state == HIDDEN
    return Reference(features, descriptors, points, visible, hidden, mean_descriptor(features), mirrored)


def mean_descriptor(features: FeatureMap) -> Float[Tensor, "c"]:
    """The mean of a map's unit descriptors, of unit length."""
    return functional.normalize(features.unit().values.flatten(1).mean(1), dim=0)


def window_of(animal: Animal, size: Size, margin: float) -> Box:
    """A square around the animal's box, or around its points; the whole image if neither tells where it is."""
    places = animal.xy[animal.state != UNKNOWN]
    places = places[torch.isfinite(places).all(1)]
    if animal.box is not None:
        return square(animal.box, margin)
    if len(places) < FEWEST_POINTS:
        return 0, 0, size[1], size[0]
    (x0, y0), (x1, y1) = places.min(0).values.tolist(), places.max(0).values.tolist()
    return square((x0, y0, x1, y1), margin)


def square(box: Sequence[float], margin: float) -> Box:
    """The square around a box whose longer side is grown by `margin` on either side."""
    x0, y0, x1, y1 = box
    half = max(x1 - x0, y1 - y0, 1.0) * (0.5 + margin)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    side = max(1, round(2 * half))
    left, top = round(x - half), round(y - half)
    return left, top, left + side, top + side


def _check_inside(animal: Animal, size: Size, path: Path) -> None:
    visible = animal.state == VISIBLE
    outside = visible & ~geometry.inside(animal.xy, size=size)
    if bool(outside.any()):
        x, y = animal.xy[outside][0].tolist()
        raise InputError(f"{path}: a keypoint is at ({x:g}, {y:g}), outside the image of {size[1]}×{size[0]} pixels")


def pixels_in(pixels: UInt8[Tensor, "3 h w"], box: Box) -> UInt8[Tensor, "3 h2 w2"]:
    """What a window shows; beyond the image, its edge."""
    return geometry.cut(pixels, box, beyond="edge")
