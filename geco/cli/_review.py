"""The page on which propagated keypoints are reviewed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geco.cli._progress import progress_bars

if TYPE_CHECKING:
    from geco import viz
    from geco.propagation import Animal, LabelSet, Propagator, Result

MOST = 200  # images of a page: it stays below ten megabytes
NEXT = 10  # images that are proposed for labelling


def write(result: Path, done: "Sequence[Result]", labels: "LabelSet", propagator: "Propagator") -> Path:
    """Write the page beside the result; the most uncertain images are on it."""
    from geco import images, propagation, viz
    from geco.system import files

    order = sorted(done, key=lambda one: -propagation.expected_errors(one.image.animals))
    cards = []
    with progress_bars() as update:
        for number, one in enumerate(order[:MOST], 1):
            path = one.image.path
            animals = [_shown(animal) for animal in one.image.animals]
            cards.append(viz.Card(str(path), str(path.resolve()), images.read(path), animals))
            update("reviewing", number, min(len(order), MOST))
    following = [str(done[row].image.path) for row in propagation.worth_labelling(done, propagator.panel.looks, NEXT)]
    page = viz.review_page(
        cards,
        labels.skeleton,
        labels.edges,
        title=f"Review of {result.name}",
        category=labels.category,
        following=following,
        total=len(done),
    )
    return files.replace_text(result.with_name(f"{result.stem}-review.html"), page)


def _shown(animal: "Animal") -> "viz.Shown":
    from geco import viz

    assert animal.uncertainty is not None
    return viz.Shown(animal.xy, animal.state, animal.uncertainty, animal.side_unsure.tolist())
