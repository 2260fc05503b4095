"""Answers to questions: by the index, and by brute force, which scores every image of the collection exactly."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from geco import matching, search
from geco.errors import InputError
from geco.evaluation.search.questions import Question
from geco.evaluation.settings import SearchProtocol
from geco.matching.settings import MatchSettings
from geco.search import PartIndex
from geco.system import Progress, silent
from geco.types import FeatureMap

TOGETHER = 64  # questions that brute force scores at once


@dataclass(frozen=True)
class Answers:
    """The best images of each question and the places in them, best first, the asking image left out."""

    names: tuple[tuple[str, ...], ...]
    xy: tuple[tuple[tuple[float, float], ...], ...]
    scores: tuple[tuple[float, ...], ...]
    seconds: tuple[float, ...]  # of each question that was timed


def names_by_path(index: PartIndex) -> dict[Path, str]:
    """Names of the images of the collection by their files."""
    paths = ((index.features.path(name), name) for name in index.features.names)
    return {path.resolve(): name for path, name in paths if path is not None}


def ask(
    index: PartIndex, questions: Sequence[Question], protocol: SearchProtocol, *, progress: Progress = silent
) -> Answers:
    """The first answers of the index to each question, whatever their score; features of images are read."""
    settings = replace(protocol.search, count=protocol.count + 1, threshold=-1.0)  # one may be the image itself
    own = names_by_path(index)
    names, places, scores, seconds = [], [], [], []
    for number, question in enumerate(questions, 1):
        asking = _name(own, question)
        source = index.features[asking]
        start = time.perf_counter()
        found = search.find_by_features(index, source, question.xy, settings)
        seconds.append(time.perf_counter() - start)
        hits = [hit for hit in found.hits if hit.name != asking][: protocol.count]
        names.append(tuple(hit.name for hit in hits))
        places.append(tuple(hit.xy for hit in hits))
        scores.append(tuple(hit.score for hit in hits))
        progress("search", number, len(questions))
    return Answers(tuple(names), tuple(places), tuple(scores), tuple(seconds))


@torch.inference_mode()
def brute_force(
    index: PartIndex, questions: Sequence[Question], protocol: SearchProtocol, *, progress: Progress = silent
) -> Float[Tensor, "q k"]:
    """The highest exact scores of other images for each question; each image is read once for all questions."""
    match, features, own = MatchSettings(threshold=-1.0), index.features, names_by_path(index)
    asking = [_name(own, question) for question in questions]
    asked = torch.cat([_descriptor(features[name], q, match) for name, q in zip(asking, questions, strict=True)])
    scores = torch.full((len(questions), len(features)), -torch.inf)
    for number, name in enumerate(features.names):
        target = matching.prepare(features[name], match)
        best = [matching.score_maps(some, target).flatten(1).amax(1) for some in asked.split(TOGETHER)]
        scores[:, number] = torch.cat(best)
        progress("brute force", number + 1, len(features))
    numbers = {name: number for number, name in enumerate(features.names)}
    scores[torch.arange(len(questions)), torch.tensor([numbers[name] for name in asking])] = -torch.inf
    return scores.topk(min(protocol.count, len(features) - 1), dim=1).values


def time_brute_force(
    index: PartIndex, questions: Sequence[Question], protocol: SearchProtocol
) -> tuple[list[float], list[float]]:
    """Seconds of scoring every image for one question at a time: in all, and without reading the maps."""
    match, own = MatchSettings(threshold=-1.0), names_by_path(index)
    whole, scoring = [], []
    for question in questions[:: max(1, len(questions) // protocol.timed)][: protocol.timed]:
        source, xy = index.features[_name(own, question)], torch.tensor([question.xy])
        reading, start = 0.0, time.perf_counter()
        for name in index.features.names:
            before = time.perf_counter()
            target = index.features[name]
            reading += time.perf_counter() - before
            matching.transfer(source, target, xy, match)
        whole.append(time.perf_counter() - start)
        scoring.append(whole[-1] - reading)
    return whole, scoring


def faster(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Ratio of the medians."""
    return statistics.median(slow) / statistics.median(fast)


def _descriptor(source: FeatureMap, question: Question, match: MatchSettings) -> Float[Tensor, "1 c"]:
    return matching.queries(source, torch.tensor([question.xy]), match)


def _name(own: dict[Path, str], question: Question) -> str:
    if question.image.resolve() not in own:
        raise InputError(f"the features have no image {question.image}; extract all images of the datasets")
    return own[question.image.resolve()]
