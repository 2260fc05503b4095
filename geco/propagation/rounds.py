"""The next round: images that were corrected join the labels."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from geco.errors import InputError
from geco.propagation.annotations import UNKNOWN, VISIBLE, Animal, LabelledImage, LabelSet
from geco.system import documents

MOVED = 1.0  # pixels: formats round, people move further


def with_corrections(labels: LabelSet, corrected: LabelSet, previous: LabelSet | None = None) -> tuple[LabelSet, int]:
    """The labels and the images that were corrected, which replace labels of the same images; and how many those are.

    If the corrected file has all images of the previous round, as annotation tools write them, only those that
    differ from that round's results count: the others are predictions that were not reviewed.
    """
    images = _in_order(corrected, labels)
    if previous is not None:
        before = {_key(image): image for image in _in_order(previous, labels)}
        if set(before) <= {_key(image) for image in images}:
            images = [image for image in images if _differ(image, before.get(_key(image)))]
    if not images:
        raise InputError("the corrected labels are those of the previous round, unchanged; correct some first")
    replaced = {_key(image) for image in images}
    kept = [image for image in labels.images if _key(image) not in replaced]
    return replace(labels, images=(*kept, *images)), len(images)


def _key(image: LabelledImage) -> tuple[Path, int | None]:
    return image.path.resolve(), image.frame


def _in_order(given: LabelSet, labels: LabelSet) -> list[LabelledImage]:
    """The images with their keypoints in the order of `labels`, free of what only predictions have."""
    names, wanted = given.skeleton.names, labels.skeleton.names
    if set(names) != set(wanted):
        odd = sorted(set(names) ^ set(wanted))
        raise InputError(f"the corrected labels have other keypoints than the labels: {documents.listed(odd)}")
    order = torch.tensor([names.index(name) for name in wanted])
    return [
        replace(
            image,
            animals=tuple(Animal(one.xy[order], one.state[order], one.box, one.track) for one in image.animals),
        )
        for image in given.images
    ]


def _differ(image: LabelledImage, before: LabelledImage | None) -> bool:
    if before is None or len(image.animals) != len(before.animals):
        return True
    return any(not _same(one, other) for one, other in zip(image.animals, before.animals, strict=True))


def _same(one: Animal, other: Animal) -> bool:
    visible = one.state == VISIBLE
    if not torch.equal(visible, other.state == VISIBLE):
        return False
    both = (one.state != UNKNOWN) & visible
    return bool(((one.xy - other.xy).abs() <= MOVED).all(1)[both].all())


def numbered(output: Path, number: int) -> Path:
    """The file of a round: the first has the name given, the second "-round2" in it."""
    return output if number == 1 else output.with_name(f"{output.stem}-round{number}{output.suffix}")


def join_corrections(
    labels: LabelSet, corrected: Sequence[LabelSet], previous: LabelSet | None
) -> tuple[LabelSet, list[int]]:
    """The labels with several files of corrections, a later one before an earlier one; and how many images each has."""
    counts = []
    for given in corrected:
        labels, count = with_corrections(labels, given, previous)
        counts.append(count)
    return labels, counts
