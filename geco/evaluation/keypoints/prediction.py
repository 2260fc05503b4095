"""Predictions of a keypoint run: each image encoded once, each target prepared once, every pair matched."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import torch

from geco import matching
from geco.errors import InputError
from geco.evaluation.keypoints.journal import Journal, Prediction, check_complete, digest
from geco.evaluation.keypoints.summary import summarise
from geco.evaluation.report import Report
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.extraction import FeatureStore
from geco.matching.settings import MatchSettings
from geco.system import Processes, Progress, locks, silent
from geco.types import Encoder, FeatureMap, Pair, PairSequence, View

DEFAULTS, ALONE = KeypointSettings(), Processes()
AHEAD = 4  # batches of images looked ahead for: encoding in full batches matters more than memory here


def run(
    encoder: Encoder,
    pairs: PairSequence,
    protocols: Sequence[Protocol] = (Protocol(),),
    *,
    settings: KeypointSettings = DEFAULTS,
    label: str = "model",
    data: str = "pairs",
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> Report:
    """The report of an encoder on annotated pairs.

    `folder` makes the run resumable: predictions (and, until it is finished, feature maps) are kept there.
    `cache` is a folder of feature maps that outlives the run. Several processes need a folder they all see.
    """
    if not pairs or not protocols:
        raise InputError(f"nothing to evaluate: {len(pairs)} pairs under {len(protocols)} protocols")
    predictions = predict(
        encoder,
        pairs,
        ways(protocols),
        settings=settings,
        folder=None if folder is None else Path(folder),
        cache=None if cache is None else Path(cache),
        processes=processes,
        progress=progress,
    )
    return summarise(pairs, predictions, protocols, settings=settings, label=label, data=data)


def ways(protocols: Sequence[Protocol]) -> list[MatchSettings]:
    """The different ways of matching among the protocols; each is predicted once."""
    return list(dict.fromkeys(protocol.match for protocol in protocols))


def predict(
    encoder: Encoder,
    pairs: PairSequence,
    how: Sequence[MatchSettings],
    *,
    settings: KeypointSettings = DEFAULTS,
    folder: Path | None = None,
    cache: Path | None = None,
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> dict[int, Prediction]:
    """Predictions of all pairs by their number; what the folder already holds is not computed again."""
    if processes.count > 1 and folder is None:
        raise InputError(f"{processes.count} processes need a run folder that all of them see; give one")
    how = [matching.suited(way, encoder) for way in how]
    alone = folder is not None and processes.index == 0
    with locks.hold(folder, what="evaluation") if alone else nullcontext():  # type: ignore[arg-type]
        journal = Journal(folder, about={} if folder is None else _about(encoder, pairs, how), process=processes.index)
        processes.wait()  # no process writes while another still reads
        waiting = [index for index in range(len(pairs)) if index not in journal.done]
        features = cache or (None if folder is None else folder / "features")
        journal.open()
        try:
            with FeatureStore(
                encoder, memory=settings.memory, batch_size=settings.batch_size, folder=features, progress=progress
            ) as store:
                _score(store, pairs, waiting, how, journal=journal, processes=processes, progress=progress)
        finally:
            journal.close()
        processes.wait()
        journal.read()
        if folder is not None and processes.index == 0 and cache is None:
            shutil.rmtree(folder / "features", ignore_errors=True)
    check_complete(journal.done, pairs, folder)
    return {index: journal.done[index] for index in range(len(pairs))}


def _score(
    store: FeatureStore,
    pairs: PairSequence,
    waiting: Sequence[int],
    how: Sequence[MatchSettings],
    *,
    journal: Journal,
    processes: Processes,
    progress: Progress,
) -> None:
    """Predict this process's share of the pairs that wait for it."""
    if processes.count > 1:
        mine = list(_views(pairs, waiting).values())[processes.index :: processes.count]
        store.ensure(mine, total=len(mine))
        processes.wait()
    targets = list(_by_target(pairs, waiting).values())[processes.index :: processes.count]
    for predictions in _transfer(store, pairs, targets, how):
        journal.add(predictions)
        progress("score", len(journal.done), len(pairs))


def _about(encoder: Encoder, pairs: PairSequence, how: Sequence[MatchSettings]) -> dict[str, object]:
    """What a run folder belongs to."""
    return {"model": encoder.fingerprint(), "pairs": digest(pairs), "matching": [asdict(way) for way in how]}


def _views(pairs: PairSequence, indices: Sequence[int]) -> dict[str, View]:
    views = (view for index in indices for view in (pairs[index].target, pairs[index].source))
    return {view.identity: view for view in views}


def _by_target(pairs: PairSequence, indices: Sequence[int]) -> dict[str, list[int]]:
    """Pairs grouped by target, by category: images are mostly paired within one."""
    groups: dict[str, list[int]] = {}
    for index in sorted(indices, key=lambda index: str(pairs[index].category)):
        groups.setdefault(pairs[index].target.identity, []).append(index)
    return groups


def _transfer(
    store: FeatureStore, pairs: PairSequence, targets: Sequence[Sequence[int]], how: Sequence[MatchSettings]
) -> Iterator[dict[int, Prediction]]:
    """Predictions target by target; an image is forgotten after the last pair that uses it."""
    views = [_views(pairs, indices) for indices in targets]
    uses = Counter(name for group in views for name in group)
    total = len(uses)
    for position, indices in enumerate(targets):
        group = views[position]
        if not all(store.has(view) for view in group.values()):
            coming = (view for later in views[position:] for view in later.values() if not store.has(view))
            batch = islice(_distinct(coming), store.batch_size * AHEAD)
            store.ensure([*group.values(), *batch], total=total)
        target = store.get(pairs[indices[0]].target)
        if matching.compares_pairs(store.encoder):
            yield {index: _predict_pair(store, pairs[index], target, how) for index in indices}
        else:
            ready = [matching.prepare(target, way) for way in how]
            yield {index: _predict(store.get(pairs[index].source), pairs[index], ready, how) for index in indices}
        uses.subtract(group.keys())
        for name, view in group.items():
            if not uses[name]:
                store.drop(view)


def _distinct(views: Iterator[View]) -> Iterator[View]:
    """Each image once."""
    seen: set[str] = set()
    for view in views:
        if view.identity not in seen:
            seen.add(view.identity)
            yield view


@torch.inference_mode()
def _predict_pair(store: FeatureStore, pair: Pair, target: FeatureMap, how: Sequence[MatchSettings]) -> Prediction:
    """The prediction of a pair whose maps are made comparable first; its target is prepared for it alone."""
    source, target = matching.paired(store.encoder, store.get(pair.source), target)
    return _predict(source, pair, [matching.prepare(target, way) for way in how], how)


@torch.inference_mode()
def _predict(
    source: FeatureMap, pair: Pair, ready: Sequence[matching.Target], how: Sequence[MatchSettings]
) -> Prediction:
    points = pair.source.points
    queries = points.xy[points.visible].to(source.values.device, torch.float32)
    matches = [matching.transfer(source, target, queries, way) for target, way in zip(ready, how, strict=True)]
    return Prediction(
        torch.stack([way.target for way in matches]).double().cpu(),
        torch.stack([way.score for way in matches]).double().cpu(),
    )
