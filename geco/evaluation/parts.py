"""Part labels: centroids from the train split, evaluated on the test split, category by category."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from matplotlib.figure import Figure
from torch import Tensor

from geco import geometry, images, propagation, viz
from geco.data import PartDataset
from geco.errors import InputError
from geco.evaluation.keypoints.journal import check_run
from geco.evaluation.measures import Measure
from geco.evaluation.metrics.parts import Confusion
from geco.evaluation.report import Cell, Report, Table, reading
from geco.evaluation.settings import PartsProtocol
from geco.extraction import FeatureStore
from geco.propagation import Centroids
from geco.system import Progress, documents, files, locks, provenance, silent
from geco.types import Encoder, FeatureMap, Skeleton, View

AS_IN_THE_PAPER = PartsProtocol()
COLUMNS = ("mIoU", "Acc", "mIoU geo", "Acc geo")
SAMPLED = 16  # views whose part maps go into a digest: reading all of them takes minutes

Encode = Callable[[Iterable[View]], Iterator[tuple[View, FeatureMap]]]  # views with their images read, and features


def run(
    encoder: Encoder,
    train: PartDataset,
    test: PartDataset,
    protocol: PartsProtocol = AS_IN_THE_PAPER,
    *,
    label: str = "model",
    data: str = "parts",
    folder: Path | None = None,
    store: FeatureStore | None = None,
    progress: Progress = silent,
) -> Report:
    """The report of an encoder: centroids from `train`, counted on `test`.

    `folder` makes the run resumable, category by category; what a `store` of this encoder holds is not encoded again.
    """
    skeletons = {**train.skeletons, **test.skeletons}
    categories = sorted(set(test.categories) & set(train.categories))
    if not categories:
        raise InputError("no category has both train and test images; nothing to evaluate")
    encode = _encoding(encoder, protocol, store, total=len(train) + len(test))
    confusions: dict[str, Confusion] = {}
    with nullcontext() if folder is None else locks.hold(folder, what="evaluation"):
        if folder is not None:
            counted = {key: value for key, value in asdict(protocol).items() if key != "batch_size"}
            about = {"model": encoder.fingerprint(), "data": digest(train, test), "protocol": counted}
            check_run(folder / "run.json", about)
            confusions = _counted(folder, skeletons)
        done = sum(category in confusions for category in test.categories)
        for number, category in enumerate(categories):
            if category in confusions:
                continue
            confusion = Confusion(1 + len(skeletons[category]))
            for true, predicted in _labelled(encode, train, test, category, protocol):
                confusion.update(true, predicted)
                done += 1
                progress("label", done, len(test))
            confusions[category] = confusion
            if folder is not None:
                entry = {"category": category, "confusion": confusion.matrix.tolist()}
                files.replace_text(folder / f"category-{number}.json", json.dumps(entry))
    counted = {category: confusions[category] for category in categories}
    return _summarise(counted, skeletons, protocol, label=label, data=data)


def digest(train: PartDataset, test: PartDataset) -> str:
    """Hash of the categories of all views, and of the sizes and part maps of some of them."""
    hashed = hashlib.sha256()
    for dataset in (train, test):
        hashed.update(repr((tuple(dataset.categories), sorted(dataset.skeletons.items()))).encode())
        for number in range(0, len(dataset), max(1, len(dataset) // SAMPLED)):
            view = dataset[number]
            hashed.update(repr((view.identity, tuple(view.size))).encode())
            hashed.update(view.part_map.to(torch.int64).contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]


def _encoding(encoder: Encoder, protocol: PartsProtocol, store: FeatureStore | None, *, total: int) -> Encode:
    """How views get their features: by the store if there is one."""
    if store is None:
        return partial(propagation.encode_views, encoder, batch_size=protocol.batch_size)
    return partial(_stored, store, batch_size=protocol.batch_size, total=total)


def _stored(
    store: FeatureStore, views: Iterable[View], *, batch_size: int, total: int
) -> Iterator[tuple[View, FeatureMap]]:
    remaining = iter(views)
    while group := list(islice(remaining, batch_size)):
        store.ensure(group, total=total)
        for view in group:
            yield images.load_view(view), store.get(view)
            store.drop(view)  # of memory: no other category uses it


def _counted(folder: Path, skeletons: Mapping[str, Skeleton]) -> dict[str, Confusion]:
    """What an earlier run of the same counted before it was stopped."""
    confusions = {}
    for path in sorted(folder.glob("category-*.json")):
        entry = documents.read(path, expected="the confusion of a category's parts")
        category = entry.get("category")
        try:
            matrix = torch.tensor(entry["confusion"])
            number = 1 + len(skeletons[category])
            fits = matrix.dtype == torch.int64 and matrix.shape == (number, number) and bool((matrix >= 0).all())
        except (TypeError, KeyError, ValueError, RuntimeError, OverflowError):
            fits = False
        if not fits:
            raise InputError(f"{path}: expected how often each part was labelled as each; delete it to count again")
        confusions[category] = Confusion(number)
        confusions[category].matrix = matrix
    return confusions


def _labelled(
    encode: Encode, train: PartDataset, test: PartDataset, category: str, protocol: PartsProtocol
) -> Iterator[tuple[Int[Tensor, "h w"], Int[Tensor, "h w"]]]:
    """True and predicted labels of the test views of one category; none if no training view shows a part."""
    centroids = _fit(encode, train, category, protocol)
    if centroids is not None:
        for view, features in encode(_views(test, category)):
            yield _labels(view, features, centroids, protocol)


def _fit(encode: Encode, train: PartDataset, category: str, protocol: PartsProtocol) -> Centroids | None:
    return propagation.fit_encoded(encode(islice(_views(train, category), protocol.train_images)), protocol)


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
    encode = _encoding(encoder, protocol, None, total=0)
    for category in sorted(set(test.categories) & set(train.categories))[:count]:
        centroids = _fit(encode, train, category, protocol)
        if centroids is None:
            continue
        view = images.load_view(next(_views(test, category)))
        (features,) = encoder.extract_stream([view.pixels])
        _, labels = _labels(view, features, centroids, replace(protocol, unit="pixel"))
        names = ["background", *test.skeletons[category].names]
        figures[f"parts_{category}"] = viz.part_map(view.pixels, labels, names, title=category)
    return figures
