"""Validation during training: PCK@0.1 on fixed pairs of each dataset, and a figure of one pair."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from matplotlib.figure import Figure

from geco import evaluation, images, matching, viz
from geco.data import PairDataset
from geco.evaluation.settings import KeypointSettings, Protocol
from geco.matching.settings import MatchSettings
from geco.system import Processes
from geco.training.checkpoint import THRESHOLD
from geco.types import Encoder, Matches, Pair

RADIUS = 0.1
ALONE = Processes()


def validate(
    model: Encoder,
    sets: Mapping[str, PairDataset],
    *,
    threshold: float,
    folder: Path,
    processes: Processes = ALONE,
    settings: KeypointSettings = KeypointSettings(resamples=1),  # noqa: B008, frozen; intervals are not shown
) -> dict[str, float]:
    """PCK@0.1 in % under the protocol `geco`: of each set ("PCK <name>") and their mean ("PCK").

    "bin" is the similarity that only one in ten visible keypoints stays below, averaged over the sets; `threshold` if
    there is none.

    Several processes share the work through `folder`, which is gone afterwards.
    """
    protocol = Protocol(alphas=(RADIUS,), match=MatchSettings(threshold=threshold))
    scores, thresholds = {}, []
    for name, pairs in sets.items():
        report = evaluation.keypoints.run(
            model,
            pairs,
            (protocol,),
            settings=settings,
            folder=folder / name if processes.count > 1 else None,
            processes=processes,
        )
        scores[f"PCK {name}"] = 100 * report.measure("PCK", protocol.name, RADIUS).value
        thresholds.append(report.measure("hidden threshold", protocol.name).value)
    processes.wait()
    if processes.index == 0 and processes.count > 1:
        shutil.rmtree(folder)
    known = [value for value in thresholds if not math.isnan(value)]
    return {"PCK": fmean(scores.values()), **scores, THRESHOLD: fmean(known) if known else threshold}


@torch.inference_mode()
def draw(model: Encoder, pair: Pair, *, threshold: float, title: str) -> Figure:
    """Keypoints of the source and where the model transfers them."""
    pictures = images.read_view(pair.source), images.read_view(pair.target)
    source, target = model.extract_stream(pictures)
    points = pair.source.points
    queries = points.xy[points.visible].float().to(source.values.device)
    settings = MatchSettings(threshold=threshold)
    matches = matching.transfer(source, matching.prepare(target, settings), queries, settings)
    names = [name for name, visible in zip(pair.table.names, points.visible.tolist(), strict=True) if visible]
    return viz.draw_transfer(*pictures, _on_cpu(matches), title=title, names=names)


def _on_cpu(matches: Matches) -> Matches:
    fields = ("source", "target", "score", "visible")
    return replace(matches, **{name: getattr(matches, name).cpu() for name in fields})
