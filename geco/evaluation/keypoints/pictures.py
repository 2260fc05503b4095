"""Pictures of a keypoint run: curves, the imbalance of its pairs, and examples of queries with heat maps."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure

from geco import images, matching, viz
from geco.evaluation.keypoints.journal import Prediction
from geco.evaluation.metrics.keypoints import CASES, IN_PCK, evaluate
from geco.evaluation.report import Report, reading
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.matching.settings import MatchSettings
from geco.types import Encoder, Pair, PairSequence
from geco.viz import Example

EXAMPLES = KeypointSettings().examples


def draw(reports: Sequence[Report]) -> dict[str, Figure]:
    """Curves of one or several reports on the same axes, and the first's imbalance, by file name."""
    figures: dict[str, Figure] = {}
    for name in dict.fromkeys(curve.figure for report in reports for curve in report.curves):
        lines = {
            report.label: (curve.x, curve.y) for report in reports for curve in report.curves if curve.figure == name
        }
        is_roc = name.startswith("ROC")
        axes = ("visible called hidden", "hidden called hidden") if is_roc else ("radius α", "%")
        file = "".join(sign if sign.isalnum() else "_" for sign in name.lower()).strip("_")
        figures[file] = viz.curves(lines, title=name, x_label=axes[0], y_label=axes[1])
    with reading(reports[0], "counts"):
        for counters in list(reports[0].counts.values())[:1]:
            shares = {category: _shares(entry["n"]) for category, entry in counters.items() if category != "alphas"}
            figures["imbalance"] = viz.imbalance(shares)
    return figures


def _shares(cases: Mapping[str, int]) -> dict[str, float]:
    total = sum(cases[case] for case in CASES[:IN_PCK])
    return {case: cases[case] / total if total else float("nan") for case in CASES[:IN_PCK]}


def draw_examples(
    encoder: Encoder,
    pairs: PairSequence,
    predictions: Mapping[int, Prediction],
    protocols: Sequence[Protocol],
    *,
    count: int = EXAMPLES,
) -> dict[str, Figure]:
    """A sheet for each of the cases 11, 10 and 01 that occurs, as the first protocol matches, by file name."""
    sheets = examples(encoder, pairs, predictions, protocols[0].match, count=count)
    return {
        f"examples_{case}": viz.sheet(rows, title=f"{case}: {viz.MEANING[case]}")
        for case, rows in sheets.items()
        if rows
    }


@torch.inference_mode()
def examples(
    encoder: Encoder,
    pairs: PairSequence,
    predictions: Mapping[int, Prediction],
    way: MatchSettings,
    *,
    count: int = EXAMPLES,
    position: int = 0,
) -> dict[str, list[Example]]:
    """The first queries of the cases 11, 10 and 01, from pairs spread over the data, with heat maps.

    `way` is the way of matching that the predictions hold at `position`.
    """
    sheets: dict[str, list[Example]] = {"11": [], "10": [], "01": []}
    step = max(1, len(pairs) // 97)  # a stride without common factor for most lengths: not all from one category
    for turn in range(len(pairs)):
        if all(len(rows) == count for rows in sheets.values()):
            break
        index = (turn * step + turn * step // len(pairs)) % len(pairs)
        pair, prediction = pairs[index], predictions[index]
        cases = evaluate(
            prediction.xy[position],
            prediction.score[position],
            source=pair.source.points,
            target=pair.target.points,
            twin=pair.table.twin,
        ).case.tolist()
        for case, rows in sheets.items():
            query = next((query for query, code in enumerate(cases) if CASES[code] == case), None)
            if query is not None and len(rows) < count:
                rows.append(_example(encoder, pair, prediction, query, way, position))
    return sheets


def _example(
    encoder: Encoder, pair: Pair, prediction: Prediction, query: int, way: MatchSettings, position: int
) -> Example:
    pictures = [images.read_view(view) for view in (pair.source, pair.target)]
    source, target = matching.paired(encoder, *encoder.extract_stream(pictures))
    way = matching.suited(way, encoder)
    points, truth = pair.source.points, pair.target.points
    keypoint = int(points.visible.nonzero()[query, 0])
    twin = pair.table.twin[keypoint]
    descriptor = matching.queries(source, points.xy[keypoint][None].to(source.values), way)
    heat = matching.score_maps(descriptor, matching.prepare(target, way))[0]
    return Example(
        source=pictures[0],
        target=pictures[1],
        query=points.xy[keypoint],
        predicted=prediction.xy[position, query],
        match=truth.xy[keypoint] if truth.visible[keypoint] else None,
        twin=truth.xy[twin] if twin != keypoint and truth.visible[twin] else None,
        heat=heat.cpu(),
        caption=f"{pair.category}: {pair.table.names[keypoint]}",
    )
