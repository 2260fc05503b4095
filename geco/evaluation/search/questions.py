"""What is asked, and what is true: annotated objects of photographs, and keypoints of held-out ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import data
from geco.data import PairDataset
from geco.errors import InputError
from geco.evaluation.settings import SearchProtocol
from geco.types import Keypoints, Skeleton, View


@dataclass(frozen=True)
class Annotated:
    """An annotated object of a photograph."""

    group: str  # objects of a group have the same keypoints: row i of one means what row i of another means
    category: str
    skeleton: Skeleton
    keypoints: Keypoints
    side: float  # longer side of its box in pixels


@dataclass(frozen=True)
class Gallery:
    """The annotated objects of each photograph, and which photographs are held out: only they ask."""

    objects: Mapping[Path, tuple[Annotated, ...]]
    held_out: frozenset[Path]


@dataclass(frozen=True)
class Question:
    """A keypoint of an object of a held-out photograph."""

    photo: Path
    xy: tuple[float, float]
    group: str
    category: str
    row: int
    twin: int  # the row of its counterpart; its own if it has none
    relevant: int  # other photographs of the gallery that show it


def gather(splits: Iterable[tuple[str, PairDataset, bool]]) -> Gallery:
    """The gallery of some splits: the name of the dataset, its pairs, and whether they are held out."""
    objects: dict[Path, dict[str, Annotated]] = {}
    asking: set[Path] = set()
    for name, pairs, is_held_out in splits:
        for view in pairs.views:
            objects.setdefault(_photograph(view), {})
            asking |= {_photograph(view)} if is_held_out else set()
        for pair in pairs:
            group = f"{name} {pair.category}" if pair.table == data.unnamed(len(pair.table)) else name
            for view in (pair.source, pair.target):
                annotated = Annotated(group, str(pair.category), pair.table, view.points, _side(view))
                objects[_photograph(view)].setdefault(repr((view.identity, view.points.xy.tolist())), annotated)
    return Gallery({path: tuple(some.values()) for path, some in objects.items()}, frozenset(asking))


def _photograph(view: View) -> Path:
    if not isinstance(view.image, Path) or view.window is not None:
        raise InputError(f"{view.label}: search is evaluated on files of whole photographs; load it without crop")
    return view.image


def _side(view: View) -> float:
    if view.box is None:
        return float(max(view.size))
    return float((view.box[2:] - view.box[:2]).max())


def draw_questions(gallery: Gallery, protocol: SearchProtocol) -> list[Question]:
    """The questions of each category, in alphabetical order: random keypoints, photographs as different as possible."""
    showing = _showing(gallery)
    by_category: dict[str, dict[Path, list[Question]]] = {}
    for path in sorted(gallery.held_out):
        for annotated in gallery.objects[path]:
            some = by_category.setdefault(annotated.category, {}).setdefault(path, [])
            some += [question for question in _questions(path, annotated, showing) if question.relevant]
    questions = []
    for category, photos in sorted(by_category.items()):
        random = Random(f"{protocol.seed}/{category}")
        shuffled = [random.sample(some, len(some)) for some in random.sample(list(photos.values()), len(photos))]
        depth = max(map(len, shuffled), default=0)
        rounds = [some[turn] for turn in range(depth) for some in shuffled if turn < len(some)]
        questions += rounds[: protocol.questions]
    if not questions:
        raise InputError("no held-out photograph shows a keypoint that another photograph shows; give more data")
    return questions


def _showing(gallery: Gallery) -> dict[tuple[str, int], set[Path]]:
    """The photographs that show each keypoint."""
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
    """Whether a place of a photograph is near the keypoint, near its twin, and whether it has such objects at all."""
    alike = [annotated for annotated in objects if annotated.group == question.group]
    own = any(bool(_within(annotated, xy, alpha)[question.row]) for annotated in alike)
    has_twin = question.twin != question.row
    twin = has_twin and any(bool(_within(annotated, xy, alpha)[question.twin]) for annotated in alike)
    return own, twin, bool(alike)


def _within(annotated: Annotated, xy: Float[Tensor, "2"], alpha: float) -> Bool[Tensor, "k"]:
    away = torch.linalg.vector_norm(annotated.keypoints.xy.double() - xy.double(), dim=-1)
    return (away <= alpha * annotated.side) & annotated.keypoints.visible
