"""Keypoint transfer: PCK under named protocols, PGCK with all its counters, hidden points (GECO §4).

First every pair is predicted (each image encoded once, each target prepared once), then everything is
counted from the predictions: several protocols, all radii, categories and intervals cost nothing extra.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import torch

from geco import matching
from geco.benchmarks._features import Encoder, FeatureStore, Processes, Progress, load_image, name_of, silent
from geco.benchmarks._journal import Journal, Prediction, digest, keypoints_of
from geco.benchmarks._keypoint_report import compare, draw, summarise
from geco.config.evaluation import AS_PUBLISHED, KeypointSettings, Protocol
from geco.config.matching import MatchSettings
from geco.figures import Example
from geco.metrics import CASES, judge
from geco.report import Report
from geco.types import Pair, View

__all__ = ["compare", "draw", "examples", "predict", "run", "summarise", "ways"]

DEFAULTS, ALONE = KeypointSettings(), Processes()
AHEAD = 4  # batches of images looked ahead for: encoding in full batches matters more than memory here


def run(
    model: Encoder,
    pairs: Sequence[Pair],
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
    """Judge a model on annotated pairs.

    `folder` makes the run resumable: predictions (and, until it is finished, feature maps) are kept there.
    `cache` is a folder of feature maps that outlives the run. Several processes need a folder they all see.
    """
    if not pairs or not protocols:
        raise ValueError(f"nothing to judge: {len(pairs)} pairs under {len(protocols)} protocols")
    predictions = predict(
        model,
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
    model: Encoder,
    pairs: Sequence[Pair],
    how: Sequence[MatchSettings],
    *,
    settings: KeypointSettings = DEFAULTS,
    folder: Path | None = None,
    cache: Path | None = None,
    processes: Processes = ALONE,
    progress: Progress = silent,
) -> dict[int, Prediction]:
    """Predictions of all pairs by their number; what the folder already holds is not made again."""
    if processes.count > 1 and folder is None:
        raise ValueError(f"{processes.count} processes need a run folder that all of them see; give one")
    about: dict[str, object] = {}
    if folder is not None:
        about = {
            "model": model.fingerprint(),
            "pairs": digest(pairs),
            "matching": [asdict(way) for way in how],
        }
    journal = Journal(folder, about=about, process=processes.index)
    processes.wait()  # nobody writes while somebody still reads
    waiting = [index for index in range(len(pairs)) if index not in journal.done]
    features = cache or (None if folder is None else folder / "features")
    journal.open()
    with FeatureStore(
        model, memory=settings.memory, batch_size=settings.batch_size, folder=features, progress=progress
    ) as store:
        if processes.count > 1:
            mine = list(_images(pairs, waiting).values())[processes.index :: processes.count]
            store.ensure(mine, total=len(mine))
            processes.wait()
        targets = list(_by_target(pairs, waiting).values())[processes.index :: processes.count]
        for found in _transfer(store, pairs, targets, how):
            journal.add(found)
            progress("score", len(journal.done), len(pairs))
    journal.close()
    processes.wait()
    if folder is not None:
        journal.read()
        if processes.index == 0 and cache is None:
            shutil.rmtree(folder / "features", ignore_errors=True)
    return {index: journal.done[index] for index in range(len(pairs))}


def _images(pairs: Sequence[Pair], indices: Sequence[int]) -> dict[str, View]:
    views = (view for index in indices for view in (pairs[index].target, pairs[index].source))
    return {name_of(view): view for view in views}


def _by_target(pairs: Sequence[Pair], indices: Sequence[int]) -> dict[str, list[int]]:
    """Pairs grouped by target, by category: images are mostly paired within one."""
    groups: dict[str, list[int]] = {}
    for index in sorted(indices, key=lambda index: str(pairs[index].category)):
        groups.setdefault(name_of(pairs[index].target), []).append(index)
    return groups


def _transfer(
    store: FeatureStore, pairs: Sequence[Pair], targets: Sequence[Sequence[int]], how: Sequence[MatchSettings]
) -> Iterator[dict[int, Prediction]]:
    """Predictions target by target; an image is forgotten after the last pair that uses it."""
    views = [_images(pairs, indices) for indices in targets]
    uses = Counter(name for group in views for name in group)
    total = len(uses)
    for position, indices in enumerate(targets):
        group = views[position]
        if not all(store.has(view) for view in group.values()):
            coming = (view for later in views[position:] for view in later.values() if not store.has(view))
            batch = dict(islice(_named(coming), store.batch_size * AHEAD))
            store.ensure([*group.values(), *batch.values()], total=total)
        target = store.get(pairs[indices[0]].target)
        ready = [matching.prepare(target, way) for way in how]
        yield {index: _predict(store, pairs[index], ready, how) for index in indices}
        uses.subtract(group.keys())
        for name, view in group.items():
            if not uses[name]:
                store.drop(view)


def _named(views: Iterator[View]) -> Iterator[tuple[str, View]]:
    seen: set[str] = set()
    for view in views:
        if name_of(view) not in seen:
            seen.add(name_of(view))
            yield name_of(view), view


@torch.inference_mode()
def _predict(
    store: FeatureStore, pair: Pair, ready: Sequence[matching.Target], how: Sequence[MatchSettings]
) -> Prediction:
    source = store.get(pair.source)
    points = keypoints_of(pair.source)
    asked = points.xy[points.visible].to(store.device, torch.float32)
    found = [matching.transfer(source, target, asked, way) for target, way in zip(ready, how, strict=True)]
    return Prediction(
        torch.stack([matches.target for matches in found]).double().cpu(),
        torch.stack([matches.score for matches in found]).double().cpu(),
    )


# --- pictures -----------------------------------------------------------------------------------------------


@torch.inference_mode()
def examples(
    model: Encoder,
    pairs: Sequence[Pair],
    predictions: Mapping[int, Prediction],
    way: MatchSettings = AS_PUBLISHED,
    *,
    count: int = DEFAULTS.examples,
    position: int = 0,
) -> dict[str, list[Example]]:
    """The first queries of the cases 11, 10 and 01, from pairs spread over the data, with heat maps."""
    chosen: dict[str, list[Example]] = {"11": [], "10": [], "01": []}
    step = max(1, len(pairs) // 97)  # a stride without common factor for most lengths: not all from one category
    for turn in range(len(pairs)):
        if all(len(found) == count for found in chosen.values()):
            break
        index = (turn * step + turn * step // len(pairs)) % len(pairs)
        pair, made = pairs[index], predictions[index]
        source, target = keypoints_of(pair.source), keypoints_of(pair.target)
        twin = _twin(pair)
        case = judge(made.xy[position], made.score[position], source=source, target=target, twin=twin).case.tolist()
        for name, found in chosen.items():
            row = next((row for row, code in enumerate(case) if CASES[code] == name), None)
            if row is not None and len(found) < count:
                found.append(_example(model, pair, made, row, way, position))
    return chosen


def _example(model: Encoder, pair: Pair, made: Prediction, row: int, way: MatchSettings, position: int) -> Example:
    pictures = [load_image(view) for view in (pair.source, pair.target)]
    source, target = model.extract_batch(pictures)
    points, truth = keypoints_of(pair.source), keypoints_of(pair.target)
    keypoint = int(points.visible.nonzero()[row, 0])
    counterpart = _twin(pair)[keypoint]
    query = points.xy[keypoint]
    asked = matching.queries(source, query[None].to(source.values), way)
    heat = matching.score_maps(asked, matching.prepare(target, way))[0]
    return Example(
        source=pictures[0],
        target=pictures[1],
        query=query,
        predicted=made.xy[position, row],
        match=truth.xy[keypoint] if truth.visible[keypoint] else None,
        twin=truth.xy[counterpart] if counterpart != keypoint and truth.visible[counterpart] else None,
        heat=heat.cpu(),
        caption=f"{pair.category}: {_names(pair)[keypoint]}",
    )


def _twin(pair: Pair) -> tuple[int, ...]:
    assert not isinstance(pair.skeleton, tuple), "pairs are judged one by one, not in batches"
    return pair.skeleton.twin


def _names(pair: Pair) -> tuple[str, ...]:
    assert not isinstance(pair.skeleton, tuple)
    return pair.skeleton.names
