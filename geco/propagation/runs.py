"""Labelling many image files: read ahead, encoded together, each handed on as soon as it is done."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from geco import images
from geco.errors import GecoError
from geco.propagation.annotations import LabelledImage, LabelSet
from geco.propagation.journal import Result
from geco.propagation.keypoints import DEFAULTS, GivenBox, Propagator
from geco.propagation.settings import KeypointSettings
from geco.system import ahead, files
from geco.types import Encoder, Size

TOGETHER = 4  # images that are read ahead and encoded as a batch; more cost memory, and a CPU gains nothing
Where = Callable[[Path, Size], Sequence[GivenBox] | None]  # boxes of an image; None: its animals are to be found


def propagate(
    encoder: Encoder,
    labels: LabelSet,
    pictures: Iterable[str | Path],
    settings: KeypointSettings = DEFAULTS,
    *,
    boxes: Mapping[Path, Sequence[GivenBox]] | None = None,
) -> Iterator[LabelledImage]:
    """The image files with the keypoints of their animals, one after the other.

    `boxes` say where the animals of an image are; an image without them shows one, or with `crop="auto"` several.
    """
    given = boxes or {}
    propagator = Propagator.of(encoder, labels, settings)
    for result in label_files(propagator, map(Path, pictures), lambda path, _: given.get(path)):
        yield result.image


def label_files(
    propagator: Propagator,
    paths: Iterable[Path],
    boxes: Where | None = None,
    failures: dict[Path, str] | None = None,
) -> Iterator[Result]:
    """The results of the files one after the other; `failures` collects those that cannot be read, with the reason.

    Where `boxes` names none, an image shows no animal; where it gives None, or is None, they are looked for.
    """
    with ahead.groups(iter(paths), lambda path: _read(path, boxes), count=TOGETHER) as groups:
        for group in groups:
            good = [one for one in group if isinstance(one, _Opened)]
            found = propagator.label_batch([(one.pixels, one.boxes or ()) for one in good])
            for one, of_it in zip(good, found, strict=True):
                animals = of_it.animals if one.boxes is None or one.boxes else ()
                size = one.pixels.shape[-2], one.pixels.shape[-1]
                yield Result(LabelledImage(one.path, animals, size=size), of_it.look)
            for path, error in (one for one in group if not isinstance(one, _Opened)):
                if failures is None:
                    raise error
                failures[path] = str(error)


def digest(labels: LabelSet) -> str:
    """Equal for labels that say the same about equal images."""
    total = hashlib.sha256(repr((labels.skeleton, labels.edges)).encode())
    content = {path: files.sha256(path) for path in {image.path for image in labels.images}}
    for image in labels.images:
        total.update(f"{image.path.name} {image.frame} {content[image.path]}".encode())
        for animal in image.animals:
            places = torch.nan_to_num(animal.xy, nan=-1.0).double().numpy().tobytes()
            total.update(places + animal.state.numpy().tobytes() + repr(animal.box).encode())
    return total.hexdigest()


@dataclass(frozen=True)
class _Opened:
    path: Path
    pixels: UInt8[Tensor, "3 h w"]
    boxes: Sequence[GivenBox] | None


def _read(path: Path, boxes: Where | None) -> _Opened | tuple[Path, GecoError]:
    try:
        pixels = images.read(path)
        return _Opened(path, pixels, boxes and boxes(path, (pixels.shape[-2], pixels.shape[-1])))
    except GecoError as error:
        return path, error
