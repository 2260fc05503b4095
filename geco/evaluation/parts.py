"""Part labels: centroids from the train split, evaluated on the test split, category by category."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import islice

import torch
from jaxtyping import Bool, Int
from matplotlib.figure import Figure
from torch import Tensor

from geco import geometry, images, propagation, viz
from geco.data import PartDataset
from geco.errors import InputError
from geco.evaluation.measures import Measure
from geco.evaluation.metrics.parts import Confusion
from geco.evaluation.report import Cell, Report, Table, reading
from geco.evaluation.settings import PartsProtocol
from geco.propagation import Centroids
from geco.system import Progress, provenance, silent
from geco.types import Encoder, FeatureMap, Skeleton, View

AS_IN_THE_PAPER = PartsProtocol()
COLUMNS = ("mIoU", "Acc", "mIoU geo", "Acc geo")


def run(
    encoder: Encoder,
    train: PartDataset,
    test: PartDataset,
    protocol: PartsProtocol = AS_IN_THE_PAPER,
    *,
    label: str = "model",
    data: str = "parts",
    progress: Progress = silent,
) -> Report:
    """The report of an encoder: centroids from `train`, counted on `test`."""
    confusions: dict[str, Confusion] = {}
    skeletons = {**train.skeletons, **test.skeletons}
    done = 0
    for category in sorted(set(test.categories) & set(train.categories)):
        centroids = _fit(encoder, train, category, protocol)
        confusion = Confusion(1 + len(skeletons[category]))
        views = _views(test, category)
        for view, features in propagation.encode_views(encoder, views, batch_size=protocol.batch_size):
            if centroids is not None:
                confusion.update(*_labels(view, features, centroids, protocol))
            done += 1
            progress("label", done, len(test))
        confusions[category] = confusion
    if not confusions:
        raise InputError("no category has both train and test images; nothing to evaluate")
    return _summarise(confusions, skeletons, protocol, label=label, data=data)


def _fit(encoder: Encoder, train: PartDataset, category: str, protocol: PartsProtocol) -> Centroids | None:
    views = islice(_views(train, category), protocol.train_images)
    return propagation.fit(encoder, views, protocol, batch_size=protocol.batch_size)


def _views(dataset: PartDataset, category: str) -> Iterator[View]:
    return (dataset[i] for i, name in enumerate(dataset.categories) if name == category)


def _labels(
    view: View, features: FeatureMap, centroids: Centroids, protocol: PartsProtocol
) -> tuple[Int[Tensor, "h w"], Int[Tensor, "h w"]]:
    """True and predicted labels; −1 where truth says nothing, background given by the true mask."""
    predicted = propagation.label_map(features, centroids, protocol.unit)
    size = (predicted.shape[0], predicted.shape[1])
    true = geometry.resize_labels(view.part_map, size).long()
    mask = geometry.resize_labels(_object_mask(view), size)
    outside = 0 if protocol.background else -1
    true = torch.where(mask, torch.where(true > 0, true, -1), outside)
    return true, torch.where(mask, predicted, 0)


def _object_mask(view: View) -> Bool[Tensor, "h w"]:
    return view.mask if isinstance(view.mask, Tensor) else view.part_map > 0


def _summarise(
    confusions: Mapping[str, Confusion],
    skeletons: Mapping[str, Skeleton],
    protocol: PartsProtocol,
    *,
    label: str,
    data: str,
) -> Report:
    by_category = {category: scores(confusions[category], skeletons[category], protocol) for category in confusions}
    averaged = [list(row) for category, row in by_category.items() if len(skeletons[category]) >= 2]
    columns = torch.tensor(averaged, dtype=torch.float64).reshape(-1, len(COLUMNS)).T
    mean = [float(column.nanmean()) for column in columns]
    rows: list[tuple[Cell, ...]] = [
        (category, *(100 * value for value in row)) for category, row in by_category.items()
    ]
    rows.append(("mean", *(100 * value for value in mean)))
    return Report(
        benchmark="parts",
        label=label,
        data=data,
        measures=tuple(Measure(metric, value) for metric, value in zip(COLUMNS, mean, strict=True)),
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
            for category, confusion in confusions.items()
        },
        settings={"protocol": asdict(protocol)},
        provenance=provenance.collect(),
    )


def scores(
    confusion: Confusion, skeleton: Skeleton, protocol: PartsProtocol = AS_IN_THE_PAPER
) -> tuple[float, float, float, float]:
    """mIoU, accuracy, and both among the parts with a twin; NaN if the truth shows none of those."""
    geometric = [1 + i for i, j in enumerate(skeleton.twin) if i != j]
    whole = confusion.miou(), confusion.accuracy()
    if not geometric or not confusion.matrix[geometric].sum():
        return *whole, float("nan"), float("nan")
    among_twins = confusion.only([0, *geometric] if protocol.background else geometric)
    return *whole, among_twins.miou(), among_twins.accuracy()


def draw(report: Report) -> dict[str, Figure]:
    """Normalised confusion matrices of the parts with a twin, by file name; twins are bracketed."""
    figures = {}
    with reading(report, "counts"):
        for category, counted in report.counts.items():
            names, twin = counted["names"], counted["twin"]
            geometric = [i for i, j in enumerate(twin) if i != j]
            if not geometric:
                continue
            confusion = Confusion(len(names))
            confusion.matrix = torch.tensor(counted["confusion"]).reshape(len(names), len(names))
            pairs = [(row, geometric.index(twin[i])) for row, i in enumerate(geometric) if twin[i] > i]
            figures[f"confusion_{category}".replace("/", "_")] = viz.confusion(
                confusion.only(geometric).normalised(), [str(names[i]) for i in geometric], pairs, title=category
            )
    return figures


def pictures(
    encoder: Encoder,
    train: PartDataset,
    test: PartDataset,
    protocol: PartsProtocol = AS_IN_THE_PAPER,
    *,
    count: int = 4,
) -> dict[str, Figure]:
    """Part maps of the first test image of up to `count` categories, by file name."""
    figures: dict[str, Figure] = {}
    for category in sorted(set(test.categories) & set(train.categories))[:count]:
        centroids = _fit(encoder, train, category, protocol)
        if centroids is None:
            continue
        view = images.load_view(next(_views(test, category)))
        (features,) = encoder.extract_stream([view.pixels])
        _, labels = _labels(view, features, centroids, replace(protocol, unit="pixel"))
        names = ["background", *test.skeletons[category].names]
        figures[f"parts_{category}"] = viz.part_map(view.pixels, labels, names, title=category)
    return figures
