"""The questions of the search benchmark and their true answers: annotated keypoints of held-out and other images."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import data
from geco.data import PairDataset
from geco.errors import InputError
from geco.evaluation.settings import SearchProtocol
from geco.system import files
from geco.types import Keypoints, Skeleton, View


@dataclass(frozen=True)
class Annotated:
    """An annotated object of an image."""

    group: str  # objects of a group have the same keypoints: row i of one means what row i of another means
    category: str
    skeleton: Skeleton
    keypoints: Keypoints
    side: float  # longer side of its box in pixels


@dataclass(frozen=True)
class Gallery:
    """The annotated objects of each image, and which images are held out: questions come only from those."""

    objects: Mapping[Path, tuple[Annotated, ...]]
    held_out: frozenset[Path]


@dataclass(frozen=True)
class Question:
    """A keypoint of an object of a held-out image."""

    image: Path
    xy: tuple[float, float]
    group: str
    category: str
    row: int
    twin: int  # the row of its counterpart; its own if it has none
    relevant: int  # other images of the gallery that show it


def gather(splits: Iterable[tuple[str, PairDataset, bool]]) -> Gallery:
    """The gallery of some splits: the name of the dataset, its pairs, and whether they are held out.

    Files with the same content are one image. Keypoints without names mean the same in two categories of a dataset
    only if the categories share an image with the same points (PF-WILLOW's cars do).
    """
    objects: dict[Path, dict[str, Annotated]] = {}
    asking: set[Path] = set()
    files_of, groups = _ImageFiles(), _Groups()
    for name, pairs, is_held_out in splits:
        for view in pairs.views:
            path = files_of.path(view)
            objects.setdefault(path, {})
            asking |= {path} if is_held_out else set()
        for pair in pairs:
            is_named = pair.table != data.unnamed(len(pair.table))
            group = name if is_named else groups.of(name, str(pair.category))
            for view in (pair.source, pair.target):
                annotated = Annotated(group, str(pair.category), pair.table, view.points, _side(view))
                key = f"{name} {view.points.xy.tolist()}"
                known = objects[files_of.path(view)].setdefault(key, annotated)
                if known.group != group:
                    groups.join(known.group, group)
    renamed = {path: tuple(map(groups.renamed, some.values())) for path, some in objects.items()}
    return Gallery(renamed, frozenset(asking))


class _ImageFiles:
    """Files by their content: the first of several copies stands for all."""

    def __init__(self) -> None:
        self._first: dict[str, Path] = {}
        self._known: dict[Path, Path] = {}

    def path(self, view: View) -> Path:
        path = _image_file(view)
        if path not in self._known:
            self._known[path] = self._first.setdefault(files.sha256(path), path)
        return self._known[path]


class _Groups:
    """Categories whose unnamed keypoints mean the same."""

    def __init__(self) -> None:
        self._joined: dict[str, frozenset[tuple[str, str]]] = {}  # (dataset, category) of all that a group is joined to

    def of(self, dataset: str, category: str) -> str:
        group = f"{dataset} {category}"
        self._joined.setdefault(group, frozenset({(dataset, category)}))
        return group

    def join(self, one: str, other: str) -> None:
        if one in self._joined and other in self._joined:
            together = self._joined[one] | self._joined[other]
            self._joined |= {group: together for group, some in self._joined.items() if some & together}

    def renamed(self, annotated: Annotated) -> Annotated:
        """The object under the name of what its group is joined to: car for car(G), car(M) and car(S)."""
        if annotated.group not in self._joined:
            return annotated
        joined = sorted(self._joined[annotated.group])
        categories = [category for _, category in joined]
        # Names are not paths: `commonprefix` compares their characters, as intended.
        common = os.path.commonprefix(categories).strip(" (-_") if len(categories) > 1 else categories[0]  # noqa: RUF071
        return replace(annotated, group=str(joined), category=common or ", ".join(categories))


def _image_file(view: View) -> Path:
    if not isinstance(view.image, Path) or view.window is not None:
        raise InputError(f"{view.label}: search is evaluated on files of whole images; load it without crop")
    return view.image


def _side(view: View) -> float:
    if view.box is None:
        return float(max(view.size))
    return float((view.box[2:] - view.box[:2]).max())


def draw_questions(gallery: Gallery, protocol: SearchProtocol) -> list[Question]:
    """The questions of each category, in alphabetical order: random keypoints, images as different as possible."""
    showing = _showing(gallery)
    by_category: dict[str, dict[Path, list[Question]]] = {}
    for path in sorted(gallery.held_out):
        for annotated in gallery.objects[path]:
            some = by_category.setdefault(annotated.category, {}).setdefault(path, [])
            some += [question for question in _questions(path, annotated, showing) if question.relevant]
    questions = []
    for category, by_image in sorted(by_category.items()):
        random = Random(f"{protocol.seed}/{category}")
        shuffled = [random.sample(some, len(some)) for some in random.sample(list(by_image.values()), len(by_image))]
        depth = max(map(len, shuffled), default=0)
        rounds = [some[turn] for turn in range(depth) for some in shuffled if turn < len(some)]
        questions += rounds[: protocol.questions]
    if not questions:
        raise InputError("no held-out image shows a keypoint that another image shows; give more data")
    return questions


def _showing(gallery: Gallery) -> dict[tuple[str, int], set[Path]]:
    """The images that show each keypoint."""
    showing: dict[tuple[str, int], set[Path]] = {}
    for path, some in gallery.objects.items():
        for annotated in some:
            for row in annotated.keypoints.visible.nonzero()[:, 0].tolist():
                showing.setdefault((annotated.group, row), set()).add(path)
    return showing


def _questions(path: Path, annotated: Annotated, showing: Mapping[tuple[str, int], set[Path]]) -> list[Question]:
    questions = []
    for row in annotated.keypoints.visible.nonzero()[:, 0].tolist():
        x, y = annotated.keypoints.xy[row].tolist()
        others = len(showing[annotated.group, row] - {path})
        twin = annotated.skeleton.twin[row]
        questions.append(Question(path, (x, y), annotated.group, annotated.category, row, twin, others))
    return questions


def near(
    objects: Sequence[Annotated], xy: Float[Tensor, "2"], question: Question, *, alpha: float
) -> tuple[bool, bool, bool]:
    """Whether a place of an image is near the keypoint, near its twin, and whether it has such objects at all."""
    alike = [annotated for annotated in objects if annotated.group == question.group]
    own = any(bool(_within(annotated, xy, alpha)[question.row]) for annotated in alike)
    has_twin = question.twin != question.row
    twin = has_twin and any(bool(_within(annotated, xy, alpha)[question.twin]) for annotated in alike)
    return own, twin, bool(alike)


def _within(annotated: Annotated, xy: Float[Tensor, "2"], alpha: float) -> Bool[Tensor, "k"]:
    away = torch.linalg.vector_norm(annotated.keypoints.xy.double() - xy.double(), dim=-1)
    return (away <= alpha * annotated.side) & annotated.keypoints.visible
