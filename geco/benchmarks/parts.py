"""Parts: a median centroid for each annotated part, the nearest centroid labels the rest (GECO, feature space).

A label is linear in the unit feature x: argmax over parts of w·x + b. So a PCA, both distances and upsampling to
pixels are all the same few operations, and no map of C channels is ever upsampled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional

from geco import figures, geometry, images, matching, report
from geco.benchmarks._features import Encoder, Progress, silent
from geco.config.evaluation import PartsProtocol
from geco.metrics import Confusion
from geco.report import Report, Table
from geco.types import FeatureMap, Skeleton, View

AS_IN_THE_PAPER = PartsProtocol()
COLUMNS = ("mIoU", "Acc", "mIoU geo", "Acc geo")
Choice = TypeVar("Choice", bound=str)


@runtime_checkable
class PartViews(Protocol):
    """Views with part maps (0: no part, i: part names[i − 1]), their categories, and the categories' part names."""

    categories: Sequence[str]

    @property
    def skeletons(self) -> Mapping[str, Skeleton]:
        """Part names and twins by category."""

    def __getitem__(self, index: int) -> View: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Centroids:
    """One category's parts as a linear rule: a unit feature x gets labels[argmax(weight @ x + bias)]."""

    labels: Int[Tensor, "n"]
    weight: Float[Tensor, "n c"]
    bias: Float[Tensor, "n"]


def run(
    model: Encoder,
    train: PartViews,
    test: PartViews,
    protocol: PartsProtocol = AS_IN_THE_PAPER,
    *,
    label: str = "model",
    data: str = "parts",
    progress: Progress = silent,
) -> Report:
    """Centroids from `train`, judged on `test`, category by category."""
    found: dict[str, Confusion] = {}
    skeletons = {**train.skeletons, **test.skeletons}
    done = 0
    for category in sorted(set(test.categories) & set(train.categories)):
        chosen = [_views(data, category) for data in (train, test)]
        centroids = fit(model, chosen[0], protocol)
        confusion = Confusion(1 + len(skeletons[category]))
        for view, features in _encoded(model, chosen[1], protocol.batch_size):
            if centroids is not None:
                confusion.update(*_judged(view, features, centroids, protocol))
            done += 1
            progress("label", done, len(test))
        found[category] = confusion
    if not found:
        raise ValueError("no category has both train and test images; nothing to judge")
    return _summarise(found, skeletons, protocol, label=label, data=data)


def choose(option: str, value: str, choices: tuple[Choice, ...]) -> Choice:
    """The choice of that name; a typo lists them."""
    for choice in choices:
        if value == choice:
            return choice
    raise ValueError(f"--{option} must be one of {', '.join(choices)}, got {value!r}")


def _views(data: PartViews, category: str) -> Iterator[View]:
    return (data[i] for i, name in enumerate(data.categories) if name == category)


# --- centroids ----------------------------------------------------------------------------------------------


def fit(model: Encoder, views: Iterable[View], protocol: PartsProtocol = AS_IN_THE_PAPER) -> Centroids | None:
    """Centroids of the parts in these views; None if they show no part."""
    samples: dict[int, list[Tensor]] = {}
    for view, features in _encoded(model, islice(views, protocol.train_images), protocol.batch_size):
        collect(samples, features, _parts(view), protocol)
    return centroids({part: torch.cat(some) for part, some in samples.items()}, protocol) if samples else None


def collect(
    samples: dict[int, list[Tensor]],
    features: FeatureMap,
    labels: Int[Tensor, "h w"],
    protocol: PartsProtocol = AS_IN_THE_PAPER,
    *,
    background: bool = False,
) -> None:
    """Add the unit features under each label of one image; label 0 only if it has a meaning of its own."""
    if protocol.unit == "patch":
        flat = geometry.resize_labels(labels, features.grid).flatten()
        vectors = features.unit().values.flatten(1).mT
        for part in flat.unique().tolist():
            if part > 0 or (background and part == 0):
                samples.setdefault(part, []).append(vectors[(flat == part).to(vectors.device)].cpu())
        return
    for part in labels.unique().tolist():
        if part > 0 or (background and part == 0):
            pixels = (labels == part).flatten().nonzero()[:, 0]
            pixels = pixels[:: max(1, len(pixels) // protocol.pixels)]  # neighbours say nothing new
            xy = geometry.pixel_centres(pixels, width=labels.shape[1]).to(features.values)
            read = geometry.sample(features.values, xy, size=features.size)
            samples.setdefault(part, []).append(functional.normalize(read, dim=-1).cpu())


def centroids(samples: Mapping[int, Float[Tensor, "_ c"]], protocol: PartsProtocol = AS_IN_THE_PAPER) -> Centroids:
    """The linear rule of the nearest median, after a PCA if the protocol says so."""
    labels = sorted(samples)
    mean = torch.zeros(samples[labels[0]].shape[1])
    basis = torch.eye(len(mean))  # (c, d)
    if protocol.components is not None:
        together = torch.cat([samples[part] for part in labels])
        mean = together.mean(0)
        _, _, directions = torch.linalg.svd(together - mean, full_matrices=False)
        basis = directions[: protocol.components].mT
    middle = torch.stack([median((samples[part] - mean) @ basis) for part in labels])  # (n, d)
    if protocol.distance == "cosine":
        middle = functional.normalize(middle, dim=-1)
        bias = torch.zeros(len(labels))
    else:
        bias = -0.5 * (middle * middle).sum(-1)
    weight = middle @ basis.mT
    return Centroids(torch.tensor(labels), weight, bias - weight @ mean)


def median(values: Float[Tensor, "k d"]) -> Float[Tensor, "d"]:
    """Median of each column; of an even number, the mean of the two in the middle (torch.median takes the lower)."""
    ordered = values.sort(0).values
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


# --- labels -------------------------------------------------------------------------------------------------


def label(features: FeatureMap, rule: Centroids, unit: Literal["patch", "pixel"] = "patch") -> Int[Tensor, "h w"]:
    """Label of every patch, or of every pixel of the image."""
    weight, bias = rule.weight.to(features.values), rule.bias.to(features.values)
    if unit == "pixel":
        scores = matching.score_maps(weight, matching.prepare(features))
    else:
        scores = torch.einsum("nc,chw->nhw", weight, features.unit().values)
    return rule.labels[(scores + bias[:, None, None]).argmax(0).cpu()]


def _judged(
    view: View, features: FeatureMap, rule: Centroids, protocol: PartsProtocol
) -> tuple[Int[Tensor, "h w"], Int[Tensor, "h w"]]:
    """True and predicted labels; −1 where truth says nothing, background given by the true mask."""
    predicted = label(features, rule, protocol.unit)
    size = (predicted.shape[0], predicted.shape[1])
    true = geometry.resize_labels(_parts(view), size).long()
    mask = geometry.resize_labels(_mask(view), size)
    outside = 0 if protocol.background else -1
    true = torch.where(mask, torch.where(true > 0, true, -1), outside)
    return true, torch.where(mask, predicted, 0)


def _encoded(model: Encoder, views: Iterable[View], batch_size: int) -> Iterable[tuple[View, FeatureMap]]:
    remaining = iter(views)
    while group := [images.load_view(view) for view in islice(remaining, batch_size)]:
        yield from zip(group, model.extract_batch([view.image for view in group]), strict=True)


def _parts(view: View) -> Int[Tensor, "h w"]:
    if view.parts is None:
        raise ValueError(f"{view.name} has no part map; the part benchmark needs annotated views")
    return view.parts


def _mask(view: View) -> Bool[Tensor, "h w"]:
    return view.mask if isinstance(view.mask, Tensor) else _parts(view) > 0


# --- report -------------------------------------------------------------------------------------------------


def _summarise(
    found: Mapping[str, Confusion],
    skeletons: Mapping[str, Skeleton],
    protocol: PartsProtocol,
    *,
    label: str,
    data: str,
) -> Report:
    several = {category: scores(found[category], skeletons[category], protocol) for category in found}
    judged = {category: row for category, row in several.items() if len(skeletons[category]) >= 2}
    table = torch.tensor([list(row) for row in judged.values()], dtype=torch.float64).reshape(-1, len(COLUMNS))
    mean = [float(column.nanmean()) for column in table.T]
    rows: list[tuple[report.Cell, ...]] = [
        (category, *(100 * value for value in row)) for category, row in several.items()
    ]
    rows.append(("mean", *(100 * value for value in mean)))
    return Report(
        benchmark="parts",
        label=label,
        data=data,
        values=dict(zip(COLUMNS, mean, strict=True)),
        tables=(
            Table(
                "parts",
                "Parts in %",
                ("category", *COLUMNS),
                tuple(rows),
                note="geo: confusion among parts with a left/right twin (and background) alone; "
                "mean: categories with at least two parts.",
            ),
        ),
        counts={
            category: {
                "names": ["background", *skeletons[category].names],
                "twin": [0, *(1 + j for j in skeletons[category].twin)],
                "confusion": confusion.matrix.tolist(),
            }
            for category, confusion in found.items()
        },
        settings={"protocol": asdict(protocol)},
        provenance=report.provenance(),
    )


def scores(
    confusion: Confusion, skeleton: Skeleton, protocol: PartsProtocol = AS_IN_THE_PAPER
) -> tuple[float, float, float, float]:
    """mIoU, accuracy, and both among the parts with a twin; NaN if the truth shows none of those."""
    geometric = [1 + i for i, j in enumerate(skeleton.twin) if i != j]
    nothing = float("nan")
    whole = confusion.miou(), confusion.accuracy()
    if not geometric or not confusion.matrix[geometric].sum():
        return *whole, nothing, nothing
    some = confusion.only([0, *geometric] if protocol.background else geometric)
    return *whole, some.miou(), some.accuracy()


def draw(judged: Report) -> dict[str, Figure]:
    """Normalised confusion matrices of the parts with a twin, by category; twins are bracketed."""
    drawn = {}
    for category, counted in judged.counts.items():
        geometric = [i for i, j in enumerate(counted["twin"]) if i != j]
        if not geometric:
            continue
        confusion = Confusion(len(counted["names"]))
        confusion.matrix = torch.tensor(counted["confusion"])
        names = [counted["names"][i] for i in geometric]
        pairs = [(k, geometric.index(counted["twin"][i])) for k, i in enumerate(geometric) if counted["twin"][i] > i]
        drawn[f"confusion_{category}"] = figures.confusion(
            confusion.only(geometric).normalised(), names, pairs, title=category
        )
    return drawn


def pictures(
    model: Encoder,
    train: PartViews,
    test: PartViews,
    protocol: PartsProtocol = AS_IN_THE_PAPER,
    *,
    count: int = 4,
) -> dict[str, Figure]:
    """Part maps of up to `count` test images, one of each category first come."""
    drawn: dict[str, Figure] = {}
    for category in sorted(set(test.categories) & set(train.categories))[:count]:
        rule = fit(model, _views(train, category), protocol)
        view = images.load_view(test[list(test.categories).index(category)])
        if rule is None:
            continue
        assert isinstance(view.image, Tensor)
        features = model.extract_batch([view.image])[0]
        _, labels = _judged(view, features, rule, replace(protocol, unit="pixel"))
        names = ["background", *test.skeletons[category].names]
        drawn[f"parts_{category}"] = figures.part_map(view.image, labels, names, title=category)
    return drawn
