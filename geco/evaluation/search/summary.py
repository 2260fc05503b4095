"""The report of a search evaluation: recall against brute force, precision by category, left and right, cost."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from geco.errors import InputError
from geco.evaluation.intervals import bootstrap, interval
from geco.evaluation.measures import Estimate, Measure
from geco.evaluation.metrics.keypoints import share
from geco.evaluation.report import Cell, Report, Table
from geco.evaluation.search.answers import Answers, ask, brute_force, faster, names_by_path, time_brute_force
from geco.evaluation.search.questions import Gallery, Question, draw_questions, near
from geco.evaluation.settings import SearchProtocol
from geco.search import PartIndex
from geco.system import Progress, provenance, silent

OUTCOMES = ("same", "twin", "elsewhere", "other")  # keypoint; its twin; another place of such an object; no such object
ROUNDING = 1e-5  # of scores that are summed in another order
DEFAULTS = SearchProtocol()


def run(
    index: PartIndex,
    gallery: Gallery,
    protocol: SearchProtocol = DEFAULTS,
    *,
    label: str = "model",
    data: str = "images",
    progress: Progress = silent,
) -> Report:
    """The report of an index whose collection holds the images of the gallery."""
    questions = draw_questions(gallery, protocol)
    answers = ask(index, questions, protocol, progress=progress)
    exact = brute_force(index, questions, protocol, progress=progress)
    seconds = time_brute_force(index, questions, protocol)
    outcomes = _outcomes(index, gallery, questions, answers, protocol)
    return summarise(
        questions, answers, exact, outcomes, protocol, seconds=seconds, label=label, data=data, about=_about(index)
    )


def _about(index: PartIndex) -> dict[str, object]:
    features = index.features
    about = {"model": features.model, "fingerprint": features.fingerprint, "images": len(features)}
    return {**about, "vectors": len(index.vectors), "kind": index.vectors.kind}


def _outcomes(
    index: PartIndex, gallery: Gallery, questions: Sequence[Question], answers: Answers, protocol: SearchProtocol
) -> Float[Tensor, "q 4"]:
    """How many of the first answers to each question are of each outcome; no more are counted than there are right."""
    objects = {name: gallery.objects.get(path, ()) for path, name in _gallery_names(index, gallery).items()}
    counts = torch.zeros(len(questions), len(OUTCOMES), dtype=torch.float64)
    for number, question in enumerate(questions):
        first = zip(answers.names[number], answers.xy[number], strict=True)
        for name, xy in list(first)[: min(protocol.count, question.relevant)]:
            own, twin, alike = near(objects.get(name, ()), torch.tensor(xy), question, alpha=protocol.alpha)
            counts[number, 0 if own else 1 if twin else 2 if alike else 3] += 1
    return counts


def _gallery_names(index: PartIndex, gallery: Gallery) -> dict[Path, str]:
    own = names_by_path(index)
    missing = [path for path in gallery.objects if path.resolve() not in own]
    if missing:
        raise InputError(
            f"the features lack {len(missing)} of {len(gallery.objects)} images, the first is {missing[0]}; "
            "extract all of them"
        )
    return {path: own[path.resolve()] for path in gallery.objects}


def summarise(
    questions: Sequence[Question],
    answers: Answers,
    exact: Float[Tensor, "q k"],
    outcomes: Float[Tensor, "q 4"],
    protocol: SearchProtocol,
    *,
    seconds: tuple[Sequence[float], Sequence[float]],
    label: str = "model",
    data: str = "images",
    about: dict[str, object] | None = None,
) -> Report:
    """The report of what was answered; `seconds` are those of brute force, in all and without reading."""
    lowest = (exact[:, -1] - ROUNDING).tolist()  # images of equal score are as good as each other
    found = [sum(score >= least for score in some) for some, least in zip(answers.scores, lowest, strict=True)]
    recall = _estimate(torch.tensor(found), torch.full((len(found),), exact.shape[1]), protocol)
    categories = list(dict.fromkeys(question.category for question in questions))
    member = {name: torch.tensor([question.category == name for question in questions]) for name in categories}
    member["all"] = torch.ones(len(questions), dtype=torch.bool)
    has_twin = torch.tensor([question.twin != question.row for question in questions])
    at = f"@{protocol.count}"
    measures = [_measure(f"recall{at}", recall, "against brute force")]
    rows: list[tuple[Cell, ...]] = []
    for name, chosen in member.items():
        some = outcomes[chosen]
        precision = _estimate(some[:, 0], some.sum(1), protocol)
        twinned = has_twin[chosen].double()
        confused = _estimate(some[:, 1], (some[:, 0] + some[:, 1]) * twinned, protocol)
        measures += [_measure(f"precision{at}", precision, name), _measure(f"confused{at}", confused, name)]
        shares = [100 * float(share(some[:, column].sum(), some.sum())) for column in (2, 3)]
        rows.append((name, int(chosen.sum()), measures[-2].cell, measures[-1].cell, *shares))
    return Report(
        benchmark="search",
        label=label,
        data=data,
        measures=tuple(measures),
        tables=(_precision_table(rows, protocol), _cost_table(answers, seconds, recall, protocol)),
        counts={"questions": dict(Counter(question.category for question in questions))},
        settings={"protocol": asdict(protocol), "index": about or {}},
        provenance=provenance.collect(protocol.seed),
    )


def _measure(metric: str, estimate: Estimate, case: str) -> Measure:
    return Measure(metric, estimate.value, "", None, case, estimate.low, estimate.high)


def _estimate(part: Tensor, whole: Tensor, protocol: SearchProtocol) -> Estimate:
    """A ratio of sums over questions, and its interval."""
    numerator, denominator = part.double()[None, :, None], whole.double()[None, :, None]
    drawn = bootstrap(numerator, denominator, resamples=protocol.resamples, seed=protocol.seed)[:, 0, 0]
    low, high = interval(drawn, protocol.confidence)
    return Estimate(float(share(part.sum(), whole.sum())), float(low), float(high))


def _precision_table(rows: Sequence[tuple[Cell, ...]], protocol: SearchProtocol) -> Table:
    columns = ("category", "questions", f"precision@{protocol.count}", "confused", "elsewhere", "other")
    note = (
        f"precision: of the first {protocol.count} answers (fewer if fewer images show the "
        f"keypoint), those within {protocol.alpha:g} of the longer side of the object's box from the same keypoint; "
        "confused: of those near the keypoint or its left/right twin, if it has one, the ones near the "
        "twin; elsewhere: another place of an image with such an object; other: an image without one."
    )
    title = "Answers to annotated keypoints of held-out images, in %"
    return Table("precision", title, columns, tuple(rows), note)


def _cost_table(
    answers: Answers, seconds: tuple[Sequence[float], Sequence[float]], recall: Estimate, protocol: SearchProtocol
) -> Table:
    whole, scoring = seconds
    rows: list[tuple[Cell, ...]] = [
        ("search", 1e3 * statistics.median(answers.seconds), None),
        ("brute force", 1e3 * statistics.median(whole), faster(whole, answers.seconds)),
        ("its scoring alone", 1e3 * statistics.median(scoring), faster(scoring, answers.seconds)),
    ]
    note = (
        f"recall@{protocol.count} {100 * recall.value:.1f} % of the answers of brute force; medians, encoding not "
        "included; brute force reads every map and scores it pixel by pixel."
    )
    return Table("cost", "Cost of a question on this machine", ("", "ms", "× search"), tuple(rows), note)
