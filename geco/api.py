"""The one-line functions: load, transfer, match, heatmap, features, label, propagate, find, decorate, estimate_pose."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geco import checks, export, images, matching, models, pose, propagation, search
from geco.errors import InputError
from geco.images import Readable
from geco.matching import Placed, Region
from geco.matching.settings import MatchSettings
from geco.models import Extractor
from geco.pose.settings import DecorateSettings, PoseSettings
from geco.propagation.settings import KeypointSettings
from geco.search.settings import SearchSettings
from geco.types import Encoder, FeatureMap, Matches

Points = Sequence[tuple[float, float]] | Any  # anything torch.as_tensor turns into (k, 2)
Model = Encoder | str | Path | None  # a loaded model, or what `load` takes
Seen = Readable | FeatureMap  # an image, or its features if they have been extracted already
Looked = Seen | Region  # the same, or a part of it
Many = list[Any] | tuple[Any, ...] | Iterator[Any]  # of those


def load(
    name: str | Path | None = None, *, device: str = "auto", engine: str | None = None, **options: Any
) -> Extractor:
    """A model ready for inference, adapter merged: by name, run folder, hub id, or None for the packaged default.

    An exported file (.onnx, .xml) is run by its own engine. With `engine` "onnx" or "openvino" another model is
    exported once into the cache folder. `options` go to `Geco.from_pretrained`: size, dtype, layer, norm.
    """
    return export.load_model(models.default_model() if name is None else name, device=device, engine=engine, **options)


@overload
def transfer(
    source: Looked, target: Looked, points: Points, *, model: Model = None, settings: MatchSettings | None = None
) -> Matches: ...
@overload
def transfer(
    source: Looked, target: Many, points: Points, *, model: Model = None, settings: MatchSettings | None = None
) -> Iterator[Matches]: ...
def transfer(
    source: Looked,
    target: Looked | Many,
    points: Points,
    *,
    model: Model = None,
    settings: MatchSettings | None = None,
) -> Matches | Iterator[Matches]:
    """Where points (x, y) of the source image lie in the target image, how sure, and whether they are visible there.

    Images, their feature maps, or `Region`s with a box or a mask. Of a list (or iterator) of targets, one `Matches`
    after the other; targets are encoded as they are reached.
    """
    encoder = _encoder(model)
    settings = _settings(encoder, settings)
    if not isinstance(target, list | tuple | Iterator):
        (first, start), (second, end) = encoded(encoder, [source, target])
        return _carried(encoder, first, start, second, end, points, settings)
    ((first, start),) = encoded(encoder, [source])
    matching.as_points(
        points, start.size, corner=first.offset
    )  # a mistake is told now, not when the first target is asked for
    pairs = encoded(encoder, target)
    return (_carried(encoder, first, start, second, end, points, settings) for second, end in pairs)


def _carried(
    encoder: Encoder,
    source: Placed,
    start: FeatureMap,
    target: Placed,
    end: FeatureMap,
    points: Points,
    settings: MatchSettings,
) -> Matches:
    """Points of the source in one target, both in pixels of the whole images."""
    xy = matching.as_points(points, start.size, corner=source.offset).to(start.values.device)
    start, end = matching.paired(encoder, start, end)
    masks = None
    if source.mask is not None or target.mask is not None:
        masks = _everywhere(source.mask, start), _everywhere(target.mask, end)
    matches = matching.transfer(start, end, source.inward(xy), settings, masks=masks, within=target.mask)
    return matching.in_images(matches, source, target)


def _everywhere(mask: Bool[Tensor, "h w"] | None, features: FeatureMap) -> Bool[Tensor, "h w"]:
    return torch.ones(features.size, dtype=torch.bool) if mask is None else mask


def match(
    source: Looked,
    target: Looked,
    points: Points | None = None,
    *,
    model: Model = None,
    settings: MatchSettings | None = None,
    foreground: bool = False,
) -> Matches:
    """Mutual matches of patches over the whole images, best first; with points, the matches of those (`transfer`).

    Of a `Region` only what is in its box and on its mask takes part. `foreground`: of images without a mask, only what
    they have in common (`matching.common_foreground`).
    """
    if points is not None:
        return transfer(source, target, points, model=model, settings=settings)
    encoder = _encoder(model)
    settings = _settings(encoder, settings)
    (first, start), (second, end) = encoded(encoder, [source, target])
    start, end = matching.paired(encoder, start, end)
    masks = first.mask, second.mask
    if checks.flag(foreground, "foreground") and None in masks:
        own = matching.common_foreground(start, end, settings)
        masks = masks[0] if masks[0] is not None else own[0], masks[1] if masks[1] is not None else own[1]
    return matching.in_images(matching.mutual(start, end, settings, masks=masks), first, second)


def heatmap(
    source: Seen,
    target: Seen,
    point: tuple[float, float],
    *,
    model: Model = None,
    settings: MatchSettings | None = None,
) -> Float[Tensor, "h w"]:
    """Similarity of every target pixel to one point of the source image."""
    encoder = _encoder(model)
    settings = _settings(encoder, settings)
    start, end = matching.paired(encoder, *_maps(encoder, source, target))
    query = matching.queries(start, matching.as_points([point], start.size).to(start.values.device), settings)
    scores = matching.score_maps(query, matching.prepare(end, settings))[0]
    matching.check_finite(scores)
    return scores


def features(image: Readable, *, model: Model = None) -> FeatureMap:
    """Dense features of one image; `.unit()` for descriptors of length one."""
    encoder = _encoder(model)
    matching.check_single(encoder)
    return next(iter(encoder.extract_stream([image])))


def label(
    labelled: "Iterable[tuple[Readable, propagation.LabelMap]]", pictures: Iterable[Readable], *, model: Model = None
) -> Iterator[Int[Tensor, "_ _"]]:
    """Part labels of new images, one map (height, width) after the other, from a few images whose parts are labelled.

    `labelled` are pairs of an image and its label map, in which 0 is background and i is part i; at least one map
    must show a part.
    """
    return propagation.label(_encoder(model), labelled, pictures)


def propagate(
    labels: "str | Path | propagation.LabelSet",
    pictures: Iterable[str | Path],
    *,
    model: Model = None,
    settings: KeypointSettings | None = None,
    boxes: Mapping[Path, Sequence[tuple[float, float, float, float]]] | None = None,
) -> "Iterator[propagation.LabelledImage]":
    """Keypoints of new image files, one image after the other, from a few that are labelled.

    `labels` is a file in any format that `geco propagate` reads, or what `geco.propagation.read_annotations` returns;
    `boxes` say where the animals of an image are, by its path.
    """
    given = labels if isinstance(labels, propagation.LabelSet) else propagation.read_annotations(labels)
    return propagation.propagate(_encoder(model), given, pictures, settings or KeypointSettings(), boxes=boxes)


def find(
    index: "str | Path | search.PartIndex",
    image: Seen,
    point: tuple[float, float],
    *,
    model: Model = None,
    settings: SearchSettings | None = None,
) -> "search.Found":
    """Images of a collection, and the places in them, that show what is at a point (x, y) of an image; best first.

    `index` is what `geco index` wrote, or what `geco.search.open_index` made of it, for many questions; the model is
    that of the index. `hits` is empty if nothing is above the threshold. The room is called geco.search, which is why
    this is not.
    """
    opened = index if isinstance(index, search.PartIndex) else search.open_index(index)
    encoder = _encoder(opened.features.model if model is None else model)
    return search.find(opened, encoder, image, point, settings or SearchSettings())


def decorate(
    mesh: str | Path, *, model: Model = None, settings: DecorateSettings | None = None, cache: bool = True
) -> "pose.Decoration":
    """A mesh file with a feature on each vertex, from rendered views around it; kept in the cache folder."""
    encoder, settings = _encoder(model), settings or DecorateSettings()
    loaded = pose.load_mesh(mesh)
    if not cache:
        return pose.decorate(encoder, loaded, settings)
    return pose.decorated_once(encoder, loaded, models.cache_folder() / "decorated", settings)


def estimate_pose(
    mesh: "str | Path | pose.Decoration",
    image: Seen,
    *,
    model: Model = None,
    mask: Bool[Tensor, "h w"] | None = None,
    focal: float | None = None,
    settings: PoseSettings | None = None,
) -> "pose.Pose":
    """The camera pose of an image of the animal of a mesh, or of another individual; `found` says whether there is one.

    `mesh` is a file, decorated once and kept in the cache folder, or what `geco decorate` wrote. `focal` is in pixels,
    estimated if not given; `mask` marks the animal's pixels, if they are known.
    """
    encoder = _encoder(model)
    if isinstance(mesh, pose.Decoration):
        decoration = mesh
    elif Path(mesh).suffix.lower() == ".safetensors":
        decoration = pose.read_decoration(mesh)
    else:
        decoration = decorate(mesh, model=encoder)
    return pose.estimate(encoder, decoration, image, mask=mask, focal=focal, settings=settings or PoseSettings())


def check_points(points: Points, source: Looked) -> None:
    """Raise unless the points lie on the source, or in its box; reads the image if need be."""
    placed = matching.place(source)
    image = placed.image
    size = image.size if isinstance(image, FeatureMap) else tuple(images.read(image).shape[-2:])
    matching.as_points(points, (size[0], size[1]), corner=placed.offset)


def match_settings(encoder: Encoder, *, threshold: float | None = None, **changes: Any) -> MatchSettings:
    """The usual settings with the threshold this encoder was calibrated for, unless another is given."""
    return MatchSettings(threshold=encoder.threshold if threshold is None else threshold, **changes)


def encoded(encoder: Encoder, pictures: Iterable[Looked]) -> Iterator[tuple[Placed, FeatureMap]]:
    """Images, feature maps or regions with their features, one after the other; images are encoded in batches."""
    waiting: deque[Placed] = deque()

    def unseen() -> Iterator[Readable]:
        for picture in pictures:
            waiting.append(matching.place(picture))
            if not isinstance(waiting[-1].image, FeatureMap):
                yield waiting[-1].image

    def seen() -> Iterator[tuple[Placed, FeatureMap]]:
        while waiting and isinstance(features := waiting[0].image, FeatureMap):
            yield waiting.popleft(), features

    given = unseen()
    for features in encoder.extract_stream(given):
        yield from seen()
        yield waiting.popleft(), features
    for _ in given:  # none is left, unless the encoder did not ask for any because there are only feature maps
        raise InputError(f"{encoder.name} gave fewer feature maps than it was given images")
    yield from seen()


def _maps(encoder: Encoder, source: Seen, target: Seen) -> tuple[FeatureMap, FeatureMap]:
    """Features of two images, those that are not feature maps already encoded in one batch."""
    unseen = encoder.extract_stream([image for image in (source, target) if not isinstance(image, FeatureMap)])
    start, end = (image if isinstance(image, FeatureMap) else next(unseen) for image in (source, target))
    return start, end


def _encoder(model: Any) -> Encoder:
    if model is None or isinstance(model, str | Path):
        return _loaded(model)
    if not isinstance(model, Encoder) or isinstance(model, type):
        raise InputError(f"model must be what geco.load returns, or what it takes, got {checks.shown(model)}")
    return model


def _settings(encoder: Encoder, settings: Any) -> MatchSettings:
    if settings is not None and not isinstance(settings, MatchSettings):
        raise InputError(f"settings must be MatchSettings, got {checks.shown(settings)}")
    return matching.suited(match_settings(encoder) if settings is None else settings, encoder)


@lru_cache(maxsize=1)
def _loaded(name: str | Path | None) -> Extractor:
    return load(name)
