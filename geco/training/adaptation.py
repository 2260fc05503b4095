"""Adapting a model to someone's own labels: a short training on some of them, stopped by the others.

The labelled animals become pairs; a quarter of the images is held out. The model is validated before the first
step, and what is kept is the best of all validations: the start itself, if training does not help.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import cast

import torch

from geco import data, geometry, images, models, propagation
from geco.data import PairDataset, Pairs
from geco.errors import InputError
from geco.propagation import LabelledImage, LabelSet
from geco.training.build import starting_from
from geco.training.estimate import Plan, plan
from geco.training.folder import RunFolder
from geco.training.loop import Outcome, Watch, fit, unwatched
from geco.training.presets import preset
from geco.training.settings import AdaptSettings, TrainConfig
from geco.types import View

NAME = "labels"  # of the dataset, in the run's folder
LEAST_VISIBLE = 3  # keypoints of an animal, for it to be trained on
MOST_PAIRS = 20_000
DEFAULTS = AdaptSettings()


@dataclass(frozen=True)
class Adapted:
    """How an adaptation ended."""

    outcome: Outcome
    trained: int  # animals
    held_out: int  # animals
    before: float  # PCK@0.1 in % on the held-out animals …
    after: float  # … of the model that is kept

    @property
    def improved(self) -> bool:
        """False: no step was better than the start, which is kept."""
        return self.outcome.best_step > 0


def adapt(
    labels: LabelSet,
    folder: str | Path,
    model: str | None = None,
    settings: AdaptSettings = DEFAULTS,
    *,
    watch: Watch = unwatched,
) -> Adapted:
    """Train an adapter from `model` (None: the packaged one) on the labels; the folder is a model like any run's.

    `geco.load(folder)` gives the best of all validations, which may be that of the start. Interrupted, the same call
    resumes it.
    """
    run = prepare(labels, model, settings)
    outcome = fit(run.config, {NAME: run.train}, {NAME: run.valid}, folder, watch=watch)
    return Adapted(outcome, run.trained, run.held_out, _start(outcome.folder), outcome.best)


@dataclass(frozen=True)
class Adaptation:
    """A training on labels, before its first step."""

    config: TrainConfig
    train: PairDataset
    valid: PairDataset
    trained: int  # animals
    held_out: int  # animals

    def plan(self, folder: str | Path) -> Plan:
        """What it would do, and the errors it would raise before its first step."""
        return plan(self.config, {NAME: self.train}, {NAME: self.valid}, folder)


def prepare(labels: LabelSet, model: str | None = None, settings: AdaptSettings = DEFAULTS) -> Adaptation:
    """What `adapt` trains on, how, and what it is stopped by."""
    train, held_out = split(labels, settings)
    return Adaptation(
        recipe(model or models.default_model(), settings),
        _training_pairs(train, labels, settings),
        _validation_pairs(train, held_out, labels, settings),
        len(train),
        len(held_out),
    )


def recipe(model: str, settings: AdaptSettings = DEFAULTS) -> TrainConfig:
    """The training that starts from a model, at that model's own input size."""
    config = replace(
        preset("animals-cpu"),
        learning_rate=settings.learning_rate,
        steps=settings.steps,
        epochs=settings.steps,
        warmup=min(10, settings.steps // 4),
        validate_every=settings.validate_every,
        save_every=settings.validate_every,
        patience=settings.patience,
        batch_size=settings.batch_size,
        seed=settings.seed,
        workers=settings.workers,
    )
    folder = models.find_adapter(model)
    size = config.encoder.size if folder is None else models.adapter_config(folder).size
    return starting_from(config.at_size(size), model)


# --- labels as data ---------------------------------------------------------------------------------------------------


def split(labels: LabelSet, settings: AdaptSettings = DEFAULTS) -> tuple[list[View], list[View]]:
    """The animals to train on and those held out; no image is on both sides."""
    by_image = [views for image in labels.images if (views := animals(image, settings))]
    count = sum(map(len, by_image))
    if count < settings.fewest:
        raise InputError(
            f"adapting needs {settings.fewest} labelled animals with at least {LEAST_VISIBLE} visible keypoints, "
            f"got {count}; label more, or use the model as it is"
        )
    random = Random(settings.seed).random
    by_image.sort(key=lambda _: random())
    held_out: list[View] = []
    while by_image and len(held_out) < settings.held_out * count:
        held_out += by_image.pop()
    if len(by_image) < 2:
        raise InputError(
            f"adapting needs labels on different images, got {count} animals on {len(by_image) + 1} or so; "
            "label more images"
        )
    return [view for views in by_image for view in views], held_out


def animals(image: LabelledImage, settings: AdaptSettings = DEFAULTS) -> list[View]:
    """The labelled animals of an image, each in a window around it; those with too few keypoints are left out."""
    enough = [animal for animal in image.animals if int(animal.keypoints.visible.sum()) >= LEAST_VISIBLE]
    if not enough:
        return []
    if image.frame is not None:
        raise InputError(f"{image.path}: labels of a video cannot be trained on; save the labelled frames as images")
    size = images.size_of(image.path)
    views = []
    for animal in enough:
        points = animal.keypoints
        outside = points.visible & ~geometry.inside(points.xy, size=size)
        if bool(outside.any()):
            x, y = points.xy[outside][0].tolist()
            raise InputError(
                f"{image.path}: a keypoint is at ({x:g}, {y:g}), outside the image of {size[1]}×{size[0]} pixels"
            )
        box = animal.box or _around(points.xy[points.visible], size, settings.margin)
        window = propagation.window_of(animal, size, settings.margin)
        view = View(image.path, size, points, torch.tensor(box, dtype=torch.float32))
        views.append(replace(geometry.frame(view, window), name=f"{image.path}@{','.join(map(str, window))}"))
    return views


def _around(xy: torch.Tensor, size: tuple[int, int], margin: float) -> tuple[float, float, float, float]:
    """A box around points, grown by the margin: the animal extends beyond its keypoints."""
    (x0, y0), (x1, y1) = xy.min(0).values.tolist(), xy.max(0).values.tolist()
    more = margin * max(x1 - x0, y1 - y0)
    return max(0.0, x0 - more), max(0.0, y0 - more), min(size[1], x1 + more), min(size[0], y1 + more)


def _training_pairs(views: Sequence[View], labels: LabelSet, settings: AdaptSettings) -> PairDataset:
    fits = data.sharing(views, shared=LEAST_VISIBLE)
    rows = data.draw([range(len(views))], count=MOST_PAIRS, seed=settings.seed, fits=fits)
    return cast(PairDataset, data.attach_masks(_pairs(views, rows, labels), "box"))


def _validation_pairs(
    train: Sequence[View], held_out: Sequence[View], labels: LabelSet, settings: AdaptSettings
) -> Pairs:
    """Pairs from animals that are trained on to those held out: what the labels will be used for."""
    views = [*train, *held_out]
    fits = data.sharing(views, shared=LEAST_VISIBLE)
    random = Random(settings.seed).random
    rows = []
    for target in range(len(train), len(views)):
        sources = sorted((i for i in range(len(train)) if fits(i, target)), key=lambda _: random())
        rows += [(source, target) for source in sources[: settings.sources]]
    return _pairs(views, rows, labels)


def _pairs(views: Sequence[View], rows: Sequence[tuple[int, int]], labels: LabelSet) -> Pairs:
    if not rows:
        raise InputError(
            f"no two labelled animals share {LEAST_VISIBLE} visible keypoints; label the same keypoints on all of them"
        )
    return Pairs(tuple(views), rows, [labels.category] * len(rows), [labels.skeleton] * len(rows))


def _start(folder: Path) -> float:
    """PCK before the first step, as the run wrote it down; NaN if that is gone."""
    records = RunFolder(folder, writes=False).records()
    first = [record for record in records if record["kind"] == "validation" and record["step"] == 0]
    return float(first[0]["PCK"]) if first else float("nan")
