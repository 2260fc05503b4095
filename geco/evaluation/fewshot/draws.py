"""Which animals are references and which are targets, by a seed alone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from geco.errors import InputError
from geco.evaluation.settings import FewShotProtocol
from geco.types import PairSequence, Skeleton, View


@dataclass(frozen=True)
class Draw:
    """Some animals of a category as references, others as targets; no image is on both sides."""

    number: int
    category: str
    skeleton: Skeleton
    references: tuple[View, ...]  # in the order they are labelled: n references are the first n
    targets: tuple[View, ...]

    def sizes(self, protocol: FewShotProtocol) -> tuple[int, ...]:
        """The numbers of references that there are enough for."""
        return tuple(size for size in protocol.references if size <= len(self.references))


def draw_references(pairs: PairSequence, protocol: FewShotProtocol) -> list[Draw]:
    """The draws of every category, whose targets are the same for each number of references.

    A category keeps at least half of its animals as targets, so a small one has fewer references.
    """
    groups = _groups(pairs)
    draws = [
        draw
        for number in range(protocol.draws)
        for category, (skeleton, views) in groups.items()
        if (draw := _draw(number, category, skeleton, views, protocol)) is not None
    ]
    if not draws:
        least = min(protocol.references)
        raise InputError(
            f"no category has {2 * least} animals with keypoints, {least} as references and {least} as targets; "
            "give fewer references, or more data"
        )
    return draws


def _groups(pairs: PairSequence) -> dict[str, tuple[Skeleton, list[View]]]:
    """The annotated animals of each category, each once, in alphabetical order."""
    groups: dict[str, tuple[Skeleton, dict[str, View]]] = {}
    for pair in pairs:
        skeleton, views = groups.setdefault(str(pair.category), (pair.table, {}))
        if pair.table != skeleton:
            raise InputError(f"{pair.category}: the pairs have different keypoints; expected one skeleton per category")
        for view in (pair.source, pair.target):
            if bool(view.points.visible.any()):
                views.setdefault(_key(view), view)
    return {
        category: (skeleton, [views[key] for key in sorted(views)])
        for category, (skeleton, views) in sorted(groups.items())
    }


def _key(view: View) -> str:
    """An image and the points on it: two animals of an image are two."""
    return repr((view.identity, view.points.xy.tolist(), view.points.visible.tolist()))


def _draw(
    number: int, category: str, skeleton: Skeleton, views: Sequence[View], protocol: FewShotProtocol
) -> Draw | None:
    random = Random(f"{protocol.seed}/{number}/{category}").random
    order = sorted(views, key=lambda _: random())
    possible = [size for size in protocol.references if 2 * size <= len(order)]
    if not possible:
        return None
    references = order[: max(possible)]
    seen = {str(view.image) for view in references}
    targets = [view for view in order[max(possible) :] if str(view.image) not in seen]
    chosen = tuple(targets if protocol.targets is None else targets[: protocol.targets])
    return Draw(number, category, skeleton, tuple(references), chosen) if chosen else None


def digest(draws: Sequence[Draw]) -> str:
    """Hash of all references and targets: equal for runs that may be compared."""
    hashed = hashlib.sha256()
    for draw in draws:
        hashed.update(repr((draw.number, draw.category, draw.skeleton)).encode())
        for view in (*draw.references, *draw.targets):
            hashed.update(f"{_key(view)} {view.size}".encode())
    return hashed.hexdigest()[:16]
