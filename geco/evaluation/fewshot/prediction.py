"""Predictions of a few-shot run: each image encoded once, each draw predicted from 1, 2, 5, … references in three ways.

folder/run.json              what is being evaluated; another model or other animals do not continue it
folder/draw-<n>.json         the predictions of a draw, written when all of them are there
"""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geco import geometry, matching, propagation
from geco.errors import InputError
from geco.evaluation.fewshot.draws import Draw, digest, draw_references
from geco.evaluation.fewshot.points import Prediction, Predictions
from geco.evaluation.fewshot.summary import METHODS, summarise
from geco.evaluation.keypoints.journal import check_run
from geco.evaluation.report import Report
from geco.evaluation.settings import FewShotProtocol
from geco.extraction import FeatureStore
from geco.propagation import HIDDEN, UNKNOWN, VISIBLE, Animal, Propagator, Reference
from geco.system import Progress, documents, files, locks, silent
from geco.types import Encoder, FeatureMap, PairSequence, View, Window

DEFAULTS = FewShotProtocol()


def run(
    encoder: Encoder,
    pairs: PairSequence,
    protocol: FewShotProtocol = DEFAULTS,
    *,
    label: str = "model",
    data: str = "pairs",
    folder: Path | None = None,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Report:
    """The report of an encoder on the animals of annotated pairs.

    `folder` makes the run resumable, draw by draw; `cache` is a folder of feature maps that outlives it.
    """
    draws = draw_references(pairs, protocol)
    predictions = predict(encoder, draws, protocol, folder=folder, cache=cache, progress=progress)
    return summarise(draws, predictions, protocol, label=label, data=data)


def predict(
    encoder: Encoder,
    draws: Sequence[Draw],
    protocol: FewShotProtocol = DEFAULTS,
    *,
    folder: Path | None = None,
    cache: Path | None = None,
    progress: Progress = silent,
) -> list[Predictions]:
    """The predictions of every draw; what the folder already holds is not computed again."""
    matching.check_single(encoder)
    predictions: dict[int, Predictions] = {}
    with nullcontext() if folder is None else locks.hold(folder, what="evaluation"):
        if folder is not None:
            about = {
                "model": encoder.fingerprint(),
                "animals": digest(draws),
                "labels": asdict(protocol.labels),
                "references": list(protocol.references),
            }
            check_run(folder / "run.json", about)
            predictions = _earlier(folder, draws, protocol)
        waiting = [number for number in range(len(draws)) if number not in predictions]
        mirror = protocol.labels.mirror
        uses = Counter(view.identity for number in waiting for view in _views(draws[number]))
        maps = cache or (None if folder is None else folder / "features")
        with FeatureStore(
            encoder, memory=protocol.memory, batch_size=protocol.batch_size, folder=maps, progress=progress
        ) as store:
            for number in waiting:
                views = _views(draws[number])
                store.ensure([*views, *map(_mirrored, views)] if mirror else views, total=len(uses) * (1 + mirror))
                predictions[number] = _predict(store, draws[number], protocol)
                if folder is not None:
                    files.replace_text(_file(folder, number), json.dumps(_plain(predictions[number])))
                progress("label", len(predictions), len(draws))
        if folder is not None and cache is None:
            shutil.rmtree(folder / "features", ignore_errors=True)
    return [predictions[number] for number in range(len(draws))]


def _views(draw: Draw) -> tuple[View, ...]:
    return (*draw.references, *draw.targets)


@torch.inference_mode()
def _predict(store: FeatureStore, draw: Draw, protocol: FewShotProtocol) -> Predictions:
    mirrors: dict[str, FeatureMap | None] = {
        view.identity: store.get(_mirrored(view)) if protocol.labels.mirror else None for view in _views(draw)
    }
    references = [_reference(store.get(view), view, mirrors[view.identity]) for view in draw.references]
    targets = [(store.get(view), mirrors[view.identity]) for view in draw.targets]
    predictions: dict[tuple[str, int], Prediction] = {}
    for size in draw.sizes(protocol):
        labelled = references[:size]
        propagator = Propagator.of_references(store.encoder, labelled, draw.skeleton, protocol.labels)
        single, centroids = _Single(labelled), _Centroids(labelled)
        rows: dict[str, list[Prediction]] = {method: [] for method in METHODS}
        for target, mirrored in targets:
            rows["votes"].append(_voted(propagator, target, mirrored))
            ready = matching.prepare(target)
            rows["transfer"].append(single.predict(target, ready))
            rows["centroids"].append(centroids.predict(ready))
        predictions |= {(method, size): _stacked(some) for method, some in rows.items()}
    return predictions


def _mirrored(view: View) -> View:
    """The view's mirror image, to be encoded: nothing else of it is used."""
    if not isinstance(view.image, Path):
        return replace(view, image=view.pixels.flip(-1), name=f"{view.identity}, mirrored")
    window = view.window or Window((0, 0, view.size[1], view.size[0]), view.size)
    (x0, y0, x1, y1), width = window.box, window.size[1]
    other = Window((width - x1, y0, width - x0, y1), window.size, flipped=not window.flipped)
    return replace(view, window=other, name=f"{view.identity}, mirrored")


def _reference(features: FeatureMap, view: View, mirrored: FeatureMap | None) -> Reference:
    points = view.points
    state = torch.where(points.visible, VISIBLE, HIDDEN)
    box = (0, 0, view.size[1], view.size[0])
    return propagation.reference(features, Animal(points.xy.float(), state), box, mirrored=mirrored)


def _voted(propagator: Propagator, target: FeatureMap, mirrored: FeatureMap | None) -> Prediction:
    animal = propagator.animal(target, (0, 0, target.size[1], target.size[0]), mirrored)
    assert animal.score is not None
    assert animal.uncertainty is not None
    known = animal.state != UNKNOWN
    return Prediction(
        animal.xy.where(known[:, None], 0.0), animal.score, known, animal.state == VISIBLE, animal.uncertainty
    )


class _Single:
    """Transfer from one reference: each point from the most alike of those that show it."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self.descriptors = torch.stack([one.descriptors for one in references])
        self.visible = torch.stack([one.visible for one in references])
        self.whole = torch.stack([one.whole for one in references])

    def predict(self, features: FeatureMap, target: matching.Target) -> Prediction:
        """Where `geco transfer` puts the points of that reference."""
        whole = torch.nn.functional.normalize(features.unit().values.flatten(1).mean(1), dim=0)
        alike = (self.whole @ whole).cpu()[:, None].where(self.visible, -torch.inf)
        chosen = alike.argmax(0)
        descriptors = self.descriptors[chosen.to(self.descriptors.device), torch.arange(len(chosen))]
        return _best(matching.score_maps(descriptors, target), target, self.visible.any(0))


class _Centroids:
    """The nearest median of the references' descriptors (GECO's rule for parts), as a keypoint's place."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self.known = torch.stack([one.visible for one in references]).any(0)
        vectors = {
            row: torch.stack([one.descriptors[row] for one in references if one.visible[row]]).cpu()
            for row in self.known.nonzero()[:, 0].tolist()
        }
        centroids = propagation.fit_centroids(vectors)
        self.weight = torch.zeros(len(self.known), centroids.weight.shape[1])
        self.bias = torch.zeros(len(self.known))
        self.weight[centroids.labels], self.bias[centroids.labels] = centroids.weight, centroids.bias

    def predict(self, target: matching.Target) -> Prediction:
        """Where the target is nearest to each centroid."""
        maps = matching.score_maps(self.weight.to(target.patches), target)
        return _best(maps + self.bias.to(maps)[:, None, None], target, self.known)


def _best(maps: Float[Tensor, "k h w"], target: matching.Target, known: Bool[Tensor, "k"]) -> Prediction:
    score, index = maps.flatten(1).max(1)
    place = geometry.pixel_centres(index, width=maps.shape[-1]).float()
    xy = geometry.resize_points(place, size=target.size, to=target.image_size).cpu()
    sure = torch.zeros(len(known))
    return Prediction(xy.where(known[:, None], 0.0), score.cpu(), known, torch.ones_like(known), sure)


def _stacked(rows: Sequence[Prediction]) -> Prediction:
    return Prediction(*(torch.stack([getattr(row, name) for row in rows]) for name in Prediction.__annotations__))


# --- on disk ----------------------------------------------------------------------------------------------------------


def _file(folder: Path, number: int) -> Path:
    return folder / f"draw-{number}.json"


def _plain(predictions: Predictions) -> dict[str, Any]:
    return {
        f"{method} {size}": {name: getattr(prediction, name).tolist() for name in Prediction.__annotations__}
        for (method, size), prediction in predictions.items()
    }


def _earlier(folder: Path, draws: Sequence[Draw], protocol: FewShotProtocol) -> dict[int, Predictions]:
    """What an earlier run of the same predicted before it was stopped."""
    predictions = {}
    for number, draw in enumerate(draws):
        path = _file(folder, number)
        if path.exists():
            predictions[number] = _read(path, draw, protocol)
    return predictions


def _read(path: Path, draw: Draw, protocol: FewShotProtocol) -> Predictions:
    raw = documents.read(path, expected="the predictions of a draw")
    shape = (len(draw.targets), len(draw.skeleton))
    predictions: dict[tuple[str, int], Prediction] = {}
    for method in METHODS:
        for size in draw.sizes(protocol):
            try:
                entry = raw[f"{method} {size}"]
                values = [torch.tensor(entry[name]) for name in Prediction.__annotations__]
                prediction = Prediction(*values)
                fits = prediction.xy.shape == (*shape, 2) and prediction.xy.is_floating_point()
                fits &= all(value.shape == shape for value in values[1:])
                fits &= all(value.is_floating_point() for value in (prediction.score, prediction.uncertainty))
                fits &= all(value.dtype == torch.bool for value in (prediction.known, prediction.visible))
            except (TypeError, KeyError, ValueError, RuntimeError, OverflowError, AttributeError):
                fits = False
            if not fits:
                raise InputError(f"{path}: expected the predictions of {method} {size}; delete it to predict again")
            predictions[method, size] = prediction
    return predictions
